"""Figures of the model family: relative positions, patches, and the effect of each change."""

from collections.abc import Mapping, Sequence

from jaxtyping import Float, Int
from torch import Tensor

from tfmr.errors import require
from tfmr.figures.narrow import NARROW
from tfmr.figures.style import (
    BLUE,
    CYCLE,
    GREY,
    HEAT,
    MUTED,
    ORANGE,
    Figure,
    also_narrow,
    figure,
    heatmap,
    minus,
    styled,
)


@styled
def distance_ranges(ranges: Int[Tensor, "query key"]) -> Figure:
    """The number of the range of each pair's distance, as a matrix."""
    rows, columns = ranges.shape
    fig, (ax,) = figure(height=0.29 * rows + 0.6)
    heatmap(
        ax,
        ranges.tolist(),
        row_labels=[str(i + 1) for i in range(rows)],
        column_labels=[str(j + 1) for j in range(columns)],
        digits=0,
    )
    ax.set(xlabel="position of the key", ylabel="position of the query")
    fig.alt = (
        f"The range of the distance from each of {rows} queries to each of {columns} keys; it is "
        f"constant along every diagonal. First query: {', '.join(map(str, ranges[0].tolist()))}. "
        f"Last query: {', '.join(map(str, ranges[-1].tolist()))}."
    )
    return fig


@styled
def relative_biases(offsets: Sequence[int], biases: Float[Tensor, "heads offset"]) -> Figure:
    """The learned bias of each head by offset (position of the key minus that of the query).

    The alternative text contains no values, because they depend on the training run.
    """
    require(
        biases.shape[1] == len(offsets),
        f"expected one bias per offset and head: got {tuple(biases.shape)} for {len(offsets)} "
        "offsets",
    )
    fig, (ax,) = figure(height=2.8)
    ax.axhline(0, color=MUTED, lw=1)
    for head, values in enumerate(biases.tolist()):
        ax.plot(offsets, values, "o-", ms=4, color=CYCLE[head], label=f"head {head + 1}")
    ax.set_xticks(list(offsets), [minus(f"{offset:+d}") if offset else "0" for offset in offsets])
    ax.set(xlabel="position of the key\nminus position of the query", ylabel="bias")
    fig.legend(loc="outside right center")
    fig.alt = (
        f"The learned bias of {len(biases)} heads for the offsets "
        f"{minus(f'{offsets[0]:+d}')} to {minus(f'{offsets[-1]:+d}')}, "
        "one line per head."
    )
    return fig


@styled
@also_narrow
def patch_attention(
    images: Float[Tensor, "image height width"],
    weights: Float[Tensor, "image rows columns"],
    names: Sequence[str],
    *,
    narrow: bool = False,
) -> Figure:
    """Images with the borders of their patches, and below each the weights of its patches.

    Args:
        images: grey values; dark is high.
        weights: the attention weight of each patch.
        names: the title of each image.
        narrow: whether to draw the layout for phones.
    """
    count, height = images.shape[:2]
    rows = weights.shape[1]
    if narrow:
        fig, axes = figure(2, count, height=0.5 + 5.8 / count, width=NARROW)
    else:
        fig, axes = figure(2, count, height=4.2)
    for k, name in enumerate(names):
        upper, lower = axes[k], axes[count + k]
        upper.imshow(images[k].numpy(), cmap="Greys")
        lower.imshow(weights[k].numpy(), cmap=HEAT, vmin=0)
        for ax, size in ((upper, height / rows), (lower, 1.0)):
            ax.set_xticks([])
            ax.set_yticks([])
            for border in range(1, rows):
                ax.axhline(border * size - 0.5, color=GREY, lw=0.8)
                ax.axvline(border * size - 0.5, color=GREY, lw=0.8)
        upper.set_title(name)
    axes[0].set_ylabel("image")
    axes[count].set_ylabel("attention\nweight" if narrow else "attention weight")
    fig.alt = (
        f"{count} images ({', '.join(names)}), cut into {rows} × {rows} patches. Below each image, "
        "a darker patch has a greater attention weight; each map has its own scale."
    )
    return fig


@styled
@also_narrow
def change_effects(
    effects: Mapping[str, tuple[float, float, float]], baseline: str, *, narrow: bool = False
) -> Figure:
    """The difference of the loss that each change makes, with its confidence interval.

    An interval that contains zero is grey: the difference is within the noise.

    Args:
        effects: by change, the mean and the lower and upper end of its interval, in nats; negative
            is better.
        baseline: what was changed.
        narrow: whether to draw the layout for phones, with the names above the intervals.
    """
    if narrow:
        fig, (ax,) = figure(height=0.42 * len(effects) + 0.7, width=NARROW)
    else:
        fig, (ax,) = figure(height=0.33 * len(effects) + 0.7)
    ax.axvline(0, color=MUTED, lw=1.2, ls="--")
    parts = []
    for row, (name, (middle, low, high)) in enumerate(effects.items()):
        noise = low <= 0 <= high
        colour = GREY if noise else BLUE if middle < 0 else ORANGE
        ax.plot([low, high], [row, row], color=colour, lw=2.4, solid_capstyle="round")
        ax.plot([middle], [row], "o", ms=6, color=colour)
        verdict = " (within the noise)" if noise else ""
        numbers = [minus(f"{value:+.3f}") for value in (middle, low, high)]
        parts.append(f"{name} {numbers[0]} [{numbers[1]}, {numbers[2]}]{verdict}")
        if narrow:
            at = ax.get_yaxis_transform()
            ax.text(0.02, row - 0.22, name, transform=at, va="bottom", fontsize=9)
    ax.set_yticks(range(len(effects)), [] if narrow else list(effects))
    ax.set_ylim(len(effects) - 0.5, -0.8 if narrow else -0.5)
    ax.tick_params(axis="y", length=0)
    ax.set_xlabel(f"change in test loss relative to {baseline}\n(nats per token)")
    fig.alt = (
        f"Change in test loss relative to the model with {baseline}, in nats per token:"
        f" {'; '.join(parts)}."
    )
    return fig
