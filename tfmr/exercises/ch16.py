"""Chapter 16: one device."""

from typing import Any

import torch
from torch import Tensor

from tfmr.exercises import ch16_versions as versions
from tfmr.exercises.edits import by_edits
from tfmr.exercises.exercise import (
    Caveat,
    Function,
    Numbers,
    Predict,
    Probe,
    Subject,
    WriteTest,
    as_tensor,
    loops,
    numbers,
)

CHAPTER = "16"


q1 = Numbers(
    chapter=CHAPTER,
    number=1,
    title="How many texts fit",
    level=1,
    task="Llama 3 8B has 32 blocks, each with 32 query heads and 8 key heads, and heads of size "
    "128. Its weights take 16.1 GB of a device with 80 GB. The rest is used for KV caches of texts "
    "with 10,000 tokens, in 8-bit numbers. How many kB does the cache of one token need, how many "
    "GB that of one text, and how many texts fit at once?",
    name="cache_sizes",
    stub="cache_sizes = [None, None, None]\n",
    hints=(
        "Which of the vectors of a position does a later query need again? How many numbers do "
        "they have in one block?",
        "Multiply by the number of blocks. A kB has 1,000 bytes, a GB a billion.",
        "All texts use the same weights. The number of texts is an integer.",
    ),
    answer=[65.536, 0.655, 97],
    tolerance=0.002,
    remark="A token needs 2 · 32 · 8 · 128 bytes. With 16-bit numbers it needs twice as many: 59 "
    "texts of 8,192 tokens fit.",
    build=versions.cache_with,
    mistakes=versions.CACHE_MISTAKES,
)


q2 = Function(
    chapter=CHAPTER,
    number=2,
    title="The roofline of a matrix multiplication",
    level=1,
    task="Write the bound of the roofline for a linear layer that is applied to several vectors at "
    "once.",
    name="matmul_seconds",
    stub='''\
def matmul_seconds(m, d_in, d_out, bytes_per_number, peak, bandwidth):
    """The least time of (m, d_in) @ (d_in, d_out), in seconds: a number.

    m: int, the number of vectors
    d_in, d_out: int, the sizes of the weight matrix
    bytes_per_number: int, of the vectors and the weights
    peak: float, FLOP per second
    bandwidth: float, bytes per second

    Vectors and weights are read from memory once, and the result is
    written to memory once.
    """
    raise NotImplementedError
''',
    hints=(
        "Count the FLOPs of one weight and one vector first. How many such pairs are there?",
        "Three matrices are moved. Count their numbers, and convert them to bytes.",
        "Two times follow. Could the multiplication take less than either of them?",
    ),
    answer=versions.matmul_seconds,
    remark="With few vectors the transfer of the weights takes longer, with many the arithmetic.",
    build=by_edits(versions.matmul_seconds, versions.ROOFLINE_MISTAKES),
    arguments=("m", "d_in", "d_out", "bytes_per_number", "peak", "bandwidth"),
    probes=(
        Probe("one vector: the transfer takes longer", (1, 2, 3, 2, 10.0, 4.0)),
        Probe("many vectors: the arithmetic takes longer", (50, 2, 3, 2, 10.0, 40.0)),
        Probe("four bytes per number", (2, 5, 3, 4, 100.0, 20.0)),
        Probe("a wide result", (4, 2, 20, 2, 60.0, 30.0)),
        Probe("one byte per number", (6, 8, 4, 1, 20.0, 50.0)),
        Probe("a fast memory", (3, 4, 4, 2, 8.0, 400.0)),
    ),
    mistakes=versions.ROOFLINE_MISTAKES,
)


