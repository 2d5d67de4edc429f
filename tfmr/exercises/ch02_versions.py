"""Solutions, known mistakes and wrong versions of the exercises of chapter 2."""

import math
from collections.abc import Callable, Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from tfmr.exercises.edits import Edit, by_edits
from tfmr.exercises.exercise import Faults, Mistake

GATES_EXCHANGED = Mistake(
    "the input gate and the forget gate are exchanged",
    "The forget gate multiplies the old cell state, the input gate the candidate.",
    "cell",
)
SIGMOID_CANDIDATE = Mistake(
    "the candidate is computed with a sigmoid",
    "The candidate is a tanh, so that it can be negative: tanh(−1) = −0.762.",
    "cell",
)
LINEAR_CANDIDATE = Mistake(
    "the tanh of the candidate is missing",
    "The candidate is tanh(−1) = −0.762.",
    "cell",
)
POSITIVE_CANDIDATE = Mistake(
    "the sign of the candidate is lost",
    "The candidate is negative, so the input gate subtracts something.",
    "cell",
)
COUPLED = Mistake(
    "the input gate is 1 − f",
    "The input gate has a pre-activation of its own, 0.",
    "cell",
)
NO_FORGETTING = Mistake(
    "the old cell state is not multiplied by the forget gate",
    "Multiply c₀ by σ(1) before you add the new value.",
    "cell",
)
NO_INPUT_GATE = Mistake(
    "the candidate is not multiplied by the input gate",
    "Multiply the candidate by σ(0).",
    "cell",
)
NO_SIGMOID = Mistake(
    "the pre-activations of the gates are used without the sigmoid",
    "Apply the sigmoid to them: a gate is between 0 and 1.",
    "cell hidden",
)
NO_OUTER_TANH = Mistake(
    "the hidden state is o · c₁, without the tanh",
    "Apply tanh to the new cell state before you multiply by the output gate.",
    "hidden",
)
OLD_CELL = Mistake(
    "the hidden state is computed from the old cell state",
    "Use the new cell state c₁ in h₁.",
    "hidden",
)
NO_OUTPUT_GATE = Mistake(
    "the hidden state is tanh(c₁), without the output gate",
    "Multiply by the output gate, σ(2).",
    "hidden",
)
CLOSED_INPUT = Mistake(
    "the input gate σ(0) is taken as 0, so nothing is written",
    "A sigmoid is positive everywhere: compute σ(0) from its formula.",
    "cell",
)
OTHER_ORDER = Mistake(
    "the two numbers are in the order h₁, c₁",
    "Give the cell state first, as the task asks.",
    "cell hidden",
)
STEP_MISTAKES = (
    GATES_EXCHANGED,
    SIGMOID_CANDIDATE,
    LINEAR_CANDIDATE,
    POSITIVE_CANDIDATE,
    COUPLED,
    NO_FORGETTING,
    NO_INPUT_GATE,
    NO_SIGMOID,
    NO_OUTER_TANH,
    OLD_CELL,
    NO_OUTPUT_GATE,
    CLOSED_INPUT,
    OTHER_ORDER,
)


def sigmoid(a: float) -> float:
    """σ(a)."""
    return 1 / (1 + math.exp(-a))


def step_with(faults: Faults) -> list[float]:
    """Cell state and hidden state after one step of the LSTM, with mistakes."""
    i, f, g, o = sigmoid(0.0), sigmoid(1.0), math.tanh(-1), sigmoid(2.0)
    cells = {
        GATES_EXCHANGED.name: i * 2 + f * g,
        SIGMOID_CANDIDATE.name: f * 2 + i * sigmoid(-1.0),
        LINEAR_CANDIDATE.name: f * 2 - i,
        POSITIVE_CANDIDATE.name: f * 2 - i * g,
        COUPLED.name: f * 2 + (1 - f) * g,
        NO_FORGETTING.name: 2 + i * g,
        NO_INPUT_GATE.name: f * 2 + g,
        NO_SIGMOID.name: 1 * 2 + 0 * g,
        CLOSED_INPUT.name: f * 2,
    }
    c = next((cells[fault] for fault in faults if fault in cells), f * 2 + i * g)
    hidden = {
        NO_SIGMOID.name: 2 * math.tanh(c),
        NO_OUTER_TANH.name: o * c,
        OLD_CELL.name: o * math.tanh(2),
        NO_OUTPUT_GATE.name: math.tanh(c),
    }
    h = next((hidden[fault] for fault in faults if fault in hidden), o * math.tanh(c))
    return [h, c] if OTHER_ORDER.name in faults else [c, h]


