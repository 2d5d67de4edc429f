"""Figures of a trained model: attention maps, ablations, logit lens, patching, stream norms."""

from collections.abc import Mapping, Sequence
from itertools import cycle
from textwrap import fill

from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.colors import PowerNorm
from matplotlib.figure import FigureBase
from matplotlib.image import AxesImage
from matplotlib.patheffects import withStroke
from matplotlib.ticker import MaxNLocator
from torch import Tensor

from tfmr.errors import require
from tfmr.figures.narrow import NARROW
from tfmr.figures.palette import ROLES
from tfmr.figures.style import (
    CYCLE,
    GRID,
    HEAT,
    INK,
    MUTED,
    WIDTH,
    Figure,
    also_narrow,
    figure,
    heatmap,
    minus,
    styled,
    text_colour,
)

# The tokens of the queries and of the keys of an attention map.
Tokens = tuple[Sequence[str], Sequence[str]]

WEIGHT_TICKS = (0, 0.1, 0.25, 0.5, 1)
SCALE = "The strength of the colour follows the square root of the weight, from 0 to 1."
HALO = withStroke(linewidth=3.5, foreground="white")
"""Separates a line from the bar behind it."""


@styled
@also_narrow
def head_grid(
    weights: Float[Tensor, "blocks heads query key"],
    labels: Sequence[Sequence[str]] | None = None,
    *,
    attention: str = "attention",
    tokens: Tokens | None = None,
    large: tuple[int, int] = (0, 0),
    narrow: bool = False,
) -> Figure:
    """The attention maps of all heads for one sentence: one row per block, one column per head.

    Args:
        weights: attention weights.
        labels: a title for each head, ``[block][head]``.
        attention: the kind of attention, for the alternative text.
        tokens: the tokens of the sentence; with them, one map is repeated below the others, large
            enough for the names of its rows and columns.
        large: block and head of this map, counted from 0.
        narrow: whether to draw the layout for phones, with the scale below the maps.

    Raises:
        TfmrError: if the numbers of tokens and of weights differ.
    """
    blocks, heads = weights.shape[:2]
    grid_height = 0.45 + blocks * ((2.9 if narrow else 4.6) / heads + (0.3 if labels else 0.1))
    grid_height += 0.6 * narrow
    rows = len(tokens[0]) if tokens else 0
    large_height = 1.1 + 0.2 * rows if tokens else 0.0
    width = NARROW if narrow else WIDTH
    fig = Figure(figsize=(width, grid_height + large_height), layout="constrained")
    heights = [grid_height, large_height] if tokens else [1]
    parts = fig.subfigures(len(heights), 1, squeeze=False, height_ratios=heights)
    panels = list(parts[0, 0].subplots(blocks, heads, squeeze=False).flat)
    for index, axes in enumerate(panels):
        block, head = divmod(index, heads)
        tile = _tile(axes, weights[block, head])
        if labels is not None:
            axes.set_title(labels[block][head], fontsize=9, fontweight="normal", pad=3)
        if head == 0:
            axes.set_ylabel(f"block {block + 1}")
        if block == blocks - 1:
            axes.set_xlabel(f"head {head + 1}")
    _colour_bar(parts[0, 0], tile, panels, below=narrow)
    fig.alt = (
        f"Maps of {attention} for one sentence, {blocks} blocks of {heads} heads. Each map has one "
        f"row per query and one column per key. {SCALE}"
    )
    if labels is not None:
        named = (
            f"block {block + 1}, head {head + 1}: {label}"
            for block, row in enumerate(labels)
            for head, label in enumerate(row)
        )
        fig.alt += f" {'; '.join(named)}.".replace(" block", " Block", 1)
    if tokens is not None:
        axes = parts[1, 0].subplots()
        _tile(axes, weights[large])
        _name_tokens(axes, weights[large], tokens)
        name = f"block {large[0] + 1}, head {large[1] + 1}"
        axes.set_title(name)
        fig.alt += (
            f" The map of {name} is repeated with the query tokens “{' '.join(tokens[0])}” and the"
            f" key tokens “{' '.join(tokens[1])}”."
        )
    return fig


def _tile(axes: Axes, weights: Float[Tensor, "query key"]) -> AxesImage:
    """One attention map without ticks, in a thin frame.

    With a linear scale, uniform attention to twenty keys would be almost white: its weights are
    0.05. The square root leaves the order of the weights and makes small ones visible.
    """
    tile = axes.imshow(
        weights.tolist(), cmap=HEAT, norm=PowerNorm(0.5, vmin=0, vmax=1), aspect="auto"
    )
    axes.set_xticks([])
    axes.set_yticks([])
    for spine in axes.spines.values():
        spine.set_visible(True)
        spine.set_color(GRID)
    return tile