def read_triple(value: Any) -> Tensor | None:
    """Maximum, sum and weighted sum of each query, side by side in one row."""
    if not isinstance(value, tuple | list) or len(value) != 3:
        return as_tensor(value)
    m, total, o = (as_tensor(each) for each in value)
    if m is None or total is None or o is None or o.dim() != 2:
        return None
    if {m.numel(), total.numel()} != {len(o)}:
        return None
    return torch.cat([m.reshape(-1, 1), total.reshape(-1, 1), o], dim=1)


def triple_probe(stage: str, keys: tuple[int, int], d_v: int, queries: int, seed: int) -> Probe:
    """The three quantities of two parts with the given numbers of keys."""
    arguments: list[Tensor] = []
    for i, n in enumerate(keys):
        scores, values = 2 * numbers(seed + i, queries, n), numbers(seed + 5 + i, n, d_v)
        m = scores.amax(dim=1)
        exponentials = (scores - m[:, None]).exp()
        arguments += [m, exponentials.sum(dim=1), exponentials @ values]
    return Probe(stage, tuple(arguments))


def one_key_each(stage: str, first: float, second: float) -> Probe:
    """Two parts with one key each, whose values are 6 and 3."""
    pairs = ((first, 6.0), (second, 3.0))
    parts = [(torch.tensor([m]), torch.ones(1), torch.tensor([[value]])) for m, value in pairs]
    return Probe(stage, (*parts[0], *parts[1]))


q3 = Function(
    chapter=CHAPTER,
    number=3,
    title="Merge two parts",
    level=2,
    task="Two devices have each processed a part of the keys for the same queries. Write the "
    "function that merges their results, so that a third part could be merged next.",
    name="merge",
    stub='''\
def merge(m_a, sum_a, o_a, m_b, sum_b, o_b):
    """The same three quantities for the keys of both parts.

    m_a, m_b: (queries,), the largest score of each part
    sum_a, sum_b: (queries,), the sums of the exponentials
    o_a, o_b: (queries, d_v), the weighted sums of the values, before
        the division

    The result is (m, sum, o), with the shapes above.
    """
    raise NotImplementedError
''',
    hints=(
        "What would the largest score be if one device had processed all keys?",
        "The exponentials of a part were computed with its own maximum. By which factor do they "
        "differ from those with the common maximum?",
        "Either part may contain the larger maximum, and which one it is can differ between "
        "queries. What belongs to a part and has to be rescaled?",
    ),
    answer=versions.merge,
    remark="Up to rounding, the order in which parts are merged does not matter. The keys of a "
    "long text can thus be distributed over devices, which exchange only queries and triples.",
    build=by_edits(versions.merge, versions.MERGE_MISTAKES),
    arguments=("m_a", "sum_a", "o_a", "m_b", "sum_b", "o_b"),
    read=read_triple,
    probes=(
        one_key_each("one key each, with equal scores", 1.0, 1.0),
        one_key_each("one key each, the second score is larger", 0.5, 1.5),
        one_key_each("one key each, the first score is larger", 2.0, 0.0),
        triple_probe("one query, two keys each", (2, 2), 2, 1, 0),
        triple_probe("two queries", (2, 3), 2, 2, 20),
        triple_probe("three queries", (5, 1), 3, 3, 40),
    ),
    caveats=(
        Caveat(
            loops(
                triple_probe("", (2, 2), 2, 1, 60).arguments,
                triple_probe("", (2, 2), 2, 7, 60).arguments,
            ),
            "it loops over queries: tensor operations merge all of them.",
        ),
    ),
    mistakes=versions.MERGE_MISTAKES,
)


