"""Figures of recurrent networks: unrolled network, gated cells, and the effect of distance."""

from collections.abc import Mapping, Sequence
from itertools import cycle
from statistics import median

from tfmr.errors import require
from tfmr.figures.diagram import box, line, operation, sheet
from tfmr.figures.style import (
    BLUE,
    GREEN,
    GRID,
    INK,
    MUTED,
    ORANGE,
    PURPLE,
    Figure,
    figure,
    styled,
)

LINES = ("-", "--", ":", "-.")
"""Styles of lines, so that curves also differ for readers who see few of the hues."""


@styled
def unrolled_rnn(tokens: Sequence[str]) -> Figure:
    """An RNN unrolled over ``tokens``, with the same three matrices at every time step."""
    step, n = 2.4, len(tokens)
    fig, axes = sheet(step * n + 0.3, 4.4)
    axes.text(0.35, 2.2, r"$\mathbf{h}_0$", ha="center", va="center", fontsize=12)
    for t, token in enumerate(tokens, start=1):
        x = step * t - 0.6
        left = 0.7 if t == 1 else x - step + 0.55
        line(axes, (left, 2.2), (x - 0.55, 2.2), colour=ORANGE)
        line(axes, (x, 0.75), (x, 1.75), colour=BLUE)
        line(axes, (x, 2.65), (x, 3.65), colour=GREEN)
        box(axes, (x, 2.2), rf"$\mathbf{{h}}_{t}$", INK, (1.1, 0.9))
        axes.text(x, 0.4, token, ha="center", va="center", fontsize=11)
        axes.text(x, 4.0, rf"$\mathbf{{o}}_{t}$", ha="center", va="center", fontsize=12)
        axes.text(x + 0.12, 1.2, "$W_x$", va="center", color=BLUE)
        axes.text(x + 0.12, 3.1, "$W_o$", va="center", color=GREEN)
        axes.text((left + x - 0.55) / 2, 2.5, "$W_h$", ha="center", color=ORANGE)
    fig.alt = (
        f"A recurrent network unrolled over {n} tokens, {' '.join(tokens)}: {n} copies of one RNN"
        " cell. Each computes its hidden state from the token, through W_x, and from the previous"
        " state, through W_h, and its output through W_o. All copies share the three matrices."
    )
    return fig


@styled
def backpropagation_through_time(tokens: Sequence[str], truncation: int | None = None) -> Figure:
    """The forward and the backward path of an RNN unrolled over ``tokens``, with a loss per step.

    Each backward step contains its two factors, the transpose of ``W_h`` and the derivative of the
    tanh. ``truncation`` is the chunk length of truncated backpropagation; without it, the gradient
    passes through all steps.

    Raises:
        TfmrError: if ``truncation`` is less than 1.
    """
    require(truncation is None or truncation >= 1, f"truncation must be at least 1: {truncation}")
    step, n, half = 2.75, len(tokens), 0.85
    size, bottom = truncation or n, 0.75 if truncation else 0.0
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
        factor = rf"$\odot\,(1-\mathbf{{h}}_{t}^2)$"
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
    for first in range(0, n if truncation else 0, size):
        inside = centres[first : first + size]
        axes.text(
            (inside[0] + inside[-1]) / 2, 0.25, f"chunk {first // size + 1}",
            ha="center", va="center", color=MUTED,
        )  # fmt: skip
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
def lstm_cell() -> Figure:
    """One time step of an LSTM; the cell state is the horizontal line at the top."""
    fig, axes = sheet(11.2, 6.2)
    top, bus, gates = 5.4, 0.9, 2.1
    line(axes, (0.9, top), (10.3, top), colour=ORANGE)
    line(axes, (0.9, bus), (7.5, bus), (7.5, gates - 0.4))
    line(axes, (1.3, 0.35), (1.3, bus), arrow=False)
    for x, name in ((2.4, "$σ$"), (4.1, "$σ$"), (5.9, "tanh"), (7.5, "$σ$")):
        line(axes, (x, bus), (x, gates - 0.4))
        box(axes, (x, gates), name, BLUE if name == "tanh" else PURPLE, (1.1, 0.8))
    line(axes, (2.4, gates + 0.4), (2.4, top - 0.28))
    line(axes, (4.1, gates + 0.4), (4.1, 3.9), (4.72, 3.9))
    line(axes, (5.9, gates + 0.4), (5.9, 3.9), (5.28, 3.9))
    line(axes, (5.0, 4.18), (5.0, top - 0.28))
    line(axes, (9.0, top), (9.0, 4.6))
    line(axes, (9.0, 3.8), (9.0, 3.28))
    line(axes, (7.5, gates + 0.4), (7.5, 3.0), (8.72, 3.0))
    line(axes, (9.0, 2.72), (9.0, bus), (10.3, bus), colour=GREEN)
    box(axes, (9.0, 4.2), "tanh", BLUE, (1.1, 0.8))
    for centre, sign in (
        ((2.4, top), "×"),
        ((5.0, top), "+"),
        ((5.0, 3.9), "×"),
        ((9.0, 3.0), "×"),
    ):
        operation(axes, centre, sign)
    for x, y, name in (
        (0.45, top, r"$\mathbf{c}_{t-1}$"),
        (10.7, top, r"$\mathbf{c}_t$"),
        (0.45, bus, r"$\mathbf{h}_{t-1}$"),
        (10.7, bus, r"$\mathbf{h}_t$"),
        (1.3, 0.12, r"$\mathbf{x}_t$"),
        (2.75, 3.4, r"$\mathbf{f}_t$"),
        (3.75, 3.4, r"$\mathbf{i}_t$"),
        (6.25, 3.4, r"$\mathbf{g}_t$"),
        (7.15, 3.0, r"$\mathbf{o}_t$"),
    ):
        axes.text(x, y, name, ha="center", va="center", fontsize=12)
    fig.alt = (
        "One time step of an LSTM. Three sigmoids and one tanh, whose inputs are the input vector"
        " and the previous hidden state, compute the gates and the candidate. The previous cell"
        " state times the forget gate plus the input gate times the candidate is the new cell"
        " state. The tanh of the new cell state times the output gate is the new hidden state."
    )
    return fig


