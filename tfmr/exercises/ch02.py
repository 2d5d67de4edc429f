"""Chapter 2: gates."""

from typing import Any

import torch
from torch import Tensor

from tfmr.exercises import ch02_versions as versions
from tfmr.exercises.edits import by_edits
from tfmr.exercises.exercise import (
    Function,
    Numbers,
    Probe,
    Subject,
    WriteTest,
    as_tensor,
    numbers,
)

CHAPTER = "02"


q1 = Numbers(
    chapter=CHAPTER,
    number=1,
    title="Another step by hand",
    level=1,
    task="Take an LSTM with one component. Its pre-activations are 0 for the input gate, 1 for the "
    "forget gate, −1 for the candidate and 2 for the output gate, and its old cell state is 2. "
    "Compute the new cell state and the new hidden state. You may use σ(1) = 0.731, "
    "σ(2) = 0.881 and tanh(1) = 0.762; for the last tanh, a calculator.",
    name="cell_and_hidden",
    stub="cell_and_hidden = [None, None]\n",
    hints=(
        "Compute the three gates and the candidate first. Which of them can be negative?",
        "The cell state is a sum of two products: what is kept, and what is written.",
        "The hidden state needs the new cell state, a tanh, and the gate that you have not used "
        "yet.",
    ),
    answer=[1.081, 0.699],
    remark="The gates are 0.5, 0.731 and 0.881, the candidate is −0.762. The cell keeps 1.462 and "
    "adds −0.381.",
    build=versions.step_with,
    mistakes=versions.STEP_MISTAKES,
)


def read_pair(value: Any) -> Tensor | None:
    """Hidden states and cell states side by side."""
    if not isinstance(value, tuple | list) or len(value) != 2:
        return as_tensor(value)
    h, c = as_tensor(value[0]), as_tensor(value[1])
    if h is None or c is None or h.shape[:-1] != c.shape[:-1]:
        return None
    return torch.cat([h, c], dim=-1)


def coupled_probe(stage: str, batch: int, d_in: int, d: int, seed: int) -> Probe:
    """An input, the two states and the three parameters."""
    shapes = (batch, d_in), (batch, d), (batch, d), (d_in, 3 * d), (d, 3 * d), (3 * d,)
    return Probe(stage, tuple(numbers(seed + i, *shape) for i, shape in enumerate(shapes)))


q2 = Function(
    chapter=CHAPTER,
    number=2,
    title="An LSTM with two gates",
    level=1,
    task="A variant of the LSTM has one gate fewer: its input gate is 1 − f, so a component is "
    "written to the extent that it is not kept. Write a step of this LSTM.",
    name="coupled_step",
    stub='''\
def coupled_step(x, h, c, w_x, w_h, b):
    """The next hidden state and cell state: two tensors (batch, d).

    x: (batch, d_in); h, c: (batch, d)
    w_x: (d_in, 3 * d); w_h: (d, 3 * d); b: (3 * d,)

    The columns are in the order f, g, o: forget gate, candidate, output
    gate. The input gate is 1 - f.
    """
    raise NotImplementedError
''',
    hints=(
        "One sum of two matrix products and a bias contains all the pre-activations that you need.",
        "Split the pre-activations into three groups of d columns. Which function turns each of "
        "them into a gate or a candidate?",
        "The cell state comes before the hidden state, which depends on it.",
    ),
    answer=versions.coupled_step,
    remark="With 1 − f as the input gate, the cell state is a weighted mean of the old state and "
    "the candidate, as in the GRU.",
    build=by_edits(versions.coupled_step, versions.COUPLED_MISTAKES),
    arguments=("x", "h", "c", "w_x", "w_h", "b"),
    read=read_pair,
    probes=(
        coupled_probe("one component", 1, 1, 1, 0),
        coupled_probe("two components", 1, 2, 2, 10),
        coupled_probe("a batch of two", 2, 3, 2, 20),
        coupled_probe("a batch of three", 3, 1, 4, 30),
    ),
    mistakes=versions.COUPLED_MISTAKES,
)


