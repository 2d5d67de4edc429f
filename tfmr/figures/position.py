"""Pictures of position: the table of sines, its wavelengths, shifts as turns, rotary angles."""

import math
from collections.abc import Mapping, Sequence
from itertools import cycle

from jaxtyping import Float
from matplotlib.axes import Axes
from torch import Tensor

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
    styled,
)


@styled
def encoding_table(table: Float[Tensor, "length d_model"]) -> Figure:
    """The whole table as tiles: a row per position, a column per dimension."""
    made, (axes,) = figure(height=3.2)
    tiles = axes.imshow(table.tolist(), cmap=SIGNED, vmin=-1, vmax=1, aspect="auto")
    axes.set(xlabel="dimension", ylabel="position")
    made.colorbar(tiles, ax=axes, ticks=[-1, 0, 1], pad=0.02, aspect=14)
    length, d_model = table.shape
    made.alt = (
        f"A table of {length} positions by {d_model} dimensions, values from"
        f" {float(table.min()):.0f} to {float(table.max()):.0f}. The first columns change from row"
        " to row, later ones ever more slowly, and the last hold almost the same two values, 0 and"
        " 1, in every row."
    )
    return made


@styled
def waves(table: Float[Tensor, "length d_model"], pairs: Sequence[int]) -> Figure:
    """The sine of some pairs of dimensions, one under the other, against the position."""
    made, every = figure(len(pairs), 1, height=0.8 * len(pairs) + 0.5, sharex=True, sharey=True)
    for axes, i in zip(every, pairs, strict=True):
        axes.axhline(0, color=GRID, lw=1)
        axes.plot(table[:, 2 * i].tolist(), color=BLUE, lw=1.6)
        axes.set_ylabel(f"$i={i}$", rotation=0, ha="right", va="center")
        axes.set(ylim=(-1.15, 1.15), yticks=[-1, 1])
        axes.margins(x=0.01)
    every[-1].set_xlabel("position")
    turns = [int((table[:-1, 2 * i] * table[1:, 2 * i] < 0).sum()) for i in pairs]
    made.alt = (
        f"The sines of pairs {', '.join(map(str, pairs))} over {len(table)} positions change their"
        f" sign {', '.join(map(str, turns))} times."
    )
    return made


def _circle(axes: Axes, title: str) -> None:
    """Axes of a unit circle, named by ``title``."""
    angles = [math.tau * step / 120 for step in range(121)]
    axes.plot([math.cos(a) for a in angles], [math.sin(a) for a in angles], color=GRID, lw=1.5)
    axes.set(xlim=(-1.35, 1.35), ylim=(-1.35, 1.35), aspect="equal")
    axes.axis("off")
    axes.set_title(title)


def _hand(axes: Axes, angle: float, label: str, colour: str) -> None:
    """An arrow from the centre to the circle, with its label outside."""
    x, y = math.cos(angle), math.sin(angle)
    style = {"arrowstyle": "-|>", "color": colour, "lw": 2, "shrinkA": 0, "shrinkB": 0}
    axes.annotate("", (x, y), (0, 0), arrowprops=style)
    axes.text(1.2 * x, 1.2 * y, label, ha="center", va="center", color=colour)


def _arc(axes: Axes, start: float, end: float, radius: float, colour: str = INK) -> None:
    """An arrow along a circle about the centre, from one angle to another."""
    angles = [start + (end - start) * step / 40 for step in range(41)]
    points = [(radius * math.cos(a), radius * math.sin(a)) for a in angles]
    axes.plot(*zip(*points[:-1], strict=True), color=colour, lw=1.4)
    style = {"arrowstyle": "-|>", "color": colour, "lw": 1.4, "shrinkA": 0, "shrinkB": 0}
    axes.annotate("", points[-1], points[-2], arrowprops=style)


