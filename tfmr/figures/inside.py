"""Figures of chapter 13: what each head reads, what it is worth, and how the stream grows."""

from collections.abc import Mapping, Sequence
from itertools import cycle

from jaxtyping import Float
from matplotlib.axes import Axes
from torch import Tensor

from tfmr.errors import require
from tfmr.figures.style import (
    BLUE,
    CYCLE,
    GRID,
    HEAT,
    MUTED,
    ORANGE,
    Figure,
    figure,
    heatmap,
    styled,
)


@styled
def head_grid(
    weights: Float[Tensor, "layers heads query key"],
    habits: Sequence[Sequence[str]] | None = None,
    *,
    what: str = "each head",
) -> Figure:
    """What every head reads in one sentence: a row of tiles per layer, queries down, keys across.

    Args:
        weights: of attention, ``(layers, heads, query, key)``.
        habits: a word or two on each head, ``[layer][head]``, to stand above its tile.
        what: whose heads these are, for the description.
    """
    layers, heads = weights.shape[:2]
    height = 0.45 + layers * (5.5 / heads + (0.3 if habits else 0.1))
    fig, every = figure(layers, heads, height=height)
    for index, axes in enumerate(every):
        layer, head = divmod(index, heads)
        _tile(axes, weights[layer, head])
        if habits is not None:
            axes.set_title(habits[layer][head], fontsize=9, fontweight="normal", pad=3)
        if head == 0:
            axes.set_ylabel(f"layer {layer + 1}")
        if layer == layers - 1:
            axes.set_xlabel(f"head {head + 1}")
    told = ""
    if habits is not None:
        named = (
            f"layer {layer + 1} head {head + 1} {habit}"
            for layer, row in enumerate(habits)
            for head, habit in enumerate(row)
        )
        told = f" {', '.join(named)}.".replace(" layer", " Layer", 1)
    fig.alt = (
        f"Tiles for what {what} reads in one sentence, {layers} layers of {heads} heads, a row of "
        f"a tile for each query and a column for each key; the darker, the more.{told}"
    )
    return fig


def _tile(axes: Axes, weights: Float[Tensor, "query key"]) -> None:
    """One map without ticks, in a thin frame."""
    axes.imshow(weights.tolist(), cmap=HEAT, vmin=0.0, vmax=1.0, aspect="auto")
    axes.set_xticks([])
    axes.set_yticks([])
    for spine in axes.spines.values():
        spine.set_visible(True)
        spine.set_color(GRID)


@styled
def side_by_side(maps: Mapping[str, Float[Tensor, "query key"]]) -> Figure:
    """A few maps of one sentence beside one another, queries down, keys across."""
    fig, every = figure(1, len(maps), height=0.5 + 5.5 / len(maps))
    for axes, (name, weights) in zip(every, maps.items(), strict=True):
        _tile(axes, weights)
        axes.set_title(name)
        axes.set_xlabel("key")
    every[0].set_ylabel("query")
    fig.alt = (
        f"Maps of one sentence, a row for each query and a column for each key, the darker, the "
        f"more: {', '.join(maps)}."
    )
    return fig


@styled
def removed_heads(
    lost: Mapping[str, Sequence[Sequence[int | float]]], unit: str, *, digits: int = 1
) -> Figure:
    """What is lost when a single head is removed: a panel for each kind of attention.

    Blue is a loss; orange is a gain, where the model is better off without the head.

    Args:
        lost: by kind of attention, ``[layer][head]``.
        unit: of what is lost.
        digits: after the point.
    """
    fig, every = figure(1, len(lost), height=0.95 + 2.0 / len(lost) + 0.18 * _layers(lost))
    largest = max(abs(value) for rows in lost.values() for row in rows for value in row)
    for axes, (kind, rows) in zip(every, lost.items(), strict=True):
        heatmap(
            axes, rows,
            row_labels=[f"{layer + 1}" for layer in range(len(rows))],
            column_labels=[f"{head + 1}" for head in range(len(rows[0]))],
            signed=True, digits=digits, limit=largest,
        )  # fmt: skip
        for text in axes.texts:
            text.set_text(_bare(text.get_text()))
        axes.set_title(kind)
        axes.set_xlabel("head")
    every[0].set_ylabel("layer")
    told = "; ".join(
        f"{kind}: "
        + ", ".join(
            f"layer {layer + 1} " + " ".join(_bare(f"{value:.{digits}f}") for value in row)
            for layer, row in enumerate(rows)
        )
        for kind, rows in lost.items()
    )
    fig.alt = f"{unit} lost when one head is removed, head by head. {told}."
    return fig