State = Float[Tensor, "batch d"]


def coupled_step(
    x: Float[Tensor, "batch d_in"],
    h: State,
    c: State,
    w_x: Float[Tensor, "d_in three_d"],
    w_h: Float[Tensor, "d three_d"],
    b: Float[Tensor, " three_d"],
) -> tuple[State, State]:
    """One step of an LSTM whose input gate is 1 − f."""
    f, g, o = (x @ w_x + h @ w_h + b).chunk(3, dim=-1)
    f = torch.sigmoid(f)
    c = f * c + (1 - f) * torch.tanh(g)
    return torch.sigmoid(o) * torch.tanh(c), c


_FORGET = "    f = torch.sigmoid(f)\n"
_CELL = "f * c + (1 - f) * torch.tanh(g)"
_HIDDEN = "torch.sigmoid(o) * torch.tanh(c), c"
COUPLED_MISTAKES = (
    Edit(
        "f and 1 − f are exchanged",
        "The forget gate f multiplies the old cell state, 1 − f the candidate.",
        "cell",
        _CELL,
        "(1 - f) * c + f * torch.tanh(g)",
    ),
    Edit(
        "the candidate is not multiplied by 1 − f",
        "The new cell state is f · c + (1 − f) · tanh(g).",
        "cell",
        _CELL,
        "f * c + torch.tanh(g)",
    ),
    Edit(
        "the input gate is the sigmoid of 1 − f",
        "The input gate is 1 − f itself: f is a gate already.",
        "cell",
        _CELL,
        "f * c + torch.sigmoid(1 - f) * torch.tanh(g)",
    ),
    Edit(
        "the input gate is the sigmoid of 1 − the pre-activation",
        "Apply the sigmoid before you subtract: f is the gate itself.",
        "forget cell",
        f"{_FORGET}    c = {_CELL}",
        f"    i = torch.sigmoid(1 - f)\n{_FORGET}    c = f * c + i * torch.tanh(g)",
    ),
    Edit(
        "the tanh of the candidate is missing",
        "Apply tanh to the pre-activation g of the candidate.",
        "cell",
        _CELL,
        "f * c + (1 - f) * g",
    ),
    Edit(
        "the candidate is computed with a sigmoid",
        "Use tanh for the candidate, so that it can be negative.",
        "cell",
        _CELL,
        "f * c + (1 - f) * torch.sigmoid(g)",
    ),
    Edit(
        "the tanh is applied to the whole cell state instead of the candidate",
        "The old cell state passes no tanh: f · c + (1 − f) · tanh(g).",
        "cell",
        _CELL,
        "torch.tanh(f * c + (1 - f) * g)",
    ),
    Edit(
        "the old cell state is not multiplied by the forget gate",
        "Multiply it by f.",
        "cell",
        _CELL,
        "c + (1 - f) * torch.tanh(g)",
    ),
    Edit(
        "the sigmoid of the forget gate is missing",
        "Apply the sigmoid to the first group of columns.",
        "forget",
        _FORGET,
        "",
    ),
    Edit(
        "the hidden state is o · c, without the tanh",
        "The hidden state is σ(o) · tanh(c).",
        "hidden",
        _HIDDEN,
        "torch.sigmoid(o) * c, c",
    ),
    Edit(
        "the output gate is missing",
        "Multiply tanh(c) by σ(o).",
        "hidden",
        _HIDDEN,
        "torch.tanh(c), c",
    ),
    Edit(
        "the sigmoid of the output gate is missing",
        "Apply the sigmoid to the third group of columns.",
        "hidden",
        _HIDDEN,
        "o * torch.tanh(c), c",
    ),
    Edit(
        "the hidden state is computed from the old cell state",
        "Use the new cell state in the hidden state.",
        "cell hidden",
        f"c = {_CELL}\n    return {_HIDDEN}",
        f"new = {_CELL}\n    return torch.sigmoid(o) * torch.tanh(c), new",
    ),
    Edit(
        "only the hidden state is returned",
        "Return the cell state, too: the next step needs both.",
        "hidden",
        _HIDDEN,
        "torch.sigmoid(o) * torch.tanh(c)",
    ),
    Edit(
        "the results are in the order c, h",
        "Return the hidden state first.",
        "hidden",
        _HIDDEN,
        "c, torch.sigmoid(o) * torch.tanh(c)",
    ),
    Edit(
        "the columns are read in the order f, o, g",
        "The order is f, g, o: the second group belongs to the candidate.",
        "columns",
        "f, g, o =",
        "f, o, g =",
    ),
    Edit(
        "the recurrent product h @ w_h is missing",
        "Add it to the pre-activations: the gates depend on the hidden state.",
        "sum",
        "x @ w_x + h @ w_h + b",
        "x @ w_x + b",
    ),
    Edit(
        "the bias is missing",
        "Add b to the pre-activations.",
        "sum",
        "x @ w_x + h @ w_h + b",
        "x @ w_x + h @ w_h",
    ),
)