@styled
def shift_as_turn(frequencies: Sequence[float], starts: Sequence[int], k: int) -> Figure:
    """Pairs of dimensions as clock hands at several positions, each also ``k`` positions on.

    The cosine is drawn to the right and the sine upwards, so that the hand stands at the angle
    position times frequency.
    """
    made, every = figure(1, len(frequencies), height=2.5)
    for axes, omega in zip(every, frequencies, strict=True):
        _circle(axes, f"ω = {omega:.2g}")
        for pos, radius, colour in zip(starts, (0.5, 0.75), (BLUE, ORANGE), strict=True):
            _hand(axes, pos * omega, str(pos), colour)
            _hand(axes, (pos + k) * omega, str(pos + k), colour)
            _arc(axes, pos * omega, (pos + k) * omega, radius, colour)
    turns = ", ".join(f"{math.degrees(k * omega):.0f}" for omega in frequencies)
    made.alt = (
        f"Clock hands for {len(frequencies)} frequencies at positions"
        f" {' and '.join(map(str, starts))} and {k} positions later. Wherever it starts, a hand"
        f" turns by the same angle in {k} steps: {turns} degrees."
    )
    return made


@styled
def product_by_distance(products: Mapping[int, Sequence[float]], reach: int) -> Figure:
    """Dot products of a row with its neighbours, for several rows, against the distance."""
    made, (axes,) = figure(height=2.7)
    axes.axhline(0, color=GRID, lw=1)
    marks = ((BLUE, "-", 4.5), (ORANGE, "--", 2.6), (GREEN, ":", 1.8))
    for (pos, values), (colour, dashes, width) in zip(products.items(), cycle(marks), strict=False):
        axes.plot(range(-reach, reach + 1), values, dashes, color=colour, lw=width, label=str(pos))
    axes.set(xlabel="distance", ylabel="dot product", ylim=(0, None))
    made.legend(title="position", loc="outside right center")
    axes.margins(x=0)
    curves = list(products.values())
    apart = max(abs(a - b) for curve in curves for a, b in zip(curve, curves[0], strict=True))
    made.alt = (
        f"Dot products of positions {', '.join(map(str, products))} with their neighbours at up"
        f" to {reach} places on either side: one curve, the same for each to within"
        f" {math.ceil(apart * 100) / 100:.2f}, symmetric, highest at distance 0 with"
        f" {curves[0][reach]:.0f}, {curves[0][-1]:.0f} at distance {reach}."
    )
    return made


@styled
def rotary_angles(pairs: Sequence[tuple[int, int]], omega: float) -> Figure:
    """A query at each first and a key at each second position, both turned from the same start."""
    made, every = figure(1, len(pairs), height=2.5)
    for axes, (m, n) in zip(every, pairs, strict=True):
        _circle(axes, f"m = {m}, n = {n}")
        _hand(axes, m * omega, "q", BLUE)
        _hand(axes, n * omega, "k", ORANGE)
        _arc(axes, m * omega, n * omega, 0.5)
    between = ", ".join(f"{math.degrees((n - m) * omega):.0f}" for m, n in pairs)
    places = " and ".join(f"{m}, {n}" for m, n in pairs)
    made.alt = (
        f"A query and a key, equal before they were turned, at positions {places}. The angles from"
        f" query to key are {between} degrees: they follow the distance alone."
    )
    return made


@styled
def accuracy_by_position(
    curves: Mapping[str, Sequence[float]], first: int, trained: int, chance: float, alt: str
) -> Figure:
    """Right answers at each position from ``first`` on, with the end of the trained lengths marked.

    ``alt`` is the caller's, because the heights between success and chance depend on the machine:
    it should say only what holds on all of them.
    """
    made, (axes,) = figure(height=2.7)
    axes.axvspan(first, trained - 0.5, color=GRID, alpha=0.5, lw=0)
    axes.axhline(chance, color=MUTED, lw=1.2, ls="--", label="guessing")
    for (label, values), colour in zip(
        curves.items(), cycle((GREEN, BLUE, ORANGE, PURPLE)), strict=False
    ):
        places = range(first, first + len(values))
        axes.plot(places, values, "o-", ms=4, lw=1.4, label=label, color=colour, clip_on=False)
    axes.set(xlabel="position", ylabel="share of right answers", ylim=(0, 1.02))
    axes.margins(x=0)
    made.legend(loc="outside right center")
    made.alt = alt
    return made
