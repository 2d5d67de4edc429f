"""Figures of measured cost: attention, decoding and training against problem size."""

import math
from collections.abc import Mapping, Sequence
from itertools import cycle
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.ticker import LogLocator, NullLocator

from tfmr.errors import require
from tfmr.figures.style import BLUE, CYCLE, GREEN, MUTED, ORANGE, Figure, figure, styled


class Scaling(NamedTuple):
    """Measurements at several sizes, in ascending order, and a power law fitted to the larger."""

    sizes: Sequence[int]
    values: Sequence[int | float]
    exponent: float
    fit_from: int
    """The smallest size included in the fit."""


def _plot_scaling(axes: Axes, curves: Mapping[str, Scaling], unit: int | float) -> None:
    """Plot ``curves`` in units of ``unit`` on logarithmic axes, each with its power law."""
    for (name, scaling), colour in zip(curves.items(), cycle(CYCLE), strict=False):
        values = [value / unit for value in scaling.values]
        axes.loglog(
            scaling.sizes,
            values,
            "o",
            markersize=3.5,
            color=colour,
            label=f"{name}, $n^{{{scaling.exponent:.1f}}}$",
        )
        fitted = [
            (math.log(size), math.log(value))
            for size, value in zip(scaling.sizes, values, strict=True)
            if size >= scaling.fit_from
        ]
        # The least-squares line passes through the mean of the points.
        x, y = (sum(column) / len(fitted) for column in zip(*fitted, strict=True))
        ends = [scaling.fit_from, max(scaling.sizes)]
        axes.loglog(
            ends,
            [math.exp(y + scaling.exponent * (math.log(end) - x)) for end in ends],
            color=colour,
            linewidth=1.4,
        )
    axes.legend(loc="upper left", handletextpad=0.1, borderaxespad=0.1)
    axes.yaxis.set_major_locator(LogLocator(base=100))
    axes.yaxis.set_minor_locator(NullLocator())
    low, high = axes.get_ylim()
    axes.set_ylim(low, high * (high / low) ** 0.28)


def _size_axis(axes: Axes, sizes: Sequence[int | float], label: str, form: str = "{:g}") -> None:
    """Label the axis at the sizes that :func:`_tick_sizes` chooses, not at powers of ten."""
    shown = _tick_sizes(sizes)
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xticks(shown, [form.format(size) for size in shown])
    axes.set_xlabel(label)


def _tick_sizes(sizes: Sequence[int | float]) -> list[int | float]:
    """At most four of the ``sizes``, including the largest, each at least four times the previous.

    >>> _tick_sizes([64, 128, 256, 512, 1024])
    [64, 256, 1024]
    """
    chosen = [max(sizes)]
    for size in sorted(sizes, reverse=True):
        if chosen[-1] >= 4 * size and len(chosen) < 4:
            chosen.append(size)
    return sorted(chosen)


def _exponents(curves: Mapping[str, Scaling]) -> str:
    return ", ".join(f"{name} {scaling.exponent:.1f}" for name, scaling in curves.items())


@styled
def attention_cost(seconds: Mapping[str, Scaling], memory: Mapping[str, Scaling]) -> Figure:
    """Time and memory of several implementations of attention against the number of positions.

    Args:
        seconds: by implementation; drawn relative to the first one at its smallest size.
        memory: peak memory in bytes, by implementation; drawn in MiB.
    """
    fig, (left, right) = figure(1, 2, height=2.8)
    first = next(iter(seconds.values()))
    _plot_scaling(left, seconds, first.values[0])
    _plot_scaling(right, memory, 2**20)
    name = next(iter(seconds))
    left.set_title(f"time ({name} at {first.sizes[0]:g} = 1)")
    right.set_title("memory (MiB)")
    for axes, curves in ((left, seconds), (right, memory)):
        sizes = [size for scaling in curves.values() for size in scaling.sizes]
        _size_axis(axes, sizes, "positions $n$")
    fit_from = first.fit_from
    fig.alt = (
        f"Time and memory of attention against the number of positions n, on logarithmic axes. "
        f"From {fit_from:g} positions on, the exponents of n are, for time, {_exponents(seconds)}; "
        f"for memory, {_exponents(memory)}."
    )
    return fig


