"""Chapter 7: residual connections and layer normalisation."""

import torch

from tfmr.exercises import ch07_versions as versions
from tfmr.exercises.ch07_versions import Fixed
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

CHAPTER = "07"


q1 = Numbers(
    chapter=CHAPTER,
    number=1,
    title="A layer norm by hand",
    level=1,
    task="Compute the layer norm of (1, 1, 4, 2) by hand, with the gain (1, 1, 2, 2), the bias "
    "(0, 1, 0, 1) and ε = 0. You may use √1.5 = 1.225.",
    name="normalised",
    stub="normalised = [None, None, None, None]\n",
    hints=(
        "Begin with the mean of the four numbers, and subtract it from each.",
        "The variance is the mean of the squares of the four differences. Its square root is in "
        "the task.",
        "Divide the differences by the root. Only then multiply each by its gain and add its bias.",
    ),
    answer=[-0.816, 0.184, 3.266, 1.0],
    remark="The mean is 2, the differences are −1, −1, 2 and 0, and the variance is 6/4 = 1.5. "
    "Divided by 1.225, they are −0.816, −0.816, 1.633 and 0.",
    build=versions.by_hand_with,
    mistakes=versions.BY_HAND_MISTAKES,
)


def norm_probe(stage: str, *shape: int, eps: float = 1e-5, seed: int = 0) -> Probe:
    """Random vectors, gain and bias."""
    vectors, size = numbers(seed, *shape), shape[-1]
    return Probe(stage, (vectors, numbers(seed + 1, size), numbers(seed + 2, size), eps))


q2 = Function(
    chapter=CHAPTER,
    number=2,
    title="Layer normalisation",
    level=1,
    task="Write layer normalisation for any number of vectors. Do not call a function that "
    "normalises.",
    name="normalise_vectors",
    stub='''\
def normalise_vectors(x, gain, bias, eps):
    """The normalised vectors, of the same shape as x.

    x: (..., d_model); the dots stand for any number of axes, including none
    gain, bias: (d_model,)
    eps: float, which is added to the variance
    """
    raise NotImplementedError
''',
    hints=(
        "Mean and variance belong to one vector. Over which axis do you take them?",
        "The statistics lose an axis. Keep it with size one, so that they broadcast.",
        "PyTorch's `var` and `std` have a default that the formula of the chapter does not have: "
        "look up `correction`.",
    ),
    answer=versions.normalise_vectors,
    remark="Every vector is treated separately, whatever the other axes are.",
    build=by_edits(versions.normalise_vectors, versions.NORM_MISTAKES),
    arguments=("x", "gain", "bias", "eps"),
    probes=(
        Probe(
            "one vector, gain 1 and bias 0",
            (torch.tensor([1.0, 2, 3, 6]), torch.ones(4), torch.zeros(4), 0.0),
        ),
        Probe(
            "gain and bias",
            (
                torch.tensor([2.0, -1, 1]),
                torch.tensor([1.0, 2, 3]),
                torch.tensor([1.0, 0, -1]),
                0.0,
            ),
        ),
        norm_probe("a large eps", 4, eps=0.5, seed=10),
        norm_probe("two vectors", 2, 4, seed=20),
        norm_probe("three vectors of three numbers", 3, 3, seed=25),
        norm_probe("a batch of sentences", 2, 3, 4, seed=30),
        Probe("a constant vector", (torch.ones(1, 3), torch.ones(3), torch.zeros(3), 1e-5)),
    ),
    mistakes=versions.NORM_MISTAKES,
)


ATTENTION = Fixed("the mean over the positions", lambda x: x.mean(dim=-2, keepdim=True) + 0 * x)
FEED_FORWARD = Fixed("x ↦ 2 relu(x) − 1", lambda x: 2 * x.relu() - 1)
NORM_1 = Fixed("a layer norm", lambda x: 2 * torch.layer_norm(x, x.shape[-1:]) + 1)
NORM_2 = Fixed("another layer norm", lambda x: 3 * torch.layer_norm(x, x.shape[-1:]) - 1)
ZERO, SAME = Fixed("x ↦ 0", torch.zeros_like), Fixed("x ↦ x", lambda x: x)


