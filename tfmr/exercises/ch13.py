"""Chapter 13: inside a trained model."""

import torch

from tfmr.exercises import ch13_versions as versions
from tfmr.exercises.edits import by_edits
from tfmr.exercises.exercise import (
    Function,
    Numbers,
    Predict,
    Probe,
    Subject,
    WriteTest,
    numbers,
)

CHAPTER = "13"


q1 = Numbers(
    chapter=CHAPTER,
    number=1,
    title="Ablate, replace, patch",
    level=1,
    task="Two heads with d_v = 1 have the outputs 2 and 3; W^O has the rows (1, −1) and (2, 1), "
    "so the output of the sublayer is (8, 1). Compute it by hand if the second head is ablated, "
    "and if the second head is replaced by its mean over training sentences, which is 1. "
    "Then, for two other sentences, a logit difference is 6 for the first, −4 for the second, and "
    "−1 for the second after patching. What is the effect of patching?",
    name="by_hand",
    stub="""\
# two numbers after ablation, two after mean ablation, and the effect
by_hand = [None, None, None, None, None]
""",
    hints=(
        "Write the output as a sum with one term per head.",
        "Only one term changes. What does it become if the output of the head is 0, and if it is "
        "the mean?",
        "Mark the three differences on a number line. How far is the second sentence from the "
        "first, and how far did patching move it?",
    ),
    answer=[2.0, -2.0, 4.0, -1.0, 0.3],
    remark="The first head contributes 2 (1, −1). The second contributes nothing, or 1 (2, 1). "
    "Patching moved the difference by 3, of a gap of 10.",
    build=versions.by_hand_with,
    mistakes=versions.HAND_MISTAKES,
)


q2 = Predict(
    chapter=CHAPTER,
    number=2,
    title="Uniform attention and ablation",
    level=2,
    task="Uniform attention in the twelve sharpest heads together costs 1.07 nats per token on "
    "the twenty sentences. What is the cost of ablating the same twelve heads? Predict first; the "
    "check then measures both, and the same for the twelve most diffuse heads.",
    name="prediction",
    stub="""\
# a: less than 0.9: uniform attention adds wrong values, ablation adds none
# b: from 0.9 to 1.25: these heads contribute only by where they attend
# c: more than 1.25
prediction = None  # "a", "b" or "c"
""",
    hints=(
        "What does a head still contribute if its weights are uniform?",
        "Compare this contribution with that of an ablated head.",
        "Is a mean of the values of the sentence closer to what later blocks received in training "
        "than a vector of zeros?",
    ),
    answer="c",
    remark="A head with uniform attention still contributes the mean of its values, which does not "
    "depend on the queries. In both groups, ablation costs more. For the most diffuse heads, by "
    "these estimates, the mean is most of their contribution.",
    options={
        "a": "less than 0.9 nats",
        "b": "from 0.9 to 1.25 nats",
        "c": "more than 1.25 nats",
    },
    replies={
        "a": "The mean of the values is not only noise: it contains what the values have in "
        "common, and it is lost in an ablation.",
        "b": "The mean of the values contributes as well, wherever a head attends.",
    },
    experiment=versions.ablated_or_uniform,
)


def map_probe(stage: str, allowed: list[list[int]], seed: int) -> Probe:
    """Attention weights, and which keys each query may attend to."""
    mask = torch.tensor(allowed) == 1
    scores = (2 * numbers(seed, *mask.shape)).masked_fill(~mask, -torch.inf)
    return Probe(stage, (scores.softmax(dim=-1), mask))


q3 = Function(
    chapter=CHAPTER,
    number=3,
    title="The sharpness of a head",
    level=1,
    task="Write the measure of sharpness of this chapter for one attention map: the mean entropy "
    "of the queries, divided by the mean entropy of uniform weights over the keys to which each "
    "query may attend.",
    name="relative_entropy",
    stub='''\
def relative_entropy(weights, allowed):
    """0 if each query attends to one key, 1 for uniform weights.

    weights: (query, key), attention weights
    allowed: (query, key), boolean, False where the mask hides the key;
        each query may attend to at least one key
    """
    raise NotImplementedError
''',
    hints=(
        "What is the entropy of a query with the weights 0.5, 0.5 and 0, and what is 0 · log 0 in "
        "PyTorch?",
        "What is the entropy of uniform weights over three keys, and over one key?",
        "The first query of a causal mask has one key. What would a ratio of its own be?",
    ),
    answer=versions.relative_entropy,
    remark="`torch.special.entr` is −w log w, and 0 for w = 0. The entropy of uniform weights over "
    "m keys is log m.",
    build=by_edits(versions.relative_entropy, versions.ENTROPY_MISTAKES),
    arguments=("weights", "allowed"),
    probes=(
        map_probe("one query", [[1, 1, 1]], 0),
        map_probe("two queries, three keys", [[1, 1, 1], [1, 1, 1]], 10),
        map_probe("a hidden key", [[1, 1, 1], [1, 1, 0]], 20),
        map_probe("a causal mask", [[1, 0, 0], [1, 1, 0], [1, 1, 1]], 30),
        map_probe("padding at the end", [[1, 1, 1, 0]] * 3, 40),
    ),
    mistakes=versions.ENTROPY_MISTAKES,
)


