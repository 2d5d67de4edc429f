"""Figures of recurrent networks: unrolled network, gated cells, and the effect of distance."""

import math
from collections.abc import Mapping, Sequence
from itertools import cycle
from statistics import median

from jaxtyping import Float
from torch import Tensor

from tfmr.errors import require
from tfmr.figures.diagram import Point, box, line, operation, sheet
from tfmr.figures.narrow import NARROW
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
    minus,
    styled,
)
from tfmr.wording import joined

LINES = ("-", "--", ":", "-.")
"""Styles of lines, so that curves also differ for readers who see few of the hues."""


@styled
@also_narrow
def unrolled_rnn(tokens: Sequence[str], *, narrow: bool = False) -> Figure:
    """An RNN unrolled over ``tokens``, with the same three matrices at every time step."""
    step, n = 2.4, len(tokens)
    height, start = (5.8, 0.3) if narrow else (4.4, 0.0)
    fig, axes = sheet(step * n + 0.3 + start, height, NARROW if narrow else WIDTH)
    small, size, middle = (9.5, (1.1, 1.1), 2.9) if narrow else (10.0, (1.1, 0.9), 2.2)
    half, away = size[1] / 2, 1.2 if narrow else 0.9
    letter = small if narrow else 12
    axes.text(0.35, middle, r"$\mathbf{h}_0$", ha="center", va="center", fontsize=letter)
    for t, token in enumerate(tokens, start=1):
        x = step * t - 0.6 + start
        left = 0.7 if t == 1 else x - step + 0.55
        line(axes, (left, middle), (x - 0.55, middle), colour=ORANGE)
        line(axes, (x, 0.75), (x, middle - half), colour=BLUE)
        line(axes, (x, middle + half), (x, height - 0.75), colour=GREEN)
        box(axes, (x, middle), rf"$\mathbf{{h}}_{t}$", INK, size, min(11, letter))
        axes.text(x, 0.4, token, ha="center", va="center", fontsize=min(11, letter))
        axes.text(
            x, height - 0.4, rf"$\mathbf{{o}}_{t}$", ha="center", va="center", fontsize=letter
        )
        below = middle - away - 0.1
        for y, name, colour in ((below, "$W_x$", BLUE), (middle + away, "$W_o$", GREEN)):
            axes.text(x + 0.12, y, name, va="center", color=colour, fontsize=small)
        axes.text(
            (left + x - 0.55) / 2, middle + 0.3, "$W_h$", ha="center", color=ORANGE, fontsize=small
        )
    fig.alt = (
        f"A recurrent network unrolled over {n} tokens, {' '.join(tokens)}: {n} copies of one RNN"
        " cell. Each computes its hidden state from the token, through W_x, and from the previous"
        " state, through W_h, and its output through W_o. All copies share the three matrices."
    )
    return fig


@styled
@also_narrow
def backpropagation_through_time(
    tokens: Sequence[str], truncation: int | None = None, *, narrow: bool = False
) -> Figure:
    """The forward and the backward path of an RNN unrolled over ``tokens``, with a loss per step.

    Each backward step contains its two factors, the transpose of ``W_h`` and the derivative of the
    tanh. ``truncation`` is the chunk length of truncated backpropagation; without it, the gradient
    passes through all steps. In the ``narrow`` layout, the time steps follow each other downwards.

    Raises:
        TfmrError: if ``truncation`` is less than 1.
    """
    require(truncation is None or truncation >= 1, f"truncation must be at least 1: {truncation}")
    n, size = len(tokens), truncation or len(tokens)
    fig = (_downwards if narrow else _to_the_right)(tokens, size, truncation is not None)
    fig.alt = (
        f"A recurrent network unrolled over {n} tokens, {' '.join(tokens)}, with a loss at each"
        " step. Forward, each state depends on the previous state, through W_h, and on its token."
        " Backward, the gradient that arrives at a state, from its own loss and from the next"
        " step, is multiplied by 1 − h², the derivative of the tanh, and by the transpose of W_h"
        " before it arrives at the previous state."
    )
    cuts = [f"from step {t + 1} to step {t}" for t in range(size, n, size)]
    if cuts:
        fig.alt += (
            f" Truncated after every {size} steps: no gradient passes {' or '.join(cuts)}, while"
            " the state does pass forward."
        )
    return fig


def _factor(t: int) -> str:
    """The derivative of the tanh, by which the gradient is multiplied at step ``t``."""
    return rf"$\odot\,(1-\mathbf{{h}}_{t}^2)$"


