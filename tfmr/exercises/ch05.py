"""Chapter 5: multi-head attention."""

import torch

from tfmr.exercises import ch05_versions as versions
from tfmr.exercises.edits import by_edits
from tfmr.exercises.exercise import (
    Caveat,
    Function,
    Numbers,
    Predict,
    Probe,
    Subject,
    WriteTest,
    first_tensor,
    loops,
    numbers,
)

CHAPTER = "05"


q1 = Numbers(
    chapter=CHAPTER,
    number=1,
    title="One row by hand",
    level=1,
    task="Compute the row of *is* in *All is well* by hand: the four numbers that are concatenated "
    "for it. Its queries are (1, 1) in head 1 and (0, 1) in head 2. The keys of the three tokens "
    "are (2, 0), (0, 1), (0, 1) in head 1 and (0, 0), (0, 2), (1, 0) in head 2; their values are "
    "(1, 0), (0, 1), (1, 1) and (0, 1), (2, 0), (1, 2). You may use exp(1/√2) = 2.028 and "
    "exp(√2) = 4.113.",
    name="row_of_is",
    stub="row_of_is = [None, None, None, None]\n",
    hints=(
        "Begin with head 1 alone: three dot products of its query with its keys. Two are equal.",
        "Each head has d_k = 2, so both divide by √2: 1/√2 and 2/√2 = √2 are the exponents.",
        "Each head has its own three weights, which sum to 1. Multiply them by the values of the "
        "same head; the two numbers of head 1 come first.",
    ),
    answer=[0.752, 0.497, 1.509, 0.491],
    remark="In head 1 the exponentials are 4.113, 2.028 and 2.028, so the weights are 0.503, 0.248 "
    "and 0.248. In head 2 they are 1, 4.113 and 1, so the weights are 0.164, 0.673 and 0.164.",
    build=versions.row_with,
    mistakes=versions.ROW_MISTAKES,
)


q2 = Function(
    chapter=CHAPTER,
    number=2,
    title="Split the heads",
    level=1,
    task="Divide the columns of every token among the heads, so that the attention of Chapter 4 "
    "treats the heads like a batch.",
    name="split_into_heads",
    stub='''\
def split_into_heads(x, n_heads):
    """The heads of each token: (batch, heads, length, d_k).

    x: (batch, length, d_model)
    n_heads: int, a divisor of d_model; d_k = d_model / n_heads

    Head i gets the columns i * d_k to (i + 1) * d_k - 1 of every token.
    """
    raise NotImplementedError
''',
    hints=(
        "The d_model numbers of one token lie next to each other. Which axis do you have to "
        "divide into two?",
        "After the division there are four axes. In which order are they, and in which order does "
        "the result need them?",
        "`view` divides an axis but moves no number; `transpose` exchanges two axes.",
    ),
    answer=versions.split_into_heads,
    remark="`view` divides the last axis, which keeps the numbers of a token together; `transpose` "
    "moves the axis of the heads before the axis of the positions.",
    build=by_edits(versions.split_into_heads, versions.SPLIT_MISTAKES),
    arguments=("x", "n_heads"),
    probes=(
        Probe("one token and two heads", (torch.tensor([[[1.0, 2, 3, 4]]]), 2)),
        Probe("two tokens and two heads", (torch.arange(8.0).view(1, 2, 4), 2)),
        Probe("four tokens and two heads", (numbers(0, 1, 4, 6), 2)),
        Probe("four tokens and four heads", (numbers(1, 1, 4, 8), 4)),
        Probe("a single head", (numbers(2, 1, 2, 4), 1)),
        Probe("a batch of two sentences", (numbers(3, 2, 6, 6), 3)),
        Probe("a batch of three sentences", (numbers(4, 3, 4, 4), 2)),
    ),
    caveats=(
        Caveat(
            loops((numbers(0, 2, 2, 4), 2), (numbers(0, 2, 8, 4), 2)),
            "it loops over positions: a division of the last axis serves all of them at once.",
        ),
    ),
    mistakes=versions.SPLIT_MISTAKES,
)


