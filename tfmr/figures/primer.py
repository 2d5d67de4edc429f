"""Figures of the primer: a matrix multiplication, and gradient descent on a curve."""

from collections.abc import Callable, Mapping, Sequence

from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle
from torch import Tensor

from tfmr.errors import require
from tfmr.figures.diagram import Point, sheet
from tfmr.figures.narrow import NARROW
from tfmr.figures.style import (
    BLUE,
    GREEN,
    INK,
    MUTED,
    ORANGE,
    WIDTH,
    Figure,
    also_narrow,
    figure,
    styled,
)

_TINT = 0.28
"""Opacity of the colour behind a highlighted number, which keeps the number readable."""


def _numbers(
    axes: Axes,
    values: Sequence[Sequence[float]],
    top_left: Point,
    tints: Mapping[tuple[int, int], str],
    fontsize: int | float,
) -> None:
    """Draw a matrix of numbers in unit squares; ``tints`` colours squares by (row, column)."""
    left, top = top_left
    for i, row in enumerate(values):
        for j, value in enumerate(row):
            corner = (left + j, top - i - 1)
            if (i, j) in tints:
                axes.add_patch(Rectangle(corner, 1, 1, facecolor=tints[i, j], alpha=_TINT))
            axes.add_patch(Rectangle(corner, 1, 1, fill=False, edgecolor=MUTED, lw=1))
            axes.text(
                corner[0] + 0.5, corner[1] + 0.5, _number(value), ha="center", va="center_baseline",
                fontsize=fontsize,
            )  # fmt: skip


def _number(value: float, style: str = "g") -> str:
    return f"{value:{style}}".replace("-", "−")


@styled
@also_narrow
def matrix_product(
    X: Float[Tensor, "n d"],
    W: Float[Tensor, "d m"],
    row: int = 0,
    column: int = 0,
    *,
    narrow: bool = False,
) -> Figure:
    """The matrix multiplication ``X @ W`` with its shapes; one number of the result is computed.

    ``row`` and ``column`` select this number. Raises :class:`TfmrError` if they are outside the
    result.
    """
    (n, d), m = X.shape, W.shape[1]
    require(
        0 <= row < n and 0 <= column < m,
        f"expected a row below {n} and a column below {m}, got row {row} and column {column}",
    )
    gap, margin, large, small = (1.1, 0.1, 11, 10) if narrow else (1.4, 0.3, 13, 12)
    height = max(n, d) + (3.1 if narrow else 2.5)
    fig, axes = sheet(d + 2 * m + 2 * gap + 2 * margin, height, NARROW if narrow else WIDTH)
    middle = height - 0.2 - max(n, d) / 2
    blocks = (
        ("X", "(n, d)", X, {(row, k): BLUE for k in range(d)}),
        ("W", "(d, m)", W, {(k, column): ORANGE for k in range(d)}),
        ("X W", "(n, m)", X @ W, {(row, column): GREEN}),
    )
    left = margin
    for sign, (name, axis_names, values, tints) in zip(("", "@", "="), blocks, strict=True):
        if sign:
            axes.text(left - gap / 2, middle, sign, ha="center", va="center", fontsize=large + 2)
        rows, columns = values.shape
        _numbers(axes, values.tolist(), (left, middle + rows / 2), tints, large)
        shape = f"({rows}, {columns})"
        centre = left + columns / 2
        below = (
            ((name, 2.6, INK, large), (axis_names, 1.95, MUTED, small), (shape, 1.4, MUTED, small))
            if narrow
            else ((name, 1.98, INK, large), (f"{axis_names} = {shape}", 1.4, MUTED, small))
        )
        for text, y, colour, size in below:
            axes.text(centre, y, text, ha="center", va="center", color=colour, fontsize=size)
        left += columns + gap
    pairs = zip(X[row].tolist(), W[:, column].tolist(), strict=True)
    terms = " + ".join(f"{_factor(x)} · {_factor(w)}" for x, w in pairs)
    total = _number(float(X[row] @ W[:, column]))
    axes.text(
        (left - gap + margin) / 2, 0.5, f"{terms} = {total}",
        ha="center", va="center", fontsize=large,
    )  # fmt: skip
    fig.alt = (
        f"A ({n}, {d}) matrix times a ({d}, {m}) matrix is a ({n}, {m}) matrix. Row {row + 1} of"
        f" the first and column {column + 1} of the second give the number in row {row + 1} and"
        f" column {column + 1} of the result: {terms} = {total}."
    )
    return fig


def _factor(value: float) -> str:
    """A factor of a product: a negative number stands in parentheses."""
    return f"({_number(value)})" if value < 0 else _number(value)


@styled
def descent_paths(loss: Callable[[float], float], paths: Mapping[float, Sequence[float]]) -> Figure:
    """Steps of gradient descent on the curve ``loss``, one panel per learning rate.

    ``paths`` has the values of the parameter, the initial one first, by learning rate.
    """
    fig, panels = figure(1, len(paths), height=2.5, sharex=True, sharey=True)
    visited = [w for path in paths.values() for w in path]
    low, high = min(visited), max(visited)
    margin = 0.08 * (high - low)
    curve = [low - margin + i * (high - low + 2 * margin) / 100 for i in range(101)]
    for axes, (rate, path) in zip(panels, paths.items(), strict=True):
        axes.plot(curve, [loss(w) for w in curve], color=MUTED, linewidth=1.2)
        axes.plot(path, [loss(w) for w in path], color=BLUE, marker="o", markersize=4, linewidth=1)
        axes.plot(path[0], loss(path[0]), "o", color=ORANGE, markersize=7, zorder=3)
        axes.set_title(f"η = {rate:g}")
        axes.set_xlabel("w")
    panels[0].set_ylabel("loss")
    panels[0].set_ylim(bottom=0)
    ends = "; ".join(
        f"with {rate:g}, after {len(path) - 1} steps from w = {_number(path[0])}, w is"
        f" {_number(path[-1], '.2f')} and the loss {_number(loss(path[-1]), '.2f')}"
        for rate, path in paths.items()
    )
    fig.alt = f"Gradient descent on one curve with {len(paths)} learning rates: {ends}."
    return fig