def gru_step(
    x: Float[Tensor, "batch d_in"],
    h: State,
    w_x: Float[Tensor, "d_in three_d"],
    w_h: Float[Tensor, "d three_d"],
    b: Float[Tensor, " three_d"],
    b_n: Float[Tensor, " d"],
) -> State:
    """One step of the GRU."""
    x_r, x_z, x_n = (x @ w_x + b).chunk(3, dim=-1)
    h_r, h_z, h_n = (h @ w_h).chunk(3, dim=-1)
    r, z = torch.sigmoid(x_r + h_r), torch.sigmoid(x_z + h_z)
    n = torch.tanh(x_n + r * (h_n + b_n))
    return (1 - z) * n + z * h


_CANDIDATE = "torch.tanh(x_n + r * (h_n + b_n))"
_NEW = "(1 - z) * n + z * h"
GRU_MISTAKES = (
    Edit(
        "z and 1 − z are exchanged",
        "In the convention of this chapter, the update gate z multiplies the old state.",
        "state",
        _NEW,
        "z * n + (1 - z) * h",
    ),
    Edit(
        "the candidate is not multiplied by 1 − z",
        "The new state is (1 − z) · n + z · h.",
        "state",
        _NEW,
        "n + z * h",
    ),
    Edit(
        "the old state is missing in the last line",
        "Add z · h.",
        "state",
        _NEW,
        "(1 - z) * n",
    ),
    Edit(
        "the second bias is not multiplied by the reset gate",
        "The reset gate multiplies the sum of the recurrent projection and b_n.",
        "candidate",
        _CANDIDATE,
        "torch.tanh(x_n + r * h_n + b_n)",
    ),
    Edit(
        "the second bias is missing",
        "Add b_n to the recurrent projection of the candidate.",
        "candidate",
        _CANDIDATE,
        "torch.tanh(x_n + r * h_n)",
    ),
    Edit(
        "the reset gate is not used",
        "It multiplies the recurrent part of the candidate.",
        "candidate",
        _CANDIDATE,
        "torch.tanh(x_n + h_n + b_n)",
    ),
    Edit(
        "the reset gate also multiplies the input projection",
        "It multiplies only the recurrent part, h_n + b_n.",
        "candidate",
        _CANDIDATE,
        "torch.tanh(r * (x_n + h_n + b_n))",
    ),
    Edit(
        "the reset gate multiplies the state before the matrix multiplication",
        "Here it is applied after the multiplication, to the recurrent projection and b_n.",
        "candidate",
        _CANDIDATE,
        "torch.tanh(x_n + (r * h) @ w_h.chunk(3, dim=-1)[2] + b_n)",
    ),
    Edit(
        "the reset gate multiplies the old state and b_n separately",
        "Here it is applied after the matrix multiplication, to the recurrent projection.",
        "candidate",
        _CANDIDATE,
        "torch.tanh(x_n + (r * h) @ w_h.chunk(3, dim=-1)[2] + r * b_n)",
    ),
    Edit(
        "the candidate is computed with a sigmoid",
        "Use tanh for the candidate.",
        "candidate",
        _CANDIDATE,
        "torch.sigmoid(x_n + r * (h_n + b_n))",
    ),
    Edit(
        "the tanh of the candidate is missing",
        "Apply tanh to the sum.",
        "candidate",
        _CANDIDATE,
        "x_n + r * (h_n + b_n)",
    ),
    Edit(
        "the reset gate and the update gate are exchanged",
        "The columns are in the order r, z, n.",
        "gates",
        "r, z = torch",
        "z, r = torch",
    ),
    Edit(
        "the gates do not depend on the old state",
        "Add the recurrent projections h_r and h_z before the sigmoid.",
        "gates",
        "torch.sigmoid(x_r + h_r), torch.sigmoid(x_z + h_z)",
        "torch.sigmoid(x_r), torch.sigmoid(x_z)",
    ),
    Edit(
        "the sigmoids of the gates are missing",
        "Apply the sigmoid to both gates.",
        "gates",
        "torch.sigmoid(x_r + h_r), torch.sigmoid(x_z + h_z)",
        "x_r + h_r, x_z + h_z",
    ),
    Edit(
        "the second bias is also added in the gates",
        "It belongs to the candidate only.",
        "projection",
        "(h @ w_h).chunk",
        "(h @ w_h + torch.cat([b_n, b_n, 0 * b_n])).chunk",
    ),
    Edit(
        "the bias b of the candidate is multiplied by the reset gate",
        "The gate multiplies the recurrent projection and b_n; b belongs to the input.",
        "projection bias",
        "(x @ w_x + b).chunk(3, dim=-1)\n    h_r, h_z, h_n = (h @ w_h).chunk",
        "(x @ w_x).chunk(3, dim=-1)\n    h_r, h_z, h_n = (h @ w_h + b).chunk",
    ),
    Edit(
        "the bias b is missing",
        "Add b to the input projection.",
        "bias",
        "(x @ w_x + b)",
        "(x @ w_x)",
    ),
)
gru_with = by_edits(gru_step, GRU_MISTAKES)