def attention_probe(
    stage: str, batch: int, length: int, d_model: int, n_heads: int, seed: int
) -> Probe:
    """A sentence or a batch, four matrices, and a number of heads."""
    matrices = tuple(numbers(seed + i, d_model, d_model) for i in range(1, 5))
    return Probe(stage, (numbers(seed, batch, length, d_model), *matrices, n_heads))


q3 = Function(
    chapter=CHAPTER,
    number=3,
    title="Several heads",
    level=2,
    task="Write multi-head self-attention, without a mask and without biases: project, split, "
    "attend, join, project.",
    name="multi_head",
    stub='''\
def multi_head(x, w_q, w_k, w_v, w_o, n_heads):
    """Multi-head self-attention: (batch, length, d_model).

    x: (batch, length, d_model)
    w_q, w_k, w_v, w_o: (d_model, d_model); the columns of w_q, w_k and
        w_v that belong to head 0 come first, then those of head 1, ...
    n_heads: int

    The matrices are those of the formulas, x @ w_q, not the weights of
    nn.Linear.
    """
    raise NotImplementedError
''',
    hints=(
        "All heads together need only three projections. Split their results, not their input.",
        "With four axes (batch, heads, length, d_k), the lines of Chapter 4 compute all heads. "
        "What is d_k here?",
        "Before you join the heads, write down the axes of their outputs. Which two axes must be "
        "neighbours, so that flattening them gives one row per token?",
    ),
    answer=versions.multi_head,
    remark="It uses `split_into_heads` of exercise 5.2. Joining is its inverse: exchange the axes "
    "back, then flatten heads and components.",
    build=by_edits(versions.multi_head, versions.MULTI_HEAD_MISTAKES),
    arguments=("x", "w_q", "w_k", "w_v", "w_o", "n_heads"),
    read=first_tensor,
    probes=(
        attention_probe("one token and one head", 1, 1, 2, 1, 0),
        attention_probe("three tokens and one head", 1, 3, 2, 1, 10),
        attention_probe("one token and two heads", 1, 1, 4, 2, 20),
        attention_probe("two tokens and two heads", 1, 2, 4, 2, 30),
        attention_probe("three tokens and two heads", 1, 3, 4, 2, 40),
        attention_probe("four tokens and three heads", 1, 4, 6, 3, 50),
        attention_probe("a batch of two sentences", 2, 3, 4, 2, 60),
    ),
    caveats=(
        Caveat(
            loops(
                attention_probe("", 1, 2, 4, 2, 70).arguments,
                attention_probe("", 1, 9, 4, 2, 70).arguments,
            ),
            "it loops over positions: one matrix multiplication computes all scores at once.",
        ),
    ),
    mistakes=versions.MULTI_HEAD_MISTAKES,
)


WITHOUT_COLUMNS = """\
def without_head(z, w_o, head):
    d_k = z.shape[-1]
    w_o = w_o.clone()
    w_o[:, head * d_k : (head + 1) * d_k] = 0
    return z.transpose(1, 2).flatten(2) @ w_o
"""


def removal_probe(stage: str, batch: int, n_heads: int, d_k: int, head: int, seed: int) -> Probe:
    """The outputs of heads for three tokens, an output matrix, and the head to remove."""
    columns = n_heads * d_k
    return Probe(
        stage, (numbers(seed, batch, n_heads, 3, d_k), numbers(seed + 1, columns, columns), head)
    )


q4 = Function(
    chapter=CHAPTER,
    number=4,
    title="Find the bug: a removed head",
    level=2,
    task="The code below is meant to remove one head, so that its contribution can be measured. "
    "Its result has the right shape, but a part of every output is missing. Repair it.",
    name="without_head",
    stub=f"""\
# Find the bug in this code, and repair it: z has the outputs of all
# heads, (batch, heads, length, d_k), w_o is the matrix of the formulas,
# (heads * d_k, d_model), and heads are counted from 0.
{WITHOUT_COLUMNS}""",
    hints=(
        "Print the output of one token with all heads and with one head removed by this code. "
        "Which components of the output differ, and what are they now?",
        "Write the product of the concatenation and W^O as a sum over heads. Which part of W^O "
        "does head i multiply?",
        "In a product z @ w, the columns of z meet the rows of w; the columns of w are the "
        "components of the output.",
    ),
    answer=versions.without_head,
    remark="The concatenation is multiplied from the right, so the columns of a head meet the "
    "*rows* of W^O. The code would be right for the weight of `nn.Linear`, which is the transpose.",
    build=by_edits(versions.without_head, versions.WITHOUT_HEAD_MISTAKES),
    given=versions.without_columns,
    arguments=("z", "w_o", "head"),
    probes=(
        removal_probe("two heads, of which the second is removed", 1, 2, 2, 1, 0),
        removal_probe("two heads, of which the first is removed", 1, 2, 3, 0, 10),
        removal_probe("three heads", 1, 3, 2, 1, 20),
        removal_probe("a batch", 2, 4, 2, 2, 30),
    ),
    mistakes=versions.WITHOUT_HEAD_MISTAKES,
)


