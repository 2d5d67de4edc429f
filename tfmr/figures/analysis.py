"""Figures of a trained model: attention maps of its heads, ablations, residual stream norms."""

from collections.abc import Mapping, Sequence
from itertools import cycle

from jaxtyping import Float
from matplotlib.axes import Axes
from torch import Tensor

from tfmr.errors import require
from tfmr.figures.style import (
    BLUE,
    CYCLE,
    GRID,
    HEAT,
    MUTED,
    ORANGE,
    Figure,
    figure,
    heatmap,
    styled,
)


@styled
def head_grid(
    weights: Float[Tensor, "layers heads query key"],
    labels: Sequence[Sequence[str]] | None = None,
    *,
    attention: str = "attention",
) -> Figure:
    """The attention maps of all heads for one sentence: one row per layer, one column per head.

    Args:
        weights: attention weights.
        labels: a title for each head, ``[layer][head]``.
        attention: the kind of attention, for the alternative text.
    """
    layers, heads = weights.shape[:2]
    height = 0.45 + layers * (5.5 / heads + (0.3 if labels else 0.1))
    fig, panels = figure(layers, heads, height=height)
    for index, axes in enumerate(panels):
        layer, head = divmod(index, heads)
        _tile(axes, weights[layer, head])
        if labels is not None:
            axes.set_title(labels[layer][head], fontsize=9, fontweight="normal", pad=3)
        if head == 0:
            axes.set_ylabel(f"layer {layer + 1}")
        if layer == layers - 1:
            axes.set_xlabel(f"head {head + 1}")
    listed = ""
    if labels is not None:
        named = (
            f"layer {layer + 1} head {head + 1} {label}"
            for layer, row in enumerate(labels)
            for head, label in enumerate(row)
        )
        listed = f" {', '.join(named)}.".replace(" layer", " Layer", 1)
    fig.alt = (
        f"Maps of {attention} for one sentence, {layers} layers of {heads} heads. Each map has one "
        f"row per query and one column per key; darker is a larger weight.{listed}"
    )
    return fig


def _tile(axes: Axes, weights: Float[Tensor, "query key"]) -> None:
    """One attention map without ticks, in a thin frame."""
    axes.imshow(weights.tolist(), cmap=HEAT, vmin=0.0, vmax=1.0, aspect="auto")
    axes.set_xticks([])
    axes.set_yticks([])
    for spine in axes.spines.values():
        spine.set_visible(True)
        spine.set_color(GRID)


@styled
def attention_maps(maps: Mapping[str, Float[Tensor, "query key"]]) -> Figure:
    """A few attention maps of one sentence side by side; rows are queries, columns are keys."""
    fig, panels = figure(1, len(maps), height=0.5 + 5.5 / len(maps))
    for axes, (name, weights) in zip(panels, maps.items(), strict=True):
        _tile(axes, weights)
        axes.set_title(name)
        axes.set_xlabel("key")
    panels[0].set_ylabel("query")
    fig.alt = (
        f"Attention maps of one sentence, with one row per query and one column per key; darker is "
        f"a larger weight: {', '.join(maps)}."
    )
    return fig


@styled
def head_ablation(
    lost: Mapping[str, Sequence[Sequence[int | float]]], unit: str, *, digits: int = 1
) -> Figure:
    """The loss of quality when a single head is ablated, with a panel per kind of attention.

    Blue is a loss; orange is a gain, where the model is better without the head.

    Args:
        lost: by kind of attention, ``[layer][head]``.
        unit: unit of the loss.
        digits: decimal places.
    """
    fig, panels = figure(1, len(lost), height=0.95 + 2.0 / len(lost) + 0.18 * _layers(lost))
    largest = max(abs(value) for rows in lost.values() for row in rows for value in row)
    for axes, (kind, rows) in zip(panels, lost.items(), strict=True):
        heatmap(
            axes, rows,
            row_labels=[f"{layer + 1}" for layer in range(len(rows))],
            column_labels=[f"{head + 1}" for head in range(len(rows[0]))],
            signed=True, digits=digits, limit=largest,
        )  # fmt: skip
        for text in axes.texts:
            text.set_text(_minus(text.get_text()))
        axes.set_title(kind)
        axes.set_xlabel("head")
    panels[0].set_ylabel("layer")
    listed = "; ".join(
        f"{kind}: "
        + ", ".join(
            f"layer {layer + 1} " + " ".join(_minus(f"{value:.{digits}f}") for value in row)
            for layer, row in enumerate(rows)
        )
        for kind, rows in lost.items()
    )
    fig.alt = f"{unit} lost when one head is ablated. {listed}."
    return fig


