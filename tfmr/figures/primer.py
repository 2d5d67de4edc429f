"""Figures of the primer: vectors, matrices, embeddings, surprisal, and gradient descent."""

import math
from collections.abc import Callable, Mapping, Sequence

from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.patches import Arc, Rectangle
from torch import Tensor

from tfmr.errors import require
from tfmr.figures.diagram import Point, box, line, operation, sheet
from tfmr.figures.narrow import NARROW
from tfmr.figures.style import (
    BLUE,
    GREEN,
    GRID,
    INK,
    MUTED,
    ORANGE,
    PURPLE,
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


def _number(value: int | float, style: str = "g") -> str:
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


def _factor(value: int | float) -> str:
    """A factor of a product: a negative number stands in parentheses."""
    return f"({_number(value)})" if value < 0 else _number(value)


@styled
def angles(pairs: Mapping[tuple[str, str], tuple[Point, Point]]) -> Figure:
    """Pairs of vectors as arrows, and the angle between them; ``pairs`` is by their names."""
    fig, panels = figure(1, len(pairs), height=2.6)
    reach = max(math.hypot(*v) for vectors in pairs.values() for v in vectors) + 0.9
    described = []
    for axes, (names, vectors) in zip(panels, pairs.items(), strict=True):
        axes.axhline(0, color=GRID, lw=1, zorder=0)
        axes.axvline(0, color=GRID, lw=1, zorder=0)
        directions = [math.degrees(math.atan2(y, x)) for x, y in vectors]
        for name, (x, y), colour in zip(names, vectors, (BLUE, ORANGE), strict=True):
            line(axes, (0.0, 0.0), (x, y), colour=colour)
            far = 1 + 0.45 / math.hypot(x, y)
            axes.text(far * x, far * y, rf"$\mathbf{{{name}}}$", ha="center", va="center",
                      color=colour, fontsize=12)  # fmt: skip
        axes.add_patch(
            Arc((0, 0), 2.4, 2.4, theta1=min(directions), theta2=max(directions), color=INK, lw=1.2)
        )
        angle = abs(directions[0] - directions[1])
        cosine = math.cos(math.radians(angle))
        axes.set_title(f"{angle:.0f}°, cosine {_number(cosine, '.2f')}")
        axes.set(xlim=(-1, reach), ylim=(-reach + 1.2, reach), aspect="equal")
        axes.set(xticks=[0, 4], yticks=[-4, 0, 4])
        axes.tick_params(length=0)
        described.append(f"{' and '.join(names)}, {angle:.0f} degrees, cosine {cosine:.2f}")
    fig.alt = f"Vectors as arrows from the origin, and their angles: {'; '.join(described)}."
    return fig


@styled
@also_narrow
def embedding_lookup(
    tokens: Sequence[str],
    ids: Sequence[int],
    E: Float[Tensor, "vocab d"],
    *,
    narrow: bool = False,
) -> Figure:
    """Each token has an id, and the id selects a row of the embedding matrix ``E``."""
    (vocab, d), n = E.shape, len(tokens)
    size = 9 if narrow else 11
    wide, gap = (2.1, 1.9) if narrow else (2.2, 2.2)
    left, middle = wide + gap, wide + 2 * gap + d
    fig, axes = sheet(middle + d + 0.5, max(vocab, n) + 1.5, NARROW if narrow else 0.8 * WIDTH)
    top, half = max(vocab, n) + 0.1, (max(vocab, n) - n) / 2
    colours = (BLUE, ORANGE, GREEN, PURPLE)
    shown = {id: colours[k % len(colours)] for k, id in enumerate(dict.fromkeys(ids))}
    tints = {(id, j): colour for id, colour in shown.items() for j in range(d)}
    _numbers(axes, E.tolist(), (left, top), tints, size)
    own = {(k, j): shown[id] for k, id in enumerate(ids) for j in range(d)}
    _numbers(axes, E[list(ids)].tolist(), (middle, top - half), own, size)
    for row in range(vocab):
        axes.text(left - 0.25, top - row - 0.5, str(row), ha="right", va="center_baseline",
                  color=MUTED, fontsize=size)  # fmt: skip
    for k, (token, id) in enumerate(zip(tokens, ids, strict=True)):
        height = top - half - k - 0.5
        box(axes, (wide / 2 + 0.1, height), f"{token} {id}", shown[id], (wide, 0.72), size)
        line(axes, (wide + 0.15, height), (left - 0.65, top - id - 0.5), colour=shown[id])
        line(axes, (left + d + 0.1, top - id - 0.5), (middle - 0.1, height), colour=shown[id])
    for x, text in (
        (wide / 2, "tokens and ids"), (left + d / 2, "$E$"), (middle + d / 2, "embeddings"),
    ):  # fmt: skip
        axes.text(x, top + 0.55, text, ha="center", va="center", fontsize=size)
    found = "; ".join(
        f"{token} has the id {id} and the row ({', '.join(map(_number, E[id].tolist()))})"
        for token, id in zip(tokens, ids, strict=True)
    )
    fig.alt = f"An id selects a row of the embedding matrix of {vocab} rows: {found}."
    return fig


@styled
def surprisal_curve(probabilities: Sequence[int | float]) -> Figure:
    """The curve −ln p, with a point for each of ``probabilities``."""
    fig, (axes,) = figure(height=2.4)
    curve = [0.01 * 100 ** (i / 100) for i in range(101)]
    axes.plot(curve, [-math.log(p) for p in curve], color=BLUE)
    for p in probabilities:
        axes.plot(p, -math.log(p), "o", color=ORANGE, ms=6, zorder=3)
        axes.annotate(f"{p:g}: {abs(math.log(p)):.2f}", (p, -math.log(p)), (7, 4),
                      textcoords="offset points", fontsize=9.5)  # fmt: skip
    axes.set(xlabel="probability $p$", ylabel="surprisal in nats", xlim=(0, 1.12), ylim=(0, 4.7))
    axes.set_xticks([0, 0.25, 0.5, 0.75, 1])
    points = ", ".join(f"{abs(math.log(p)):.2f} at p = {p:g}" for p in probabilities)
    fig.alt = f"The surprisal −ln p falls from above 4 near p = 0 to 0 at p = 1; it is {points}."
    return fig


@styled
@also_narrow
def computation_graph(w: int | float, x: int | float, *, narrow: bool = False) -> Figure:
    """The graph of L = (w x)²: its values, and below them the derivatives of L."""
    u = w * x
    slope = _number(2 * u)
    step, size, margin = (2.5, 9.5, 1.2) if narrow else (2.8, 12, 1.0)
    fig, axes = sheet(3 * step + 2 * margin, 2.7, NARROW if narrow else WIDTH)
    product, inner, last = (margin + k * step for k in (1, 2, 3))
    wide, tall = (1.5, 0.62) if narrow else (1.2, 0.6)
    for name, value, derivative, at in (
        ("w", w, f"{slope} · {_factor(x)} = {_number(2 * u * x)}", (margin, 2.3)),
        ("x", x, f"{slope} · {_factor(w)} = {_number(2 * u * w)}", (margin, 0.75)),
        ("u", u, slope, (inner, 1.5)),
        ("L", u * u, "", (last, 1.5)),
    ):
        box(axes, at, f"${name} = {_number(value)}$", INK, (wide, tall), size)
        axes.text(at[0], at[1] - 0.62, derivative, ha="center", va="center", color=ORANGE,
                  fontsize=size)  # fmt: skip
    for height, end in ((2.3, 1.64), (0.75, 1.36)):
        line(axes, (margin + wide / 2 + 0.05, height), (product - 0.22, end))
    line(axes, (product + 0.22, 1.5), (inner - wide / 2 - 0.05, 1.5))
    line(axes, (inner + wide / 2 + 0.05, 1.5), (last - wide / 2 - 0.05, 1.5))
    operation(axes, (product, 1.5), "×", size)
    axes.text((inner + last) / 2, 1.93, "square", ha="center", fontsize=size)
    fig.alt = (
        f"A computation graph: w = {_number(w)} and x = {_number(x)} are multiplied,"
        f" u = {_number(u)}, and the square of u is L = {_number(u * u)}. Derivatives of L:"
        f" {slope} for u, {slope} · {_factor(x)} = {_number(2 * u * x)} for w and"
        f" {slope} · {_factor(w)} = {_number(2 * u * w)} for x."
    )
    return fig


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