def gru_probe(stage: str, batch: int, d_in: int, d: int, seed: int) -> Probe:
    """An input, the state and the four parameters."""
    shapes = (batch, d_in), (batch, d), (d_in, 3 * d), (d, 3 * d), (3 * d,), (d,)
    return Probe(stage, tuple(numbers(seed + i, *shape) for i, shape in enumerate(shapes)))


q3 = Function(
    chapter=CHAPTER,
    number=3,
    title="A step of the GRU",
    level=2,
    task="Write a step of the GRU from the formulas of this chapter, with the second bias b′.",
    name="gru_step",
    stub='''\
def gru_step(x, h, w_x, w_h, b, b_n):
    """The next state: (batch, d).

    x: (batch, d_in); h: (batch, d)
    w_x: (d_in, 3 * d); w_h: (d, 3 * d); b: (3 * d,), in the order r, z, n
    b_n: (d,), the second bias b' of the candidate

    The reset gate is applied after the matrix multiplication.
    """
    raise NotImplementedError
''',
    hints=(
        "In the LSTM the two projections could be added at once. Why not here, for all columns?",
        "Keep x @ w_x + b and h @ w_h apart, and split each into three groups.",
        "Which part of the candidate does the reset gate multiply? The second bias belongs to that "
        "part.",
    ),
    answer=versions.gru_step,
    remark="For r and z the two projections are only added. In the candidate, r stands between "
    "them.",
    build=versions.gru_with,
    arguments=("x", "h", "w_x", "w_h", "b", "b_n"),
    probes=(
        gru_probe("one component", 1, 1, 1, 0),
        gru_probe("two components", 1, 2, 2, 12),
        gru_probe("a batch of two", 2, 3, 2, 20),
        gru_probe("a batch of three", 3, 1, 4, 30),
    ),
    mistakes=versions.GRU_MISTAKES,
)


class Step:
    """A recurrent step of the probes."""

    def __init__(self, d: int, seed: int) -> None:
        self.w_x, self.w_h = numbers(seed, d, d), numbers(seed + 1, d, d)

    def __call__(self, x: Tensor, h: Tensor) -> Tensor:
        """The next state."""
        return torch.tanh(x @ self.w_x + h @ self.w_h + 0.5)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Step) and bool(torch.equal(self.w_x, other.w_x))

    def __repr__(self) -> str:
        return f"a step with {len(self.w_h)} components"


def last_probe(stage: str, lengths: list[int], d: int, seed: int) -> Probe:
    """A batch of sentences, their lengths, a step, and an initial state."""
    x = numbers(seed, len(lengths), max(lengths), d)
    return Probe(
        stage, (x, torch.tensor(lengths), Step(d, seed + 1), numbers(seed + 3, len(lengths), d))
    )


LAST_STEP = """\
def last_states(x, lengths, step, h):
    for t in range(x.shape[1]):
        h = step(x[:, t], h)
    return h
"""

q4 = Function(
    chapter=CHAPTER,
    number=4,
    title="Find the bug in the last state",
    level=2,
    task="A classifier uses the last state of a recurrent network. The code below computes it for "
    "a batch. Alone, a short sentence is classified correctly; in a batch with a longer one, it "
    "often is not. Repair the code.",
    name="last_states",
    stub=f"""\
# Find the bug in this code, and repair it: x is (batch, length, d), h is
# (batch, d), step computes the next h from x[:, t] and h. lengths is
# (batch,): the numbers of real tokens; padding follows them.
{LAST_STEP}""",
    hints=(
        "Let one sentence have two tokens, and the other five. How often does the loop change the "
        "state of the first?",
        "At which t has a sentence ended? What should happen to its state from then on?",
        "Different rows of h need different treatment at the same t. `torch.where` chooses for "
        "each row.",
    ),
    answer=versions.last_states,
    remark="The state of a sentence that has ended stays as it is. Collecting all states and "
    "taking the one at index length − 1 is also right, but stores them all.",
    build=by_edits(versions.last_states, versions.LAST_MISTAKES),
    given=versions.after_padding,
    arguments=("x", "lengths", "step", "h"),
    probes=(
        last_probe("no padding", [2], 2, 0),
        last_probe("two sentences, the first is shorter", [1, 3], 2, 10),
        last_probe("two sentences, the second is shorter", [4, 2], 2, 20),
        last_probe("three sentences", [2, 5, 3], 2, 30),
        last_probe("three sentences in another order", [3, 1, 4], 1, 40),
    ),
    mistakes=versions.LAST_MISTAKES,
)


