"""Chapter 4: self-attention."""

from collections.abc import Callable

import torch
from torch import Tensor

from tfmr.exercises import ch04_versions as versions
from tfmr.exercises import guard
from tfmr.exercises.ch04_versions import KEYS, VALUES
from tfmr.exercises.exercise import (
    Caveat,
    Function,
    Numbers,
    Probe,
    Subject,
    WriteTest,
    as_tensor,
    first_tensor,
    loops,
    numbers,
)

CHAPTER = "04"


q1 = Numbers(
    chapter=CHAPTER,
    number=1,
    title="Another query",
    level=1,
    task="By hand: let the query of *good* be (0, 2). The keys of *I am good* are still (1, 0), "
    "(0, 1) and (1, 1), its values (2, 0), (1, 1) and (0, 4), and d_k = 2. Give the two components "
    "of the output for *good*. You may use exp(√2) = 4.113.",
    name="another_query",
    stub="another_query = [None, None]\n",
    hints=(
        "Start with the three dot products of the query (0, 2) with the keys. Two are equal.",
        "Divide by √2 before you take the exponential: 2 / √2 = √2, and the exponential of 0 is 1.",
        "The denominator of the weights is 1 + 4.113 + 4.113. Multiply each value by its weight, "
        "and add up the three products.",
    ),
    answer=[0.663, 2.229],
    remark="The dot products are 0, 2 and 2. The exponentials are 1, 4.113 and 4.113, and their "
    "sum is 9.226, so the weights are 0.108, 0.446 and 0.446.",
    build=versions.another_query_with,
    mistakes=versions.ANOTHER_QUERY_MISTAKES,
)

LARGE = (torch.tensor([[30.0, 0]]), 30 * KEYS, VALUES)
"""Queries, keys and values with dot products of 900, 0 and 900."""


def is_finite(answer: Callable[..., object], *mask: Tensor) -> bool:
    """Whether an attention function gives neither NaN nor infinity for large scores."""
    output = first_tensor(guard.call(answer, (*LARGE, *mask)).result)
    return output is not None and bool(output.isfinite().all())


OVERFLOW = (
    "it gives NaN for large scores, because their exponential overflows: subtract the largest "
    "score of each row first, or use softmax, which does so."
)
q2 = Function(
    chapter=CHAPTER,
    number=2,
    title="Attention in a few lines",
    level=1,
    task="Write the function of this chapter yourself, without a mask.",
    name="attention",
    stub='''\
def attention(q, k, v):
    """The outputs of scaled dot-product attention: (..., query, d_v).

    q: (..., query, d_k)
    k: (..., key, d_k)
    v: (..., key, d_v)

    The dots stand for any number of batch axes, including none. Do not
    call a function that computes attention.
    """
    raise NotImplementedError
''',
    hints=(
        "Write the four steps one after the other, as in the section *All tokens at once*: "
        "compare, scale, softmax, average.",
        "`k.T` exchanges all axes. For a batch, exchange only the last two.",
        "Which axis of the scores belongs to the keys, and which to the queries? Each query's "
        "weights must sum to 1.",
    ),
    answer=versions.attention,
    remark="All axes are counted from the end, so that the function also works for a batch.",
    build=versions.attention_with,
    arguments=("q", "k", "v"),
    read=first_tensor,
    probes=(
        Probe(
            "one query and two keys with d_k = 1",
            (torch.tensor([[1.0]]), torch.tensor([[0.0], [2.0]]), torch.tensor([[1.0], [5.0]])),
        ),
        Probe(
            "one query and three keys with d_k = 4",
            (numbers(0, 1, 4), numbers(1, 3, 4), numbers(2, 3, 2)),
        ),
        Probe(
            "three queries and three keys",
            (torch.tensor([[1.0, 2], [1, 0], [1, -1]]), KEYS, VALUES),
        ),
        Probe(
            "two queries and two keys with d_k = d_v = 2",
            (numbers(12, 2, 2), numbers(13, 2, 2), numbers(14, 2, 2)),
        ),
        Probe(
            "two queries and five keys",
            (numbers(3, 2, 4), numbers(4, 5, 4), numbers(5, 5, 3)),
        ),
        Probe(
            "a batch of two sentences",
            (
                numbers(6, 2, 3, 2),
                numbers(7, 2, 4, 2),
                numbers(8, 2, 4, 3),
            ),
        ),
        Probe(
            "a batch of three sentences",
            (numbers(15, 3, 2, 4), numbers(16, 3, 5, 4), numbers(17, 3, 5, 2)),
        ),
        Probe(
            "a batch with two heads",
            (
                numbers(9, 2, 2, 3, 2),
                numbers(10, 2, 2, 4, 2),
                numbers(11, 2, 2, 4, 3),
            ),
        ),
    ),
    caveats=(
        Caveat(lambda answer: not is_finite(answer), OVERFLOW),
        Caveat(
            loops((numbers(0, 2, 4),) * 3, (numbers(1, 9, 4),) * 3),
            "it loops over positions: one matrix multiplication computes all scores at once.",
        ),
    ),
    mistakes=versions.ATTENTION_MISTAKES,
)


