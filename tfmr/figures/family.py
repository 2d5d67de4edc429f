"""Figures of the model family: architectures, relative positions, and the effects of changes."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import Literal

from jaxtyping import Int
from matplotlib.axes import Axes
from matplotlib.patches import FancyBboxPatch, Rectangle
from torch import Tensor

from tfmr.config import Norm
from tfmr.figures.diagram import Point, line, operation, sheet
from tfmr.figures.narrow import NARROW
from tfmr.figures.palette import SURFACE
from tfmr.figures.style import (
    BLUE,
    GREY,
    GRID,
    INK,
    MUTED,
    ORANGE,
    WIDTH,
    Figure,
    also_narrow,
    figure,
    heatmap,
    minus,
    styled,
)


@dataclass(frozen=True)
class Architecture:
    """What :func:`family_blocks` shows of a model; for an encoder–decoder, of its encoder."""

    name: str
    stacks: Literal["encoder–decoder", "encoder", "decoder"]
    inputs: tuple[str, ...]
    """What the first block, or the norm before it, receives."""
    norm: Norm
    norm_kind: Literal["layer norm", "RMSNorm"]
    mask: Literal["all", "causal"]
    activation: Literal["ReLU", "GELU", "SwiGLU"]
    output: str
    """What the model is trained to predict."""
    extra: str = ""
    """What the scores of the attention also depend on."""
    embedding_norm: bool = False
    """Whether a norm precedes the first block."""


FAMILY = (
    Architecture(
        "Transformer", "encoder–decoder", ("tokens", "+ sinusoidal positions"),
        "post", "layer norm", "all", "ReLU", "translation",
    ),
    Architecture(
        "BERT", "encoder", ("tokens", "+ learned positions", "+ segments"),
        "post", "layer norm", "all", "GELU", "masked tokens", embedding_norm=True,
    ),
    Architecture(
        "GPT-2", "decoder", ("tokens", "+ learned positions"),
        "pre", "layer norm", "causal", "GELU", "next token",
    ),
    Architecture(
        "T5", "encoder–decoder", ("tokens", "no positions added"),
        "pre", "RMSNorm", "all", "ReLU", "removed spans", "relative bias",
    ),
    Architecture(
        "ViT", "encoder", ("patches", "+ class token", "+ learned positions"),
        "pre", "layer norm", "all", "GELU", "image class",
    ),
    Architecture(
        "LLaMA", "decoder", ("tokens", "no positions added"),
        "pre", "RMSNorm", "causal", "SwiGLU", "next token", "rotary positions",
    ),
)  # fmt: skip
"""The Transformer of 2017, and the models of chapter 15."""

NOTE = "* with a causal mask and cross-attention"

# A text, and whether it differs from the first model of FAMILY.
Line = tuple[str, bool]
# Name, height and text of a part of a column.
Element = tuple[str, float, list[Line]]

# Inches. At each resolution of a PNG, the unit and the distance of the columns are whole numbers of
# pixels: equal parts of the columns then have equal pixels, which makes the file much smaller.
UNIT = 1 / 24
SMALL, LINE = 8.5, 3.5 * UNIT
"""Font size in points, and the height of a line of text."""
WIDE, GAP, ASIDE = 20 * UNIT, 3 * UNIT, 1.5 * UNIT
"""Width of a box, length of an arrow, and distance of a residual connection from a box."""
NORM, PLUS, ATTENTION, FEED_FORWARD = 6 * UNIT, 4 * UNIT, 21 * UNIT, 10 * UNIT
"""Heights of the elements of a block."""
TILE = 1.5 * UNIT
BLOCK = ATTENTION + FEED_FORWARD + 2 * (NORM + PLUS) + 8 * GAP
COLUMN = BLOCK + 3 * (NORM + GAP) + 4 * GAP + 7.7 * LINE


def _elements(model: Architecture) -> Iterator[Element]:
    """The parts of a column, from bottom to top; without text, they only take up space."""
    first = FAMILY[0]
    moved = (model.norm, model.norm_kind) != (first.norm, first.norm_kind)
    norm: Element = ("norm", NORM, [(model.norm_kind, moved)])
    added: Element = ("norm", NORM, [(model.norm_kind, True)])
    nothing: Element = ("", NORM + GAP, [])
    yield added if model.embedding_norm else nothing
    yield "block", GAP, []
    mask, activation = model.mask, model.activation
    extra = [(word, model.extra != first.extra) for word in model.extra.split()]
    sublayers = (
        ("attention", ATTENTION, [(mask, mask != first.mask), *extra]),
        ("feed-forward", FEED_FORWARD, [(activation, activation != first.activation)]),
    )
    for name, height, lines in sublayers:
        yield "fork", GAP / 2, []
        if model.norm == "pre":
            yield norm
        yield name, height, [(name, False), *lines]
        yield "+", PLUS, [("+", False)]
        if model.norm == "post":
            yield norm
    yield "", 2 * GAP, []
    yield added if model.norm == "pre" else nothing
    has_decoder = model.stacks == "encoder–decoder"
    yield ("decoder", NORM, [("decoder*", False)]) if has_decoder else nothing


def _column(axes: Axes, centre: float, y: float, model: Architecture) -> None:
    """Draw a model upwards from ``y``."""
    first, x = FAMILY[0], centre - ASIDE / 2
    y += 4 * LINE
    inputs = [(t, text not in first.inputs) for text in model.inputs for t in wrap(text, 13)]
    _write(axes, (centre, y - LINE * (len(inputs) + 0.4) / 2), inputs)
    below = fork = y
    for name, height, lines in _elements(model):
        if not lines:
            if name == "block":
                _frame(axes, (x - WIDE / 2 - UNIT / 2, y + height))
            y = fork = y + height
            continue
        middle = y + GAP + height / 2
        line(axes, (x, below), (x, y + GAP))
        y = below = y + GAP + height
        if name == "+":
            side = x + WIDE / 2 + ASIDE
            line(axes, (x, fork), (side, fork), (side, middle), (x + PLUS / 2, middle), colour=INK)
            operation(axes, (x, middle), "+", 9)
            continue
        new = any(different for _, different in lines)
        corner, style = (x - WIDE / 2, y - height), "round,pad=0,rounding_size=0.04"
        axes.add_patch(
            FancyBboxPatch(
                corner, WIDE, height, boxstyle=style, lw=1.5, zorder=3, facecolor="white",
                edgecolor=ORANGE if new else MUTED,
            )
        )  # fmt: skip
        if name == "attention":
            _attention(axes, (x, middle), lines)
        else:
            _write(axes, (x, middle), lines)
    line(axes, (x, below), (x, y + GAP))
    y += GAP + 0.8 * LINE
    _write(axes, (centre, y), [(model.output, model.output != first.output)])
    y += 1.4 * LINE
    _write(axes, (centre, y), [(model.stacks, model.stacks != first.stacks)])
    axes.text(centre, y + 0.8 * LINE, model.name, ha="center", fontsize=10, weight="bold")


def _frame(axes: Axes, corner: Point) -> None:
    """Draw the background of a block, which is repeated N times."""
    size = (WIDE + ASIDE + 1.5 * UNIT, BLOCK)
    axes.add_patch(Rectangle(corner, *size, facecolor=SURFACE, lw=0, zorder=0))
    axes.text(corner[0], corner[1] + BLOCK + UNIT, "× N", fontsize=SMALL)


def _attention(axes: Axes, centre: Point, lines: Sequence[Line]) -> None:
    """Write the lines of an attention box; beside the mask's name, a tile per query and key."""
    title, (mask, new), *extra = lines
    rows, x = 5 * TILE, centre[0]
    top = centre[1] + (rows + LINE * (1 + len(extra))) / 2
    _write(axes, (x, top - LINE / 2), [title])
    middle = top - LINE - rows / 2
    left = x - (5 * TILE + 0.065 * len(mask)) / 2
    _write(axes, (left + 5 * TILE, middle), [(mask, new)], "left")
    for query in range(4):
        for key in range(4):
            corner, side = (left + key * TILE, middle + (1 - query) * TILE), TILE - UNIT / 4
            colour = GRID if mask == "causal" and key > query else ORANGE if new else MUTED
            axes.add_patch(Rectangle(corner, side, side, lw=0, facecolor=colour, zorder=4))
    _write(axes, (x, top - LINE - rows - LINE * len(extra) / 2), extra)


