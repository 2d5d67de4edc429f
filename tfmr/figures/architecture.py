"""Pictures of the architecture: both kinds of block, the flow between them, who reads whom."""

from collections.abc import Mapping, Sequence

from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle
from torch import Tensor

from tfmr.errors import require
from tfmr.figures.diagram import Point, box, line, operation, sheet
from tfmr.figures.style import (
    BLUE,
    GREEN,
    MUTED,
    ORANGE,
    PURPLE,
    WIDTH,
    Figure,
    figure,
    heatmap,
    styled,
)

SUBLAYER = {"self-attention": BLUE, "cross-attention": ORANGE, "feed-forward": GREEN, "norm": MUTED}
"""One colour for each kind of part, the same in every picture."""


def _column(
    axes: Axes, x: float, bottom: float, parts: Sequence[str], side: float
) -> dict[str, float]:
    """Draw ``parts`` upwards from ``bottom``, with the residual paths at a distance of ``side``.

    A residual path leaves where ``"fork"`` stands and joins at the next ``"+"``. Returns the height
    of each part by name (of the last, if there are two of a name), and of the end as ``"top"``.
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
                colour=PURPLE,
            )
            operation(axes, (x, y), "+")
            below = y + 0.26
        else:
            line(axes, (x, below), (x, y - 0.36))
            kind = next(name for name in SUBLAYER if name in part)
            box(axes, (x, y), part, SUBLAYER[kind], (3.1, 0.72))
            below = y + 0.36
        heights[part] = y
    line(axes, (x, below), (x, y + 0.9))
    return {**heights, "top": y + 0.9}


@styled
def encoder_block() -> Figure:
    """An encoder block twice: with its norms where the paper has them, and before each sublayer."""
    post = ["fork", "self-attention", "+", "norm", "fork", "feed-forward", "+", "norm"]
    pre = ["fork", "norm", "self-attention", "+", "fork", "norm", "feed-forward", "+"]
    made, axes = sheet(10.4, 9.05)
    for x, title, parts in ((2.2, "post-norm (the paper)", post), (7.6, "pre-norm", pre)):
        heights = _column(axes, x, 0.75, parts, side=2.1)
        axes.text(x, 0.4, "(n, d)", ha="center", va="center", fontsize=11)
        axes.text(x + 0.25, heights["top"] - 0.25, "(n, d)", va="center", fontsize=11)
        axes.text(x, 8.75, title, ha="center", va="center", fontsize=12, weight="bold")
    made.alt = (
        "An encoder block drawn twice, from below upwards. Post-norm, as in the paper:"
        " self-attention, add the block's input, norm; feed-forward, add its input, norm. Pre-norm:"
        " norm, self-attention, add; norm, feed-forward, add. A purple residual path runs beside"
        " each sublayer to the addition. What goes in and what comes out have one shape, (n, d)."
    )
    return made


@styled
def decoder_block() -> Figure:
    """One post-norm decoder block: three sublayers, of which the second reads the memory."""
    parts = ["fork", "self-attention", "+", "norm", "fork", "cross-attention", "+", "norm"]
    parts += ["fork", "feed-forward", "+", "norm"]
    made, axes = sheet(10.4, 11.85)
    x = 4.1
    heights = _column(axes, x, 0.75, parts, side=-2.2)
    axes.text(x, 0.4, "target so far", ha="center", va="center", fontsize=11.5)
    axes.text(x + 0.25, heights["top"] - 0.25, "predicts the next word", va="center", fontsize=11)
    look, back = heights["cross-attention"], heights["self-attention"]
    box(axes, (8.9, look), "memory", ORANGE, (2.2, 1.1))
    line(axes, (7.8, look), (x + 1.55, look), colour=ORANGE)
    axes.text((7.8 + x + 1.55) / 2, look + 0.3, "K, V", ha="center", color=ORANGE, fontsize=12)
    axes.text(x + 0.2, look - 0.62, "Q", va="center", color=ORANGE, fontsize=12)
    axes.text(8.9, look - 0.95, "from the encoder", ha="center", fontsize=10.5)
    _triangle(axes, (6.6, back - 0.6), 0.4)
    axes.text(8.1, back, "mask: only\nwhat was said", va="center", fontsize=10.5)
    made.alt = (
        "A decoder block, from below upwards, with three sublayers, each followed by an addition"
        " and a norm: self-attention under a triangular mask, so that a position reads only itself"
        " and what was said before; cross-attention, whose queries Q come from the decoder and"
        " whose keys K and values V come from the encoder's memory; feed-forward. A residual path"
        " runs beside each."
    )
    return made


def _triangle(axes: Axes, corner: Point, size: float, n: int = 3) -> None:
    """A small causal mask: filled where a row may read a column."""
    for row in range(n):
        for column in range(n):
            place = (corner[0] + column * size, corner[1] + (n - 1 - row) * size)
            colour = BLUE if column <= row else "white"
            axes.add_patch(Rectangle(place, size, size, facecolor=colour, edgecolor=MUTED, lw=0.8))


@styled
def data_flow(n_layers: int = 3) -> Figure:
    """Both stacks: what leaves the last encoder block goes to every decoder block."""
    made, axes = sheet(10.4, 1.95 + 1.15 * n_layers)
    left, right, middle = 2.1, 8.1, 5.1
    heights = [1.6 + 1.15 * level for level in range(n_layers)]
    top = heights[-1]
    for x, name, below in ((left, "encoder", "source"), (right, "decoder", "target so far")):
        axes.text(x, 0.35, below, ha="center", va="center", fontsize=11.5)
        line(axes, (x, 0.65), (x, heights[0] - 0.36))
        for level, y in enumerate(heights):
            box(
                axes, (x, y), f"{name} block {level + 1}", BLUE if x == left else GREEN, (3.6, 0.72)
            )
            if level:
                line(axes, (x, heights[level - 1] + 0.36), (x, y - 0.36))
    path = ((left, top + 0.36), (left, top + 0.9), (middle, top + 0.9), (middle, heights[0]))
    axes.plot(*zip(*path, strict=True), color=ORANGE, lw=1.6)
    axes.text((left + middle) / 2, top + 1.15, "memory", ha="center", color=ORANGE, fontsize=12)
    for y in heights:
        line(axes, (middle, y), (right - 1.8, y), colour=ORANGE)
    line(axes, (right, top + 0.36), (right, top + 0.9))
    axes.text(right, top + 1.15, "next word", ha="center", va="center", fontsize=11.5)
    made.alt = (
        f"Two stacks of {n_layers} blocks. The source runs up the encoder, block after block."
        f" What leaves the last one, the memory, goes to each of the {n_layers} decoder blocks."
        " The target so far runs up the decoder and becomes a prediction of the next word."
    )
    return made


@styled
def right_shift(sentence: Sequence[str]) -> Figure:
    """What the decoder is given and what it must say, for a ``sentence`` from BOS to EOS."""
    inputs, labels = sentence[:-1], sentence[1:]
    step, n = 2.1, len(inputs)
    made, axes = sheet(step * (n + 1) + 1.5, 4.0)
    for y, name in ((0.4, "given"), (3.55, "to say")):
        axes.text(0.1, y, name, va="center", fontsize=11, color=MUTED)
    first = 2.4
    box(axes, (first + step * (n - 1) / 2, 2.0), "decoder", BLUE, (step * (n - 1) + 1.9, 0.75))
    for position, (given, wanted) in enumerate(zip(inputs, labels, strict=True)):
        x = first + step * position
        axes.text(x, 0.4, given, ha="center", va="center", fontsize=12)
        axes.text(x, 3.55, wanted, ha="center", va="center", fontsize=12, color=ORANGE)
        line(axes, (x, 0.75), (x, 1.6))
        line(axes, (x, 2.4), (x, 3.2), colour=ORANGE)
    end = first + step * n
    axes.text(end, 0.4, sentence[-1], ha="center", va="center", fontsize=12, color=MUTED)
    axes.plot([end - 0.75, end + 0.75], [0.4, 0.4], color=MUTED, lw=1.6)
    pairs = ", ".join(f"{a} to {b}" for a, b in zip(inputs, labels, strict=True))
    made.alt = (
        f"Under the decoder stands what it is given, {' '.join(inputs)}; above it what it must say"
        f" at each position, {' '.join(labels)}: {pairs}. The last, {sentence[-1]}, is crossed"
        " out of the input."
    )
    return made


@styled
def influence(
    panels: Mapping[str, Float[Tensor, "read changed"]],
    *,
    rows: str = "output position",
    columns: str = "changed input position",
) -> Figure:
    """How far each output (row) moves when one input (column) is changed; no influence is negative.

    The colour is the square root of the influence, so that weak ones show, and each panel is scaled
    by its own largest. The description counts the pairs that are not exactly 0, which is the same
    on every machine.

    Raises:
        TfmrError: if there is no panel.
    """
    require(bool(panels), "give at least one matrix of influences to draw")
    widths = [matrix.shape[1] for matrix in panels.values()]
    side = 0.9 * WIDTH / max(sum(widths), 12)
    tallest = max(matrix.shape[0] for matrix in panels.values())
    made, axes = figure(1, len(panels), height=0.9 + side * tallest, width_ratios=widths)
    for place, (title, matrix) in zip(axes, panels.items(), strict=True):
        read, changed = ([str(index) for index in range(size)] for size in matrix.shape)
        heatmap(place, matrix.sqrt(), row_labels=read, column_labels=changed, numbers=False)
        place.set_title(title)
        for spine in place.spines.values():
            spine.set(visible=True, color=MUTED)
    made.supxlabel(columns, fontsize=10)
    made.supylabel(rows, fontsize=10)
    counts = [f"{title}, {int((m > 0).sum())} of {m.numel()}" for title, m in panels.items()]
    made.alt = f"Pairs of {rows} and {columns} with any influence: {'; '.join(counts)}."
    return made