def block_probes() -> tuple[Probe, ...]:
    """Vectors and the parts of a block; the first probes isolate one part each."""
    x, batch = torch.tensor([[1.0, 2, 3, 6], [2, 0, 1, 1]]), numbers(0, 2, 3, 4)
    return (
        Probe("sublayers that return 0, without norms", (x, ZERO, ZERO, SAME, SAME)),
        Probe("the attention alone", (x, ATTENTION, ZERO, SAME, SAME)),
        Probe("the feed-forward network alone", (x, ZERO, FEED_FORWARD, SAME, SAME)),
        Probe("both sublayers, without norms", (x, ATTENTION, FEED_FORWARD, SAME, SAME)),
        Probe("the first norm alone", (x, ATTENTION, FEED_FORWARD, NORM_1, SAME)),
        Probe("the second norm alone", (x, ATTENTION, FEED_FORWARD, SAME, NORM_2)),
        Probe("a whole block", (batch, ATTENTION, FEED_FORWARD, NORM_1, NORM_2)),
    )


PARTS = ("x", "attention", "feed_forward", "norm_1", "norm_2")

q3 = Function(
    chapter=CHAPTER,
    number=3,
    title="The block of the paper",
    level=2,
    task="Put an encoder block together from its four parts, in the form of the paper: post-norm, "
    "without dropout.",
    name="post_norm_block",
    stub='''\
def post_norm_block(x, attention, feed_forward, norm_1, norm_2):
    """The output of a post-norm block, of the same shape as x.

    x: (..., length, d_model)
    attention, feed_forward, norm_1, norm_2: functions that map a tensor
        to one of the same shape; norm_1 belongs to the attention
    """
    raise NotImplementedError
''',
    hints=(
        "A sublayer, its residual connection and its layer norm are one line. The block has two "
        "such lines.",
        "The paper writes LayerNorm(x + Sublayer(x)). What is x in the second line?",
        "Check your function with sublayers that return zeros: only the layer norms remain.",
    ),
    answer=versions.post_norm_block,
    remark="The output of the first norm is the input of the second sublayer and of its residual "
    "connection.",
    build=by_edits(versions.post_norm_block, versions.BLOCK_MISTAKES),
    arguments=PARTS,
    probes=block_probes(),
    mistakes=versions.BLOCK_MISTAKES,
)


HALF_PRE_NORM = """\
def pre_norm_block(x, attention, feed_forward, norm_1, norm_2):
    x = norm_1(x + attention(x))
    return x + feed_forward(norm_2(x))
"""

q4 = Function(
    chapter=CHAPTER,
    number=4,
    title="Find the bug in the pre-norm block",
    level=2,
    task="The code below is meant to be a pre-norm block. It trains, but its residual stream is "
    "normalised. Repair it.",
    name="pre_norm_block",
    stub=f"""\
# Find the bug in this code, and repair it: the arguments are those of
# exercise 7.3.
{HALF_PRE_NORM}""",
    hints=(
        "Let both sublayers return zeros. What should a pre-norm block return then, and what does "
        "this code return?",
        "Compare the two lines. Which tensor is the input of each layer norm?",
        "In a pre-norm block a normalised vector has one use only: as the input of a sublayer.",
    ),
    answer=versions.pre_norm_block,
    remark="The first line normalises the sum and so replaces the stream. Only the input of a "
    "sublayer is normalised; the residual connection adds the stream itself.",
    build=by_edits(versions.pre_norm_block, versions.STREAM_MISTAKES),
    given=versions.half_pre_norm,
    arguments=PARTS,
    probes=block_probes(),
    mistakes=versions.STREAM_MISTAKES,
)