@styled
def decoding_cost(
    lengths: Sequence[int], naive: Sequence[int | float], cached: Sequence[int | float]
) -> Figure:
    """Decoding time with and without a KV cache against the length, and the ratio of the two.

    Args:
        lengths: in ascending order.
        naive: seconds without the cache, one for each length.
        cached: seconds with the cache.

    Raises:
        TfmrError: if there is not one time of each kind for each length.
    """
    require(
        len(lengths) == len(naive) == len(cached),
        "decoding_cost needs one time without and one with the cache for each length: got "
        f"{len(lengths)} lengths, {len(naive)} times without and {len(cached)} with",
    )
    fig, (left, right) = figure(1, 2, height=2.8)
    for name, seconds, colour in (("no cache", naive, BLUE), ("cache", cached, ORANGE)):
        milliseconds = [1000 * value for value in seconds]
        left.loglog(lengths, milliseconds, "o-", markersize=4, color=colour, label=name)
    left.legend(loc="upper left", borderaxespad=0.1)
    left.yaxis.set_major_locator(LogLocator(base=10))
    left.yaxis.set_minor_locator(NullLocator())
    left.set_title("time (ms)")
    ratios = [slow / fast for slow, fast in zip(naive, cached, strict=True)]
    right.semilogx(lengths, ratios, "o-", color=GREEN, markersize=4)
    for size, ratio in zip(lengths, ratios, strict=True):
        if size in _tick_sizes(lengths):
            right.annotate(
                f"{ratio:.1f}",
                (size, ratio),
                xytext=(-5, 4),
                textcoords="offset points",
                ha="right",
            )
    # Room for the first number beside the axis.
    right.margins(x=0.16)
    right.set_title("no cache ÷ cache")
    right.set_ylim(0, max(ratios) * 1.2)
    right.axhline(1, color=MUTED, linewidth=0.8)
    for axes in (left, right):
        _size_axis(axes, lengths, "tokens $n$")
    times = ", ".join(
        f"{1000 * slow:.0f} and {1000 * fast:.0f} at {length:g} ({ratio:.1f})"
        for length, slow, fast, ratio in zip(lengths, naive, cached, ratios, strict=True)
    )
    fig.alt = (
        "Time to translate n tokens into n tokens, without and with a KV cache, on logarithmic "
        f"axes, and the ratio of the two. Milliseconds (ratio): {times}."
    )
    return fig


@styled
def corpus_size(
    pairs: Sequence[int],
    seconds: Sequence[int | float],
    train_losses: Sequence[int | float],
    valid_losses: Sequence[int | float],
    bleu: Sequence[int | float],
) -> Figure:
    """Cost and quality against the size of the training corpus, after equally many steps.

    Args:
        pairs: sizes of the training corpora.
        seconds: of an epoch; drawn relative to the smallest corpus.
        train_losses: nats per token on training pairs.
        valid_losses: nats per token on the validation set.
        bleu: on the validation set.
    """
    fig, (time, loss, quality) = figure(1, 3, height=2.6)
    sizes = [size / 1000 for size in pairs]
    relative = [second / seconds[0] for second in seconds]
    time.loglog(sizes, relative, "o-", color=BLUE, markersize=4)
    time.set_title("time per epoch")
    loss.semilogx(sizes, valid_losses, "o-", color=ORANGE, markersize=4, label="validation")
    loss.semilogx(sizes, train_losses, "o--", color=MUTED, markersize=4, label="training")
    loss.set_title("nats per token")
    loss.set_ylim(0, max(*valid_losses, *train_losses) * 1.45)
    loss.legend(loc="upper right", borderaxespad=0)
    quality.semilogx(sizes, bleu, "o-", color=GREEN, markersize=4)
    quality.set_title("BLEU")
    quality.set_ylim(0, max(bleu) * 1.15)
    time.yaxis.set_minor_locator(NullLocator())
    time.set_yticks([1, 4, 16], ["1", "4", "16"])
    for axes in (time, loss, quality):
        _size_axis(axes, sizes, "thousand pairs", "{:.0f}")
    rows = "; ".join(
        f"{size} pairs: relative time {ratio:.1f}, training loss {train:.2f}, "
        f"validation loss {valid:.2f}, BLEU {score:.1f}"
        for size, ratio, train, valid, score in zip(
            pairs, relative, train_losses, valid_losses, bleu, strict=True
        )
    )
    fig.alt = (
        "Cost and quality against the size of the training corpus; the time per epoch is relative"
        f" to the smallest corpus. {rows}."
    )
    return fig
