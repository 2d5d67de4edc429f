"""Figures of a model on several devices: what each one holds, sends and does at which time."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import cos, pi, sin

from matplotlib.patches import Rectangle

from tfmr.errors import require
from tfmr.figures.diagram import box, line, sheet
from tfmr.figures.narrow import NARROW
from tfmr.figures.style import (
    BLUE,
    GREEN,
    INK,
    MUTED,
    OLIVE,
    ORANGE,
    PURPLE,
    WIDTH,
    Figure,
    also_narrow,
    figure,
    styled,
)

COLOURS = {
    "weights": BLUE,
    "experts": OLIVE,
    "gradients": ORANGE,
    "moments": GREEN,
    "tokens": PURPLE,
}
"""The parts that are divided among devices, and their colours."""
TEXT = 10
"""Size of all text, which remains legible on a phone."""

Grid = Sequence[Sequence[bool]]


@styled
@also_narrow
def held(devices: Sequence[Mapping[str, Grid]], *, narrow: bool = False) -> Figure:
    """What each device holds: a grid for each part, filled where the device holds it.

    Args:
        devices: of each device, the grids by the names of the parts, rows from the top.

    Raises:
        TfmrError: if a part is unknown, or if the devices have different parts.
    """
    parts = list(devices[0])
    require(
        all(list(device) == parts for device in devices) and set(parts) <= COLOURS.keys(),
        f"every device needs the same parts, of {', '.join(COLOURS)}",
    )
    heights = [len(devices[0][part]) for part in parts]
    column, cell = 10.0, 1.0
    height = sum(heights) * cell + 1.9 * len(parts) + 1.8
    width = column * len(devices)
    inches = NARROW if narrow else WIDTH
    fig, axes = sheet(width, height * (1.25 if narrow else 1), inches)
    axes.set_ylim(0, height)
    axes.set_aspect("auto")
    top = height
    for number in range(len(devices)):
        axes.text(
            column * (number + 0.5), top - 0.7, f"device {number}", ha="center", va="center",
            fontsize=TEXT, color=INK, fontweight="bold",
        )  # fmt: skip
    top -= 1.6
    for part, rows in zip(parts, heights, strict=True):
        axes.text(0.3, top - 0.8, part, va="center", fontsize=TEXT, color=COLOURS[part])
        top -= 1.7
        for number, device in enumerate(devices):
            columns = len(device[part][0])
            side = (column - 1.2) / columns
            for row, filled in enumerate(device[part]):
                for at, own in enumerate(filled):
                    axes.add_patch(
                        Rectangle(
                            (column * number + 0.6 + at * side, top - (row + 1) * cell),
                            side,
                            cell,
                            facecolor=COLOURS[part] if own else "white",
                            edgecolor=MUTED,
                            linewidth=0.8,
                        )
                    )
        top -= rows * cell + 0.2
    described = [
        f"device {number} holds "
        + ", ".join(f"{_share(device[part])} of the {part}" for part in parts)
        for number, device in enumerate(devices)
    ]
    fig.alt = f"Grids of what each device holds: {'; '.join(described)}."
    return fig


def _share(grid: Grid) -> str:
    """How many cells of a grid are filled, and where if these are whole rows or columns.

    >>> _share([[True, False], [True, False]]), _share([[True, True]])
    ('column 1', 'all')
    """
    cells = [own for row in grid for own in row]
    rows = [i for i, row in enumerate(grid, 1) if all(row)]
    columns = [i for i, column in enumerate(zip(*grid, strict=True), 1) if all(column)]
    if all(cells):
        return "all"
    for name, found, size in (("row", rows, len(grid[0])), ("column", columns, len(grid))):
        if found and len(found) * size == sum(cells):
            return f"{name}{'s' if len(found) > 1 else ''} {', '.join(map(str, found))}"
    return f"{sum(cells)} of {len(cells)} cells"


@styled
@also_narrow
def ring(values: Sequence[Sequence[int]], *, narrow: bool = False) -> Figure:
    """Processes in a ring, with their chunks, and the first number that each sends to the next.

    Args:
        values: the numbers of each process, one chunk per process.
    """
    p = len(values)
    fig, axes = sheet(10.0, 6.4, NARROW if narrow else 3.8)
    places = [(5 + 3.2 * sin(2 * pi * k / p), 3.0 + 2.3 * cos(2 * pi * k / p)) for k in range(p)]
    for k, (start, end) in enumerate(pairwise([*places, places[0]])):
        shorter = [
            tuple(a + t * (b - a) for a, b in zip(start, end, strict=True)) for t in (0.34, 0.66)
        ]
        line(axes, (shorter[0][0], shorter[0][1]), (shorter[1][0], shorter[1][1]), colour=ORANGE)
        x, y = ((a + b) / 2 for a, b in zip(start, end, strict=True))
        outwards = (x - 5, y - 3.0)
        axes.text(
            x + 0.8 * outwards[0], y + 0.45 * outwards[1], f"sends {values[k][k]}", ha="center",
            va="center", fontsize=TEXT, color=ORANGE,
        )  # fmt: skip
    for k, place in enumerate(places):
        text = f"process {k}\n{', '.join(map(str, values[k]))}"
        box(axes, place, text, BLUE, (3.5, 1.4), TEXT)
    sent = ", ".join(f"process {k} sends {values[k][k]} to {(k + 1) % p}" for k in range(p))
    have = "; ".join(f"process {k} has {', '.join(map(str, v))}" for k, v in enumerate(values))
    fig.alt = f"A ring of {p} processes. {have}. First, {sent}."
    return fig


@styled
@also_narrow
def pipeline(stages: int, batches: int, *, narrow: bool = False) -> Figure:
    """The forward and backward passes of each stage of a pipeline, over time.

    A backward pass takes twice the time of a forward pass. All forward passes come first, as in
    GPipe.
    """
    total = 3 * (batches + stages - 1)
    fig, (axes,) = figure(height=0.36 * stages + 0.75, width=NARROW if narrow else WIDTH)
    for stage in range(stages):
        for batch in range(batches):
            forward = stage + batch
            backward = batches + stages - 1 + 2 * (stages - 1 - stage + batch)
            for start, length, colour in ((forward, 1, BLUE), (backward, 2, GREEN)):
                axes.barh(stage, length, 0.8, start, color=colour, edgecolor="white", linewidth=1)
                axes.text(
                    start + length / 2, stage, str(batch + 1), ha="center", va="center",
                    fontsize=TEXT, color="white",
                )  # fmt: skip
    axes.set_yticks(range(stages), [f"device {stage}" for stage in range(stages)], fontsize=TEXT)
    axes.set_xticks([])
    axes.set_xlabel("time", fontsize=TEXT)
    axes.set_xlim(0, total)
    axes.invert_yaxis()
    axes.tick_params(axis="y", length=0)
    fig.alt = (
        f"The passes of {batches} batches through {stages} stages, over time. A stage is busy for "
        f"{3 * batches} of {total} units of time."
    )
    return fig
