"""Figures of positional encodings: sinusoidal table, wavelengths, rotations, rotary angles."""

import math
from collections.abc import Mapping, Sequence
from itertools import cycle

from jaxtyping import Float
from matplotlib.axes import Axes
from torch import Tensor

from tfmr.figures.palette import KEY, QUERY
from tfmr.figures.style import (
    BLUE,
    GREEN,
    GRID,
    INK,
    MUTED,
    ORANGE,
    PURPLE,
    SIGNED,
    Figure,
    figure,
    minus,
    styled,
)
from tfmr.wording import joined


@styled
def sinusoidal_table(table: Float[Tensor, "length d_model"]) -> Figure:
    """The sinusoidal table as a heat map: one row per position, one column per dimension."""
    fig, (axes,) = figure(height=3.2)
    tiles = axes.imshow(table.tolist(), cmap=SIGNED, vmin=-1, vmax=1, aspect="auto")
    axes.set(xlabel="dimension", ylabel="position")
    fig.colorbar(tiles, ax=axes, ticks=[-1, 0, 1], pad=0.02, aspect=14)
    length, d_model = table.shape
    fig.alt = (
        f"A table of {length} positions by {d_model} dimensions, values from"
        f" {minus(f'{float(table.min()):.0f}')} to {float(table.max()):.0f}. The first columns"
        " change from row to row, later columns change more and more slowly, and the last columns"
        " are almost constant, close to 0 or 1."
    )
    return fig


@styled
def sinusoids(table: Float[Tensor, "length d_model"], pairs: Sequence[int]) -> Figure:
    """The sine of several pairs of dimensions against the position, one panel per pair."""
    fig, panels = figure(len(pairs), 1, height=0.8 * len(pairs) + 0.5, sharex=True, sharey=True)
    for axes, i in zip(panels, pairs, strict=True):
        axes.axhline(0, color=GRID, lw=1)
        axes.plot(table[:, 2 * i].tolist(), color=BLUE, lw=1.6)
        axes.set_ylabel(f"$i={i}$", rotation=0, ha="right", va="center")
        axes.set(ylim=(-1.15, 1.15), yticks=[-1, 1])
        axes.margins(x=0.01)
    panels[-1].set_xlabel("position")
    sign_changes = [int((table[:-1, 2 * i] * table[1:, 2 * i] < 0).sum()) for i in pairs]
    fig.alt = (
        f"The sines of pairs {joined(pairs)} over {len(table)} positions change sign"
        f" {joined(sign_changes)} times, respectively."
    )
    return fig


def _circle(axes: Axes, title: str) -> None:
    """Axes with a unit circle and a title."""
    angles = [math.tau * step / 120 for step in range(121)]
    axes.plot([math.cos(a) for a in angles], [math.sin(a) for a in angles], color=GRID, lw=1.5)
    axes.set(xlim=(-1.35, 1.35), ylim=(-1.35, 1.35), aspect="equal")
    axes.axis("off")
    axes.set_title(title)


def _arrow(axes: Axes, angle: float, label: str, colour: str) -> None:
    """An arrow from the centre to the circle, with a label outside."""
    x, y = math.cos(angle), math.sin(angle)
    style = {"arrowstyle": "-|>", "color": colour, "lw": 2, "shrinkA": 0, "shrinkB": 0}
    axes.annotate("", (x, y), (0, 0), arrowprops=style)
    axes.text(1.2 * x, 1.2 * y, label, ha="center", va="center", color=colour)


def _arc(axes: Axes, start: float, end: float, radius: float, colour: str = INK) -> None:
    """An arrow along a circle around the centre, from one angle to another."""
    angles = [start + (end - start) * step / 40 for step in range(41)]
    points = [(radius * math.cos(a), radius * math.sin(a)) for a in angles]
    axes.plot(*zip(*points[:-1], strict=True), color=colour, lw=1.4)
    style = {"arrowstyle": "-|>", "color": colour, "lw": 1.4, "shrinkA": 0, "shrinkB": 0}
    axes.annotate("", points[-1], points[-2], arrowprops=style)