def _colour_bar(
    fig: FigureBase, tile: AxesImage, panels: Sequence[Axes], *, below: bool = False
) -> None:
    """The scale of all attention maps, on the right of ``panels`` or ``below`` them."""
    labels = [f"{tick:g}" for tick in WEIGHT_TICKS]
    bar = fig.colorbar(
        tile, ax=list(panels), ticks=WEIGHT_TICKS, pad=0.02, aspect=24,
        location="bottom" if below else "right",
    )  # fmt: skip
    bar.set_ticklabels(labels)
    bar.set_label("attention weight")
    bar.outline.set_visible(False)


def _name_tokens(axes: Axes, weights: Float[Tensor, "query key"], tokens: Tokens) -> None:
    """Label the rows and columns of an attention map with their tokens."""
    queries, keys = tokens
    require(
        (len(queries), len(keys)) == tuple(weights.shape),
        f"an attention map of {weights.shape[0]} queries and {weights.shape[1]} keys needs as many "
        f"tokens: got {len(queries)} and {len(keys)}",
    )
    axes.set_yticks(range(len(queries)), list(queries))
    axes.set_xticks(range(len(keys)), list(keys), rotation=90)
    axes.tick_params(length=0)


@styled
@also_narrow
def attention_maps(
    maps: Mapping[str, Float[Tensor, "query key"]],
    tokens: Mapping[str, Tokens] | None = None,
    *,
    narrow: bool = False,
) -> Figure:
    """A few attention maps side by side; rows are queries, columns are keys.

    Args:
        maps: attention weights, by title.
        tokens: the tokens of each map, by title.
        narrow: whether to draw the layout for phones, with the maps below each other.

    Raises:
        TfmrError: if the numbers of tokens and of weights differ.
    """
    rows = max(len(weights) for weights in maps.values())
    if narrow:
        height = 1.3 + 0.19 * rows if tokens else 2.9
        fig, panels = figure(len(maps), 1, height=height * len(maps) + 0.6, width=NARROW)
    else:
        height = 1.4 + 0.19 * rows if tokens else 0.5 + 5.5 / len(maps)
        fig, panels = figure(1, len(maps), height=height)
    for axes, (name, weights) in zip(panels, maps.items(), strict=True):
        tile = _tile(axes, weights)
        if tokens:
            _name_tokens(axes, weights, tokens[name])
        axes.set_title(fill(name, 25 if narrow else 50 // len(maps)))
        axes.set_xlabel("key")
    for axes in panels if narrow else panels[:1]:
        axes.set_ylabel("query")
    _colour_bar(fig, tile, panels, below=narrow)
    fig.alt = (
        f"Attention maps of one sentence, with one row per query and one column per key:"
        f" {'; '.join(maps)}. {SCALE}"
    )
    return fig


@styled
def head_ablation(
    lost: Mapping[str, Sequence[Sequence[int | float]]],
    change: str,
    *,
    digits: int = 1,
    half_widths: Mapping[str, Sequence[Sequence[int | float]]] | None = None,
) -> Figure:
    """The loss of quality when a single head is ablated, with a panel per kind of attention.

    Blue is a loss; orange is a gain, where the model is better without the head.

    Args:
        lost: by kind of attention, ``[block][head]``.
        change: what the numbers are, as "Decrease in BLEU"; the alternative text begins with it.
        digits: decimal places.
        half_widths: half the width of the interval of each value, as ``lost``; written below it.
    """
    fig, panels = figure(1, len(lost), height=0.95 + 2.0 / len(lost) + 0.18 * _blocks(lost))
    largest = max(abs(value) for rows in lost.values() for row in rows for value in row)
    for axes, (kind, rows) in zip(panels, lost.items(), strict=True):
        heatmap(
            axes, rows,
            row_labels=[f"{block + 1}" for block in range(len(rows))],
            column_labels=[f"{head + 1}" for head in range(len(rows[0]))],
            signed=True, digits=digits, limit=largest,
        )  # fmt: skip
        widths = [width for row in half_widths[kind] for width in row] if half_widths else []
        for text, half in zip(axes.texts, widths, strict=bool(widths)):
            text.set_text(f"{text.get_text()}\n±{half:.{digits}f}")
        axes.set_title(kind)
        axes.set_xlabel("head")
    panels[0].set_ylabel("block")
    listed = ". ".join(
        f"{kind.capitalize()}: "
        + "; ".join(
            f"block {block + 1}: "
            + ", ".join(
                minus(f"{value:.{digits}f}")
                + (f" ±{half_widths[kind][block][head]:.{digits}f}" if half_widths else "")
                for head, value in enumerate(row)
            )
            for block, row in enumerate(rows)
        )
        for kind, rows in lost.items()
    )
    fig.alt = f"{change} when one head is ablated. {listed}."
    return fig


def _blocks(lost: Mapping[str, Sequence[Sequence[int | float]]]) -> int:
    return max(len(rows) for rows in lost.values())


@styled
@also_narrow
def sublayer_ablation(
    lost: Mapping[str, Mapping[str, int | float]],
    unit: str,
    *,
    digits: int = 1,
    intervals: Mapping[str, Mapping[str, tuple[float, float]]] | None = None,
    narrow: bool = False,
) -> Figure:
    """Bars of the loss of quality when a sublayer is ablated, coloured by group.

    A group that is named after a role, such as the encoder, has the hue of the role.

    The axis is broken if one bar is more than twice as long as all others, which would be hard to
    compare beside it.

    Args:
        lost: by group and name of the sublayer.
        unit: unit of the loss.
        digits: decimal places.
        intervals: lower and upper end of the interval of each value, as ``lost``.
        narrow: whether to draw the layout for phones.
    """
    parts = [(group, name, value) for group, named in lost.items() for name, value in named.items()]
    ranges = [
        intervals[group][name] if intervals else (value, value) for group, name, value in parts
    ]
    *_, (_, second), (start, end) = [(0.0, 0.0), *sorted(ranges, key=lambda ends: ends[1])]
    lowest = min(0.0, *(low for low, _ in ranges))
    broken = second > 0 and start > 2 * second - lowest
    span = (second if broken else max(end, 0.0)) - lowest
    gap, room = (0.06, 0.36) if narrow else (0.03, 0.2)  # for the number
    limits = [(lowest - 0.04 * span, lowest + (room + 0.95) * span)]
    if broken:
        # The same scale on both sides of the break.
        limits.append((start - 0.1 * span, end + room * span))
    fig, panels = figure(
        1, len(limits), height=0.6 + 0.25 * len(parts), width=NARROW if narrow else WIDTH,
        sharey=True, width_ratios=[right - left for left, right in limits],
    )  # fmt: skip
    axes = panels[0]
    hues = {group: ROLES.get(group, hue) for group, hue in zip(lost, cycle(CYCLE), strict=False)}
    for place, ((group, _, value), (low, high)) in enumerate(zip(parts, ranges, strict=True)):
        for panel in panels:
            panel.barh(place, value, color=hues[group], height=0.7)
            if intervals:
                panel.plot((low, high), (place, place), color=INK, lw=1.4, path_effects=[HALO])
        panels[-1 if high == end else 0].text(
            max(high, 0) + gap * span, place, minus(f"{value:.{digits}f}"),
            va="center", fontsize=9,
        )  # fmt: skip
    axes.set_yticks(range(len(parts)), [f"{group}, {name}" for group, name, _ in parts])
    axes.invert_yaxis()
    axes.axvline(0, color=MUTED, linewidth=1)
    for panel, ends in zip(panels, limits, strict=True):
        panel.set_xlim(ends)
        panel.tick_params(axis="y", length=0)
        panel.spines["left"].set_visible(False)
    if broken:
        panels[1].xaxis.set_major_locator(MaxNLocator(2, integer=True))
        for panel, x in zip(panels, (1, 0), strict=True):
            panel.plot(
                x, 0, marker=[(-1, -1.4), (1, 1.4)], ms=9, mew=1.2, color=MUTED,
                transform=panel.transAxes, clip_on=False,
            )  # fmt: skip
    fig.supxlabel(f"{unit} lost", fontsize=10)
    listed = "; ".join(
        f"{group}, {name}: {minus(f'{value:.{digits}f}')}"
        + (f" (from {minus(f'{low:.{digits}f}')} to {high:.{digits}f})" if intervals else "")
        for (group, name, value), (low, high) in zip(parts, ranges, strict=True)
    )
    fig.alt = f"Bars of the {unit} lost when a sublayer is ablated: {listed}."
    if broken:
        fig.alt += " The horizontal axis is broken inside the longest bar."
    return fig


def _depths(number: int) -> list[str]:
    """Names of the residual stream of a stack: before its first block and after each block."""
    return ["embeddings", *(f"block {block}" for block in range(1, number))]


@styled
@also_narrow
def lens_table(
    inputs: Sequence[str],
    predicted: Sequence[Sequence[str]],
    probabilities: Float[Tensor, "position depth"],
    *,
    narrow: bool = False,
) -> Figure:
    """The logit lens for one sentence: the most probable token at each depth of the decoder.

    One row per position and one column per depth. A token that agrees with the last column is bold.
    In the ``narrow`` layout, the probability is below the token.

    Args:
        inputs: the input token of each position.
        predicted: the most probable tokens, ``[position][depth]``.
        probabilities: their probabilities.

    Raises:
        TfmrError: if the numbers of tokens and of probabilities differ.
    """
    positions, n_depths = probabilities.shape
    require(
        [len(inputs), len(predicted)] == [positions, positions]
        and all(len(row) == n_depths for row in predicted),
        f"probabilities of {positions} positions and {n_depths} depths need as many tokens: got "
        f"{len(inputs)} input tokens and {[len(row) for row in predicted]} predicted ones",
    )
    row_height, between = (0.4, "\n") if narrow else (0.27, "  ")
    fig, (axes,) = figure(height=0.55 + row_height * positions, width=NARROW if narrow else WIDTH)
    axes.imshow(probabilities.tolist(), cmap=HEAT, vmin=0, vmax=1, aspect="auto")
    for position, row in enumerate(predicted):
        for depth, token in enumerate(row):
            probability = float(probabilities[position, depth])
            axes.text(
                depth, position, f"{token}{between}{probability:.2f}",
                ha="center", va="center", fontsize=9,
                fontweight="bold" if token == row[-1] else "normal",
                color=text_colour(HEAT(probability)),
            )  # fmt: skip
    # The first name is wider than a column of the narrow layout.
    names = [name.replace("embeddings", "embed-\ndings") for name in _depths(n_depths)]
    axes.set_xticks(range(n_depths), names if narrow else _depths(n_depths))
    axes.xaxis.tick_top()
    axes.set_yticks(range(positions), list(inputs))
    axes.set_ylabel("input token")
    axes.tick_params(length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)
    listed = "; ".join(
        f"{token}: " + ", ".join(f"{p} {float(q):.2f}" for p, q in zip(row, values, strict=True))
        for token, row, values in zip(inputs, predicted, probabilities, strict=True)
    )
    fig.alt = (
        f"The most probable next token and its probability, for each input token, at the depths"
        f" {', '.join(_depths(n_depths))}. {listed}."
    )
    return fig


@styled
def patching_effects(
    effects: Mapping[str, Float[Tensor, "depth position"]], tokens: Mapping[str, Sequence[str]]
) -> Figure:
    """The effect of patching the residual stream at one position and depth, a panel per stack.

    Args:
        effects: by stack, the restored fraction of the logit difference: 0 for no effect, 1 for the
            prediction of the other sentence.
        tokens: the token of each position, by stack.

    Raises:
        TfmrError: if the numbers of tokens and of positions differ.
    """
    columns = {stack: values.shape[1] for stack, values in effects.items()}
    given = {stack: len(tokens[stack]) for stack in effects}
    require(columns == given, f"expected as many tokens as positions, {columns}: got {given}")
    n_depths = max(len(values) for values in effects.values())
    fig, panels = figure(
        1, len(effects), height=1.3 + 0.4 * n_depths, width_ratios=list(columns.values()),
        gridspec_kw={"wspace": 0.1},
    )  # fmt: skip
    for index, (axes, (stack, values)) in enumerate(zip(panels, effects.items(), strict=True)):
        heatmap(
            axes, values.tolist(),
            row_labels=[] if index else _depths(len(values)),
            column_labels=list(tokens[stack]), limit=1.0,
        )  # fmt: skip
        axes.set_aspect("auto")
        axes.tick_params(axis="x", rotation=90)
        axes.set_title(stack)
    listed = "; ".join(
        f"{stack}, {depth}: "
        + ", ".join(
            f"{token} {minus(f'{float(value):.2f}')}"
            for token, value in zip(tokens[stack], row, strict=True)
        )
        for stack, values in effects.items()
        for depth, row in zip(_depths(len(values)), values, strict=True)
    )
    fig.alt = (
        "Fraction of the logit difference restored by patching one position. "
        f"{listed[0].upper()}{listed[1:]}."
    )
    return fig