def read_mask(value: object) -> Tensor | None:
    """A mask as (batch, query, key), boolean or of 0 and 1; an axis of one head is removed.

    In an additive mask, any very small number stands for −∞.
    """
    mask = as_tensor(value)
    if mask is not None and mask.is_floating_point():
        mask = mask.masked_fill(mask < -1000, float("-inf"))
    if mask is not None and mask.dim() == 4 and mask.shape[1] == 1:
        mask = mask[:, 0]
    return mask


def is_numeric(answer: Callable[..., object]) -> bool:
    """Whether a mask consists of numbers instead of booleans."""
    mask = read_mask(answer(torch.tensor([[1, 0]])))
    return mask is None or mask.dtype != torch.bool


q3 = Function(
    chapter=CHAPTER,
    number=3,
    title="The mask of a decoder",
    level=2,
    task="Build the mask that the decoder needs for a batch of target sentences.",
    name="decoder_mask",
    stub='''\
def decoder_mask(ids):
    """The causal mask and the padding mask together.

    ids: (batch, length), token ids; 0 is padding at the end

    The result is boolean, (batch, length, length). True in row i and
    column j means that position i may attend to position j.
    """
    raise NotImplementedError
''',
    hints=(
        "Draw the mask of [[5, 7, 0]] on paper: three rows, three columns. Which entries does the "
        "causal mask allow, and which of them are padding?",
        "`torch.tril` keeps the lower triangle of a matrix. A comparison with 0 finds the padding.",
        "The causal mask has the shape (length, length), the other (batch, length). Which axis of "
        "size one makes the second broadcast along the rows?",
    ),
    answer=versions.decoder_mask,
    remark="The new axis of `keep` is the axis of the queries: in each row, the same columns are "
    "hidden. Padded positions keep at least their first key, so no row is hidden completely.",
    build=versions.decoder_mask_with,
    arguments=("ids",),
    read=read_mask,
    probes=(
        Probe("one sentence without padding", (torch.tensor([[4, 9, 6]]),)),
        Probe("one sentence with padding", (torch.tensor([[4, 9, 0]]),)),
        Probe("two sentences", (torch.tensor([[4, 9, 6, 2], [3, 8, 0, 0]]),)),
        Probe("three short sentences", (torch.tensor([[4, 9], [3, 0], [5, 5]]),)),
    ),
    caveats=(
        Caveat(
            is_numeric,
            "it returns numbers instead of booleans, for which `~mask` and `masked_fill` do not "
            "work: return a boolean tensor.",
        ),
        Caveat(
            loops((torch.tensor([[4, 9, 0]]),), (torch.tensor([[4, 9, 7, 5, 8, 0], [4] * 6]),)),
            "it loops over sentences or positions: the two masks broadcast to the shape of the "
            "result.",
        ),
    ),
    mistakes=versions.DECODER_MASK_MISTAKES,
)