q5 = WriteTest(
    chapter=CHAPTER,
    number=5,
    title="Write the test for the split",
    level=2,
    task="A wrong split raises no error, so it needs a test. Yours is run on three correct "
    "functions, which it must accept, and on eight faulty ones, which it must reject.",
    name="split_test",
    stub='''\
def split_test(split):
    """Raise AssertionError if a split into heads is wrong.

    split: a function of x, (batch, length, d_model), and n_heads with
        the result (batch, heads, length, d_k), as in exercise 5.2

    Accept every correct function, however it computes its result.
    """
    raise NotImplementedError
''',
    hints=(
        "Which columns of `x` should head i hold? Compare them, instead of the shape alone.",
        "Some mistakes are invisible for one head, for one sentence or for equal sizes. Choose "
        "a batch in which all sizes differ.",
        "Test several numbers of heads, and every head, token and sentence of each.",
    ),
    answer=versions.split_test,
    remark="It compares every head with the columns that belong to it, for several numbers of "
    "heads. Random numbers make all entries different, so that no exchange goes unnoticed.",
    correct=(
        Subject("a view is followed by a transpose", versions.split_into_heads),
        Subject("the columns are divided by torch.chunk", versions.by_chunks),
        Subject("einops rearranges the axes", versions.by_pattern),
    ),
    mutants=(
        Subject("a split by view alone, which mixes the tokens", versions.by_view),
        Subject("heads with interleaved columns", versions.interleaved),
        Subject("heads in the opposite order", versions.heads_reversed),
        Subject(
            "a split that gives every sentence the heads of the first", versions.first_sentence
        ),
        Subject("a split into at most two heads, whatever n_heads is", versions.always_two),
        Subject("a split in which every head has the first columns", versions.first_columns),
        Subject(
            "positions in the opposite order in all heads but the first",
            versions.positions_reversed,
        ),
        Subject("a split that exchanges sentences and heads", versions.batch_mixed),
    ),
)


q6 = Predict(
    chapter=CHAPTER,
    number=6,
    title="Change the model: four equal heads",
    level=3,
    task="Take the attention layer with four heads that learned four relations in this chapter, "
    "and give all heads the same weights at the start: those of head 1 in all four matrices. "
    "Nothing else changes. What is the accuracy after 200 steps? Predict first; the check then "
    "trains the model, in a few seconds.",
    name="prediction",
    stub="""\
# a: above 0.9, as with different weights: training separates the heads
# b: between 0.25 and 0.9, as with a single head
# c: below 0.25, close to chance (0.125)
prediction = None  # "a", "b" or "c"
""",
    hints=(
        "Compare the outputs of two heads at the first step. What follows for their gradients?",
        "Adam computes its step from the gradients of a weight. Can two weights with equal "
        "values and equal gradients become different?",
        "If the heads stay equal, how many different rows of weights does the layer have? Look "
        "up what the chapter measured for a layer with as many.",
    ),
    answer="b",
    remark="Equal heads have equal outputs and equal gradients, so every step changes them "
    "equally: four copies have one row of weights, like a single head. In this model, heads "
    "become different only because their initial weights are.",
    options={
        "a": "above 0.9",
        "b": "between 0.25 and 0.9",
        "c": "below 0.25",
    },
    replies={
        "a": "Training separates only heads that differ: equal heads receive equal gradients.",
        "c": "The four copies still learn what a single head can learn.",
    },
    experiment=versions.same_start,
)
