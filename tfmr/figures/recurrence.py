"""Pictures of recurrence: a network unrolled in time, cells with gates, and what distance does."""

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
    """One cell, drawn once for each of ``words``: the same three weights at every step."""
    step, n = 2.4, len(words)
    made, axes = sheet(step * n + 0.3, 4.4)
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
    made.alt = (
        f"A recurrent network unrolled over {n} words, {' '.join(words)}: {n} copies of one cell in"
        " a row. Each reads its word through W_x and the state before it through W_h, and gives an"
        " output through W_o. The three matrices are the same in every copy."
    )
    return made


@styled
def norms_by_distance(
    curves: Mapping[str, Sequence[float]], quantity: str = "gradient norm"
) -> Figure:
    """Sizes on a logarithmic axis, the first of each curve at distance 0."""
    made, (axes,) = figure(height=3.0)
    axes.axhline(1, color=GRID, lw=1)
    for label, values in curves.items():
        axes.semilogy(range(len(values)), values, label=label)
    axes.set(xlabel="distance in steps", ylabel=quantity)
    axes.margins(x=0)
    made.legend(loc="outside right center")
    ends = [f"{values[-1]:.1e} ({label})" for label, values in curves.items()]
    steps = max(len(values) for values in curves.values()) - 1
    made.alt = f"The {quantity} against the distance; after {steps} steps it is {', '.join(ends)}."
    return made


@styled
def memory_by_distance(
    shares: Mapping[str, Mapping[int, float]], chance: float, alt: str
) -> Figure:
    """Right answers of trained networks, against the steps between question and answer.

    ``alt`` is the caller's, because what a trained network reaches between success and failure
    depends on the machine: it should say only what holds on all of them.
    """
    made, (axes,) = figure(height=2.7)
    for (label, share), colour in zip(
        shares.items(), cycle((ORANGE, BLUE, GREEN, PURPLE)), strict=False
    ):
        axes.plot(list(share), list(share.values()), "o-", label=label, color=colour, clip_on=False)
    axes.axhline(chance, color=MUTED, lw=1.2, ls="--", label="guessing")
    axes.set(xlabel="distance in steps", ylabel="share of right answers", ylim=(0, 1.02))
    made.legend(loc="outside right center")
    made.alt = alt
    return made


@styled
def lstm_cell() -> Figure:
    """One step of an LSTM: four blocks read the input and the state, the cell path runs above."""
    made, axes = sheet(11.2, 6.2)
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
    made.alt = (
        "One LSTM step. The old cell state is multiplied by the forget gate, then the input gate"
        " times the candidate is added to it: that is the new cell state. Its tanh, times the"
        " output gate, is the new hidden state. Three sigmoids and one tanh read the input and the"
        " old hidden state. On the way from the old cell state to the new one lie a product"
        " and a sum."
    )
    return made


@styled
def gru_cell() -> Figure:
    """One step of a GRU with the reset gate after the matrix product."""
    made, axes = sheet(11.2, 6.2)
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
    made.alt = (
        "One GRU step. The update gate multiplies the old state, one minus the update gate"
        " multiplies the candidate, and their sum is the new state. The candidate is the tanh of"
        " the input plus the old state's product with its matrix, which the reset gate has scaled."
    )
    return made
