"""Chapter 14: why self-attention."""

from typing import Any

import torch
from torch import Tensor

from tfmr.exercises import ch14_versions as versions
from tfmr.exercises.edits import by_edits
from tfmr.exercises.exercise import (
    Function,
    Numbers,
    Predict,
    Probe,
    Subject,
    WriteTest,
    as_tensor,
    numbers,
)

CHAPTER = "14"


q1 = Numbers(
    chapter=CHAPTER,
    number=1,
    title="Count by hand",
    level=1,
    task="Let n = 5 and d = 2. Count the FLOPs by hand, as in this chapter: of a recurrent layer, "
    "of self-attention without projections, of a convolution with k = 3, and of local "
    "self-attention with radius r = 2.",
    name="flops",
    stub="""\
# recurrent, self-attention, convolution, local self-attention
flops = [None, None, None, None]
""",
    hints=(
        "How many FLOPs does the product of a vector with 2 components and a 2 × 2 matrix need, "
        "and how many such products are there?",
        "Draw the 5 × 5 scores as a grid. Each pair of positions needs one score and one term of a "
        "weighted sum.",
        "For local attention, shade the pairs with a distance of at most 2, row by row, and count "
        "them.",
    ),
    answer=[80.0, 200.0, 120.0, 152.0],
    remark="5 · 2 products of 8 FLOPs; 25 pairs of 8; 5 · 3 products of 8; and 19 of the 25 pairs "
    "(3, 4, 5, 4 and 3 by row).",
    build=versions.counts_with,
    mistakes=versions.COUNT_MISTAKES,
)


q2 = Function(
    chapter=CHAPTER,
    number=2,
    title="Layers that connect two positions",
    level=1,
    task="Compute the path length of a stack of causal convolutions: the smallest number of layers "
    "that connects position 1 with position n. The first layer has the dilation 1, and the "
    "dilation is multiplied by a factor from layer to layer: 1 for contiguous convolutions, k in "
    "the row of the table.",
    name="path_length",
    stub='''\
def path_length(n, k, growth):
    """The number of layers: an int.

    n: int, the number of positions, at least 2
    k: int, the number of taps, at least 2
    growth: int, from 1 to k, the factor between successive dilations
    """
    raise NotImplementedError
''',
    hints=(
        "How far back does a single layer with k taps and the dilation 1 reach?",
        "What is the reach of two layers together, if the second has the dilation 3?",
        "Add layers until the distance is covered. How large is the distance between positions 1 "
        "and 9?",
    ),
    answer=versions.path_length,
    remark="For growth = 1 and growth = k there are formulas, ⌈(n − 1) / (k − 1)⌉ and ⌈log n⌉ to "
    "the base k. The loop also works between them. "
    "For growth > k, gaps remain that no stack reaches.",
    build=by_edits(versions.path_length, versions.PATH_MISTAKES),
    arguments=("n", "k", "growth"),
    probes=(
        Probe("two positions, one layer", (2, 2, 1)),
        Probe("contiguous, two taps", (6, 2, 1)),
        Probe("contiguous, three taps", (9, 3, 1)),
        Probe("contiguous, a part of the reach is not needed", (12, 4, 1)),
        Probe("dilated, three taps", (9, 3, 3)),
        Probe("dilated, one position more", (10, 3, 3)),
        Probe("dilated, two taps", (17, 2, 2)),
        Probe("a growth that is not k", (16, 3, 2)),
        Probe("a long sequence", (512, 3, 3)),
        Probe("a long sequence, a growth of 2", (500, 5, 2)),
        Probe("a long contiguous stack", (100, 4, 1)),
    ),
    mistakes=versions.PATH_MISTAKES,
)


def read_batch(value: Any) -> Tensor | None:
    """Inputs and labels in one vector."""
    if not isinstance(value, tuple | list) or len(value) != 2:
        return as_tensor(value)
    parts = [as_tensor(each) for each in value]
    return torch.cat([each.double().flatten() for each in parts if each is not None])


def recall_probe(
    stage: str, keys: list[list[int]], values: list[list[int]], asked: list[int], sizes: list[int]
) -> Probe:
    """Keys and values of each sequence, and the pair that it asks for."""
    return Probe(stage, (torch.tensor(keys), torch.tensor(values), torch.tensor(asked), *sizes))


