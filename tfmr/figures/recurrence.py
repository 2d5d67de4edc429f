"""Figures of recurrent networks: unrolled network, gated cells, and the effect of distance."""

from collections.abc import Mapping, Sequence
from itertools import cycle

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


@styled
def unrolled_rnn(words: Sequence[str]) -> Figure:
    """An RNN unrolled over ``words``, with the same three matrices at every time step."""
    step, n = 2.4, len(words)
    fig, axes = sheet(step * n + 0.3, 4.4)
    axes.text(0.35, 2.2, r"$\mathbf{h}_0$", ha="center", va="center", fontsize=12)
    for t, word in enumerate(words, start=1):
        x = step * t - 0.6
        left = 0.7 if t == 1 else x - step + 0.55
        line(axes, (left, 2.2), (x - 0.55, 2.2), colour=ORANGE)
        line(axes, (x, 0.75), (x, 1.75), colour=BLUE)
        line(axes, (x, 2.65), (x, 3.65), colour=GREEN)
        box(axes, (x, 2.2), rf"$\mathbf{{h}}_{t}$", INK, (1.1, 0.9))
        axes.text(x, 0.4, word, ha="center", va="center", fontsize=11)
        axes.text(x, 4.0, rf"$\mathbf{{o}}_{t}$", ha="center", va="center", fontsize=12)
        axes.text(x + 0.12, 1.2, "$W_x$", va="center", color=BLUE)
        axes.text(x + 0.12, 3.1, "$W_o$", va="center", color=GREEN)
        axes.text((left + x - 0.55) / 2, 2.5, "$W_h$", ha="center", color=ORANGE)
    fig.alt = (
        f"A recurrent network unrolled over {n} words, {' '.join(words)}: {n} copies of one RNN"
        " cell. Each computes its hidden state from the word, through W_x, and from the previous"
        " state, through W_h, and its output through W_o. All copies share the three matrices."
    )
    return fig


@styled
def norms_by_distance(
    curves: Mapping[str, Sequence[float]], quantity: str = "gradient norm"
) -> Figure:
    """Norms on a logarithmic axis against the distance, which starts at 0."""
    fig, (axes,) = figure(height=3.0)
    axes.axhline(1, color=GRID, lw=1)
    for label, values in curves.items():
        axes.semilogy(range(len(values)), values, label=label)
    axes.set(xlabel="distance in steps", ylabel=quantity)
    axes.margins(x=0)
    fig.legend(loc="outside right center")
    ends = [f"{values[-1]:.1e} ({label})" for label, values in curves.items()]
    steps = max(len(values) for values in curves.values()) - 1
    fig.alt = f"The {quantity} against the distance; at distance {steps} it is {', '.join(ends)}."
    return fig


@styled
def recall_by_distance(
    accuracies: Mapping[str, Mapping[int, float]], chance: float, alt: str
) -> Figure:
    """Accuracy of trained networks against the number of steps between input and prediction.

    The caller provides ``alt`` because the accuracies depend on the machine: it should state only
    what holds on all of them.
    """
    fig, (axes,) = figure(height=2.7)
    for (label, accuracy), colour in zip(
        accuracies.items(), cycle((ORANGE, BLUE, GREEN, PURPLE)), strict=False
    ):
        axes.plot(
            list(accuracy), list(accuracy.values()), "o-", label=label, color=colour, clip_on=False
        )
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
