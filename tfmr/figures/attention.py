"""Figures that explain attention on small examples: weights, steps, masks, heads, scaling by √d_k.

Attention maps of a trained model are in :mod:`tfmr.figures.analysis`.
"""

import math
from collections.abc import Mapping, Sequence

import torch
from jaxtyping import Bool, Float, Int
from matplotlib.axes import Axes
from torch import Tensor

from tfmr.figures.style import (
    BLUE,
    GREEN,
    INK,
    MUTED,
    ORANGE,
    PURPLE,
    SKY,
    YELLOW,
    Figure,
    figure,
    heatmap,
    styled,
)


def _lines_between(axes: Axes, rows: int, columns: int, *, linewidth: float = 1.5) -> None:
    """White lines between neighbouring tiles."""
    for i in range(rows + 1):
        axes.axhline(i - 0.5, color="white", lw=linewidth)
    for j in range(columns + 1):
        axes.axvline(j - 0.5, color="white", lw=linewidth)


@styled
def attention_arcs(
    words: Sequence[str], weights: Float[Tensor, "key"], query: int, digits: int = 2
) -> Figure:
    """Arcs from the word at ``query`` to the others, with a width that grows with the weight."""
    fig, (axes,) = figure(height=2.1)
    left = [sum(len(word) + 2.2 for word in words[:i]) for i in range(len(words))]
    centres = [start + len(word) / 2 for start, word in zip(left, words, strict=True)]
    end = left[-1] + len(words[-1])
    for j, (word, centre) in enumerate(zip(words, centres, strict=True)):
        weight = float(weights[j])
        gap = abs(centre - centres[query])
        if j != query:
            angle = torch.linspace(0, math.pi, 60)
            middle = (centre + centres[query]) / 2
            height = 0.55 * math.sqrt(gap / end)
            axes.plot(
                (middle + gap / 2 * angle.cos()).tolist(),
                (0.16 + height * angle.sin()).tolist(),
                color=BLUE, lw=0.6 + 7 * weight, alpha=0.35 + 0.55 * weight, solid_capstyle="round",
            )  # fmt: skip
        bold = "bold" if j == query else "normal"
        colour = ORANGE if j == query else INK
        axes.text(centre, 0.0, word, ha="center", fontsize=11.5, color=colour, fontweight=bold)
        axes.text(centre, -0.15, f"{weight:.{digits}f}", ha="center", fontsize=9, color=MUTED)
    axes.set(xlim=(-1.5, end + 1.5), ylim=(-0.18, 0.68))
    axes.axis("off")
    listed = ", ".join(
        f"{word} {float(w):.{digits}f}" for word, w in zip(words, weights, strict=True)
    )
    fig.alt = (
        f"Arcs from the word “{words[query]}” to the others; the thicker, the larger the attention"
        f" weight: {listed}."
    )
    return fig


@styled
def attention_steps(
    words: Sequence[str],
    dots: Float[Tensor, "query key"],
    scores: Float[Tensor, "query key"],
    weights: Float[Tensor, "query key"],
    outputs: Float[Tensor, "query d_v"],
) -> Figure:
    """The matrices after the four steps of attention, with one row per query."""
    fig, axes = figure(2, 2, height=4.7)
    labels = list(words)
    largest = float(dots.abs().max())
    columns = [str(c) for c in range(outputs.shape[1])]
    heatmap(
        axes[0], dots, row_labels=labels, column_labels=labels, signed=True, digits=0, limit=largest
    )
    heatmap(axes[1], scores, row_labels=labels, column_labels=labels, signed=True, limit=largest)
    heatmap(axes[2], weights, row_labels=labels, column_labels=labels)
    heatmap(axes[3], outputs, row_labels=labels, column_labels=columns)
    titles = (r"1  $QK^\top$", r"2  divide by $\sqrt{d_k}$", "3  softmax", "4  times $V$")
    for each, title in zip(axes, titles, strict=True):
        each.set_title(title)
    rows = [
        f"{word} ({', '.join(f'{float(w):.2f}' for w in row)})"
        for word, row in zip(words, weights, strict=True)
    ]
    fig.alt = (
        f"Four matrices with one row for each of {', '.join(words)}: the dot products, the scores,"
        f" the attention weights and the outputs. The rows of the weights: {'; '.join(rows)}."
    )
    return fig


