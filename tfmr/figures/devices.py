"""Figures of one device: its memories, attention in tiles, and the roofline."""

from collections.abc import Mapping, Sequence

from matplotlib.patches import Rectangle
from matplotlib.ticker import NullLocator

from tfmr.figures.diagram import sheet
from tfmr.figures.narrow import NARROW
from tfmr.figures.style import (
    BLUE,
    CYCLE,
    GREEN,
    GREY,
    INK,
    MUTED,
    ORANGE,
    WIDTH,
    Figure,
    also_narrow,
    figure,
    styled,
)

TEXT = 10
"""Size of all text, which remains legible on a phone."""


@styled
@also_narrow
def memories(levels: Sequence[tuple[str, str, str]], *, narrow: bool = False) -> Figure:
    """The memories of a device from the fastest to the largest: name, rate and size of each."""
    height = 1.8 * len(levels)
    fig, axes = sheet(10.0, height, NARROW if narrow else 3.8)
    for row, ((name, rate, size), colour) in enumerate(zip(levels, CYCLE, strict=False)):
        bottom = height - 1.8 * (row + 1) + 0.1
        width = 6.4 + 3.4 * row / max(1, len(levels) - 1)
        axes.add_patch(
            Rectangle(
                (5 - width / 2, bottom), width, 1.6, facecolor=colour + "2e", edgecolor=colour,
                linewidth=1.4,
            )
        )  # fmt: skip
        axes.text(
            5, bottom + 0.78, f"{name}\n{size}, {rate}", ha="center", va="center", fontsize=TEXT,
            color=INK, linespacing=1.25,
        )  # fmt: skip
    fig.alt = "Memories of a device: " + "; ".join(
        f"{name}, {size}, {rate}" for name, rate, size in levels
    )
    fig.alt += "."
    return fig


@styled
@also_narrow
def attention_tiles(
    rows: int, columns: int, current: tuple[int, int], *, narrow: bool = False
) -> Figure:
    """The scores of attention in tiles: the tile that is computed, those before and those after."""
    fig, axes = sheet(columns + 2.4, rows + 1.6, NARROW if narrow else 3.6)
    for row in range(rows):
        for column in range(columns):
            done = (row, column) < current
            colour = ORANGE if (row, column) == current else GREY + "55" if done else "white"
            axes.add_patch(
                Rectangle(
                    (1.6 + column, rows - 1 - row), 1, 1, facecolor=colour, edgecolor=MUTED, lw=1
                )
            )
    for column in range(columns):
        held = column == current[1]
        axes.add_patch(
            Rectangle(
                (1.6 + column, rows + 0.2), 1, 0.5, facecolor=GREEN if held else GREEN + "2e",
                edgecolor=GREEN, lw=1,
            )
        )  # fmt: skip
    for row in range(rows):
        held = row == current[0]
        axes.add_patch(
            Rectangle(
                (0.9, rows - 1 - row), 0.5, 1, facecolor=BLUE if held else BLUE + "2e",
                edgecolor=BLUE, lw=1,
            )
        )  # fmt: skip
    axes.text(
        1.6 + columns / 2, rows + 1.15, "keys and values", ha="center", va="center",
        fontsize=TEXT, color=GREEN,
    )  # fmt: skip
    axes.text(
        0.45, rows / 2, "queries", ha="center", va="center", rotation=90, fontsize=TEXT, color=BLUE
    )
    fig.alt = (
        f"The scores of attention in {rows} by {columns} tiles. The tile in row {current[0] + 1} "
        f"and column {current[1] + 1} is in fast memory, with its queries, keys and values."
    )
    return fig


@styled
@also_narrow
def roofline(
    points: Mapping[str, tuple[float, float]],
    peak: float,
    bandwidth: float,
    *,
    narrow: bool = False,
) -> Figure:
    """The largest rate of arithmetic by arithmetic intensity, and the place of each computation.

    Args:
        points: by name, the intensity in FLOPs per byte and the rate in FLOP/s.
        peak: the largest rate of the arithmetic units in FLOP/s.
        bandwidth: bytes per second.
    """
    fig, (axes,) = figure(height=3.4, width=NARROW if narrow else WIDTH)
    ridge = peak / bandwidth
    low = min(min(x for x, _ in points.values()), 1) / 2
    high = max(max(x for x, _ in points.values()), ridge) * 4
    axes.loglog([low, ridge, high], [low * bandwidth, peak, peak], color=MUTED, linewidth=1.6)
    axes.axvline(ridge, color=MUTED, linewidth=1, linestyle=":")
    axes.text(ridge, low * bandwidth, f" {ridge:.0f}", color=MUTED, fontsize=TEXT, va="bottom")
    for (name, (x, y)), colour in zip(points.items(), CYCLE, strict=False):
        axes.loglog([x], [y], "o", color=colour, markersize=6, label=name)
    axes.set_xlabel("FLOPs per byte", fontsize=TEXT)
    axes.set_ylabel("FLOP/s", fontsize=TEXT)
    axes.xaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_minor_locator(NullLocator())
    fig.legend(loc="outside upper left", ncols=1 if narrow else 2, fontsize=TEXT, handletextpad=0.2)
    placed = [f"{name}: {x:.3g} FLOPs per byte, {y:.2e} FLOP/s" for name, (x, y) in points.items()]
    fig.alt = (
        f"Roofline: the rate rises with the intensity up to {ridge:.0f} FLOPs per byte, and is "
        f"{peak:.2e} FLOP/s above. {'; '.join(placed)}."
    )
    return fig
