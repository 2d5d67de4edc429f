"""Figures of training at scale: memory by purpose, and loss by weights and tokens."""

from collections.abc import Callable, Mapping, Sequence
from itertools import cycle

from matplotlib.axes import Axes
from matplotlib.ticker import NullFormatter, NullLocator

from tfmr.errors import require
from tfmr.figures.style import (
    BLUE,
    CYCLE,
    GREEN,
    GREY,
    INK,
    MUTED,
    ORANGE,
    PURPLE,
    Figure,
    figure,
    styled,
)


@styled
def memory_bars(bars: Mapping[str, Mapping[str, float]]) -> Figure:
    """One stacked bar per name, whose parts are in GB.

    Raises:
        TfmrError: if the bars have different parts.
    """
    parts = list(next(iter(bars.values())))
    require(
        all(list(bar) == parts for bar in bars.values()),
        f"all bars need the parts {', '.join(parts)}, in this order",
    )
    fig, (ax,) = figure(height=0.42 * len(bars) + 1.25)
    left = dict.fromkeys(bars, 0.0)
    for part, colour in zip(parts, cycle((BLUE, GREEN, PURPLE, ORANGE, GREY)), strict=False):
        widths = [bar[part] for bar in bars.values()]
        ax.barh(list(bars), widths, left=list(left.values()), color=colour, label=part, height=0.6)
        for name, width in zip(bars, widths, strict=True):
            left[name] += width
    for row, total in enumerate(left.values()):
        ax.text(total, row, f" {total:.1f}", va="center", color=INK, fontsize=9)
    ax.invert_yaxis()
    ax.set_xlabel("GB")
    ax.set_xlim(0, 1.12 * max(left.values()))
    ax.tick_params(axis="y", length=0)
    fig.legend(loc="outside upper left", ncols=len(parts), columnspacing=1.0, handlelength=1.0)
    described = [
        f"{' '.join(name.split())}: "
        + ", ".join(f"{part} {value:.2f}" for part, value in bar.items())
        + f", in total {left[name]:.1f}"
        for name, bar in bars.items()
    ]
    fig.alt = f"Stacked bars of memory in GB. {'; '.join(described)}."
    return fig


@styled
def scaling_curves(
    losses: Mapping[tuple[int, int], Sequence[float]], law: Callable[[int, int], float]
) -> Figure:
    """Loss by weights, a line per number of tokens, and by tokens, a line per number of weights.

    Args:
        losses: the losses of all seeds by (weights, tokens).
        law: predicts the loss from weights and tokens; its values are the lines.
    """
    fig, (left, right) = figure(1, 2, height=3.3, sharey=True)
    weights = sorted({n for n, _ in losses})
    tokens = sorted({d for _, d in losses})
    for d, colour in zip(tokens, cycle(CYCLE), strict=False):
        points = [(n, loss) for n in weights for loss in losses.get((n, d), ())]
        _curve(left, points, [(n, law(n, d)) for n in weights], _short(d), colour)
    for n, colour in zip(weights, cycle(CYCLE), strict=False):
        points = [(d, loss) for d in tokens for loss in losses.get((n, d), ())]
        _curve(right, points, [(d, law(n, d)) for d in tokens], _short(n), colour)
    _axes(left, weights[::2], "weights $N$", "tokens")
    _axes(right, tokens, "tokens $D$", "weights")
    left.set_ylabel("test loss in nats per token")
    low, high = left.get_ylim()
    ticks = [tick / 2 for tick in range(2, 20) if low <= tick / 2 <= high]
    left.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
    described = [
        f"{_short(d)} tokens: "
        + ", ".join(
            f"{_mean(losses[n, d]):.2f} at {_short(n)}" for n in weights if (n, d) in losses
        )
        for d in tokens
    ]
    fig.alt = (
        "Test loss on logarithmic axes, by weights and by tokens, with the fitted "
        f"law as lines. Mean loss by weights, for {'; '.join(described)}."
    )
    return fig


def _curve(
    ax: Axes,
    points: Sequence[tuple[int, float]],
    line: Sequence[tuple[int, float]],
    label: str,
    colour: str,
) -> None:
    """Single runs as points and the law as a line."""
    ax.loglog(*zip(*points, strict=True), "o", markersize=3, color=colour, alpha=0.8)
    ax.loglog(*zip(*line, strict=True), color=colour, linewidth=1.3, label=label)


def _axes(ax: Axes, sizes: Sequence[int], label: str, title: str) -> None:
    """Label a logarithmic axis at ``sizes``, and make room for a legend above the curves."""
    ax.set_xticks(sizes, [_short(size) for size in sizes])
    ax.xaxis.set_minor_locator(NullLocator())
    ax.yaxis.set_minor_locator(NullLocator())
    ax.yaxis.set_minor_formatter(NullFormatter())
    ax.set_xlabel(label)
    ax.legend(
        title=title, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3, fontsize=9,
        title_fontsize=9, columnspacing=0.9, handlelength=1.0, handletextpad=0.4,
        labelcolor=MUTED,
    )  # fmt: skip


def _short(number: int) -> str:
    """Thousands as "47k".

    >>> _short(46980), _short(6560), _short(500)
    ('47k', '6.6k', '500')
    """
    if number < 1000:
        return f"{number:g}"
    return f"{number / 1000:.0f}k" if number >= 9950 else f"{number / 1000:.1f}k"


def _mean(numbers: Sequence[float]) -> float:
    return sum(numbers) / len(numbers)