MASKED_LATE = """\
def masked_attention(q, k, v, mask):
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    weights = scores.softmax(dim=-1)
    weights = weights * mask
    return weights @ v
"""


MASK = torch.tensor([[True, False, False], [True, True, False], [True, False, True]])
ONE_LARGE, NONE_LARGE = torch.tensor([[False, True, True]]), torch.tensor([[False, True, False]])
"""Masks that keep one or none of the two keys with large scores."""

q4 = Function(
    chapter=CHAPTER,
    number=4,
    title="Find the bug in the mask",
    level=2,
    task="All shapes in the code below are correct, and its outputs look plausible. Nevertheless, "
    "information about hidden keys reaches the output. Repair it.",
    name="masked_attention",
    stub=f"""\
# Find the bug in this code, and repair it: the output for a query must
# not depend on a key that is hidden from it. mask is boolean, True = may
# attend, and each of its rows keeps at least one key.
{MASKED_LATE}""",
    hints=(
        "Compute the sums of the rows of the weights, with and without a mask. What should they "
        "be?",
        "Change a key that is hidden from a query. Does the output of this query change? Where "
        "does the key enter its weights?",
        "The denominator of the softmax contains every score. In which of the four steps must a "
        "key be hidden, so that it is missing there, too?",
    ),
    answer=versions.masked_attention,
    remark="A weight that is set to 0 after the softmax is still part of the denominator of the "
    "other weights: the rows no longer sum to 1, and the output depends on hidden keys.",
    build=versions.masked_attention_with,
    given=versions.masked_late,
    arguments=("q", "k", "v", "mask"),
    read=first_tensor,
    probes=(
        Probe(
            "one query and two keys, of which one is hidden",
            (
                torch.tensor([[1.0]]),
                torch.tensor([[1.0], [2.0]]),
                torch.tensor([[1.0], [5.0]]),
                torch.tensor([[True, False]]),
            ),
        ),
        Probe(
            "one query and three keys, of which one is hidden",
            (
                numbers(0, 1, 4),
                numbers(1, 3, 4),
                numbers(2, 3, 2),
                MASK[1:2],
            ),
        ),
        Probe(
            "three queries",
            (torch.tensor([[1.0, 2], [1, 0], [1, -1]]), KEYS, VALUES, MASK),
        ),
        Probe(
            "a batch of two sentences with a mask for each",
            (
                numbers(3, 2, 3, 2),
                numbers(4, 2, 3, 2),
                numbers(5, 2, 3, 2),
                torch.stack([MASK, MASK.T]),
            ),
        ),
    ),
    caveats=(
        Caveat(lambda answer: not is_finite(answer, ONE_LARGE), OVERFLOW),
        Caveat(
            lambda answer: is_finite(answer, ONE_LARGE) and not is_finite(answer, NONE_LARGE),
            "it gives NaN if a hidden key has a much larger score than all others, because their "
            "weights underflow to 0: mask the scores before the softmax.",
        ),
    ),
    mistakes=versions.MASKED_ATTENTION_MISTAKES,
)