def heads_probe(stage: str, lengths: list[int], size: tuple[int, int, int], head: int) -> Probe:
    """Outputs of heads, which tokens are real, W^O, and the head to replace."""
    n_heads, d_v, d_model = size
    real = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    seed = sum(lengths) + 10 * d_model
    heads = numbers(seed, len(lengths), n_heads, max(lengths), d_v)
    return Probe(stage, (heads, real, numbers(seed + 1, n_heads * d_v, d_model), head))


q4 = Function(
    chapter=CHAPTER,
    number=4,
    title="Mean ablation",
    level=2,
    task="Replace the output of one head by its mean over all real tokens of the batch, at every "
    "position, and compute the output of the attention sublayer.",
    name="mean_ablated",
    stub='''\
def mean_ablated(heads, real, w_o, head):
    """The output of the sublayer: (batch, length, d_model).

    heads: (batch, heads, length, d_v), the outputs of the heads
    real: (batch, length), boolean, False marks padding
    w_o: (heads * d_v, d_model), the first d_v rows for the first head
    head: int, the head to replace at every position, from 0
    """
    raise NotImplementedError
''',
    hints=(
        "Which axes does the mean remove: those of the sentences and positions, or that of the "
        "components?",
        "A boolean mask as an index selects the real tokens of all sentences at once.",
        "Afterwards, the heads of one position have to be next to each other. In which order are "
        "the axes of heads?",
    ),
    answer=versions.mean_ablated,
    remark="In the benchmark, the mean comes from training sentences, so that nothing of the "
    "evaluated sentences is left in it.",
    build=by_edits(versions.mean_ablated, versions.ABLATED_MISTAKES),
    arguments=("heads", "real", "w_o", "head"),
    probes=(
        heads_probe("one sentence", [2], (2, 1, 2), 1),
        heads_probe("a sentence with padding", [3, 1], (2, 1, 3), 0),
        heads_probe("two components per head", [2, 3], (2, 2, 4), 1),
        heads_probe("three heads", [1, 4, 2], (3, 2, 6), 2),
        heads_probe("the first of three heads", [3, 4], (3, 2, 5), 0),
    ),
    mistakes=versions.ABLATED_MISTAKES,
)


def stream_probe(stage: str, length: int, d: int, layers: int, seed: int) -> Probe:
    """The input of the first block, and one matrix per block."""
    return Probe(stage, (numbers(seed, length, d), numbers(seed + 1, layers, d, d)))


OVERWRITTEN = """\
def record_stream(x, weights):
    stream = [x]
    for w in weights:
        x += torch.tanh(x @ w)
        stream.append(x)
    return torch.stack(stream)
"""

q5 = Function(
    chapter=CHAPTER,
    number=5,
    title="Find the bug in the recording",
    level=2,
    task="The code below records the residual stream before the first block and after each block. "
    "But all entries of its result are equal, and only the last one is correct. Repair it.",
    name="record_stream",
    stub=f"""\
# Find the bug in this code, and repair it: x is (length, d), weights is
# (layers, d, d), one matrix per block; the result is (layers + 1,
# length, d).
{OVERWRITTEN}""",
    hints=(
        "Compare the first entry of the result with the input that you passed.",
        "How many different tensors does the list hold?",
        "Which line changes a tensor that is already in the list?",
    ),
    answer=versions.record_stream,
    remark="`+=` writes the sum into the tensor that the list already holds, so all entries are "
    "the final stream. A hook that stores a tensor has the same problem if the model changes it "
    "in place later.",
    build=by_edits(versions.record_stream, versions.STREAM_MISTAKES),
    given=versions.overwritten,
    arguments=("x", "weights"),
    probes=(
        stream_probe("one block", 1, 2, 1, 0),
        stream_probe("two blocks", 1, 2, 2, 10),
        stream_probe("two positions", 2, 2, 2, 20),
        stream_probe("three blocks", 3, 3, 3, 30),
    ),
    mistakes=versions.STREAM_MISTAKES,
)