def _write(axes: Axes, at: Point, lines: Sequence[Line], side: str = "center") -> None:
    """Write lines of text, one below the other, with their centre at ``at``."""
    for i, (text, new) in enumerate(lines):
        axes.text(
            at[0], at[1] + LINE * ((len(lines) - 1) / 2 - i), text, fontsize=SMALL, zorder=4,
            ha=side, va="center_baseline", color=ORANGE if new else INK,
            weight="bold" if new else "normal",
        )  # fmt: skip


@styled
@also_narrow
def family_blocks(*, narrow: bool = False) -> Figure:
    """The architectures of :data:`FAMILY` side by side; the narrow layout has two rows."""
    width, per_row, step = (NARROW, 3, 27 * UNIT) if narrow else (WIDTH, 6, 24 * UNIT)
    rows, foot, apart = len(FAMILY) // per_row, 1.8 * LINE, 2 * LINE
    fig, axes = sheet(width, foot + rows * COLUMN + (rows - 1) * apart, width)
    fig.set_layout_engine("none")  # a margin would change the scale
    axes.set_position((0, 0, 1, 1))
    for i, model in enumerate(FAMILY):
        row, place = divmod(i, per_row)
        x = width / 2 + (place - (per_row - 1) / 2) * step
        _column(axes, x, foot + (rows - 1 - row) * (COLUMN + apart), model)
    axes.text(0.1, 0.3 * LINE, NOTE, fontsize=SMALL)
    fig.alt = (
        "Six architectures, each from bottom to top. "
        + " ".join(map(_described, FAMILY))
        + " The blocks of the decoders have a causal mask and cross-attention. What differs from"
        " the encoder of the Transformer is bold and orange."
    )
    return fig