q3 = Function(
    chapter=CHAPTER,
    number=3,
    title="Data for associative recall",
    level=2,
    task="Make the inputs and labels of associative recall: each position has the one-hot vector "
    "of a key, followed by that of its value; the last position has the key that is asked for, "
    "and zeros instead of a value.",
    name="recall_batch",
    stub='''\
def recall_batch(keys, values, asked, n_keys, n_values):
    """Inputs (batch, pairs + 1, n_keys + n_values) and labels (batch,).

    keys: (batch, pairs), the keys of each sequence, all different
    values: (batch, pairs), the value of each key
    asked: (batch,), the number of the pair that is asked for, from 0
    n_keys, n_values: ints, the numbers of different keys and values
    """
    raise NotImplementedError
''',
    hints=(
        "`torch.nn.functional.one_hot` makes the vectors of all positions at once.",
        "Indexing with two tensors, one of rows and one of columns, takes one entry of each row.",
        "Could a network predict the label from your last position alone, without comparing keys?",
    ),
    answer=versions.recall_batch,
    remark="If the value were at the last position, no layer would need to look it up, and the "
    "task would not show whether it can.",
    build=by_edits(versions.recall_batch, versions.RECALL_MISTAKES),
    arguments=("keys", "values", "asked", "n_keys", "n_values"),
    read=read_batch,
    probes=(
        recall_probe("one sequence, one pair", [[1]], [[0]], [0], [2, 2]),
        recall_probe("the first of two pairs", [[2, 0]], [[1, 2]], [0], [3, 3]),
        recall_probe("two sequences", [[2, 1], [0, 3]], [[0, 1], [1, 0]], [1, 0], [4, 2]),
        recall_probe(
            "three sequences, three pairs",
            [[4, 0, 2], [1, 3, 0], [0, 1, 4]],
            [[1, 0, 2], [2, 2, 1], [0, 2, 0]],
            [1, 2, 0],
            [5, 3],
        ),
    ),
    mistakes=versions.RECALL_MISTAKES,
)


def convolution_probe(stage: str, n: int, k: int, dilation: int, seed: int) -> Probe:
    """A sequence, one matrix per tap, and a dilation."""
    return Probe(stage, (numbers(seed, n, 2), numbers(seed + 1, k, 2, 2), dilation))


CENTRED = """\
def causal_convolution(x, weight, dilation):
    n, k = len(x), len(weight)
    span = dilation * (k - 1)
    padded = torch.nn.functional.pad(x, (0, 0, span // 2, span - span // 2))
    return torch.stack([padded[j * dilation :][:n] @ weight[j] for j in range(k)]).sum(dim=0)
"""

q4 = Function(
    chapter=CHAPTER,
    number=4,
    title="Find the bug in the convolution",
    level=2,
    task="A decoder uses the causal convolution below. Its training loss falls much further than "
    "expected, but what it generates is poor. Repair it.",
    name="causal_convolution",
    stub=f"""\
# Find the bug in this code, and repair it: x is (n, d), weight is
# (k, d, d), one matrix per tap; the last tap is at the position itself.
{CENTRED}""",
    hints=(
        "Change the last input. Which outputs change?",
        "For three taps and the dilation 1, write down which inputs the first output depends on, "
        "and which it should depend on.",
        "The sum of the two numbers of zeros is right: the result has n positions. How should it "
        "be distributed?",
    ),
    answer=versions.causal_convolution,
    remark="Centred padding shows each position the next ones, among them the label. In training "
    "the leak lowers the loss; in decoding the later positions do not exist.",
    build=by_edits(versions.causal_convolution, versions.CONVOLUTION_MISTAKES),
    given=versions.centred_padding,
    arguments=("x", "weight", "dilation"),
    probes=(
        convolution_probe("a single position", 1, 3, 1, 0),
        convolution_probe("two taps", 3, 2, 1, 10),
        convolution_probe("three taps", 5, 3, 1, 20),
        convolution_probe("three taps with dilation 2", 7, 3, 2, 30),
        convolution_probe("two taps with dilation 3", 6, 2, 3, 40),
    ),
    mistakes=versions.CONVOLUTION_MISTAKES,
)


def read_step(value: Any) -> Tensor | None:
    """A matrix and a vector side by side."""
    if not isinstance(value, tuple | list) or len(value) != 2:
        return as_tensor(value)
    matrix, vector = (as_tensor(each) for each in value)
    if matrix is None or vector is None or matrix.dim() != 2 or vector.shape != matrix.shape[:1]:
        return None
    return torch.cat([matrix.double(), vector.double()[:, None]], dim=1)


def steps_probe(stage: str, d: int, seed: int) -> Probe:
    """The matrices and vectors of two steps of a linear recurrence."""
    shapes = ((d, d), (d,), (d, d), (d,))
    return Probe(stage, tuple(numbers(seed + i, *shape) for i, shape in enumerate(shapes)))


