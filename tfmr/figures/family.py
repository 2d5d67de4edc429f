"""Figures of the model family: relative positions, and the effect of each change."""

from collections.abc import Mapping

from jaxtyping import Int
from torch import Tensor

from tfmr.figures.narrow import NARROW
from tfmr.figures.style import (
    BLUE,
    GREY,
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
@also_narrow
def change_effects(
    effects: Mapping[str, tuple[float, float, float]], baseline: str, *, narrow: bool = False
) -> Figure:
    """The difference of the loss that each change makes, with its confidence interval.

    An interval that contains zero is grey: the sign of the effect is undecided.

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
        undecided = low <= 0 <= high
        colour = GREY if undecided else BLUE if middle < 0 else ORANGE
        ax.plot([low, high], [row, row], color=colour, lw=2.4, solid_capstyle="round")
        ax.plot([middle], [row], "o", ms=6, color=colour)
        verdict = " (undecided)" if undecided else ""
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