def _to_the_right(tokens: Sequence[str], size: int, truncated: bool) -> Figure:
    """Backpropagation in chunks of ``size`` steps; each step is a column."""
    step, n, half = 2.75, len(tokens), 0.85
    bottom = 0.75 if truncated else 0.0
    middle = bottom + 2.35
    forward, backward = middle + 0.32, middle - 0.36
    fig, axes = sheet(step * n + 0.9, middle + 2.9)
    centres = [1.7 + half + step * t for t in range(n)]
    axes.text(0.35, forward, r"$\mathbf{h}_0$", ha="center", va="center", fontsize=12)
    axes.text(0.15, middle + 2.6, "forward →", va="center", color=BLUE)
    axes.text(2.55, middle + 2.6, "← backward", va="center", color=ORANGE)
    for t, (x, token) in enumerate(zip(centres, tokens, strict=True), start=1):
        left = 0.7 if t == 1 else x - step + half
        gap = (left + x - half) / 2
        line(axes, (left, forward), (x - half, forward), colour=BLUE)
        axes.text(gap, forward + 0.3, "$W_h$", ha="center", color=BLUE)
        line(axes, (x, bottom + 0.7), (x, middle - 0.75), colour=BLUE)
        line(axes, (x - 0.25, middle + 0.75), (x - 0.25, middle + 1.6), colour=BLUE)
        line(axes, (x + 0.25, middle + 1.6), (x + 0.25, middle + 0.75), colour=ORANGE)
        box(axes, (x, middle), "", INK, (2 * half, 1.5))
        factor = _factor(t)
        for y, text, colour in (
            (forward, rf"$\mathbf{{h}}_{t}$", INK),
            (backward, factor, ORANGE),
            (bottom + 0.4, token, INK),
            (middle + 1.9, rf"$\ell_{t}$", INK),
        ):
            axes.text(
                x, y, text, ha="center", va="center", color=colour, zorder=4,
                fontsize=10 if text == factor else 12,
            )  # fmt: skip
        if t > 1 and (t - 1) % size:
            line(axes, (x - half, backward), (left, backward), colour=ORANGE)
            axes.text(gap, backward - 0.58, r"$W_h^\top$", ha="center", color=ORANGE)
        elif t > 1:
            for ends in ((0.1, forward + 0.25), (forward + 0.75, middle + 2.1)):
                axes.plot((gap, gap), ends, color=MUTED, lw=1.4, ls="--", zorder=1)
            line(axes, (x - half, backward), (gap, backward), colour=ORANGE, arrow=False)
            axes.plot(gap, backward, "x", color=ORANGE, ms=10, mew=2.4, zorder=3)
    for first in range(0, n if truncated else 0, size):
        inside = centres[first : first + size]
        axes.text(
            (inside[0] + inside[-1]) / 2, 0.25, f"chunk {first // size + 1}",
            ha="center", va="center", color=MUTED,
        )  # fmt: skip
    return fig


def _downwards(tokens: Sequence[str], size: int, truncated: bool) -> Figure:
    """Backpropagation in chunks of ``size`` steps; each step is a row, and units are inches."""
    step, n, middle, wide, tall = 0.95, len(tokens), 1.68, 1.36, 0.46
    forward, backward = middle - 0.48, middle + 0.18
    left, right = middle - wide / 2, middle + wide / 2
    fig, axes = sheet(NARROW, step * n + 0.35, NARROW)
    top = step * n + 0.2

    def write(x: float, y: float, text: str, colour: str = INK, ha: str = "center") -> None:
        axes.text(x, y, text, ha=ha, va="center", color=colour, fontsize=10, zorder=4)

    write(0.05, top, "forward ↓", BLUE, "left")
    write(forward, top, r"$\mathbf{h}_0$")
    write(backward, top, "↑ backward", ORANGE)
    above = top - 0.12
    for t, token in enumerate(tokens, start=1):
        y = top - 0.12 - step * (t - 1) - 0.48 - tall / 2
        gap = (above + y + tall / 2) / 2
        line(axes, (forward, above), (forward, y + tall / 2), colour=BLUE)
        write(forward - 0.08, gap, "$W_h$", BLUE, "right")
        write(0.05, y, token, ha="left")
        line(axes, (0.58, y), (left, y), colour=BLUE)
        line(axes, (right, y + 0.1), (right + 0.45, y + 0.1), colour=BLUE)
        line(axes, (right + 0.45, y - 0.1), (right, y - 0.1), colour=ORANGE)
        write(right + 0.6, y, rf"$\ell_{t}$")
        box(axes, (middle, y), "", INK, (wide, tall))
        write(forward, y, rf"$\mathbf{{h}}_{t}$")
        write(backward, y, _factor(t), ORANGE)
        if t > 1 and (t - 1) % size:
            line(axes, (backward, y + tall / 2), (backward, above), colour=ORANGE)
            write(backward + 0.08, gap, r"$W_h^\top$", ORANGE, "left")
        elif t > 1:
            for ends in ((0.05, forward - 0.38), (forward + 0.08, NARROW - 0.1)):
                axes.plot(ends, (gap, gap), color=MUTED, lw=1.4, ls="--", zorder=1)
            line(axes, (backward, y + tall / 2), (backward, gap), colour=ORANGE, arrow=False)
            axes.plot(backward, gap, "x", color=ORANGE, ms=9, mew=2.2, zorder=3)
        above = y - tall / 2
        if truncated and (t - 1) % size == 0:
            last = min(t + size - 1, n)
            axes.text(
                NARROW - 0.17, y - step * (last - t) / 2, f"chunk {(t - 1) // size + 1}",
                rotation=270, ha="center", va="center", color=MUTED, fontsize=10,
            )  # fmt: skip
    return fig


