"""Figures of recurrent encoder-decoders: attention, and quality against sentence length."""

from collections.abc import Mapping, Sequence
from itertools import cycle, pairwise
from statistics import fmean

from matplotlib.axes import Axes

from tfmr.errors import require
from tfmr.figures.diagram import box, line, operation, sheet
from tfmr.figures.narrow import NARROW
from tfmr.figures.palette import DECODER, ENCODER
from tfmr.figures.style import CYCLE, INK, ORANGE, WIDTH, Figure, also_narrow, figure, styled
from tfmr.wording import joined

STEP = 1.7
SIZE = (1.3, 0.8)


def _row(axes: Axes, words: Sequence[str], left: float, height: float, colour: str) -> list[float]:
    """A row of connected boxes, one per word; returns the centres."""
    centres = [left + STEP * i for i in range(len(words))]
    for i, (x, word) in enumerate(zip(centres, words, strict=True)):
        box(axes, (x, height), word, colour, SIZE)
        if i > 0:
            line(axes, (x - STEP + SIZE[0] / 2, height), (x - SIZE[0] / 2, height))
    return centres


@styled
@also_narrow
def fixed_context_vs_attention(
    source: Sequence[str],
    target: Sequence[str],
    query: int,
    weights: Sequence[float],
    *,
    narrow: bool = False,
) -> Figure:
    """An encoder-decoder with one vector for the source and, below it, one with attention.

    In the ``narrow`` layout, the words of each side are written in a column.

    Args:
        source: the source words.
        target: the target words.
        query: index of the target word whose attention weights are shown.
        weights: its attention weights over the source words.
        narrow: whether to draw the layout for phones.
    """
    draw = _in_columns if narrow else _in_rows
    fig = draw(source, target, query, weights)
    listed = ", ".join(f"{word} {weight:.2f}" for word, weight in zip(source, weights, strict=True))
    fig.alt = (
        f"Two translation models from “{' '.join(source)}” to “{' '.join(target)}”. In the upper"
        " one, a single vector z connects encoder and decoder and is an input of every decoder"
        f" step. In the lower one, a line leads from each source word to “{target[query]}”; the"
        f" thicker the line, the larger the attention weight: {listed}."
    )
    return fig


def _in_rows(
    source: Sequence[str], target: Sequence[str], query: int, weights: Sequence[float]
) -> Figure:
    """Each model in a row, with the source words on the left."""
    n, half = len(source), SIZE[0] / 2
    offset = STEP * (n + 1)
    fig, axes = sheet(STEP * (n + 1 + len(target)) - 0.2, 5.2)
    top, bottom = 4.7, 0.8
    encoder = _row(axes, source, 0.75, top, ENCODER)
    decoder = _row(axes, target, 0.75 + offset, top, DECODER)
    middle = 0.75 + STEP * n
    box(axes, (middle, top), r"$\mathbf{z}$", ENCODER, (0.8, 0.8))
    line(axes, (encoder[-1] + half, top), (middle - 0.4, top))
    line(axes, (middle + 0.4, top), (decoder[0] - half, top), colour=ENCODER)
    for x in decoder:
        path = ((middle, top - 0.4), (middle, top - 0.95), (x, top - 0.95), (x, top - 0.4))
        line(axes, *path, colour=ENCODER)
    encoder = _row(axes, source, 0.75, bottom, ENCODER)
    decoder = _row(axes, target, 0.75 + offset, bottom, DECODER)
    line(axes, (encoder[-1] + half, bottom), (decoder[0] - half, bottom))
    for x, weight in zip(encoder, weights, strict=True):
        arc = {"arrowstyle": "-", "connectionstyle": "arc3,rad=-0.32", "color": ORANGE}
        axes.annotate(
            "", (decoder[query], bottom + 0.4), (x, bottom + 0.4),
            arrowprops={**arc, "lw": 0.8 + 6 * weight, "shrinkA": 0, "shrinkB": 0}, zorder=1,
        )  # fmt: skip
        axes.text(x, bottom - 0.5, f"{weight:.2f}", ha="center", va="top", fontsize=10, color=INK)
    return fig


