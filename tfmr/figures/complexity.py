"""Figures of the complexity of layer types: paths, crossovers, and accuracy by distance."""

import math
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
def crossovers(
    panels: Mapping[str, tuple[Mapping[str, Mapping[float, float]], float]],
) -> Figure:
    """Ratios of time against the ratio of FLOPs, which is a line on logarithmic axes.

    Args:
        panels: by title, the measured ratios of time by name and by n / d, and the value of n / d
            at which the FLOPs are equal.
    """
    fig, axes = figure(1, len(panels), height=2.9)
    parts = []
    for ax, (title, (curves, equal)) in zip(axes, panels.items(), strict=True):
        xs = sorted({x for points in curves.values() for x in points})
        ax.loglog(xs, [x / equal for x in xs], color=MUTED, lw=1.4, ls="--", label="FLOPs")
        for (name, points), colour, marker in zip(
            curves.items(), cycle((BLUE, ORANGE, GREEN)), cycle("osD"), strict=False
        ):
            ax.loglog(
                list(points), list(points.values()), f"{marker}-", ms=4, color=colour, label=name
            )
            values = ", ".join(f"{y:.2g} at {x:g}" for x, y in points.items())
            parts.append(f"Panel {title}, {name}: {values}".replace("$", ""))
        ax.axhline(1, color=GRID, lw=1, zorder=0)
        ax.axvline(equal, color=GRID, lw=1, zorder=0)
        ax.set_title(title)
        ticks = [x for x in xs if math.log2(x) % 2 == 0]
        ax.set_xticks(ticks, [f"{x:g}" if x >= 1 else f"1/{1 / x:g}" for x in ticks])
        ax.xaxis.set_minor_locator(NullLocator())
        ax.set_xlabel("$n / d$")
        ax.legend(loc="upper left", borderaxespad=0.1)
    axes[0].set_ylabel("ratio")
    fig.alt = (
        "Ratios of time against n / d on logarithmic axes, with the ratio of the FLOPs as a dashed "
        f"line. {'. '.join(parts)}."
    )
    return fig


@styled
def relative_time(
    batches: Sequence[int], curves: Mapping[str, Sequence[float]], baseline: str
) -> Figure:
    """Training time relative to ``baseline`` by batch size, on logarithmic axes."""
    fig, (ax,) = figure(height=2.6)
    ax.axhline(1, color=MUTED, lw=1.2, ls="--", label=baseline)
    for (name, ratios), colour, marker in zip(
        curves.items(), cycle((ORANGE, GREEN)), cycle("os"), strict=False
    ):
        ax.loglog(batches, ratios, f"{marker}-", ms=4.5, color=colour, label=name)
    ax.set_xticks(batches, [str(batch) for batch in batches])
    ax.set_yticks([0.5, 1, 2, 4, 8], ["0.5", "1", "2", "4", "8"])
    ax.xaxis.set_minor_locator(NullLocator())
    ax.yaxis.set_minor_locator(NullLocator())
    ax.set(xlabel="sentences in the batch", ylabel=f"time ÷ {baseline}")
    fig.legend(loc="outside right center")
    values = ". ".join(
        f"{name}: " + ", ".join(f"{y:.2f} at {x}" for x, y in zip(batches, ratios, strict=True))
        for name, ratios in curves.items()
    )
    fig.alt = f"Training time relative to {baseline} by number of sentences in the batch. {values}."
    return fig


@styled
@also_narrow
def accuracy_by_distance(
    distances: Sequence[int],
    curves: Mapping[str, Sequence[Sequence[float]]],
    reach: Mapping[str, int | None],
    chance: float,
    *,
    narrow: bool = False,
) -> Figure:
    """The mean accuracy of the seeds by distance, one panel for each layer type.

    Args:
        distances: in ascending order.
        curves: by layer, the accuracies of each seed, one per distance.
        reach: the largest distance that the stack connects, drawn as a vertical line.
        chance: accuracy at chance level.
        narrow: whether to draw the layout for phones, with two panels in a row.
    """
    columns = 2 if narrow else 3
    rows = -(-len(curves) // columns)
    fig, axes = figure(
        rows, columns, height=1.75 * rows, width=NARROW if narrow else WIDTH,
        sharex=True, sharey=True,
    )  # fmt: skip
    parts = []
    for ax, (name, seeds), colour in zip(axes, curves.items(), cycle(CYCLE), strict=False):
        ax.axhline(chance, color=MUTED, lw=1, ls="--")
        limit = reach[name]
        if limit is not None:
            ax.axvline(limit, color=GREY, lw=1.2, ls=":")
        means = [mean(values) for values in zip(*seeds, strict=True)]
        ax.semilogx(distances, means, color=colour)
        for values in seeds:
            ax.plot(distances, values, "o", ms=3.5, color=colour, alpha=0.5, mew=0, clip_on=False)
        ax.set_title(fill(name, 14, break_on_hyphens=False) if narrow else name, fontsize=9.5)
        ax.set(ylim=(0, 1.03))
        shown = list(distances)[::-2][::-1]
        ax.set_xticks(shown, [str(distance) for distance in shown])
        ax.xaxis.set_minor_locator(NullLocator())
        found = ", ".join(f"{y:.2f} at {x}" for x, y in zip(distances, means, strict=True))
        suffix = "" if limit is None else f" (reach {limit})"
        parts.append(f"{name}{suffix}: {found}")
    for ax in axes[-columns:]:
        ax.set_xlabel("distance")
    for ax in axes[::columns]:
        ax.set_ylabel("accuracy")
    fig.alt = (
        f"Accuracy by distance, mean of {len(next(iter(curves.values())))} seeds; chance is "
        f"{chance:g}. {'. '.join(parts)}."
    )
    return fig