@styled
def gru_cell() -> Figure:
    """One time step of a GRU with the reset gate after the matrix multiplication."""
    fig, axes = sheet(11.2, 6.2)
    top, bus, gates = 5.4, 0.9, 2.1
    line(axes, (0.9, top), (10.3, top), colour=ORANGE)
    line(axes, (1.2, top), (1.2, bus), arrow=False)
    line(axes, (1.2, bus), (5.6, bus), (5.6, gates - 0.4))
    line(axes, (2.6, bus), (2.6, gates - 0.4))
    line(axes, (7.6, bus), (7.6, gates - 0.4))
    line(axes, (2.6, gates + 0.4), (2.6, 3.0), (3.52, 3.0))
    line(axes, (3.8, top), (3.8, 4.55))
    line(axes, (3.8, 3.85), (3.8, 3.28))
    line(axes, (4.08, 3.0), (6.7, 3.0), (6.7, gates), (7.05, gates))
    line(axes, (5.6, gates + 0.4), (5.6, top - 0.28))
    line(axes, (5.6, 3.9), (7.32, 3.9))
    line(axes, (7.6, gates + 0.4), (7.6, 3.62))
    line(axes, (7.6, 4.18), (7.6, top - 0.28))
    box(axes, (2.6, gates), "$σ$", PURPLE, (1.1, 0.8))
    box(axes, (5.6, gates), "$σ$", PURPLE, (1.1, 0.8))
    box(axes, (7.6, gates), "tanh", BLUE, (1.1, 0.8))
    box(axes, (3.8, 4.2), "$W_h$", ORANGE, (1.1, 0.7))
    for centre, sign in (
        ((3.8, 3.0), "×"),
        ((5.6, top), "×"),
        ((7.6, 3.9), "×"),
        ((7.6, top), "+"),
    ):
        operation(axes, centre, sign)
    for x, y, name in (
        (0.45, top, r"$\mathbf{h}_{t-1}$"),
        (10.7, top, r"$\mathbf{h}_t$"),
        (7.6, 0.6, r"$\mathbf{x}_t$"),
        (1.7, 0.6, r"$\mathbf{h}_{t-1},\ \mathbf{x}_t$"),
        (2.25, 3.0, r"$\mathbf{r}_t$"),
        (5.2, 4.5, r"$\mathbf{z}_t$"),
        (6.5, 4.2, r"$1-\mathbf{z}_t$"),
        (8.0, 3.0, r"$\mathbf{n}_t$"),
    ):
        axes.text(x, y, name, ha="center", va="center", fontsize=12)
    fig.alt = (
        "One time step of a GRU. The new state is the update gate times the previous state plus one"
        " minus the update gate times the candidate. The candidate is the tanh of a sum: the input"
        " projection, plus the reset gate times the recurrent projection of the previous state."
    )
    return fig