def _in_columns(
    source: Sequence[str], target: Sequence[str], query: int, weights: Sequence[float]
) -> Figure:
    """Each model in two columns, with the source words on the left; units are inches."""
    size, step, x_e, x_d = (0.8, 0.34), 0.5, 0.95, 2.72
    middle, rows = (x_e + x_d) / 2, max(len(source), len(target))
    left, right = x_e + size[0] / 2, x_d - size[0] / 2
    panel = step * rows + 0.25
    fig, axes = sheet(NARROW, 2 * panel + 0.2, NARROW)

    def columns(top: float) -> tuple[list[float], list[float]]:
        """Draw both columns from ``top`` down; returns the heights of the words."""
        both = []
        for x, words, colour in ((x_e, source, ENCODER), (x_d, target, DECODER)):
            heights = [top - step * (i + 0.5) for i in range(len(words))]
            for i, (y, word) in enumerate(zip(heights, words, strict=True)):
                box(axes, (x, y), word, colour, size, 10)
                if i > 0:
                    line(axes, (x, y + step - size[1] / 2), (x, y + size[1] / 2))
            both.append(heights)
        return both[0], both[1]

    encoder, decoder = columns(2 * panel + 0.2)
    box(axes, (middle, encoder[-1]), r"$\mathbf{z}$", ENCODER, (0.34, size[1]), 10)
    line(axes, (left, encoder[-1]), (middle - 0.17, encoder[-1]))
    for y in decoder:
        start = [(middle, encoder[-1] + size[1] / 2), (middle, y)]
        if y == encoder[-1]:
            start = [(middle + 0.17, y)]
        line(axes, *start, (right, y), colour=ENCODER)
    encoder, decoder = columns(panel)
    edge, under = x_d + size[0] / 2 + 0.2, min(encoder[-1], decoder[-1]) - size[1] / 2 - 0.15
    line(
        axes, (x_e, encoder[-1] - size[1] / 2), (x_e, under), (edge, under), (edge, decoder[0]),
        (x_d + size[0] / 2, decoder[0]),
    )  # fmt: skip
    for y, weight in zip(encoder, weights, strict=True):
        axes.plot((left, right), (y, decoder[query]), color=ORANGE, lw=0.8 + 6 * weight, zorder=1)
        axes.text(
            left - size[0] - 0.1, y, f"{weight:.2f}",
            ha="right", va="center_baseline", fontsize=10, color=INK,
        )  # fmt: skip
    return fig


@styled
@also_narrow
def attention_step(n: int = 3, *, narrow: bool = False) -> Figure:
    """One decoder step with attention over ``n`` encoder states, with the names of the vectors."""
    gap, size, wide = (1.75, 9, 1.35) if narrow else (1.9, 12, 1.2)
    low, middle, high, tall = (0.6, 2.5, 4.2, 0.8) if narrow else (0.5, 2.0, 3.4, 0.7)
    first = wide / 2 + 0.1
    columns = [first + gap * j for j in range(n)]
    old = columns[-1] + gap + 0.2
    new, last = old + gap + 0.6, old + 2 * gap + 1.1
    fig, axes = sheet(last + wide / 2 + 0.1, high + tall / 2 + 0.35, NARROW if narrow else WIDTH)
    plus = (columns[0] + columns[-1]) / 2
    half = tall / 2
    for j, x in enumerate(columns, start=1):
        box(axes, (x, low), rf"$\mathbf{{h}}_{j}$", ENCODER, (wide, tall), size)
        line(axes, (x, low + half), (x, middle - 0.25), colour=ENCODER)
        height = (low + half + middle - 0.25) / 2
        axes.text(x + 0.15, height, rf"$\alpha_{{i{j}}}$", fontsize=size, color=ORANGE, va="center")
        line(
            axes, (x, middle + 0.25), (plus + 0.22 * (x - plus) / gap, high - 0.25), colour=ENCODER
        )
        operation(axes, (x, middle), "×", size)
    for x, following in pairwise(columns):
        line(axes, (x + wide / 2, low), (following - wide / 2, low))
    operation(axes, (plus, high), "+", size)
    for x, y, name in (
        (old, high, r"$\mathbf{c}_i$"),
        (old, middle, r"$\mathbf{s}_{i-1}$"),
        (new, middle, r"$\mathbf{s}_i$"),
        (new, low, r"$\mathbf{y}_{i-1}$"),
        (last, middle, r"$\mathbf{p}_i$"),
    ):
        box(axes, (x, y), name, DECODER, (wide, tall), size)
    axes.plot(
        (columns[0] + 0.28, old - wide / 2),
        (middle, middle),
        color=ORANGE,
        lw=1.6,
        ls="--",
        zorder=1,
    )
    line(axes, (plus + 0.28, high), (old - wide / 2, high), colour=ENCODER)
    line(axes, (old + wide / 2, high), (new, high), (new, middle + half))
    line(axes, (old + wide / 2, middle), (new - wide / 2, middle))
    line(axes, (new, low + half), (new, middle - half))
    line(axes, (new + wide / 2, middle), (last - wide / 2, middle))
    fig.alt = (
        f"One decoder step. The previous decoder state s with index i−1 is compared with each of"
        f" the {n} encoder states h, which gives the weights α. The sum of the encoder states times"
        " their weights is the context vector c with index i. The context vector, the previous"
        " state and the previous target token y give the new state s with index i, from which the"
        " distribution p is computed."
    )
    return fig