def last_states(
    x: Float[Tensor, "batch length d"],
    lengths: Int[Tensor, " batch"],
    step: Callable[[Tensor, Tensor], Tensor],
    h: State,
) -> State:
    """The state of each sentence after its last real token."""
    for t in range(x.shape[1]):
        real = (t < lengths)[:, None]
        h = torch.where(real, step(x[:, t], h), h)
    return h


def after_padding(
    x: Float[Tensor, "batch length d"],
    lengths: Int[Tensor, " batch"],
    step: Callable[[Tensor, Tensor], Tensor],
    h: State,
) -> State:
    """The code with the bug: the padding changes the state."""
    for t in range(x.shape[1]):
        h = step(x[:, t], h)
    return h


_KEPT = "torch.where(real, step(x[:, t], h), h)"
LAST_MISTAKES = (
    Edit(
        "the inputs of the padding are set to zero, but the state still changes",
        "A step changes the state even if its input is zero: keep the old state instead.",
        "kept",
        _KEPT,
        "step(x[:, t] * real, h)",
    ),
    Edit(
        "the state is set to zero at the padding",
        "Keep the old state where t ≥ length.",
        "kept",
        _KEPT,
        "step(x[:, t], h) * real",
    ),
    Edit(
        "the mask is inverted: the state changes at the padding only",
        "Take the new state where t < length.",
        "kept",
        _KEPT,
        "torch.where(real, h, step(x[:, t], h))",
    ),
    Edit(
        "one step of padding is still computed",
        "The last real token has the index length − 1, so compare with <.",
        "mask",
        "t < lengths",
        "t <= lengths",
    ),
    Edit(
        "the last real token is left out",
        "It has the index length − 1: the state must still change there.",
        "mask",
        "t < lengths",
        "t < lengths - 1",
    ),
    Edit(
        "the loop ends with the shortest sentence",
        "Continue to the end, and keep the states of the sentences that have ended.",
        "mask",
        "t < lengths",
        "t < lengths.min().expand_as(lengths)",
    ),
    Edit(
        "all sentences are treated as if they had the length of the first",
        "Compare t with the length of each sentence.",
        "mask",
        "t < lengths",
        "t < lengths[:1].expand_as(lengths)",
    ),
    Edit(
        "the states are in the order of the sorted lengths",
        "Put them back into the order of the batch.",
        "order",
        "return h",
        "return h[lengths.argsort(descending=True, stable=True)]",
    ),
)