def _described(model: Architecture) -> str:
    """The column of a model in words."""
    inputs = ", ".join(text.removeprefix("+ ") for text in model.inputs)
    kind, extra = model.norm_kind, model.extra and f", {model.extra}"
    sublayers = [f"attention (mask: {model.mask}{extra})", f"feed-forward ({model.activation})"]
    form = f"{kind}, {{}}, addition" if model.norm == "pre" else f"{{}}, addition, {kind}"
    return (
        f"{model.name}, {model.stacks}: {inputs}; "
        f"{f'{kind}; ' if model.embedding_norm else ''}"
        f"N blocks of {', '.join(map(form.format, sublayers))}; "
        f"{f'{kind}; ' if model.norm == 'pre' else ''}"
        f"{'decoder; ' if model.stacks == 'encoder–decoder' else ''}{model.output}."
    )


@styled
def distance_ranges(ranges: Int[Tensor, "query key"]) -> Figure:
    """The number of the range of each pair's distance, as a matrix."""
    rows, columns = ranges.shape
    fig, (ax,) = figure(height=0.29 * rows + 0.6)
    heatmap(
        ax,
        ranges.tolist(),
        row_labels=[str(i + 1) for i in range(rows)],
        column_labels=[str(j + 1) for j in range(columns)],
        digits=0,
    )
    ax.set(xlabel="position of the key", ylabel="position of the query")
    fig.alt = (
        f"The range of the distance from each of {rows} queries to each of {columns} keys; it is "
        f"constant along every diagonal. First query: {', '.join(map(str, ranges[0].tolist()))}. "
        f"Last query: {', '.join(map(str, ranges[-1].tolist()))}."
    )
    return fig


@styled
@also_narrow
def change_effects(
    effects: Mapping[str, tuple[float, float, float]], baseline: str, *, narrow: bool = False
) -> Figure:
    """The difference of the loss that each change makes, with its confidence interval.

    An interval that contains zero is grey: the sign of the effect is undecided.

    Args:
        effects: by change, the mean and the lower and upper end of its interval, in nats; negative
            is better.
        baseline: what was changed.
        narrow: whether to draw the layout for phones, with the names above the intervals.
    """
    if narrow:
        fig, (ax,) = figure(height=0.42 * len(effects) + 0.7, width=NARROW)
    else:
        fig, (ax,) = figure(height=0.33 * len(effects) + 0.7)
    ax.axvline(0, color=MUTED, lw=1.2, ls="--")
    parts = []
    for row, (name, (middle, low, high)) in enumerate(effects.items()):
        undecided = low <= 0 <= high
        colour = GREY if undecided else BLUE if middle < 0 else ORANGE
        ax.plot([low, high], [row, row], color=colour, lw=2.4, solid_capstyle="round")
        ax.plot([middle], [row], "o", ms=6, color=colour)
        verdict = " (undecided)" if undecided else ""
        numbers = [minus(f"{value:+.3f}") for value in (middle, low, high)]
        parts.append(f"{name} {numbers[0]} [{numbers[1]}, {numbers[2]}]{verdict}")
        if narrow:
            at = ax.get_yaxis_transform()
            ax.text(0.02, row - 0.22, name, transform=at, va="bottom", fontsize=9)
    ax.set_yticks(range(len(effects)), [] if narrow else list(effects))
    ax.set_ylim(len(effects) - 0.5, -0.8 if narrow else -0.5)
    ax.tick_params(axis="y", length=0)
    ax.set_xlabel(f"change in test loss relative to {baseline}\n(nats per token)")
    fig.alt = (
        f"Change in test loss relative to the model with {baseline}, in nats per token:"
        f" {'; '.join(parts)}."
    )
    return fig
