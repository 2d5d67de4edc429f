"""How cost grows, as it was measured: attention, decoding, and training against their sizes."""

import math
from collections.abc import Mapping, Sequence
from itertools import cycle
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.ticker import LogLocator, NullLocator

from tfmr.errors import require
from tfmr.figures.style import BLUE, CYCLE, GREEN, MUTED, ORANGE, Figure, figure, styled


class Growth(NamedTuple):
    """What was measured at several sizes, rising, and the power law of the larger ones."""

    sizes: Sequence[int]
    values: Sequence[int | float]
    exponent: float
    since: int
    """The smallest size that the exponent was fitted to."""


def _grow(axes: Axes, curves: Mapping[str, Growth], unit: int | float) -> None:
    """Draw ``curves`` in units of ``unit`` on logarithmic axes, each with its power law."""
    for (name, growth), colour in zip(curves.items(), cycle(CYCLE), strict=False):
        values = [value / unit for value in growth.values]
        axes.loglog(
            growth.sizes,
            values,
            "o",
            markersize=3.5,
            color=colour,
            label=f"{name}, $n^{{{growth.exponent:.1f}}}$",
        )
        fitted = [
            (math.log(size), math.log(value))
            for size, value in zip(growth.sizes, values, strict=True)
            if size >= growth.since
        ]
        # A line fitted by least squares passes through the mean of its points.
        x, y = (sum(column) / len(fitted) for column in zip(*fitted, strict=True))
        ends = [growth.since, max(growth.sizes)]
        axes.loglog(
            ends,
            [math.exp(y + growth.exponent * (math.log(end) - x)) for end in ends],
            color=colour,
            linewidth=1.4,
        )
    axes.legend(loc="upper left", handletextpad=0.1, borderaxespad=0.1)
    axes.yaxis.set_major_locator(LogLocator(base=100))
    axes.yaxis.set_minor_locator(NullLocator())
    low, high = axes.get_ylim()
    axes.set_ylim(low, high * (high / low) ** 0.28)


def _size_axis(axes: Axes, sizes: Sequence[int | float], label: str, form: str = "{:g}") -> None:
    """Name the ``sizes`` that :func:`_spread_out` chooses, and no power of ten."""
    shown = _spread_out(sizes)
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xticks(shown, [form.format(size) for size in shown])
    axes.set_xlabel(label)


def _spread_out(sizes: Sequence[int | float]) -> list[int | float]:
    """At most four of the ``sizes``, the last among them, each at least four times the one before.

    >>> _spread_out([64, 128, 256, 512, 1024])
    [64, 256, 1024]
    """
    chosen = [max(sizes)]
    for size in sorted(sizes, reverse=True):
        if chosen[-1] >= 4 * size and len(chosen) < 4:
            chosen.append(size)
    return sorted(chosen)


def _exponents(curves: Mapping[str, Growth]) -> str:
    return ", ".join(f"{name} {growth.exponent:.1f}" for name, growth in curves.items())


@styled
def attention_cost(seconds: Mapping[str, Growth], memory: Mapping[str, Growth]) -> Figure:
    """Time and memory of several kinds of attention against the number of positions.

    Args:
        seconds: by kind. What is drawn is the ratio to the first kind at its smallest size.
        memory: bytes at the peak, by kind; drawn in MiB.
    """
    fig, (left, right) = figure(1, 2, height=2.8)
    first = next(iter(seconds.values()))
    _grow(left, seconds, first.values[0])
    _grow(right, memory, 2**20)
    name = next(iter(seconds))
    left.set_title(f"time ({name} at {first.sizes[0]:g} = 1)")
    right.set_title("memory (MiB)")
    for axes, curves in ((left, seconds), (right, memory)):
        sizes = [size for growth in curves.values() for size in growth.sizes]
        _size_axis(axes, sizes, "positions $n$")
    since = first.since
    fig.alt = (
        f"Time and memory of attention against the number n of positions, on logarithmic axes. "
        f"From {since:g} positions on, time grows as n to the power {_exponents(seconds)}; "
        f"memory as n to the power {_exponents(memory)}."
    )
    return fig