q5 = WriteTest(
    chapter=CHAPTER,
    number=5,
    title="Write the test for a layer norm",
    level=2,
    task="Most mistakes in a layer norm give plausible numbers. Write a test that finds them. It "
    "is run on three correct functions and on eight faulty ones.",
    name="norm_test",
    stub='''\
def norm_test(normalise):
    """Raise AssertionError if a layer norm without gain and bias is wrong.

    normalise: a function of x, (batch, length, d_model), with a result
        of the same shape; its eps is at most 1e-5

    Accept every correct function, however it computes its result.
    """
    raise NotImplementedError
''',
    hints=(
        "What are the mean and the variance of every vector after a layer norm? Which other "
        "vectors have the same mean and variance?",
        "Some mistakes are hardly visible for long vectors, for centred ones or for those with "
        "variance 1. Choose vectors that are none of these.",
        "A vector must not depend on the others: normalise one of them alone, and compare.",
    ),
    answer=versions.norm_test,
    remark="With four components, the factor between the two variances is 4/3. Mean and variance "
    "do not determine the result; together with its direction, which the cosine tests, they do. A "
    "comparison with `F.layer_norm` would do as well.",
    correct=(
        Subject("the formula is computed step by step", versions.from_deviations),
        Subject("PyTorch's layer_norm is called", versions.by_torch),
        Subject("the variance is the mean square minus the squared mean", versions.from_squares),
    ),
    mutants=(
        Subject("statistics over the batch", versions.over_batch),
        Subject("statistics over the positions", versions.over_positions),
        Subject("statistics over the whole tensor", versions.over_all),
        Subject("RMSNorm, which subtracts no mean", versions.root_mean_square),
        Subject("a variance with d − 1 in the denominator", versions.unbiased),
        Subject("a division by the variance instead of its root", versions.variance_only),
        Subject("the mean minus the vector, not the vector minus the mean", versions.negated),
        Subject("the statistics of the first position for the sentence", versions.first_statistics),
    ),
)


q6 = Predict(
    chapter=CHAPTER,
    number=6,
    title="Change the model: no ReLU",
    level=3,
    task="One sublayer x + FFN(x) with d_model = 16 and d_ff = 64 stands between an embedding, in "
    "which the vectors of two digits are added, and an output layer. It learns to predict the last "
    "digit of the sum of the two digits; with the ReLU, its loss on all 100 pairs is below 0.01 "
    "after 500 steps of Adam. Chance level is ln 10 = 2.303. Now remove the ReLU. What is the loss "
    "after 500 steps? Predict first; the check then trains both networks.",
    name="prediction",
    stub="""\
# a: below 0.2: two linear layers are enough
# b: between 0.2 and 2.2: the network learns a part of the task
# c: 2.2 or more: it learns nothing
prediction = None  # "a", "b" or "c"
""",
    hints=(
        "What do two linear maps in a row compute together? And with the residual connection?",
        "Without the ReLU, the logit of each last digit is a sum of one term from the first digit "
        "and one from the second.",
        "The digit 3 alone does not determine the last digit of a sum with a random second digit "
        "at all. What can a sum of such terms predict?",
    ),
    answer="c",
    remark="Without the ReLU the network is linear, so each logit is a sum of one term per digit. "
    "The loss is a convex function of these terms, and its gradient is zero when all of them are "
    "zero, because every last digit is equally frequent for each single digit. No such sum is "
    "better than chance.",
    options={
        "a": "below 0.2",
        "b": "between 0.2 and 2.2",
        "c": "2.2 or more",
    },
    replies={
        "a": "Two linear maps in a row are one linear map, however wide the layer between them is.",
        "b": "Each digit alone gives no information about the last digit of the sum, so a sum of "
        "one term per digit does not even solve a part of the task.",
    },
    experiment=versions.without_relu,
)