def _layers(lost: Mapping[str, Sequence[Sequence[int | float]]]) -> int:
    return max(len(rows) for rows in lost.values())


def _minus(number: str) -> str:
    """The ``number`` with a typographic minus sign, and without a sign if it is zero."""
    return number.replace("-", "−") if float(number) else number.removeprefix("-")


@styled
def sublayer_ablation(
    lost: Mapping[str, Mapping[str, int | float]], unit: str, *, digits: int = 1
) -> Figure:
    """Bars of the loss of quality when a sublayer is ablated, coloured by group.

    Args:
        lost: by group and name of the sublayer.
        unit: unit of the loss.
        digits: decimal places.
    """
    parts = [(group, name, value) for group, named in lost.items() for name, value in named.items()]
    fig, (axes,) = figure(height=0.6 + 0.25 * len(parts))
    colours = dict(zip(lost, cycle(CYCLE), strict=False))
    largest = max(abs(value) for _, _, value in parts)
    for place, (group, _, value) in enumerate(parts):
        axes.barh(place, value, color=colours[group], height=0.7)
        axes.text(
            max(value, 0) + 0.012 * largest, place,
            _minus(f"{value:.{digits}f}"), va="center", fontsize=9,
        )  # fmt: skip
    axes.set_yticks(range(len(parts)), [f"{group}, {name}" for group, name, _ in parts])
    axes.invert_yaxis()
    axes.tick_params(axis="y", length=0)
    axes.axvline(0, color=MUTED, linewidth=1)
    axes.spines["left"].set_visible(False)
    axes.set_xlabel(f"{unit} lost")
    axes.set_xlim(right=largest * 1.12)
    listed = ", ".join(
        f"{group} {name} {_minus(f'{value:.{digits}f}')}" for group, name, value in parts
    )
    fig.alt = f"Bars of the {unit} lost when a sublayer is ablated: {listed}."
    return fig


@styled
def residual_stream_norms(
    names: Sequence[str], norms: Sequence[int | float], added: Sequence[int | float]
) -> Figure:
    """Mean norms of the residual stream after each sublayer, and of the sublayer outputs.

    Args:
        names: the sublayers, in order.
        norms: norms of the residual stream: of the embeddings, then after each sublayer.
        added: norms of the sublayer outputs.

    Raises:
        TfmrError: if the numbers of names and values do not match.
    """
    require(
        len(norms) == len(names) + 1 and len(added) == len(names),
        f"{len(names)} sublayers need {len(names) + 1} norms of the stream and {len(names)} of "
        f"sublayer outputs: got {len(norms)} and {len(added)}",
    )
    fig, (axes,) = figure(height=2.7)
    axes.bar(
        range(1, len(names) + 1), list(added), color=ORANGE, width=0.55, label="sublayer output"
    )
    axes.plot(
        range(len(norms)), list(norms), "o-", color=BLUE, markersize=4, label="residual stream"
    )
    axes.set_xticks(range(len(norms)), ["embedding", *names], rotation=40, ha="right")
    axes.set_ylabel("mean norm")
    axes.set_ylim(bottom=0)
    axes.legend(loc="upper left")
    listed = ", ".join(
        f"{name} output {output:.1f}, stream {norm:.1f}"
        for name, output, norm in zip(names, added, norms[1:], strict=True)
    )
    fig.alt = f"Mean norm of the residual stream: {norms[0]:.1f} for the embedding; {listed}."
    return fig
