"""Figures of layer types: paths, relative times, and accuracy by distance or number of pairs."""

from collections.abc import Mapping, Sequence
from itertools import cycle, pairwise
from statistics import mean
from textwrap import fill

from matplotlib.ticker import NullLocator

from tfmr.errors import require
from tfmr.figures.narrow import NARROW
from tfmr.figures.style import (
    BLUE,
    CYCLE,
    GREEN,
    GREY,
    GRID,
    INK,
    MUTED,
    ORANGE,
    WIDTH,
    Figure,
    also_narrow,
    figure,
    styled,
)

Edges = Sequence[tuple[int, int]]
"""Pairs of positions (input, output) that a layer connects."""


@styled
@also_narrow
def paths(stacks: Mapping[str, Sequence[Edges]], length: int, *, narrow: bool = False) -> Figure:
    """The connections of stacked layers, with a shortest path from the first to the last position.

    Args:
        stacks: by name, the connections of each layer from the input upwards, from 0. A connection
            within the outputs of a layer, as in a recurrent network, leads from output to output;
            it is given as a pair of negative positions, from −1.
        length: number of positions.
        narrow: whether to draw the layout for phones, with up to three stacks in a row.

    Raises:
        TfmrError: if a stack does not connect the first position with the last.
    """
    columns = min(3, len(stacks)) if narrow else len(stacks)
    rows = -(-len(stacks) // columns)
    depths = [len(layers) for layers in stacks.values()]
    tallest = [max(depths[row * columns : (row + 1) * columns]) for row in range(rows)]
    fig, panels = figure(
        rows, columns, height=0.48 * sum(tallest) + 0.9 * rows, width=NARROW if narrow else WIDTH,
        height_ratios=[0.48 * tall + 0.9 for tall in tallest],
    )  # fmt: skip
    axes, unused = panels[: len(stacks)], panels[len(stacks) :]
    for ax in unused:
        ax.remove()
    lengths = {}
    for place, (ax, (name, layers)) in enumerate(zip(axes, stacks.items(), strict=True)):
        links = _links(layers)
        path = _shortest(links, (0, 0), (len(layers), length - 1))
        require(
            path is not None,
            f"{name} does not connect position 1 with position {length}: add layers",
        )
        assert path is not None
        lengths[name] = len(path) - 1
        for (low, a), (high, b) in links:
            ax.plot((a, b), (low, high), color=GRID, lw=0.9, zorder=1)
        for (low, a), (high, b) in pairwise(path):
            ax.annotate(
                "", (b, high), (a, low), zorder=3,
                arrowprops={"arrowstyle": "-|>", "color": ORANGE, "lw": 1.6, "shrinkA": 2,
                            "shrinkB": 2, "mutation_scale": 8},
            )  # fmt: skip
        for layer in range(len(layers) + 1):
            ax.plot(range(length), [layer] * length, "o", ms=3.6, color=INK, zorder=4)
        ax.set_title(f"{name}\n{lengths[name]}", fontsize=9.5)
        ax.set(xlim=(-0.6, length - 0.4), ylim=(-0.25, tallest[place // columns] + 0.25))
        ax.axis("off")
    found = "; ".join(
        f"{' '.join(name.split())}: {steps}".replace("$", "") for name, steps in lengths.items()
    )
    fig.alt = (
        f"Stacked layers over {length} positions, inputs at the bottom, with a shortest path from "
        f"the first input to the last output. Connections on the path: {found}."
    )
    return fig


Node = tuple[int, int]


def _links(layers: Sequence[Edges]) -> list[tuple[Node, Node]]:
    """All connections as pairs of (layer, position)."""
    links = []
    for layer, edges in enumerate(layers, start=1):
        for a, b in edges:
            if a < 0 and b < 0:
                links.append(((layer, -1 - a), (layer, -1 - b)))
            else:
                links.append(((layer - 1, a), (layer, b)))
    return links


def _shortest(links: Sequence[tuple[Node, Node]], start: Node, end: Node) -> list[Node] | None:
    """The nodes of a shortest path; breadth first."""
    paths = {start: [start]}
    frontier = [start]
    while frontier and end not in paths:
        reached = []
        for node in frontier:
            for a, b in links:
                if a == node and b not in paths:
                    paths[b] = [*paths[node], b]
                    reached.append(b)
        frontier = reached
    return paths.get(end)


@styled
def relative_time(
    axis: str, sizes: Sequence[int], curves: Mapping[str, Sequence[float]], baseline: str
) -> Figure:
    """Training time relative to ``baseline`` by the size that ``axis`` names, on logarithmic axes.

    A name that starts with ``nn.`` is drawn as a solid line, the others are dashed.
    """
    fig, (ax,) = figure(height=2.9)
    ax.axhline(1, color=MUTED, lw=1.2, ls=":", label=baseline)
    for (name, ratios), colour, marker in zip(
        curves.items(), cycle((ORANGE, GREEN, BLUE, GREY)), cycle("osD^"), strict=False
    ):
        style = "-" if name.startswith("nn.") else "--"
        ax.loglog(sizes, ratios, f"{marker}{style}", ms=4.5, color=colour, label=name)
    ax.set_xticks(sizes, [str(size) for size in sizes])
    values = [value for ratios in curves.values() for value in ratios]
    ticks = [2.0**k for k in range(-5, 8) if min(values) / 2 <= 2.0**k <= 2 * max(values)]
    ax.set_yticks(ticks, [f"{tick:g}" if tick >= 1 else f"1/{1 / tick:g}" for tick in ticks])
    ax.xaxis.set_minor_locator(NullLocator())
    ax.yaxis.set_minor_locator(NullLocator())
    ax.set(xlabel=axis, ylabel=f"time ÷ {baseline}")
    fig.legend(loc="outside right center")
    found = ". ".join(
        f"{name}: " + ", ".join(f"{y:.2f} at {x}" for x, y in zip(sizes, ratios, strict=True))
        for name, ratios in curves.items()
    )
    fig.alt = f"Training time relative to {baseline} by {axis}. {found}."
    return fig


@styled
@also_narrow
def accuracy_panels(
    axis: str,
    sizes: Sequence[int],
    curves: Mapping[str, Sequence[Sequence[float]]],
    chance: float,
    *,
    narrow: bool = False,
) -> Figure:
    """The mean accuracy of the seeds, one panel for each layer type.

    Args:
        axis: what ``sizes`` are.
        sizes: in ascending order.
        curves: by layer, the accuracies of each seed, one per size.
        chance: accuracy at chance level.
        narrow: whether to draw the layout for phones, with two panels in a row.
    """
    columns = 2 if narrow else 4
    rows = -(-len(curves) // columns)
    fig, axes = figure(
        rows, columns, height=1.9 * rows, width=NARROW if narrow else WIDTH,
        sharex=True, sharey=True,
    )  # fmt: skip
    parts = []
    for ax, (name, seeds), colour in zip(axes, curves.items(), cycle(CYCLE), strict=False):
        ax.axhline(chance, color=MUTED, lw=1, ls="--")
        means = [mean(values) for values in zip(*seeds, strict=True)]
        ax.semilogx(sizes, means, color=colour)
        for values in seeds:
            ax.plot(sizes, values, "o", ms=3.5, color=colour, alpha=0.5, mew=0, clip_on=False)
        ax.set_title(fill(name, 14, break_on_hyphens=False) if narrow else name, fontsize=9.5)
        ax.set(ylim=(0, 1.03))
        shown = list(sizes)[::-2][::-1]
        ax.set_xticks(shown, [str(size) for size in shown])
        ax.xaxis.set_minor_locator(NullLocator())
        found = ", ".join(f"{y:.2f} at {x}" for x, y in zip(sizes, means, strict=True))
        parts.append(f"{name}: {found}")
    for ax in axes[-columns:]:
        ax.set_xlabel(axis)
    for ax in axes[::columns]:
        ax.set_ylabel("accuracy")
    fig.alt = (
        f"Accuracy by {axis}, mean of {len(next(iter(curves.values())))} seeds; chance is "
        f"{chance:g}. {'. '.join(parts)}."
    )
    return fig