@styled
def decoding_cost(naive: Growth, cached: Growth) -> Figure:
    """Time of a sentence with and without the cache against its length, and the ratio of the two.

    Raises:
        TfmrError: if they were not measured at the same lengths.
    """
    require(
        list(naive.sizes) == list(cached.sizes),
        f"a ratio needs both times at every length: got {list(naive.sizes)} and "
        f"{list(cached.sizes)}",
    )
    fig, (left, right) = figure(1, 2, height=2.8)
    _grow(left, {"no cache": naive, "cache": cached}, cached.values[0])
    left.set_title(f"time (cache at {cached.sizes[0]:g} = 1)")
    ratios = [slow / fast for slow, fast in zip(naive.values, cached.values, strict=True)]
    right.semilogx(cached.sizes, ratios, "o-", color=GREEN, markersize=4)
    for size, ratio in zip(cached.sizes, ratios, strict=True):
        if size in _spread_out(cached.sizes):
            right.annotate(
                f"{ratio:.1f}",
                (size, ratio),
                xytext=(-5, 4),
                textcoords="offset points",
                ha="right",
            )
    right.set_title("no cache ÷ cache")
    right.set_ylim(0, max(ratios) * 1.2)
    right.axhline(1, color=MUTED, linewidth=0.8)
    for axes in (left, right):
        _size_axis(axes, cached.sizes, "tokens $n$")
    pairs = ", ".join(
        f"{ratio:.1f} at {size:g}" for size, ratio in zip(cached.sizes, ratios, strict=True)
    )
    fig.alt = (
        f"Time to translate n tokens into n tokens, without the cache and with it, on logarithmic "
        f"axes: from {naive.since:g} tokens on as n to the power {naive.exponent:.1f} without, "
        f"{cached.exponent:.1f} with. Without takes this many times as long: {pairs}."
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
    """What more pairs cost, and what they bring after the same number of steps.

    Args:
        pairs: sizes of the training corpora.
        seconds: of an epoch. What is drawn is the ratio to the smallest corpus.
        train_losses: nats per token on pairs that the model was trained on.
        valid_losses: nats per token on others.
        bleu: of the validation part.
    """
    fig, (time, loss, score) = figure(1, 3, height=2.6)
    sizes = [size / 1000 for size in pairs]
    relative = [second / seconds[0] for second in seconds]
    time.loglog(sizes, relative, "o-", color=BLUE, markersize=4)
    time.set_title("time per epoch")
    loss.semilogx(sizes, valid_losses, "o-", color=ORANGE, markersize=4, label="others")
    loss.semilogx(sizes, train_losses, "o--", color=MUTED, markersize=4, label="trained on")
    loss.set_title("nats per token")
    loss.set_ylim(0, max(*valid_losses, *train_losses) * 1.45)
    loss.legend(loc="upper right", borderaxespad=0)
    score.semilogx(sizes, bleu, "o-", color=GREEN, markersize=4)
    score.set_title("BLEU")
    score.set_ylim(0, max(bleu) * 1.15)
    time.yaxis.set_minor_locator(NullLocator())
    time.set_yticks([1, 4, 16], ["1", "4", "16"])
    for axes in (time, loss, score):
        _size_axis(axes, sizes, "thousand pairs", "{:.0f}")
    rows = "; ".join(
        f"{size} pairs: {ratio:.1f} times the time per epoch, loss {own:.2f} on pairs trained on, "
        f"{other:.2f} on others, BLEU {points:.1f}"
        for size, ratio, own, other, points in zip(
            pairs, relative, train_losses, valid_losses, bleu, strict=True
        )
    )
    fig.alt = f"Cost and quality against the size of the corpus. {rows}."
    return fig