@styled
def norms_by_distance(
    curves: Mapping[str, Sequence[float]], quantity: str = "gradient norm"
) -> Figure:
    """Norms on a logarithmic axis against the distance, which starts at 0."""
    fig, (axes,) = figure(height=3.0)
    axes.axhline(1, color=GRID, lw=1)
    for (label, values), style in zip(curves.items(), cycle(LINES), strict=False):
        axes.semilogy(range(len(values)), values, label=label, linestyle=style)
    axes.set(xlabel="distance in steps", ylabel=quantity)
    axes.margins(x=0)
    fig.legend(loc="outside right center")
    ends = [f"{values[-1]:.1e} ({label})" for label, values in curves.items()]
    steps = max(len(values) for values in curves.values()) - 1
    fig.alt = f"The {quantity} against the distance; at distance {steps} it is {', '.join(ends)}."
    return fig


@styled
def recall_by_distance(
    accuracies: Mapping[str, Mapping[int, float | Sequence[float]]], chance: float, alt: str
) -> Figure:
    """Accuracy of trained networks against the number of steps between input and prediction.

    The line is the median over the seeds, and each point is one seed.

    Args:
        accuracies: by network and distance, the accuracy of each seed, or of the only seed.
        chance: accuracy at chance level.
        alt: the alternative text. It comes from the caller because the accuracies depend on the
            machine; it should state only what holds on all of them.
    """
    fig, (axes,) = figure(height=2.7)
    for (label, accuracy), colour, marker in zip(
        accuracies.items(), cycle((ORANGE, BLUE, GREEN, PURPLE)), cycle("osD^"), strict=False
    ):
        seeds = {
            distance: [values] if isinstance(values, float | int) else list(values)
            for distance, values in accuracy.items()
        }
        medians = [median(values) for values in seeds.values()]
        axes.plot(list(seeds), medians, label=label, color=colour)
        axes.plot(
            [distance for distance, values in seeds.items() for _ in values],
            [value for values in seeds.values() for value in values],
            marker, color=colour, ms=5, alpha=0.6, mew=0, clip_on=False,
        )  # fmt: skip
    axes.axhline(chance, color=MUTED, lw=1.2, ls="--", label="chance")
    axes.set(xlabel="distance in steps", ylabel="accuracy", ylim=(0, 1.02))
    fig.legend(loc="outside right center")
    fig.alt = alt
    return fig


