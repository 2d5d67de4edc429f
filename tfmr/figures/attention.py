"""Figures that explain attention on small examples: weights, steps, masks, heads, scaling by √d_k.

Attention maps of a trained model are in :mod:`tfmr.figures.analysis`.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle
from torch import Tensor

from tfmr.figures.diagram import Point, box, line, matrix, operation, sheet
from tfmr.figures.narrow import NARROW
from tfmr.figures.palette import KEY, QUERY, SKY, VALUE, YELLOW
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
    heatmap,
    styled,
    text_colour,
)
from tfmr.wording import joined


def _lines_between(axes: Axes, rows: int, columns: int, *, linewidth: float = 1.5) -> None:
    """White lines between neighbouring tiles."""
    for i in range(rows + 1):
        axes.axhline(i - 0.5, color="white", lw=linewidth)
    for j in range(columns + 1):
        axes.axvline(j - 0.5, color="white", lw=linewidth)


@styled
@also_narrow
def attention_arcs(
    words: Sequence[str],
    weights: Float[Tensor, "key"],
    query: int,
    digits: int = 2,
    *,
    narrow: bool = False,
) -> Figure:
    """Arcs from the word at ``query`` to the others, with a width that grows with the weight.

    In the ``narrow`` layout, the words are written in a column.
    """
    numbers = [float(weight) for weight in weights]
    draw = _arcs_beside if narrow else _arcs_above
    fig = draw(words, numbers, query, digits)
    listed = ", ".join(f"{w} {x:.{digits}f}" for w, x in zip(words, numbers, strict=True))
    fig.alt = (
        f"Arcs from the word “{words[query]}” to every other word of the sentence; the thicker the"
        f" arc, the larger the attention weight. The weights: {listed}."
    )
    return fig


def _arcs_above(words: Sequence[str], weights: Sequence[float], query: int, digits: int) -> Figure:
    """The words in a row, with arcs above and weights below."""
    fig, (axes,) = figure(height=2.1)
    left = [sum(len(word) + 2.2 for word in words[:i]) for i in range(len(words))]
    centres = [start + len(word) / 2 for start, word in zip(left, words, strict=True)]
    end = left[-1] + len(words[-1])
    for j, (word, centre, weight) in enumerate(zip(words, centres, weights, strict=True)):
        if j != query:
            height = 0.55 * math.sqrt(abs(centre - centres[query]) / end)
            along, out = _arc(centres[query], centre, height)
            axes.plot(along, [0.16 + each for each in out], **_arc_style(weight))
        bold = "bold" if j == query else "normal"
        colour = ORANGE if j == query else INK
        axes.text(centre, 0.0, word, ha="center", fontsize=11.5, color=colour, fontweight=bold)
        axes.text(centre, -0.15, f"{weight:.{digits}f}", ha="center", fontsize=9, color=MUTED)
    axes.set(xlim=(-1.5, end + 1.5), ylim=(-0.18, 0.68))
    axes.axis("off")
    return fig


def _arcs_beside(words: Sequence[str], weights: Sequence[float], query: int, digits: int) -> Figure:
    """The words in a column, with weights on the left and arcs on the right; units are inches."""
    row, n = 0.3, len(words)
    fig, axes = sheet(NARROW, row * n + 0.1, NARROW)
    heights = [row * (n - j - 0.5) + 0.05 for j in range(n)]
    end = 0.6 + 0.11 * max(map(len, words))
    for j, (word, height, weight) in enumerate(zip(words, heights, weights, strict=True)):
        if j != query:
            width = (NARROW - end - 0.3) * math.sqrt(abs(j - query) / n)
            along, out = _arc(heights[query], height, width)
            axes.plot([end + 0.12 + each for each in out], along, **_arc_style(weight))
        style: dict[str, Any] = {"va": "center_baseline", "color": INK}
        if j == query:
            style |= {"color": ORANGE, "fontweight": "bold"}
        axes.text(end, height, word, ha="right", fontsize=11.5, **style)
        style = {"va": "center_baseline", "color": MUTED}
        axes.text(0.1, height, f"{weight:.{digits}f}", fontsize=9, **style)
    return fig


def _arc(start: float, end: float, height: float) -> tuple[list[float], list[float]]:
    """Half an ellipse: places from ``start`` to ``end``, and distances up to ``height``."""
    angle = torch.linspace(0, math.pi, 60)
    along = (start + end) / 2 + (start - end) / 2 * angle.cos()
    return along.tolist(), (height * angle.sin()).tolist()


def _arc_style(weight: float) -> dict[str, Any]:
    return {
        "color": BLUE,
        "lw": 0.6 + 7 * weight,
        "alpha": 0.35 + 0.55 * weight,
        "solid_capstyle": "round",
    }


@styled
def attention_steps(
    words: Sequence[str],
    dots: Float[Tensor, "query key"],
    scores: Float[Tensor, "query key"],
    weights: Float[Tensor, "query key"],
    outputs: Float[Tensor, "query d_v"],
) -> Figure:
    """The matrices after the four steps of attention, with one row per query.

    A colour has the same meaning in all panels of signed numbers (dot products, scores, outputs):
    they share one scale around 0. The weights have their own, from 0 to 1.
    """
    fig, axes = figure(2, 2, height=4.7)
    labels = list(words)
    limit = max(float(each.abs().max()) for each in (dots, scores, outputs))
    columns = [str(c) for c in range(outputs.shape[1])]
    for each, values, names, digits in (
        (axes[0], dots, labels, 0),
        (axes[1], scores, labels, 2),
        (axes[3], outputs, columns, 2),
    ):
        heatmap(
            each,
            values,
            row_labels=labels,
            column_labels=names,
            signed=True,
            digits=digits,
            limit=limit,
        )
    heatmap(axes[2], weights, row_labels=labels, column_labels=labels, limit=1.0)
    titles = (r"1  $QK^\top$", r"2  divide by $\sqrt{d_k}$", "3  softmax", "4  times $V$")
    for each, title in zip(axes, titles, strict=True):
        each.set_title(title)
    rows = [
        f"{word} ({', '.join(f'{float(w):.2f}' for w in row)})"
        for word, row in zip(words, weights, strict=True)
    ]
    fig.alt = (
        f"Four matrices with one row for each of {', '.join(words)}: the dot products, the scores,"
        f" the attention weights and the outputs. The rows of the weights: {'; '.join(rows)}."
        f" Colours of dot products, scores and outputs: from −{limit:.1f} (orange) through 0"
        f" (background) to {limit:.1f} (blue). Colours of weights: from 0 (background) to 1 (blue)."
    )
    return fig


@styled
@also_narrow
def query_key_value(
    n: int = 3, d_model: int = 6, d_k: int = 2, d_v: int = 4, *, narrow: bool = False
) -> Figure:
    """Self-attention from the input to the output, with the shape of every matrix.

    The sides of the rectangles are proportional to ``n``, ``d_model``, ``d_k`` and ``d_v``. The
    mask is causal, as an example.
    """
    draw = _query_key_value_narrow if narrow else _query_key_value_wide
    fig = draw(n, d_model, d_k, d_v)
    fig.alt = (
        "Self-attention as a diagram of matrices. The input X (n, d_model) is multiplied by W^Q"
        " (d_model, d_k), W^K (d_model, d_k) and W^V (d_model, d_v), which gives the queries Q"
        " (n, d_k), the keys K (n, d_k) and the values V (n, d_v). The product of Q and the"
        " transpose of K, divided by the square root of d_k, is the matrix of scores (n, n). The"
        " mask sets masked scores to −∞; the softmax of each row gives the weights A (n, n), which"
        " are 0 there. The output Z = A V has the shape (n, d_v). The rectangles are drawn for"
        f" n = {n}, d_model = {d_model}, d_k = {d_k}, d_v = {d_v} and a causal mask."
    )
    return fig


def _query_key_value_wide(n: int, d_model: int, d_k: int, d_v: int) -> Figure:
    """From top to bottom to the scores, and from there to the right."""
    cell = 0.4
    half, tall = n * cell / 2, d_model * cell / 2
    x_q, x_k, x_v, x_a, x_z = 1.3, 4.1, 8.45, 6.9, 10.1
    below = 1.75
    y_joined = below + half + 0.75
    y_qkv = y_joined + 0.65 + half
    y_w = y_qkv + half + 0.5 + tall
    y_bus = y_w + tall + 0.45
    y_x = y_bus + 0.3 + half
    fig, axes = sheet(11.2, y_x + half + 0.1)

    def place(at: Point, name: str, shape: str, size: tuple[int, int], colour: str) -> None:
        matrix(axes, at, name, colour, size, cell)
        axes.text(
            at[0] + size[1] * cell / 2 + 0.12, at[1], shape, va="center", fontsize=10, color=INK
        )

    model = r"$(n, d_{\mathrm{model}})$"
    place((x_k, y_x), "$X$", model, (n, d_model), MUTED)
    axes.plot((x_k, x_k), (y_bus, y_bus + 0.3), color=MUTED, lw=1.6)
    axes.plot((x_q, x_v), (y_bus, y_bus), color=MUTED, lw=1.6)
    for x, name, width, size, colour in (
        (x_q, "Q", "k", d_k, QUERY),
        (x_k, "K", "k", d_k, KEY),
        (x_v, "V", "v", d_v, VALUE),
    ):
        line(axes, (x, y_bus), (x, y_w + tall))
        shape = rf"$(d_{{\mathrm{{model}}}}, d_{width})$"
        place((x, y_w), f"$W^{name}$", shape, (d_model, size), colour)
        line(axes, (x, y_w - tall), (x, y_qkv + half))
        place((x, y_qkv), f"${name}$", f"$(n, d_{width})$", (n, size), colour)

    bottom = y_qkv - half
    line(axes, (x_q, bottom), (x_q, y_joined + 0.22))
    line(axes, (x_k, bottom), (x_k, y_joined), (x_q + 0.22, y_joined))
    operation(axes, (x_q, y_joined), "×")
    axes.text(2.7, y_joined + 0.15, r"$K^\top$", ha="center", fontsize=11)
    line(axes, (x_q, y_joined - 0.22), (x_q, below + half))
    axes.text(x_q + 0.2, y_joined - 0.5, r"$\div \sqrt{d_k}$", va="center", fontsize=11)
    for x in (x_q, x_k, x_a):
        matrix(axes, (x, below), "", SKY, (n, n), cell)
    for x, masked in ((x_k, "−∞"), (x_a, "0")):
        _masked_tiles(axes, (x - half, below + half), n, cell, masked)
    line(axes, (x_q + half, below), (x_k - half, below))
    line(axes, (x_k + half, below), (x_a - half, below))
    for x, name in (((x_q + x_k) / 2, "mask"), ((x_k + x_a) / 2, "softmax")):
        axes.text(x, below + 0.15, name, ha="center", fontsize=10)
    line(axes, (x_a + half, below), (x_v - 0.22, below))
    line(axes, (x_v, bottom), (x_v, below + 0.22))
    operation(axes, (x_v, below), "×")
    line(axes, (x_v + 0.22, below), (x_z - d_v * cell / 2, below))
    matrix(axes, (x_z, below), "$Z$", VALUE, (n, d_v), cell)
    for x, name, shape in (
        (x_q, "scores", "$(n, n)$"),
        (x_k, "masked scores", "$(n, n)$"),
        (x_a, "weights $A$", "$(n, n)$"),
        (x_z, "output", "$(n, d_v)$"),
    ):
        axes.text(x, below - half - 0.35, name, ha="center", va="center", fontsize=10)
        axes.text(x, below - half - 0.75, shape, ha="center", va="center", fontsize=10)
    return fig


def _query_key_value_narrow(n: int, d_model: int, d_k: int, d_v: int) -> Figure:
    """From top to bottom; units are inches for ``d_model + n`` up to 9."""
    cell = 1.8 / (d_model + n)
    half, tall = n * cell / 2, d_model * cell / 2
    x_q, x_k, x_v = 0.36, 1.44, 2.55
    x_masked, x_a, x_z, edge = 1.5, 2.82, 1.7, 3.27
    y_z = 0.1 + half
    y_a = y_z + 2 * half + 0.6
    y_joined = y_a + half + 0.5
    y_qkv = y_joined + half + 0.5
    y_w = y_qkv + half + tall + 0.4
    y_bus = y_w + tall + 0.25
    y_x = y_bus + half + 0.2
    fig, axes = sheet(NARROW, y_x + half + 0.05, NARROW)

    def place(at: Point, name: str, size: tuple[int, int], colour: str) -> None:
        matrix(axes, at, name, colour, size, cell, 10.5)

    def write(x: float, y: float, text: str, ha: str = "left") -> None:
        axes.text(x, y, text, ha=ha, va="center", fontsize=9.5, color=INK)

    model = r"$(n, d_{\mathrm{model}})$"
    place((x_k, y_x), "$X$", (n, d_model), MUTED)
    write(x_k + tall + 0.07, y_x, model)
    axes.plot((x_k, x_k), (y_bus, y_x - half), color=MUTED, lw=1.6)
    axes.plot((x_q, x_v), (y_bus, y_bus), color=MUTED, lw=1.6)
    for x, name, width, size, colour in (
        (x_q, "Q", "k", d_k, QUERY),
        (x_k, "K", "k", d_k, KEY),
        (x_v, "V", "v", d_v, VALUE),
    ):
        line(axes, (x, y_bus), (x, y_w + tall))
        place((x, y_w), f"$W^{name}$", (d_model, size), colour)
        line(axes, (x, y_w - tall), (x, y_qkv + half))
        write(x + 0.07, y_w - tall - 0.18, rf"$(d_{{\mathrm{{model}}}}, d_{width})$")
        place((x, y_qkv), f"${name}$", (n, size), colour)
        write(x + 0.07, y_qkv - half - 0.15, f"$(n, d_{width})$")

    bottom = y_qkv - half
    line(axes, (x_q, bottom), (x_q, y_joined + 0.11))
    line(axes, (x_k, bottom), (x_k, y_joined), (x_q + 0.11, y_joined))
    operation(axes, (x_q, y_joined), "×", 10)
    axes.text((x_q + x_k) / 2, y_joined + 0.06, r"$K^\top$", ha="center", fontsize=9.5)
    line(axes, (x_q, y_joined - 0.11), (x_q, y_a + half))
    axes.text(x_q + 0.09, y_joined - 0.27, r"$\div \sqrt{d_k}$", va="center", fontsize=9.5)
    for x in (x_q, x_masked, x_a):
        place((x, y_a), "", (n, n), SKY)
    for x, masked in ((x_masked, "−∞"), (x_a, "0")):
        _masked_tiles(axes, (x - half, y_a + half), n, cell, masked)
    for x, end, name in ((x_q, x_masked, "mask"), (x_masked, x_a, "softmax")):
        line(axes, (x + half, y_a), (end - half, y_a))
        axes.text((x + end) / 2, y_a + 0.06, name, ha="center", fontsize=9.5)
    # The values pass the weights on their right.
    line(axes, (x_a, y_a - half), (x_a, y_z + 0.11))
    around = ((x_v, bottom), (x_v, bottom - 0.35), (edge, bottom - 0.35), (edge, y_z))
    line(axes, *around, (x_a + 0.11, y_z))
    operation(axes, (x_a, y_z), "×", 10)
    line(axes, (x_a - 0.11, y_z), (x_z + d_v * cell / 2, y_z))
    place((x_z, y_z), "$Z$", (n, d_v), VALUE)
    low = y_a - half
    for x, y, ha, names in (
        (x_q, low - 0.14, "center", ("scores", "$(n, n)$")),
        (x_masked, low - 0.14, "center", ("masked scores", "$(n, n)$")),
        (x_a - 0.07, low - 0.14, "right", ("weights $A$", "$(n, n)$")),
        (x_z - d_v * cell / 2 - 0.08, y_z + 0.09, "right", ("output", "$(n, d_v)$")),
    ):
        for row, text in enumerate(names):
            write(x, y - 0.19 * row, text, ha)
    return fig


def _masked_tiles(axes: Axes, corner: Point, n: int, cell: float, text: str) -> None:
    """Mark the tiles of an ``(n, n)`` matrix that a causal mask hides; ``corner`` is top left."""
    for row in range(n):
        for column in range(row + 1, n):
            place = (corner[0] + column * cell, corner[1] - (row + 1) * cell)
            axes.add_patch(Rectangle(place, cell, cell, facecolor="white", edgecolor=GRID, lw=0.8))
            axes.text(
                place[0] + cell / 2, place[1] + cell / 2, text,
                ha="center", va="center", fontsize=8.5, color=MUTED,
            )  # fmt: skip


@styled
@also_narrow
def multi_head_attention(*, narrow: bool = False) -> Figure:
    """Multi-head attention from the input to the output, with the shape of every matrix.

    The first and the last head are drawn. The sides of the rectangles are proportional to their
    sizes, for four tokens and four heads with two components.
    """
    fig = _multi_head_narrow() if narrow else _multi_head_wide()
    fig.alt = (
        "Multi-head attention as a diagram of matrices, with the first and the last of h heads. The"
        " input X (n, d_model) is multiplied by the matrices of every head: W_i^Q and W_i^K"
        " (d_model, d_k) and W_i^V (d_model, d_v). Attention over the resulting Q_i, K_i and V_i"
        " gives head_i (n, d_v). The h heads side by side are the concatenation (n, h d_v). Its"
        " product with W^O (h d_v, d_model) is the output, which has the shape of the input,"
        " (n, d_model)."
    )
    return fig


ROLES_OF_HEADS = (("Q", QUERY), ("K", KEY), ("V", VALUE))


def _multi_head_wide() -> Figure:
    """The input at the top; concatenation, projection and output in the last row."""
    cell, n, n_heads, d_v = 0.3, 4, 4, 2
    d_model = n_heads * d_v
    half, wide, tall = n * cell / 2, d_v * cell, d_model * cell
    below = 1.9
    y_head = below + 2.3
    y_box = y_head + half + 0.75
    y_w = y_box + 1.1 + tall / 2
    y_bus = y_w + tall / 2 + 0.4
    y_x = y_bus + 0.3 + half
    fig, axes = sheet(11.2, y_x + half + 0.1)

    model = r"d_{\mathrm{model}}"
    matrix(axes, (5.6, y_x), "$X$", MUTED, (n, d_model), cell)
    axes.text(5.7 + tall / 2, y_x, f"$(n, {model})$", va="center", fontsize=10)
    axes.plot((5.6, 5.6), (y_bus, y_bus + 0.3), color=MUTED, lw=1.6)
    axes.plot((1.4, 9.8), (y_bus, y_bus), color=MUTED, lw=1.6)
    axes.text(5.6, y_box, "…", ha="center", va="center", fontsize=14, color=MUTED)
    axes.text(5.6, y_head, "$(n, d_v)$ each", ha="center", va="center", fontsize=10)
    left, between = 1.3, y_head - half - 0.25
    for x, segment, i in ((2.4, left + wide / 2, "1"), (8.8, left + tall - wide / 2, "h")):
        for dx, (name, colour) in enumerate(ROLES_OF_HEADS, start=-1):
            line(axes, (x + dx, y_bus), (x + dx, y_w + tall / 2))
            matrix(axes, (x + dx, y_w), f"$W_{i}^{name}$", colour, (d_model, d_v), cell)
            line(axes, (x + dx, y_w - tall / 2), (x + dx, y_box + 0.3))
            axes.text(x + dx + 0.1, y_box + 0.72, f"${name}_{i}$", va="center", fontsize=10)
        box(axes, (x, y_box), "attention", MUTED, (2.9, 0.6))
        line(axes, (x, y_box - 0.3), (x, y_head + half))
        matrix(axes, (x, y_head), "", VALUE, (n, d_v), cell)
        axes.text(x + wide / 2 + 0.1, y_head, f"head$_{i}$", va="center", fontsize=10)
        path = [(x, y_head - half), (x, between), (segment, between), (segment, below + half)]
        line(axes, *path)
        matrix(axes, (segment, below), f"${i}$", VALUE, (n, d_v), cell)
    concat, middle, last = left + tall / 2, 5.6, 9.1
    matrix(axes, (concat, below), "…", VALUE, (n, d_model - 2 * d_v), cell)
    matrix(axes, (middle, below), "$W^O$", MUTED, (d_model, d_model), cell)
    matrix(axes, (last, below), "output", MUTED, (n, d_model), cell)
    line(axes, (concat + tall / 2, below), (middle - tall / 2, below))
    line(axes, (middle + tall / 2, below), (last - tall / 2, below))
    for at, height, shape in (
        (concat, 2 * half, "concat\n$(n, h d_v)$"),
        (middle, tall, f"$(h d_v, {model})$"),
        (last, 2 * half, f"$(n, {model})$"),
    ):
        axes.text(at, below - height / 2 - 0.15, shape, ha="center", va="top", fontsize=10)
    for dy, names, width in ((0.25, "$W_i^Q$, $W_i^K$", "k"), (-0.25, "$W_i^V$", "v")):
        text = f"{names}: $({model}, d_{width})$"
        axes.text(5.6, y_w + dy, text, ha="center", va="center", fontsize=10)
    return fig


def _multi_head_narrow() -> Figure:
    """As in the wide layout, with the output in a row of its own; units are inches."""
    cell, n, n_heads, d_v = 0.15, 4, 4, 2
    d_model = n_heads * d_v
    half, wide, tall = n * cell / 2, d_v * cell, d_model * cell
    x_1, x_h, x_x = 0.72, 2.64, 1.68
    left, x_o = 0.08, 2.62
    y_out = half + 0.4
    y_concat = y_out + half + tall / 2 + 0.5
    y_head = y_concat + 2 * half + 0.65
    y_box = y_head + half + 0.4
    y_w = y_box + tall / 2 + 0.55
    y_bus = y_w + tall / 2 + 0.25
    y_x = y_bus + half + 0.35
    fig, axes = sheet(NARROW, y_x + half + 0.05, NARROW)

    def write(x: float, y: float, text: str, ha: str = "center") -> None:
        axes.text(x, y, text, ha=ha, va="center", fontsize=9.5, color=INK)

    model = r"d_{\mathrm{model}}"
    matrix(axes, (x_x, y_x), "$X$", MUTED, (n, d_model), cell)
    write(x_x + tall / 2 + 0.07, y_x, f"$(n, {model})$", "left")
    axes.plot((x_x, x_x), (y_bus, y_x - half), color=MUTED, lw=1.6)
    axes.plot((x_1 - 0.47, x_h + 0.47), (y_bus, y_bus), color=MUTED, lw=1.6)
    write(x_x - 0.1, y_bus + 0.17, f"$W_i^Q$, $W_i^K$: $({model}, d_k)$", "right")
    write(x_x + 0.1, y_bus + 0.17, f"$W_i^V$: $({model}, d_v)$", "left")
    axes.text(x_x, y_box, "…", ha="center", va="center", fontsize=12, color=MUTED)
    between = y_head - half - 0.15
    for x, segment, i in ((x_1, left + wide / 2, "1"), (x_h, left + tall - wide / 2, "h")):
        for place, (name, colour) in enumerate(ROLES_OF_HEADS, start=-1):
            at = x + 0.47 * place
            line(axes, (at, y_bus), (at, y_w + tall / 2))
            matrix(axes, (at, y_w), f"$W_{i}^{name}$", colour, (d_model, d_v), cell, 9.5)
            line(axes, (at, y_w - tall / 2), (at, y_box + 0.16))
            write(at + 0.06, y_box + 0.37, f"${name}_{i}$", "left")
        box(axes, (x, y_box), "attention", MUTED, (1.25, 0.32), 9.5)
        line(axes, (x, y_box - 0.16), (x, y_head + half))
        matrix(axes, (x, y_head), "", VALUE, (n, d_v), cell)
        write(x + wide / 2 + 0.06, y_head, f"head$_{i}$", "left")
        path = [(x, y_head - half), (x, between), (segment, between), (segment, y_concat + half)]
        line(axes, *path)
        matrix(axes, (segment, y_concat), f"${i}$", VALUE, (n, d_v), cell, 9.5)
    write(x_x + 0.17, y_head, "$(n, d_v)$ each")
    concat = left + tall / 2
    matrix(axes, (concat, y_concat), "…", VALUE, (n, d_model - 2 * d_v), cell)
    matrix(axes, (x_o, y_concat), "$W^O$", MUTED, (d_model, d_model), cell)
    matrix(axes, (x_o, y_out), "output", MUTED, (n, d_model), cell, 9.5)
    line(axes, (concat + tall / 2, y_concat), (x_o - tall / 2, y_concat))
    line(axes, (x_o, y_concat - tall / 2), (x_o, y_out + half))
    write(concat, y_concat - half - 0.14, "concat")
    write(concat, y_concat - half - 0.33, "$(n, h d_v)$")
    write(x_o - 0.08, y_concat - tall / 2 - 0.22, f"$(h d_v, {model})$", "right")
    write(x_o, y_out - half - 0.15, f"$(n, {model})$")
    return fig


@styled
@also_narrow
def attention_rows(
    words: Sequence[str], rows: Mapping[str, Float[Tensor, "key"]], *, narrow: bool = False
) -> Figure:
    """Several rows of attention weights over the same tokens, by name.

    In the ``narrow`` layout, the names of more than four tokens are rotated.
    """
    turned = narrow and len(words) > 4
    height = 0.55 + 0.5 * turned + 0.55 * len(rows)
    fig, (axes,) = figure(height=height, width=NARROW if narrow else WIDTH)
    grid = torch.stack(list(rows.values()))
    heatmap(axes, grid, row_labels=list(rows), column_labels=list(words), limit=1.0)
    axes.set_aspect("auto")
    axes.xaxis.tick_top()
    if turned:
        axes.tick_params(axis="x", rotation=60)
    _lines_between(axes, len(rows), len(words))
    listed = [f"{name}: {', '.join(f'{float(w):.2f}' for w in row)}" for name, row in rows.items()]
    fig.alt = f"Attention weights over the tokens {', '.join(words)}. " + "; ".join(listed) + "."
    return fig


@styled
def softmax_saturation(
    d_k: Sequence[int],
    entropies: Mapping[str, Sequence[float]],
    gradients: Mapping[str, Sequence[float]],
    keys: int,
) -> Figure:
    """Entropy of the softmax and norm of its Jacobian against the dimension of the keys."""
    fig, (left, right) = figure(1, 2, height=2.9)
    for panel, curves, label_y in (
        (left, entropies, "entropy of the weights (nats)"),
        (right, gradients, "norm of the Jacobian"),
    ):
        for (name, values), colour in zip(curves.items(), (BLUE, ORANGE), strict=True):
            label = name.replace("√d_k", r"$\sqrt{d_k}$")
            panel.plot(d_k, values, "o-", color=colour, label=label, ms=4)
        panel.set_xscale("log", base=2)
        panel.set_xticks(list(d_k), [str(each) for each in d_k])
        panel.set(xlabel="$d_k$", ylabel=label_y)
    left.axhline(math.log(keys), color=MUTED, lw=1, ls=":")
    left.set_ylim(bottom=0)
    right.set_yscale("log")
    right.legend(loc="lower left")
    ends = [
        f"{name}, from {values[0]:.1f} to {values[-1]:.1f}" for name, values in entropies.items()
    ]
    fig.alt = (
        f"Medians over random queries and {keys} keys, as d_k grows from {d_k[0]} to {d_k[-1]}."
        f" Entropy in nats: {'; '.join(ends)}. With the division the norm of the Jacobian is almost"
        " constant; without it, it falls by orders of magnitude."
    )
    return fig


@styled
def mask_panels(
    queries: Sequence[str], keys: Sequence[str], masks: Mapping[str, Bool[Tensor, "query key"]]
) -> Figure:
    """Masks side by side: a filled tile is a key that the query may attend to."""
    fig, axes = figure(1, len(masks), height=2.8)
    for k, (each, (name, mask)) in enumerate(zip(axes, masks.items(), strict=True)):
        each.imshow((mask.float() * 0.62 + 0.04).tolist(), cmap="Blues", vmin=0, vmax=1)
        each.set_xticks(range(len(keys)), list(keys), rotation=90)
        each.set_yticks(range(len(queries)), list(queries) if k == 0 else [""] * len(queries))
        each.tick_params(length=0)
        for spine in each.spines.values():
            spine.set_visible(False)
        _lines_between(each, len(queries), len(keys))
        for i, j in (~mask).nonzero().tolist():
            each.text(j, i, "−∞", ha="center", va="center", fontsize=9, color=MUTED)
        each.set_title(name)
    axes[0].set_ylabel("query")
    axes[0].set_xlabel("key")
    counts = [f"{name} {int(mask.sum())} of {mask.numel()}" for name, mask in masks.items()]
    fig.alt = (
        f"Masks over the tokens {joined(keys)}; pairs that are not masked: {', '.join(counts)}."
    )
    return fig


@styled
@also_narrow
def head_matrices(
    words: Sequence[str],
    queries: Float[Tensor, "heads query d_k"],
    keys: Float[Tensor, "heads key d_k"],
    values: Float[Tensor, "heads key d_v"],
    weights: Float[Tensor, "heads query key"],
    outputs: Float[Tensor, "heads query d_v"],
    *,
    narrow: bool = False,
) -> Figure:
    """Queries, keys, values, attention weights and outputs of each head, one row per head.

    In the ``narrow`` layout, the weights and outputs are below the queries, keys and values.
    """
    n_heads = weights.shape[0]
    if narrow:
        fig, axes = figure(2 * n_heads, 3, height=0.5 + 2.9 * n_heads, width=NARROW)
        for i in range(n_heads):
            axes[6 * i + 5].remove()
    else:
        fig, axes = figure(n_heads, 5, height=0.5 + 1.4 * n_heads, width_ratios=(2, 2, 2, 3, 2))
    labels, blank = list(words), [""] * len(words)
    columns = [str(c) for c in range(queries.shape[-1])]
    for i in range(n_heads):
        row = axes[6 * i : 6 * i + 5] if narrow else axes[5 * i : 5 * i + 5]
        first = labels if narrow else blank
        heatmap(row[0], queries[i], row_labels=labels, column_labels=columns, signed=True, digits=0)
        heatmap(row[1], keys[i], row_labels=blank, column_labels=columns, signed=True, digits=0)
        heatmap(row[2], values[i], row_labels=blank, column_labels=columns, signed=True, digits=0)
        heatmap(row[3], weights[i], row_labels=first, column_labels=labels, limit=1.0)
        heatmap(row[4], outputs[i], row_labels=blank, column_labels=columns, signed=True)
        for each, name in zip(row, ("Q", "K", "V", "A", "Z"), strict=True):
            each.set_title(f"${name}_{i + 1}$")
    most = [[words[j] for j in head.argmax(dim=-1).tolist()] for head in weights]
    listed = [
        f"in head {i} "
        + ", ".join(f"“{a}” attends most to “{b}”" for a, b in zip(words, head, strict=True))
        for i, head in enumerate(most, start=1)
    ]
    fig.alt = (
        f"Queries, keys, values, attention weights and outputs of {n_heads} heads:"
        f" {'; '.join(listed)}."
    )
    return fig


@styled
def head_splits(
    words: Sequence[str], splits: Mapping[str, Int[Tensor, "heads length d_k"]]
) -> Figure:
    """The token from which each component of each head comes, for several ways to split heads."""
    heads = next(iter(splits.values())).shape[0]
    fig, axes = figure(len(splits), heads, height=0.4 + 1.75 * len(splits))
    palette = (SKY, YELLOW, "#9ad9c3", PURPLE, GREEN, ORANGE)
    for row, (name, split) in enumerate(splits.items()):
        for i in range(heads):
            each = axes[row * heads + i]
            length, d_k = split.shape[1:]
            each.set(xlim=(-0.5, d_k - 0.5), ylim=(length - 0.5, -0.5))
            for position in range(length):
                for c in range(d_k):
                    token = int(split[i, position, c])
                    colour = palette[token % len(palette)]
                    each.fill_between(
                        (c - 0.5, c + 0.5), position - 0.5, position + 0.5, color=colour, lw=0
                    )
                    each.text(
                        c, position, words[token], ha="center", va="center", fontsize=9,
                        color=text_colour(colour),
                    )  # fmt: skip
            _lines_between(each, length, d_k)
            each.set_xticks([])
            each.set_yticks(
                range(length), [f"row {p}" for p in range(length)] if i == 0 else [""] * length
            )
            each.tick_params(length=0)
            for spine in each.spines.values():
                spine.set_visible(False)
            each.set_title(f"head {i + 1}" if row == 0 else "")
        axes[row * heads].set_ylabel(name)
    listed = []
    for name, split in splits.items():
        rows = [
            [" and ".join(dict.fromkeys(words[t] for t in r)) for r in h] for h in split.tolist()
        ]
        parts = [f"head {i}: {', '.join(row)}" for i, row in enumerate(rows, start=1)]
        listed.append(f"{name}: {'; '.join(parts)}")
    fig.alt = "Tokens from which the rows of each head come. " + ". ".join(listed) + "."
    return fig