MUTANTS = {
    "z and 1": "an update gate that multiplies the candidate",
    "the old state": "a new state without the old one",
    "the second bias is not": "a second bias that is not multiplied by the reset gate",
    "the second bias is missing": "a GRU without the second bias",
    "the reset gate is not": "a GRU without a reset gate",
    "the reset gate multiplies the old": "a reset gate before the matrix multiplication",
    "the reset gate and": "a GRU in which r and z are exchanged",
    "the gates do": "gates that do not depend on the old state",
}


def gru_mutants(starts: Sequence[str]) -> list[Callable[..., Tensor]]:
    """Versions of the GRU, each with the mistake whose name begins as stated."""
    found = [[each.name for each in GRU_MISTAKES if each.name.startswith(s)] for s in starts]
    return [gru_with(frozenset(each)) for each in found]


def by_pytorch(
    x: Float[Tensor, "batch d_in"],
    h: State,
    w_x: Float[Tensor, "d_in three_d"],
    w_h: Float[Tensor, "d three_d"],
    b: Float[Tensor, " three_d"],
    b_n: Float[Tensor, " d"],
) -> State:
    """Correct: PyTorch's GRU cell, whose two biases have three groups each."""
    second = torch.cat([torch.zeros_like(b_n), torch.zeros_like(b_n), b_n])
    result: Tensor = torch.gru_cell(x, h, w_x.T, w_h.T, b, second)
    return result


def by_columns(
    x: Float[Tensor, "batch d_in"],
    h: State,
    w_x: Float[Tensor, "d_in three_d"],
    w_h: Float[Tensor, "d three_d"],
    b: Float[Tensor, " three_d"],
    b_n: Float[Tensor, " d"],
) -> State:
    """Correct: each gate has matrices of its own, and the state moves towards the candidate."""
    parts = zip(w_x.chunk(3, -1), w_h.chunk(3, -1), b.chunk(3), strict=True)
    (r_x, r_h, r_b), (z_x, z_h, z_b), (n_x, n_h, n_b) = parts
    r = torch.sigmoid(x @ r_x + h @ r_h + r_b)
    z = torch.sigmoid(x @ z_x + h @ z_h + z_b)
    n = torch.tanh(x @ n_x + n_b + r * (h @ n_h + b_n))
    return n + z * (h - n)


