"""Diagrams of the architecture: encoder and decoder blocks, and the connections between them."""

from collections.abc import Mapping, Sequence

from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle
from torch import Tensor

from tfmr.errors import require
from tfmr.figures.diagram import Point, box, line, operation, sheet
from tfmr.figures.narrow import NARROW
from tfmr.figures.palette import DECODER, ENCODER, KEY, QUERY, ROLES, VALUE
from tfmr.figures.style import (
    GREEN,
    INK,
    MUTED,
    ORANGE,
    WIDTH,
    Figure,
    also_narrow,
    figure,
    heatmap,
    styled,
)

BOX_WIDTH = 3.6


def _column(
    axes: Axes,
    x: float,
    bottom: float,
    parts: Sequence[str],
    side: float,
    colour: str,
    width: float = BOX_WIDTH,
    fontsize: int | float = 11,
) -> dict[str, float]:
    """Draw ``parts`` upwards from ``bottom``, with residual connections at a distance of ``side``.

    The sublayers have the ``colour`` of their stack, the layer norms a neutral one. A residual
    connection starts at each ``"fork"`` and ends at the next ``"+"``. Returns the height of each
    part by name (the last of equal names), and that of the end as ``"top"``.
    """
    gap, heights = {"+": 0.87, "fork": 0.56}, {}
    below, y, fork = bottom, bottom, bottom
    for part in parts:
        y += gap.get(part, 0.94)
        if part == "fork":
            fork = y
            continue
        if part == "+":
            line(axes, (x, below), (x, y - 0.26))
            line(
                axes,
                (x, fork),
                (x + side, fork),
                (x + side, y),
                (x + 0.26 * side / abs(side), y),
                colour=INK,
            )
            operation(axes, (x, y), "+")
            below = y + 0.26
        else:
            line(axes, (x, below), (x, y - 0.36))
            own = MUTED if part == "layer norm" else colour
            box(axes, (x, y), part, own, (width, 0.72), fontsize)
            below = y + 0.36
        heights[part] = y
    line(axes, (x, below), (x, y + 0.9))
    return {**heights, "top": y + 0.9}


@styled
@also_narrow
def encoder_block(*, narrow: bool = False) -> Figure:
    """An encoder block with post-norm, as in the paper, and with pre-norm."""
    post = ["fork", "self-attention", "+", "layer norm", "fork", "feed-forward", "+", "layer norm"]
    pre = ["fork", "layer norm", "self-attention", "+", "fork", "layer norm", "feed-forward", "+"]
    fig, axes = sheet(6.0, 9.45, NARROW) if narrow else sheet(11.0, 9.05)
    width, side, fontsize = (2.3, 1.4, 9.5) if narrow else (BOX_WIDTH, 2.1, 11.0)
    paper = "post-norm\n(the paper)" if narrow else "post-norm (the paper)"
    places = (1.22, 4.3) if narrow else (2.4, 7.9)
    for x, title, parts in zip(places, (paper, "pre-norm"), (post, pre), strict=True):
        heights = _column(axes, x, 0.75, parts, side, ENCODER, width, fontsize)
        axes.text(x, 0.4, "(n, d)", ha="center", va="center", fontsize=10)
        axes.text(x + 0.25, heights["top"] - 0.25, "(n, d)", va="center", fontsize=10)
        axes.text(
            x, 9.35 if narrow else 8.75, title,
            ha="center", va="top" if narrow else "center", fontsize=12, weight="bold",
        )  # fmt: skip
    fig.alt = (
        "Two diagrams of an encoder block, from bottom to top. Post-norm, as in the paper:"
        " self-attention, addition, layer norm; feed-forward, addition, layer norm. Pre-norm: layer"
        " norm, self-attention, addition; layer norm, feed-forward, addition. A residual connection"
        " leads around each sublayer to the addition. Input and output have the same shape, (n, d)."
    )
    return fig