@styled
def attention_rows(words: Sequence[str], rows: Mapping[str, Float[Tensor, "key"]]) -> Figure:
    """Several rows of attention weights over the same words, by name."""
    fig, (axes,) = figure(height=0.55 + 0.55 * len(rows))
    grid = torch.stack(list(rows.values()))
    heatmap(axes, grid, row_labels=list(rows), column_labels=list(words), limit=1.0)
    axes.set_aspect("auto")
    axes.xaxis.tick_top()
    _lines_between(axes, len(rows), len(words))
    listed = [f"{name}: {', '.join(f'{float(w):.2f}' for w in row)}" for name, row in rows.items()]
    fig.alt = f"Attention weights over the words {', '.join(words)}. " + "; ".join(listed) + "."
    return fig


@styled
def softmax_saturation(
    d_k: Sequence[int],
    entropies: Mapping[str, Sequence[float]],
    gradients: Mapping[str, Sequence[float]],
    keys: int,
) -> Figure:
    """Entropy and gradient of the softmax against the dimension of the keys."""
    fig, (left, right) = figure(1, 2, height=2.9)
    for panel, curves, label_y in (
        (left, entropies, "entropy of the weights (nats)"),
        (right, gradients, "norm of the softmax gradient"),
    ):
        for (name, values), colour in zip(curves.items(), (BLUE, ORANGE), strict=True):
            label = name.replace("√d_k", r"$\sqrt{d_k}$")
            panel.plot(d_k, values, "o-", color=colour, label=label, ms=4)
        panel.set_xscale("log", base=2)
        panel.set_xticks(list(d_k), [str(each) for each in d_k])
        panel.set(xlabel="$d_k$", ylabel=label_y)
    left.axhline(math.log(keys), color=MUTED, lw=1, ls=":")
    left.set_ylim(bottom=0)
    right.set_yscale("log")
    right.legend(loc="lower left")
    ends = [
        f"{name}: entropy from {values[0]:.1f} to {values[-1]:.1f}"
        for name, values in entropies.items()
    ]
    fig.alt = (
        f"Medians over random queries and {keys} keys, as d_k grows from {d_k[0]} to {d_k[-1]}."
        f" {'; '.join(ends)} nats. With the division the norm of the softmax gradient is almost"
        " constant; without it, it falls by orders of magnitude."
    )
    return fig


@styled
def mask_panels(
    queries: Sequence[str], keys: Sequence[str], masks: Mapping[str, Bool[Tensor, "query key"]]
) -> Figure:
    """Masks side by side: a filled tile is a key that the query may attend to."""
    fig, axes = figure(1, len(masks), height=2.8)
    for k, (each, (name, mask)) in enumerate(zip(axes, masks.items(), strict=True)):
        each.imshow((mask.float() * 0.62 + 0.04).tolist(), cmap="Blues", vmin=0, vmax=1)
        each.set_xticks(range(len(keys)), list(keys), rotation=90)
        each.set_yticks(range(len(queries)), list(queries) if k == 0 else [""] * len(queries))
        each.tick_params(length=0)
        for spine in each.spines.values():
            spine.set_visible(False)
        _lines_between(each, len(queries), len(keys))
        for i, j in (~mask).nonzero().tolist():
            each.text(j, i, "−∞", ha="center", va="center", fontsize=9, color=MUTED)
        each.set_title(name)
    axes[0].set_ylabel("query")
    axes[0].set_xlabel("key")
    counts = [f"{name} {int(mask.sum())} of {mask.numel()}" for name, mask in masks.items()]
    fig.alt = f"Masks over {' '.join(keys)}; pairs that are not masked: {', '.join(counts)}."
    return fig