@styled
@also_narrow
def lstm_cell(*, narrow: bool = False) -> Figure:
    """One time step of an LSTM; the cell state is the horizontal line at the top."""
    c = _Cell(narrow)
    axes, r, half = c.axes, c.radius, c.half
    line(axes, (c.start, c.top), (10.3, c.top), colour=ORANGE)
    line(axes, (c.start, c.bus), (7.5, c.bus), (7.5, c.gates - half))
    line(axes, (c.start + 0.4, c.bus - 0.55), (c.start + 0.4, c.bus), arrow=False)
    for x, name in ((2.4, "$σ$"), (4.1, "$σ$"), (5.9, "tanh"), (7.5, "$σ$")):
        line(axes, (x, c.bus), (x, c.gates - half))
        c.box((x, c.gates), name, BLUE if name == "tanh" else PURPLE)
    line(axes, (2.4, c.gates + half), (2.4, c.top - r))
    line(axes, (4.1, c.gates + half), (4.1, c.upper), (5.0 - r, c.upper))
    line(axes, (5.9, c.gates + half), (5.9, c.upper), (5.0 + r, c.upper))
    line(axes, (5.0, c.upper + r), (5.0, c.top - r))
    line(axes, (9.0, c.top), (9.0, c.highest + half))
    line(axes, (9.0, c.highest - half), (9.0, c.lower + r))
    line(axes, (7.5, c.gates + half), (7.5, c.lower), (9.0 - r, c.lower))
    line(axes, (9.0, c.lower - r), (9.0, c.bus), (10.3, c.bus), colour=GREEN)
    c.box((9.0, c.highest), "tanh", BLUE)
    c.operations(
        ((2.4, c.top), "×"), ((5.0, c.top), "+"), ((5.0, c.upper), "×"), ((9.0, c.lower), "×")
    )
    beside = (c.lower + c.upper) / 2
    c.names(
        (0.45, c.top, r"$\mathbf{c}_{t-1}$"),
        (10.7, c.top, r"$\mathbf{c}_t$"),
        (0.45, c.bus, r"$\mathbf{h}_{t-1}$"),
        (10.7, c.bus, r"$\mathbf{h}_t$"),
        (c.start + 0.4, c.bus - 0.78, r"$\mathbf{x}_t$"),
        (2.75, beside, r"$\mathbf{f}_t$"),
        (3.75, beside, r"$\mathbf{i}_t$"),
        (6.25, beside, r"$\mathbf{g}_t$"),
        (7.15, c.lower, r"$\mathbf{o}_t$"),
    )
    c.fig.alt = (
        "One time step of an LSTM. Three sigmoids and one tanh, whose inputs are the input vector"
        " and the previous hidden state, compute the gates and the candidate. The previous cell"
        " state times the forget gate plus the input gate times the candidate is the new cell"
        " state. The output gate times the tanh of the new cell state is the new hidden state."
    )
    return c.fig


@styled
def lstm_walk(c: float, f: float, i: float, g: float, o: float) -> Figure:
    """One step of an LSTM with one component, gate by gate, from the old cell state ``c``."""
    kept, written = f * c, i * g
    new = kept + written
    bars = (
        ("$c_0$", 0.0, c, ORANGE),
        ("forget:\n$f c_0$", 0.0, kept, ORANGE),
        ("write:\n$+\\, i g$", kept, written, BLUE),
        ("$c_1$", 0.0, new, ORANGE),
        ("output:\n$h_1$", 0.0, o * math.tanh(new), GREEN),
    )
    fig, (axes,) = figure(height=2.6)
    for x, (_, bottom, height, colour) in enumerate(bars):
        axes.bar(x, height, bottom=bottom, color=colour, width=0.55)
        axes.text(x, max(bottom, bottom + height) + 0.04, minus(f"{height:.3f}"), ha="center",
                  fontsize=9.5)  # fmt: skip
    axes.plot((0.72, 2.28), (kept, kept), color=MUTED, lw=1, ls=":")
    axes.axhline(0, color=INK, lw=0.8)
    axes.set_xticks(range(len(bars)), [name for name, *_ in bars], fontsize=9)
    axes.set_ylim(top=max(c, new) + 0.25)
    axes.tick_params(axis="x", length=0)
    fig.alt = (
        f"One step of an LSTM as bars: the old cell state {c:g} is multiplied by the forget gate"
        f" {f:.3f}, which keeps {kept:.3f}; the input gate {i:.3f} times the candidate {g:.3f}"
        f" adds {written:.3f}; the new cell state is {new:.3f}; the output gate {o:.3f} times its"
        f" tanh is the hidden state {o * math.tanh(new):.3f}."
    )
    return fig


@styled
def gates_over_time(
    tokens: Sequence[str], gates: Mapping[str, Float[Tensor, "step gate"]]
) -> Figure:
    """The values of gates at each token, one panel per network and one row per component.

    The alternative text has no values, because those of a trained network depend on the machine.
    """
    fig, panels = figure(len(gates), 1, height=0.3 + 1.25 * len(gates))
    for axes, (name, values) in zip(panels, gates.items(), strict=True):
        rows = [str(k + 1) for k in range(values.shape[1])]
        heatmap(axes, values.T, row_labels=rows, column_labels=list(tokens), digits=1, limit=1.0)
        axes.set_aspect("auto")
        axes.set_title(name)
    fig.alt = (
        f"Heat maps of {joined(list(gates))} at the tokens {' '.join(tokens)}, from 0 (background)"
        " to 1 (blue)."
    )
    return fig