@styled
@also_narrow
def decoder_block(*, narrow: bool = False) -> Figure:
    """A post-norm decoder block with its three sublayers and the encoder output."""
    sublayers = ("masked self-attention", "cross-attention", "feed-forward")
    parts = [part for name in sublayers for part in ("fork", name, "+", "layer norm")]
    fig, axes = sheet(6.0, 11.85, NARROW) if narrow else sheet(11.0, 11.85)
    x, side, width, fontsize = (2.05, -1.75, 2.85, 9.5) if narrow else (4.4, -2.2, BOX_WIDTH, 11.0)
    x_memory, size = (5.22, (1.4, 0.9)) if narrow else (9.4, (2.2, 1.1))
    heights = _column(axes, x, 0.75, parts, side, DECODER, width, fontsize)
    axes.text(x, 0.4, "target prefix", ha="center", va="center", fontsize=fontsize)
    axes.text(x + 0.25, heights["top"] - 0.25, "predicts the next token", va="center", fontsize=10)
    cross, own = heights["cross-attention"], heights["masked self-attention"]
    edge, start = x + width / 2, x_memory - size[0] / 2
    box(axes, (x_memory, cross), "encoder\noutput", ENCODER, size, fontsize)
    line(axes, (start, cross), (edge, cross), colour=ENCODER)
    middle = (start + edge) / 2
    axes.text(middle - 0.1, cross + 0.3, "K", ha="right", color=KEY, fontsize=11)
    axes.text(middle + 0.1, cross + 0.3, "V", ha="left", color=VALUE, fontsize=11)
    axes.text(x + 0.2, cross - 0.62, "Q", va="center", color=QUERY, fontsize=11)
    mask = start if narrow else 8.8
    _triangle(axes, (mask, own - 0.6), 0.4)
    line(axes, (mask, own), (edge, own))
    at = (mask + 0.6, own + 0.75) if narrow else ((mask + edge) / 2, own + 0.2)
    axes.text(*at, "causal mask", ha="center", fontsize=10)
    fig.alt = (
        "A decoder block, from bottom to top, with three sublayers, each followed by an addition"
        " and a layer norm: masked self-attention, whose triangular causal mask lets a position"
        " attend only to itself and to earlier positions; cross-attention, whose queries Q come"
        " from the decoder and whose keys K and values V come from the encoder output;"
        " feed-forward. A residual connection leads around each sublayer."
    )
    return fig


def _triangle(axes: Axes, corner: Point, size: float, n: int = 3) -> None:
    """A small causal mask: filled where a query (row) may attend to a key (column)."""
    for row in range(n):
        for column in range(n):
            place = (corner[0] + column * size, corner[1] + (n - 1 - row) * size)
            colour = INK if column <= row else "white"
            axes.add_patch(Rectangle(place, size, size, facecolor=colour, edgecolor=MUTED, lw=0.8))


@styled
@also_narrow
def encoder_decoder_stacks(n_layers: int = 3, *, narrow: bool = False) -> Figure:
    """Both stacks: the output of the last encoder block is an input of every decoder block."""
    height = 1.95 + 1.15 * n_layers
    fig, axes = sheet(6.0, height, NARROW) if narrow else sheet(10.4, height)
    left, right, middle, width, fontsize = (
        (1.3, 4.7, 2.9, 2.45, 9.5) if narrow else (2.1, 8.1, 5.1, 3.6, 11.0)
    )
    heights = [1.6 + 1.15 * level for level in range(n_layers)]
    top = heights[-1]
    for x, name, below in ((left, "encoder", "source"), (right, "decoder", "target prefix")):
        axes.text(x, 0.35, below, ha="center", va="center", fontsize=fontsize + 0.5)
        line(axes, (x, 0.65), (x, heights[0] - 0.36))
        for level, y in enumerate(heights):
            box(axes, (x, y), f"{name} block {level + 1}", ROLES[name], (width, 0.72), fontsize)
            if level:
                line(axes, (x, heights[level - 1] + 0.36), (x, y - 0.36))
    path = ((left, top + 0.36), (left, top + 0.9), (middle, top + 0.9), (middle, heights[0]))
    axes.plot(*zip(*path, strict=True), color=ENCODER, lw=1.6)
    axes.text(
        (left + middle) / 2, top + 1.15, "encoder output",
        ha="center", va="center", color=ENCODER, fontsize=fontsize + 1,
    )  # fmt: skip
    for y in heights:
        line(axes, (middle, y), (right - width / 2, y), colour=ENCODER)
    line(axes, (right, top + 0.36), (right, top + 0.9))
    axes.text(right, top + 1.15, "next token", ha="center", va="center", fontsize=fontsize + 0.5)
    fig.alt = (
        f"Two stacks of {n_layers} blocks. The source passes through the encoder blocks in order."
        f" The output of the last one, the encoder output, is an input of each of the {n_layers}"
        " decoder blocks. The target prefix passes through the decoder blocks, whose output"
        " predicts the next token."
    )
    return fig