q5 = WriteTest(
    chapter=CHAPTER,
    number=5,
    title="Write the test for the GRU",
    level=2,
    task="The chapter ends with a GRU that loads PyTorch's weights, runs, and is wrong. Write a "
    "test that finds this mistake and others. It is run on three correct functions and on eight "
    "faulty ones.",
    name="gru_test",
    stub='''\
def gru_test(step):
    """Raise AssertionError if a step of the GRU is wrong.

    step: a function of x, h, w_x, w_h, b and b_n, as in exercise 2.3

    Accept every correct function.
    """
    raise NotImplementedError
''',
    hints=(
        "Which function of PyTorch computes the same? `torch.gru_cell` takes transposed matrices "
        "and two biases of (3 * d,).",
        "A weight or a bias that is zero hides mistakes. Which values hide none?",
        "PyTorch's second bias has three groups. What belongs in the groups of r and z, if b "
        "already has their whole bias?",
    ),
    answer=versions.gru_test,
    remark="Random weights, biases and states; PyTorch's second bias is zero for r and z.",
    correct=(
        Subject("all projections are computed at once", versions.gru_step),
        Subject("PyTorch computes the step", versions.by_pytorch),
        Subject("each gate has matrices of its own", versions.by_columns),
    ),
    mutants=tuple(
        Subject(description, function)
        for description, function in zip(
            versions.MUTANTS.values(), versions.gru_mutants(list(versions.MUTANTS)), strict=True
        )
    ),
)


def read_latch(value: Any) -> Tensor | None:
    """The cell states that the weights lead to; anything else as it is."""
    tensor = as_tensor(value)
    if tensor is None or tensor.shape != (3, 4):
        return tensor
    return versions.stored(tensor.float())


q6 = Function(
    chapter=CHAPTER,
    number=6,
    title="A latch",
    level=3,
    task="Choose by hand the weights of an LSTM with one component that stores a value. Each input "
    "is a pair (value, flag). The flag is 1 at the first step and 0 at all others. After the first "
    "step, the cell state should be the tanh of the first value, and it should then remain "
    "unchanged, whatever the other values are. The check runs the LSTM for 100 steps, from the "
    "cell state 0.",
    name="latch",
    stub='''\
def latch(large):
    """The weights: (3, 4).

    large: float; the sigmoid of large / 2 or more is practically 1

    The three rows are the weights of the value, the weights of the flag,
    and the biases. The columns are in the order i, f, g, o. W_h is zero.
    """
    raise NotImplementedError
''',
    hints=(
        "Which gate must be open at the first step only, and which one at all others?",
        "A bias sets what a gate does without the flag. What must the flag add to it at the first "
        "step?",
        "The candidate should depend on the value alone. What does its tanh do if the weight of "
        "the value is not 1?",
    ),
    answer=versions.latch,
    remark="To replace a stored value when the flag is 1 again, the flag would also have to close "
    "the forget gate. The trained LSTM of the live figure does so. In a plain RNN, the stored "
    "value would pass through the tanh at every step.",
    build=by_edits(versions.latch, versions.LATCH_MISTAKES),
    arguments=("large",),
    read=read_latch,
    probes=(
        Probe("the cell states of two sequences after 1, 2, 10 and 100 steps", (40.0,)),
        Probe("the same cell states for another large number", (60.0,)),
    ),
    mistakes=versions.LATCH_MISTAKES,
)