@styled
def accuracy_by_length(
    lengths: Sequence[int], systems: Mapping[str, Sequence[Sequence[float]]], xlabel: str
) -> Figure:
    """Accuracy against the length of the source; the band spans the seeds of a system.

    Args:
        lengths: the lengths, in ascending order.
        systems: by name, one row of accuracies per seed with one accuracy per length.
        xlabel: what the length counts.

    Raises:
        TfmrError: if a seed does not have one accuracy per length.
    """
    fig, (axes,) = figure(height=2.9)
    means = _ranges(axes, lengths, systems)
    axes.set(xlabel=xlabel, ylabel="accuracy", ylim=(0, 1.02))
    axes.set_xticks(lengths)
    axes.grid(axis="y")
    fig.legend(loc="outside lower center", ncols=4)
    listed = _listed(means, digits=2)
    fig.alt = (
        f"Accuracy against the {xlabel}, mean over the seeds, for "
        f"{', '.join(str(length) for length in lengths)}: {listed}."
    )
    return fig


@styled
def score_by_length(
    lengths: Sequence[str],
    systems: Mapping[str, Sequence[Sequence[int | float]]],
    unit: str = "BLEU",
) -> Figure:
    """Scores against the length of the source sentence; the band spans the seeds of a system.

    Args:
        lengths: the groups of lengths in words, in ascending order, such as ``"1–8"``.
        systems: by name, one row of scores per seed with one score per group of lengths.
        unit: unit of the scores.

    Raises:
        TfmrError: if a seed does not have one score per group.
    """
    fig, (axes,) = figure(height=3.2)
    positions = list(range(len(lengths)))
    means = _ranges(axes, positions, systems)
    axes.set(ylabel=unit, xlabel="length of the source sentence in words")
    axes.set_ylim(bottom=0)
    axes.set_xticks(positions, list(lengths))
    axes.grid(axis="y")
    fig.legend(loc="outside lower center", ncols=4)
    fig.alt = (
        f"{unit} against the length of the source sentence, mean over the seeds, for sentences of "
        f"{joined(lengths)} words: {_listed(means, digits=1)}."
    )
    return fig


def _ranges(
    axes: Axes, positions: Sequence[int], systems: Mapping[str, Sequence[Sequence[int | float]]]
) -> dict[str, list[float]]:
    """Draw the mean over the seeds and their range for each system; returns the means.

    Raises:
        TfmrError: if a seed does not have one score per position.
    """
    for name, seeds in systems.items():
        counts = sorted({len(scores) for scores in seeds})
        require(
            counts == [len(positions)],
            f"every seed of {name!r} needs one score for each of the {len(positions)} groups of "
            f"lengths: got {counts}",
        )
    means = {}
    for (name, seeds), colour, marker in zip(
        systems.items(), cycle(CYCLE), cycle("os^Dv*P"), strict=False
    ):
        by_group = list(zip(*seeds, strict=True))
        means[name] = [fmean(scores) for scores in by_group]
        lowest, highest = [min(scores) for scores in by_group], [max(s) for s in by_group]
        axes.plot(
            positions, means[name], marker=marker, markersize=5, color=colour, label=name,
            clip_on=False,
        )  # fmt: skip
        axes.fill_between(positions, lowest, highest, color=colour, alpha=0.2, linewidth=0)
    return means


def _listed(means: Mapping[str, Sequence[float]], digits: int) -> str:
    """The means of each system, for an alternative text."""
    return "; ".join(
        f"{name} {', '.join(f'{score:.{digits}f}' for score in scores)}"
        for name, scores in means.items()
    )