q4 = Function(
    chapter=CHAPTER,
    number=4,
    title="A scale for each group",
    level=2,
    task="An outlier spoils the scale of its whole row. Many formats therefore divide each row "
    "into groups of consecutive weights, and store a scale for each group. Write this quantisation "
    "with the formula of the chapter.",
    name="quantise",
    stub='''\
def quantise(matrix, bits, group):
    """The weights after rounding, scale times integer: (rows, columns).

    matrix: (rows, columns), in which no group is all zeros
    bits: int, the size of an integer, including its sign
    group: int, the number of consecutive weights of a row that share a
        scale; columns is a multiple of it
    """
    raise NotImplementedError
''',
    hints=(
        "Which shape has one row per group? Going back to the old shape is the last step.",
        "A scale belongs to a group, so the maximum is taken along one axis only. Of which "
        "numbers?",
        "With 3 bits the integers go from −3 to 3. Check that the largest weight of each group is "
        "not changed.",
    ),
    answer=versions.quantise,
    remark="An outlier now affects its group only. The price is one more number per group: a "
    "16-bit scale for 32 weights adds half a bit per weight.",
    build=by_edits(versions.quantise, versions.QUANTISE_MISTAKES),
    arguments=("matrix", "bits", "group"),
    probes=(
        Probe("one group", (torch.tensor([[0.9, 0.5, -0.2]]), 3, 3)),
        Probe("two groups", (torch.tensor([[0.9, -0.5, 3.0, -1.3]]), 3, 2)),
        Probe("a negative outlier", (torch.tensor([[0.3, -2.1, 0.8, 0.4, 0.17, -0.1]]), 3, 3)),
        Probe("two rows, four bits", (numbers(7, 2, 4), 4, 2)),
        Probe("three rows", (numbers(6, 3, 6), 3, 3)),
        Probe("more groups than rows", (numbers(5, 2, 8), 5, 2)),
    ),
    caveats=(
        Caveat(
            loops((numbers(50, 1, 4), 3, 2), (numbers(60, 3, 12), 3, 2)),
            "it loops over groups: a shape with one more axis holds all of them.",
        ),
    ),
    mistakes=versions.QUANTISE_MISTAKES,
)


FROM_P = """\
def after_draft(p, q, draft):
    keep = (p[draft] / q[draft]).clamp(max=1)
    result = (1 - keep) * p
    result[draft] += keep
    return result
"""


def draft_probe(stage: str, p: list[float], q: list[float], draft: int) -> Probe:
    """Two distributions and a drafted token."""
    return Probe(stage, (torch.tensor(p), torch.tensor(q), draft))


FOUR = [0.1, 0.4, 0.3, 0.2], [0.3, 0.25, 0.05, 0.4]
FIVE = [0.05, 0.3, 0.25, 0.3, 0.1], [0.25, 0.2, 0.3, 0.1, 0.15]
q5 = Function(
    chapter=CHAPTER,
    number=5,
    title="Find the bug in speculative decoding",
    level=2,
    task="A token is drafted from q. The code below returns the distribution of the token that is "
    "then generated. Averaged over the drafts it should be p, the distribution of the large model, "
    "but tokens that the draft prefers are generated too often. Repair it.",
    name="after_draft",
    stub=f"""\
# Find the bug in this code, and repair it: p and q are (vocab,), and
# differ; draft is the id of the drafted token. The result is (vocab,).
{FROM_P}""",
    hints=(
        "Let q = (0.75, 0.25) and p = (0.5, 0.5). How often is each token drafted and kept, and "
        "what is missing?",
        "How often does the given code generate the first token after it has rejected it?",
        "After a rejection, only tokens that q drafts too rarely may be generated. Which "
        "distribution is that?",
    ),
    answer=versions.after_draft,
    remark="The drafts that are kept cover min(p, q). A token drawn from p after a rejection is "
    "added to tokens that are already covered.",
    build=by_edits(versions.after_draft, versions.DRAFT_MISTAKES),
    given=versions.from_the_large_model,
    arguments=("p", "q", "draft"),
    probes=(
        draft_probe("two tokens, a draft that may be rejected", [0.5, 0.5], [0.75, 0.25], 0),
        draft_probe("two tokens, a draft that is always kept", [0.5, 0.5], [0.75, 0.25], 1),
        draft_probe("three tokens", [0.2, 0.5, 0.3], [0.5, 0.3, 0.2], 0),
        draft_probe("four tokens, the first is drafted", *FOUR, 0),
        draft_probe("four tokens, the last is drafted", *FOUR, 3),
        draft_probe("five tokens", *FIVE, 0),
        draft_probe("five tokens, another draft", *FIVE, 2),
    ),
    mistakes=versions.DRAFT_MISTAKES,
)