@styled
def shift_as_rotation(frequencies: Sequence[float], starts: Sequence[int], k: int) -> Figure:
    """Pairs of dimensions as points on a circle, at several positions and ``k`` positions later.

    The horizontal axis is the sine and the vertical axis the cosine, in the order of a row of the
    table: position 0 is at the top, and the pairs move clockwise.
    """

    def from_the_top(pos: int, omega: float) -> float:
        return math.tau / 4 - pos * omega

    fig, panels = figure(1, len(frequencies), height=2.35)
    for axes, omega in zip(panels, frequencies, strict=True):
        _circle(axes, f"ω = {omega:.2g}")
        for pos, radius, colour in zip(starts, (0.5, 0.75), (BLUE, ORANGE), strict=True):
            start, end = from_the_top(pos, omega), from_the_top(pos + k, omega)
            _arrow(axes, start, str(pos), colour)
            _arrow(axes, end, str(pos + k), colour)
            _arc(axes, start, end, radius, colour)
    angles = joined(f"{math.degrees(k * omega):.0f}" for omega in frequencies)
    ends = joined(pos + k for pos in starts)
    fig.alt = (
        f"Arrows on the unit circle for {len(frequencies)} frequencies, at positions"
        f" {joined(starts)} and, {k} positions later, at {ends}; clockwise, with position 0 at the"
        " top. For each frequency the angle of rotation is the same from every start:"
        f" {angles} degrees."
    )
    return fig


@styled
def dot_product_by_distance(products: Mapping[int, Sequence[float]], max_distance: int) -> Figure:
    """Dot products of rows of the table with the rows near them, by difference of positions."""
    fig, (axes,) = figure(height=2.7)
    axes.axhline(0, color=GRID, lw=1)
    marks = ((BLUE, "-", 4.5), (ORANGE, "--", 2.6), (GREEN, ":", 1.8))
    for (pos, values), (colour, dashes, width) in zip(products.items(), cycle(marks), strict=False):
        axes.plot(
            range(-max_distance, max_distance + 1),
            values,
            dashes,
            color=colour,
            lw=width,
            label=str(pos),
        )
    axes.set(xlabel="difference of positions", ylabel="dot product", ylim=(0, None))
    fig.legend(title="position", loc="outside right center")
    axes.margins(x=0)
    curves = list(products.values())
    difference = max(abs(a - b) for curve in curves for a, b in zip(curve, curves[0], strict=True))
    fig.alt = (
        f"Dot products of rows {joined(products)} of the table with the rows at distances up to"
        f" {max_distance}. The curves are equal to within"
        f" {math.ceil(difference * 100) / 100:.2f} and symmetric; the maximum is"
        f" {curves[0][max_distance]:.0f}, at distance 0, and the value at distance {max_distance}"
        f" is {curves[0][-1]:.0f}."
    )
    return fig


@styled
def rotary_angles(pairs: Sequence[tuple[int, int]], omega: float) -> Figure:
    """A query and a key, equal before rotation, at several pairs of positions ``(m, n)``."""
    fig, panels = figure(1, len(pairs), height=2.35)
    for axes, (m, n) in zip(panels, pairs, strict=True):
        _circle(axes, f"m = {m}, n = {n}")
        _arrow(axes, m * omega, "q", QUERY)
        _arrow(axes, n * omega, "k", KEY)
        _arc(axes, m * omega, n * omega, 0.5)
    between = joined(minus(f"{math.degrees((n - m) * omega):.0f}") for m, n in pairs)
    fig.alt = (
        f"A query and a key, equal before rotation, at {len(pairs)} pairs of positions (m, n):"
        f" {joined(pairs)}. The angles from query to key are {between} degrees; they depend only on"
        " the difference between the positions."
    )
    return fig


@styled
def accuracy_by_position(
    curves: Mapping[str, Sequence[float]], first: int, trained_length: int, chance: float, alt: str
) -> Figure:
    """Accuracy at each position from ``first`` on; grey marks positions seen in training.

    The caller provides ``alt`` because the accuracies depend on the machine: it should state only
    what holds on all of them.
    """
    fig, (axes,) = figure(height=2.7)
    axes.axvspan(first, trained_length - 0.5, color=GRID, alpha=0.5, lw=0)
    axes.axhline(chance, color=MUTED, lw=1.2, ls="--", label="chance")
    looks = zip((GREEN, BLUE, ORANGE, PURPLE), "osD^", strict=True)
    for (label, values), (colour, marker) in zip(curves.items(), cycle(looks), strict=False):
        axes.plot(
            range(first, first + len(values)), values,
            marker=marker, ms=4, lw=1.4, label=label, color=colour, clip_on=False,
        )  # fmt: skip
    axes.set(xlabel="position", ylabel="accuracy", ylim=(0, 1.02))
    axes.margins(x=0)
    fig.legend(loc="outside right center")
    fig.alt = alt
    return fig