@styled
@also_narrow
def gru_cell(*, narrow: bool = False) -> Figure:
    """One time step of a GRU with the reset gate after the matrix multiplication."""
    c = _Cell(narrow)
    axes, r, half = c.axes, c.radius, c.half
    left = c.start + 0.3
    line(axes, (c.start, c.top), (10.3, c.top), colour=ORANGE)
    line(axes, (left, c.top), (left, c.bus), arrow=False)
    line(axes, (left, c.bus), (5.6, c.bus), (5.6, c.gates - half))
    line(axes, (2.6, c.bus), (2.6, c.gates - half))
    line(axes, (7.6, c.bus), (7.6, c.gates - half))
    line(axes, (2.6, c.gates + half), (2.6, c.lower), (3.8 - r, c.lower))
    line(axes, (3.8, c.top), (3.8, c.highest + half))
    line(axes, (3.8, c.highest - half), (3.8, c.lower + r))
    line(axes, (3.8 + r, c.lower), (6.7, c.lower), (6.7, c.gates), (7.6 - c.size[0] / 2, c.gates))
    line(axes, (5.6, c.gates + half), (5.6, c.top - r))
    line(axes, (5.6, c.upper), (7.6 - r, c.upper))
    line(axes, (7.6, c.gates + half), (7.6, c.upper - r))
    line(axes, (7.6, c.upper + r), (7.6, c.top - r))
    c.box((2.6, c.gates), "$σ$", PURPLE)
    c.box((5.6, c.gates), "$σ$", PURPLE)
    c.box((7.6, c.gates), "tanh", BLUE)
    c.box((3.8, c.highest), "$W_h$", ORANGE)
    c.operations(
        ((3.8, c.lower), "×"), ((5.6, c.top), "×"), ((7.6, c.upper), "×"), ((7.6, c.top), "+")
    )
    c.names(
        (0.45, c.top, r"$\mathbf{h}_{t-1}$"),
        (10.7, c.top, r"$\mathbf{h}_t$"),
        (7.6, c.bus - c.line, r"$\mathbf{x}_t$"),
        (left + 0.5, c.bus - c.line, r"$\mathbf{h}_{t-1},\ \mathbf{x}_t$"),
        (2.2, c.lower, r"$\mathbf{r}_t$"),
        (5.2, c.highest + c.line, r"$\mathbf{z}_t$"),
        (6.5, c.upper + c.line, r"$1-\mathbf{z}_t$"),
        (8.05, c.lower, r"$\mathbf{n}_t$"),
    )
    c.fig.alt = (
        "One time step of a GRU. The new state is a weighted sum of the previous state, with the"
        " update gate as its weight, and the candidate, with one minus the update gate. The"
        " candidate is the tanh of a sum: the input projection, plus the reset gate times the"
        " recurrent projection of the previous state."
    )
    return c.fig


class _Cell:
    """The sheet of a gated cell, and the heights and sizes of its parts in both layouts."""

    def __init__(self, narrow: bool) -> None:
        if narrow:  # taller, because the letters are larger in proportion
            self.bus, self.gates, self.lower, self.upper, self.highest = 1.1, 2.5, 3.8, 4.8, 5.6
            self.top, self.start, self.half, sizes = 7.1, 1.15, 0.45, (8.5, 10.0)
        else:
            self.bus, self.gates, self.lower, self.upper, self.highest = 0.9, 2.1, 3.0, 3.9, 4.2
            self.top, self.start, self.half, sizes = 5.4, 0.9, 0.4, (11.0, 12.0)
        self.radius, self.line = 0.28, 0.45 if narrow else 0.3
        self.size = (1.2 if narrow else 1.1, 2 * self.half)
        self.small, self.large = sizes
        self.fig, self.axes = sheet(11.2, self.top + 0.8, NARROW if narrow else WIDTH)

    def box(self, centre: Point, name: str, colour: str) -> None:
        """A function of the cell."""
        box(self.axes, centre, name, colour, self.size, self.small)

    def operations(self, *signs: tuple[Point, str]) -> None:
        """The operations of the cell, by place."""
        for centre, sign in signs:
            operation(self.axes, centre, sign, self.small)

    def names(self, *names: tuple[float, float, str]) -> None:
        """The names of the vectors, by place."""
        for x, y, name in names:
            self.axes.text(x, y, name, ha="center", va="center", fontsize=self.large)