q6 = WriteTest(
    chapter=CHAPTER,
    number=6,
    title="Write the test for patching",
    level=2,
    task="Patching with a mistake still gives plausible effects. Write a test for a function that "
    "replaces one position of the residual stream. It is run on three correct functions and on "
    "eight faulty ones.",
    name="patch_test",
    stub='''\
def patch_test(patch):
    """Raise AssertionError if a patch is wrong.

    patch: a function of stream and values, (batch, length, d), and of
        position, an int from 0. It returns a new stream, in which this
        position has the values of values in every sentence, and leaves
        its arguments unchanged.

    Accept every correct function.
    """
    raise NotImplementedError
''',
    hints=(
        "Use random numbers, so that no two vectors are equal by accident.",
        "Which parts of the result must be those of values, and which those of stream? Compare "
        "all of it.",
        "Try more than one position, the first included, and more than one sentence. What else "
        "does the docstring promise?",
    ),
    answer=versions.patch_test,
    remark="It compares the whole result at each position, and the argument before and after.",
    correct=(
        Subject("a copy is changed", versions.by_index),
        Subject("a mask selects the position", versions.by_mask),
        Subject("three parts are joined", versions.by_parts),
    ),
    mutants=(
        Subject("a patch of all positions", versions.everywhere),
        Subject("a patch of the next position", versions.next_position),
        Subject("a patch of the position and all later ones", versions.from_here_on),
        Subject("a patch of the first sentence of the batch only", versions.first_sentence),
        Subject("values that are added to the stream", versions.added),
        Subject("a patch that does nothing at position 0", versions.not_at_zero),
        Subject("values of the first position", versions.from_first_position),
        Subject("a patch that changes the given stream in place", versions.in_place),
    ),
)


def losses_probe(stage: str, tokens: list[int], seed: int) -> Probe:
    """Losses of two models, numbers of tokens, and 41 resamples."""
    n = len(tokens)
    generator = torch.Generator().manual_seed(seed)
    picks = torch.randint(n, (41, n), generator=generator)
    intact = torch.tensor(tokens) * (1.5 + 0.2 * numbers(seed, n))
    ablated = intact + 1 + 0.5 * numbers(seed + 1, n)
    return Probe(stage, (intact, ablated, torch.tensor(tokens), picks))


q7 = Function(
    chapter=CHAPTER,
    number=7,
    title="A paired bootstrap interval",
    level=3,
    task="Compute the 95 % bootstrap interval of the cost of an ablation: the increase in the loss "
    "in nats per token.",
    name="increase_interval",
    stub='''\
def increase_interval(intact, ablated, tokens, picks):
    """The lower and the upper end of the interval: two numbers.

    intact, ablated: (sentences,), the sum of the losses of the tokens of
        each sentence, for the intact and for the ablated model
    tokens: (sentences,), the number of tokens of each sentence
    picks: (resamples, sentences), the indices of the sentences of each
        resample, drawn with replacement
    """
    raise NotImplementedError
''',
    hints=(
        "Compute the cost for one resample first: the first row of picks. Which sentences are in "
        "it, some of them more than once?",
        "How many tokens does this resample have? Is it the same number in each resample?",
        "With one cost per resample, which quantiles leave out 5 % in total, the same on both "
        "sides?",
    ),
    answer=versions.increase_interval,
    remark="The same sentences are drawn for both models, so what makes a sentence hard for both "
    "cancels: the interval is *paired*.",
    build=by_edits(versions.increase_interval, versions.INTERVAL_MISTAKES),
    arguments=("intact", "ablated", "tokens", "picks"),
    probes=(
        losses_probe("two sentences of equal length", [4, 4], 0),
        losses_probe("two sentences of different length", [2, 8], 10),
        losses_probe("three sentences", [3, 12, 6], 20),
        losses_probe("five sentences", [9, 2, 5, 14, 7], 30),
    ),
    mistakes=versions.INTERVAL_MISTAKES,
)