q6 = WriteTest(
    chapter=CHAPTER,
    number=6,
    title="Write the test for attention in tiles",
    level=3,
    task="An online softmax that is wrong returns plausible numbers. Write a test for it. It is "
    "run on three correct functions and on eight faulty ones.",
    name="attend_test",
    stub='''\
def attend_test(attend):
    """Raise AssertionError if attention in tiles is wrong.

    attend: a function of scores, (queries, keys); of values,
        (keys, d_v); and of tile, the number of keys per tile. It
        returns the outputs, (queries, d_v).

    The last tile may have fewer keys. Scores may be large. Accept every
    correct function.
    """
    raise NotImplementedError
''',
    hints=(
        "What is the result if all scores are known at once? It does not depend on the tile.",
        "When does a missing rescaling change nothing? Let the maximum grow from tile to tile.",
        "Choose numbers of keys that the tile does not divide. At which scores does exp overflow?",
    ),
    answer=versions.attend_test,
    remark="It compares four tiles, with and without large scores, with the usual softmax.",
    correct=(
        Subject("the online softmax is used", versions.online),
        Subject("all scores are used at once", versions.at_once),
        Subject("the log-sum-exp is computed in a first pass", versions.in_two_passes),
    ),
    mutants=(
        Subject("an online softmax without rescaling", versions.not_rescaled),
        Subject("a sum of the exponentials that is not rescaled", versions.sum_not_rescaled),
        Subject("a weighted sum that is not rescaled", versions.weighted_not_rescaled),
        Subject("a division by the factor instead of a multiplication", versions.inverted),
        Subject("a result of the last tile alone", versions.last_tile),
        Subject("a result without the last tile if it has fewer keys", versions.whole_tiles),
        Subject("exponentials without a maximum, which overflow", versions.without_maximum),
        Subject("the mean of the outputs of the tiles", versions.mean_of_tiles),
    ),
)


q7 = Predict(
    chapter=CHAPTER,
    number=7,
    title="Change the training: rounded weights",
    level=3,
    task="A network with two layers learns the last digit of the sum of two digits, in 200 steps "
    "of Adam. If its weights are then rounded to 4 bits, with a scale per row, its loss is about "
    "0.07; chance level is ln 10 = 2.303. Now round the weights after every step of the training, "
    "and continue from the rounded weights. What is the loss at the end? Predict first; the check "
    "then trains both.",
    name="prediction",
    stub="""\
# a: below 0.1: the training adapts to the rounding
# b: between 0.1 and 2: the network learns more slowly
# c: above 2: the network does not learn
prediction = None  # "a", "b" or "c"
""",
    hints=(
        "The first steps of Adam change each weight by about the learning rate, here 0.003.",
        "With 4 bits, 14 steps of one scale separate the smallest from the largest weight of a "
        "row. Take a row between −0.2 and 0.2: how large is the scale?",
        "What does the rounding do to a change that is smaller than half a scale?",
    ),
    answer="c",
    remark="Rounding undoes every change of a weight that is smaller than half a scale, except "
    "of the largest weight of a row, which changes the scale. This is one reason to keep weights "
    "in fp32 during the training, as mixed precision does.",
    options={
        "a": "below 0.1",
        "b": "between 0.1 and 2",
        "c": "above 2",
    },
    replies={
        "a": "The changes of single steps are smaller than half a scale, so they cannot add up.",
        "b": "A change that the rounding undoes is lost and does not add up over the steps.",
    },
    experiment=versions.rounded_in_training,
)