q5 = Function(
    chapter=CHAPTER,
    number=5,
    title="Two steps as one",
    level=2,
    task="A parallel scan of a linear recurrence combines steps before any state is known. A step "
    "maps the state h to A h + u. Combine two steps, first A₁ and u₁, then A₂ and u₂, into one "
    "step of the same form.",
    name="combined",
    stub='''\
def combined(a1, u1, a2, u2):
    """The matrix and the vector of the combined step: (d, d) and (d,).

    a1, a2: (d, d), the matrices of the first and of the second step
    u1, u2: (d,), their vectors
    """
    raise NotImplementedError
''',
    hints=(
        "Start with d = 1: first 2 h + 3, then 5 h + 1. What is the result for h, as one formula?",
        "Insert the result of the first step in the second, and multiply out.",
        "Which factor of the matrix product is applied to the state first, the left or the right?",
    ),
    answer=versions.combined,
    remark="The combination is associative, so pairs of steps, then pairs of pairs, can be "
    "combined at the same time: the chain has about log n such combinations instead of n steps. "
    "Mamba has diagonal matrices, for which a combination is cheap.",
    build=by_edits(versions.combined, versions.COMBINED_MISTAKES),
    arguments=("a1", "u1", "a2", "u2"),
    read=read_step,
    probes=(
        steps_probe("one component", 1, 0),
        steps_probe("two components", 2, 10),
        steps_probe("three components", 3, 20),
    ),
    mistakes=versions.COMBINED_MISTAKES,
)


q6 = WriteTest(
    chapter=CHAPTER,
    number=6,
    title="Write the test for local attention",
    level=2,
    task="Write a test for local attention with one head. It is run on three correct functions and "
    "on eight faulty ones.",
    name="window_test",
    stub='''\
def window_test(attend):
    """Raise AssertionError if local attention is wrong.

    attend: a function of q, k and v, (n, d), and of radius, an int. Each
        position attends to the positions at most radius away, on both
        sides, and to itself, with scaled dot products and a softmax over
        these positions. It returns (n, d).

    Accept every correct function.
    """
    raise NotImplementedError
''',
    hints=(
        "Compute the expected output in the slowest and clearest way, from all scores and a mask.",
        "Which functions differ only near the ends of the sequence, or only for some radii?",
        "Functions round differently: compare with a small tolerance.",
    ),
    answer=versions.window_test,
    remark="It compares the outputs for four radii, the smallest and the largest included, with "
    "those of full attention under a mask.",
    correct=(
        Subject("all scores are computed and masked", versions.by_mask),
        Subject("each window is computed on its own", versions.by_slices),
        Subject("hidden exponentials are set to zero", versions.by_exponentials),
    ),
    mutants=(
        Subject("a radius that is too large by one", versions.one_more),
        Subject("a radius that is only half as large", versions.half_radius),
        Subject("attention to earlier positions only", versions.one_sided),
        Subject("a window that hides only later positions", versions.without_abs),
        Subject("a window that continues at the other end", versions.around_the_end),
        Subject("windows that end at the boundary of a chunk", versions.in_chunks),
        Subject("scores that are not scaled", versions.not_scaled),
        Subject("weights that do not sum to 1", versions.not_renormalised),
    ),
)


q7 = Predict(
    chapter=CHAPTER,
    number=7,
    title="The order of the dilations",
    level=3,
    task="Stack three centred convolutions with k = 3 over 40 positions. With the dilations 9, 3 "
    "and 1, in this order, a change at position 1 reaches 14 positions. How many does it reach "
    "with the dilations 1, 3 and 9? Predict first; the check then measures both.",
    name="prediction",
    stub="""\
# a: 14: the sums of the three offsets are the same in every order
# b: from 9 to 13
# c: 8 or fewer
prediction = None  # "a", "b" or "c"
""",
    hints=(
        "For each layer, choose one of the offsets −δ, 0 and +δ, where δ is its dilation. Where is "
        "the change after all three?",
        "The sequence is padded with zeros: can a change pass through a position before the first?",
        "With the small dilation first, which steps to the left are possible?",
    ),
    answer="c",
    remark="With the small dilations first, the change can never move to the left, because every "
    "negative step would leave the sequence: it moves by 0 or 1, then by 0 or 3, then by 0 or 9, "
    "and reaches 8 positions with gaps. With the large dilation first, it jumps to the right and "
    "comes back by smaller steps. Far from the ends, the order makes no difference.",
    options={
        "a": "14 positions",
        "b": "from 9 to 13 positions",
        "c": "8 or fewer",
    },
    replies={
        "a": "This would be so far from the ends, but here no change can pass through a position "
        "before the first.",
        "b": "Each layer only offers two steps that stay inside the sequence.",
    },
    experiment=versions.order_of_dilations,
)