def gru_test(step: Callable[..., Tensor]) -> None:
    """Raise AssertionError if a step of the GRU is wrong."""
    x, h = torch.randn(5, 3), torch.randn(5, 4)
    w_x, w_h, b, b_n = torch.randn(3, 12), torch.randn(4, 12), torch.randn(12), torch.randn(4)
    second = torch.cat([torch.zeros(8), b_n])
    expected = torch.gru_cell(x, h, w_x.T, w_h.T, b, second)
    assert torch.allclose(step(x, h, w_x, w_h, b, b_n), expected, atol=1e-5)


def latch(large: float) -> Float[Tensor, "3 4"]:
    """Weights with which one component of an LSTM stores a value."""
    weights = torch.zeros(3, 4)
    weights[0, 2] = 1
    weights[1, 0] = 2 * large
    weights[2] = torch.tensor([-large, large, 0, large])
    return weights


_VALUE = "weights[0, 2] = 1"
_FLAG = "weights[1, 0] = 2 * large"
_BIASES = "[-large, large, 0, large]"
LATCH_MISTAKES = (
    Edit(
        "the input gate is only half open at the flag",
        "The weight of the flag must outweigh the negative bias: their sum must be large, not 0.",
        "flag",
        _FLAG,
        "weights[1, 0] = large",
    ),
    Edit(
        "the input gate is always open, so every value is added",
        "Close it with a negative bias, which only the flag outweighs.",
        "biases",
        _BIASES,
        "[large, large, 0, large]",
    ),
    Edit(
        "the input gate is half open without the flag",
        "A bias of 0 gives σ(0) = 0.5: use a large negative bias.",
        "biases",
        _BIASES,
        "[0, large, 0, large]",
    ),
    Edit(
        "the forget gate is closed, so the value is lost after one step",
        "A forget gate of 1 keeps everything: give it a large positive bias.",
        "biases",
        _BIASES,
        "[-large, -large, 0, large]",
    ),
    Edit(
        "the forget gate is half open, so half of the value is lost at every step",
        "Give the forget gate a large positive bias: σ(0) is 0.5.",
        "biases",
        _BIASES,
        "[-large, 0, 0, large]",
    ),
    Edit(
        "the candidate is ±1 instead of the tanh of the value",
        "Give the value the weight 1 in the candidate.",
        "value",
        _VALUE,
        "weights[0, 2] = large",
    ),
    Edit(
        "the flag is also added to the value",
        "Only the value belongs in the candidate: set the weight of the flag to 0 there.",
        "value",
        _VALUE,
        "weights[0:2, 2] = 1",
    ),
    Edit(
        "the columns of the input gate and the forget gate are exchanged",
        "The order of the columns is i, f, g, o.",
        "flag biases",
        f"{_FLAG}\n    weights[2] = torch.tensor({_BIASES})",
        "weights[1, 1] = 2 * large\n    weights[2] = torch.tensor([large, -large, 0, large])",
    ),
    Edit(
        "the columns of the candidate and the output gate are exchanged",
        "The order of the columns is i, f, g, o: the third belongs to the candidate.",
        "value flag biases",
        f"{_VALUE}\n    {_FLAG}\n    weights[2] = torch.tensor({_BIASES})",
        f"weights[0, 3] = 1\n    {_FLAG}\n    weights[2] = torch.tensor([-large, large, large, 0])",
    ),
)


def stored(weights: Float[Tensor, "3 4"]) -> Float[Tensor, "2 4"]:
    """The cell states after 1, 2, 10 and 100 steps of two sequences, whose first values differ."""
    generator = torch.Generator().manual_seed(0)
    x = torch.cat([torch.randn(2, 100, 1, generator=generator), torch.zeros(2, 100, 1)], dim=-1)
    x[:, 0] = torch.tensor([[0.5, 1.0], [-1.0, 1.0]])
    c, states = torch.zeros(2), []
    for t in range(100):
        i, f, g, _ = (x[:, t] @ weights[:2] + weights[2]).unbind(dim=-1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        states.append(c)
    return torch.stack([states[t - 1] for t in (1, 2, 10, 100)], dim=-1)