@styled
def head_matrices(
    words: Sequence[str],
    queries: Float[Tensor, "heads query d_k"],
    keys: Float[Tensor, "heads key d_k"],
    weights: Float[Tensor, "heads query key"],
    outputs: Float[Tensor, "heads query d_v"],
) -> Figure:
    """Queries, keys, attention weights and outputs of each head, one row per head."""
    n_heads = weights.shape[0]
    fig, axes = figure(n_heads, 4, height=0.5 + 1.55 * n_heads, width_ratios=(2, 2, 3, 2))
    labels, blank = list(words), [""] * len(words)
    narrow = [str(c) for c in range(queries.shape[-1])]
    for i in range(n_heads):
        row = axes[4 * i : 4 * i + 4]
        heatmap(row[0], queries[i], row_labels=labels, column_labels=narrow, signed=True, digits=0)
        heatmap(row[1], keys[i], row_labels=blank, column_labels=narrow, signed=True, digits=0)
        heatmap(row[2], weights[i], row_labels=blank, column_labels=labels, limit=1.0)
        heatmap(row[3], outputs[i], row_labels=blank, column_labels=narrow, signed=True)
        for each, name in zip(row, ("Q", "K", "A", "Z"), strict=True):
            each.set_title(f"${name}_{i + 1}$")
    most = [[words[j] for j in head.argmax(dim=-1).tolist()] for head in weights]
    listed = [
        f"in head {i} "
        + ", ".join(f"{a} attends most to {b}" for a, b in zip(words, head, strict=True))
        for i, head in enumerate(most, start=1)
    ]
    fig.alt = (
        f"Queries, keys, attention weights and outputs of {n_heads} heads: {'; '.join(listed)}."
    )
    return fig


@styled
def head_splits(
    words: Sequence[str], splits: Mapping[str, Int[Tensor, "heads length d_k"]]
) -> Figure:
    """The token from which each component of each head comes, for several ways to split heads."""
    heads = next(iter(splits.values())).shape[0]
    fig, axes = figure(len(splits), heads, height=0.4 + 1.75 * len(splits))
    palette = (SKY, YELLOW, "#9ad9c3", PURPLE, GREEN, ORANGE)
    for row, (name, split) in enumerate(splits.items()):
        for i in range(heads):
            each = axes[row * heads + i]
            length, d_k = split.shape[1:]
            each.set(xlim=(-0.5, d_k - 0.5), ylim=(length - 0.5, -0.5))
            for position in range(length):
                for c in range(d_k):
                    token = int(split[i, position, c])
                    each.fill_between(
                        (c - 0.5, c + 0.5), position - 0.5, position + 0.5,
                        color=palette[token % len(palette)], lw=0,
                    )  # fmt: skip
                    each.text(c, position, words[token], ha="center", va="center", fontsize=9)
            _lines_between(each, length, d_k)
            each.set_xticks([])
            each.set_yticks(
                range(length), [f"row {p}" for p in range(length)] if i == 0 else [""] * length
            )
            each.tick_params(length=0)
            for spine in each.spines.values():
                spine.set_visible(False)
            each.set_title(f"head {i + 1}" if row == 0 else "")
        axes[row * heads].set_ylabel(name)
    listed = []
    for name, split in splits.items():
        rows = [
            [" and ".join(dict.fromkeys(words[t] for t in r)) for r in h] for h in split.tolist()
        ]
        parts = [f"head {i}: {', '.join(row)}" for i, row in enumerate(rows, start=1)]
        listed.append(f"{name}: {'; '.join(parts)}")
    fig.alt = "Tokens from which the rows of each head come. " + ". ".join(listed) + "."
    return fig