def _layers(lost: Mapping[str, Sequence[Sequence[int | float]]]) -> int:
    return max(len(rows) for rows in lost.values())


def _bare(number: str) -> str:
    """The ``number`` with a true minus sign, and none before a zero."""
    return number.replace("-", "−") if float(number) else number.removeprefix("-")


@styled
def removed(lost: Mapping[str, Mapping[str, int | float]], unit: str, *, digits: int = 1) -> Figure:
    """Bars for what is lost when a part is removed, in groups, each with its colour.

    Args:
        lost: by group, by the name of the part.
        unit: of what is lost.
        digits: after the point.
    """
    parts = [(group, name, value) for group, named in lost.items() for name, value in named.items()]
    fig, (axes,) = figure(height=0.6 + 0.25 * len(parts))
    colours = dict(zip(lost, cycle(CYCLE), strict=False))
    largest = max(abs(value) for _, _, value in parts)
    for place, (group, _, value) in enumerate(parts):
        axes.barh(place, value, color=colours[group], height=0.7)
        axes.text(
            max(value, 0) + 0.012 * largest, place,
            _bare(f"{value:.{digits}f}"), va="center", fontsize=9,
        )  # fmt: skip
    axes.set_yticks(range(len(parts)), [f"{group}, {name}" for group, name, _ in parts])
    axes.invert_yaxis()
    axes.tick_params(axis="y", length=0)
    axes.axvline(0, color=MUTED, linewidth=1)
    axes.spines["left"].set_visible(False)
    axes.set_xlabel(f"{unit} lost")
    axes.set_xlim(right=largest * 1.12)
    told = ", ".join(
        f"{group} {name} {_bare(f'{value:.{digits}f}')}" for group, name, value in parts
    )
    fig.alt = f"Bars of the {unit} lost when a part of the model is removed: {told}."
    return fig


@styled
def stream(
    names: Sequence[str], norms: Sequence[int | float], added: Sequence[int | float]
) -> Figure:
    """The mean norm of the residual stream after each sublayer, and of what the sublayer added.

    Args:
        names: of the sublayers, in their order.
        norms: of the stream; one more than ``names``, for it begins with the embeddings.
        added: of each sublayer's output.

    Raises:
        TfmrError: if the numbers of names and values do not fit.
    """
    require(
        len(norms) == len(names) + 1 and len(added) == len(names),
        f"{len(names)} sublayers leave {len(names) + 1} norms of the stream and add "
        f"{len(names)} vectors: got {len(norms)} and {len(added)}",
    )
    fig, (axes,) = figure(height=2.7)
    axes.bar(range(1, len(names) + 1), list(added), color=ORANGE, width=0.55, label="added")
    axes.plot(range(len(norms)), list(norms), "o-", color=BLUE, markersize=4, label="stream")
    axes.set_xticks(range(len(norms)), ["embedding", *names], rotation=40, ha="right")
    axes.set_ylabel("mean norm")
    axes.set_ylim(bottom=0)
    axes.legend(loc="upper left")
    told = ", ".join(
        f"{name} adds {step:.1f} and leaves {norm:.1f}"
        for name, step, norm in zip(names, added, norms[1:], strict=True)
    )
    fig.alt = f"Mean norm of the residual stream: {norms[0]:.1f} at the embedding; {told}."
    return fig