@styled
@also_narrow
def right_shift(sentence: Sequence[str], *, narrow: bool = False) -> Figure:
    """Inputs and labels of the decoder for a ``sentence`` from BOS to EOS."""
    inputs, labels = sentence[:-1], sentence[1:]
    step, n = 2.1, len(inputs)
    if narrow:  # the names of the rows are in lines of their own
        fig, axes = sheet(step * (n + 1) + 0.2, 6.8, NARROW)
        first, fontsize, low, names, tall = step / 2 + 0.1, 9.5, 1.2, (0.3, 6.5), 1.2
    else:
        fig, axes = sheet(step * (n + 1) + 1.5, 4.0)
        first, fontsize, low, names, tall = 2.4, 12.0, 0.4, (0.4, 3.55), 0.75
    high = names[1] - 0.9 if narrow else names[1]
    middle = (low + high) / 2
    for y, name in zip(names, ("inputs", "labels"), strict=True):
        axes.text(0.1, y, name, va="center", fontsize=min(11, fontsize), color=MUTED)
    centre = (first + step * (n - 1) / 2, middle)
    box(axes, centre, "decoder", DECODER, (step * (n - 1) + 1.9, tall), min(11, fontsize))
    for position, (token, label) in enumerate(zip(inputs, labels, strict=True)):
        x = first + step * position
        axes.text(x, low, token, ha="center", va="center", fontsize=fontsize)
        axes.text(x, high, label, ha="center", va="center", fontsize=fontsize)
        line(axes, (x, low + 0.35), (x, middle - tall / 2 - 0.02))
        line(axes, (x, middle + tall / 2 + 0.02), (x, high - 0.35))
    end = first + step * n
    axes.text(end, low, sentence[-1], ha="center", va="center", fontsize=fontsize, color=MUTED)
    axes.plot([end - 0.75, end + 0.75], [low, low], color=MUTED, lw=1.6)
    pairs = ", ".join(f"{a} to {b}" for a, b in zip(inputs, labels, strict=True))
    fig.alt = (
        f"Below the decoder, its inputs, {' '.join(inputs)}; above it, the label at each position,"
        f" {' '.join(labels)}: {pairs}. The last token, {sentence[-1]}, is crossed out at the"
        " end of the row of inputs."
    )
    return fig


@styled
@also_narrow
def growing_cache(inputs: Sequence[str], source: int, *, narrow: bool = False) -> Figure:
    """The keys and values in the two caches of a decoder block, with a row for each step.

    The cache of self-attention receives one position per step, drawn filled; the cache of
    cross-attention has all ``source`` positions from the first step on.
    """
    n, m = len(inputs), source
    label, gap = (2.9, 0.7) if narrow else (2.4, 1.2)
    size = 9 if narrow else 10.5
    fig, axes = sheet(label + n + gap + m + 0.2, n + 1.4, NARROW if narrow else WIDTH)
    for step, token in enumerate(inputs):
        low = n - step - 0.9
        axes.text(label - 0.25, low + 0.4, token, ha="right", va="center_baseline", fontsize=size)
        for k in range(step + 1):
            colour, alpha = (ORANGE, 0.9) if k == step else (ORANGE, 0.25)
            axes.add_patch(
                Rectangle((label + k + 0.06, low), 0.88, 0.8, facecolor=colour, alpha=alpha)
            )
        for j in range(m):
            corner = (label + n + gap + j + 0.06, low)
            alpha = 0.25 if step else 0.9
            axes.add_patch(Rectangle(corner, 0.88, 0.8, facecolor=GREEN, alpha=alpha))
    for centre, text in (
        (label + n / 2, "self-attention"),
        (label + n + gap + m / 2, "cross-attention"),
    ):
        axes.text(centre, n + 0.65, text, ha="center", va="center", fontsize=size)
    fig.alt = (
        f"The caches of a decoder block in {n} steps, with the inputs {' '.join(inputs)}. The cache"
        f" of self-attention grows by one position per step, from 1 to {n}. The cache of"
        f" cross-attention has {m} positions from the first step on."
    )
    return fig


@styled
def input_influence(
    panels: Mapping[str, Float[Tensor, "output changed"]],
    *,
    rows: str = "output position",
    columns: str = "changed input position",
) -> Figure:
    """The influence of each input (column) on each output (row), as heat maps.

    Influences are not negative. The colour is the square root of the influence, so that weak ones
    are visible; each panel has its own scale. The alternative text counts the pairs that are not
    exactly 0, a number that does not depend on the machine.

    Raises:
        TfmrError: if ``panels`` is empty.
    """
    require(bool(panels), "input_influence needs at least one matrix to draw: got none")
    widths = [matrix.shape[1] for matrix in panels.values()]
    side = 0.9 * WIDTH / max(sum(widths), 12)
    tallest = max(matrix.shape[0] for matrix in panels.values())
    fig, axes = figure(1, len(panels), height=0.9 + side * tallest, width_ratios=widths)
    for panel, (title, matrix) in zip(axes, panels.items(), strict=True):
        outputs, inputs = ([str(index) for index in range(size)] for size in matrix.shape)
        heatmap(panel, matrix.sqrt(), row_labels=outputs, column_labels=inputs, numbers=False)
        panel.set_title(title)
        for spine in panel.spines.values():
            spine.set(visible=True, color=MUTED)
    fig.supxlabel(columns, fontsize=10)
    fig.supylabel(rows, fontsize=10)
    counts = [f"{title}, {int((m > 0).sum())} of {m.numel()}" for title, m in panels.items()]
    fig.alt = (
        f"Heat maps of the influence of each {columns} on each {rows}. Pairs with influence above"
        f" 0: {'; '.join(counts)}."
    )
    return fig