q5 = Function(
    chapter=CHAPTER,
    number=5,
    title="The gradient of the softmax",
    level=3,
    task="PyTorch computes this gradient for you. Write it yourself, from the formula for the "
    "derivative of a weight in the section *Why divide by √d_k*.",
    name="softmax_backward",
    stub='''\
def softmax_backward(weights, grad):
    """The gradient of the loss with respect to the scores: (..., key).

    weights: (..., key), the softmax of each row of scores
    grad: (..., key), the gradient with respect to the weights

    Use the formula for the derivative of a weight, not autograd.
    """
    raise NotImplementedError
''',
    hints=(
        "By the chain rule, the gradient for score j is the sum over i of grad_i times the "
        "derivative of weight i with respect to score j.",
        "Insert a_i (δ_ij − a_j), and split the sum in two: in the first, only i = j remains.",
        "Which factor do both terms share? The other factor of the second term is the same number "
        "for every j.",
    ),
    answer=versions.softmax_backward,
    remark="The sum over i of grad_i · a_i (δ_ij − a_j) is a_j (grad_j − Σ_i a_i grad_i). The "
    "components of the result sum to 0, because adding a constant to all scores changes no weight.",
    build=versions.softmax_backward_with,
    arguments=("weights", "grad"),
    probes=(
        Probe("two uniform weights", (torch.tensor([0.5, 0.5]), torch.tensor([1.0, 0.0]))),
        Probe(
            "three different weights",
            (torch.tensor([0.125, 0.25, 0.625]), torch.tensor([1.0, -2.0, 3.0])),
        ),
        Probe(
            "two rows",
            (
                torch.tensor([[0.125, 0.25, 0.625], [0.5, 0.25, 0.25]]),
                torch.tensor([[1.0, -2.0, 3.0], [0.5, 4.0, -1.0]]),
            ),
        ),
        Probe("a batch", (numbers(0, 2, 2, 4).softmax(dim=-1), numbers(1, 2, 2, 4))),
    ),
    caveats=(
        Caveat(
            loops(
                (numbers(0, 2, 3).softmax(dim=-1), numbers(1, 2, 3)),
                (numbers(0, 5, 9).softmax(dim=-1), numbers(1, 5, 9)),
            ),
            "it loops over rows or keys: one sum over the last axis serves all rows.",
        ),
    ),
    mistakes=versions.SOFTMAX_BACKWARD_MISTAKES,
)


q6 = WriteTest(
    chapter=CHAPTER,
    number=6,
    title="Write the test for the causal mask",
    level=3,
    task="A causal mask that is wrong raises no error, so it needs a test. Yours is run on three "
    "correct functions, which it must accept, and on eight faulty ones, which it must reject.",
    name="leak_test",
    stub='''\
def leak_test(attend):
    """Raise AssertionError if an output depends on a later position.

    attend: a function from (batch, length, d) to (batch, length, d)

    In a correct function, output i depends on positions 0 to i only.
    Accept every correct function, however it computes its outputs.
    """
    raise NotImplementedError
''',
    hints=(
        "A perturbation test changes the input at one position. Which outputs may then change, "
        "and which may not?",
        "Two correct functions add in different orders, and their results differ in the last "
        "digits. Which comparison tolerates that?",
        "Change each position in turn, in every sentence of a batch of several. A change of a "
        "position far away has to be noticed, too.",
    ),
    answer=versions.leak_test,
    remark="The test looks only at inputs and outputs, so it serves every implementation. It "
    "changes each position but the first, in all sentences of the batch.",
    correct=(
        Subject("the scores are masked before the softmax", versions.causal_attention),
        Subject("each output is computed from its prefix alone", versions.prefix_by_prefix),
        Subject("PyTorch's fused function is called with is_causal=True", versions.fused),
    ),
    mutants=(
        Subject("attention without any mask", versions.unmasked),
        Subject(
            "attention in which each position also attends to the next one", versions.next_visible
        ),
        Subject("attention to the position itself and to later ones", versions.reversed_mask),
        Subject(
            "a mask that is applied after the softmax, without renormalising the weights",
            versions.late_mask,
        ),
        Subject("masked scores that are 0 instead of −∞", versions.zero_filled),
        Subject(
            "causal weights, but values from which the mean over all positions is subtracted",
            versions.centred_values,
        ),
        Subject("a mask for the first sentence of a batch only", versions.second_unmasked),
        Subject(
            "attention in which every position also attends to the last one", versions.last_visible
        ),
    ),
)
