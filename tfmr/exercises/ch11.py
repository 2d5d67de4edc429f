"""Chapter 11: training."""

from typing import Any

import torch
from torch import Tensor

from tfmr.exercises import ch11_versions as versions
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

CHAPTER = "11"


q1 = Numbers(
    chapter=CHAPTER,
    number=1,
    title="Two steps of Adam",
    level=1,
    task="A weight gets the gradient 4 in the first step of Adam and the gradient 2 in the "
    "second. Compute the sizes of both steps by hand, as multiples of the learning rate, with β₁ "
    "= 0.5, β₂ = 0.9 and ε = 0. You may use √9.684 = 3.112.",
    name="step_sizes",
    stub="step_sizes = [None, None]\n",
    hints=(
        "Both averages start at 0. Compute m and v after each step first.",
        "The divisors of the correction are 0.5 and 0.1 in the first step. What are they in the "
        "second, with t = 2?",
        "The step is the corrected m, divided by a root. The task gives the root for the second "
        "step.",
    ),
    answer=[1.0, 0.857],
    remark="m is 2 and 2, corrected 4 and 2.667; v is 1.6 and 1.84, corrected 16 and 9.684. The "
    "second gradient is half of the first, but the second step is 86 % of the first.",
    build=versions.steps_with,
    mistakes=versions.STEP_MISTAKES,
)


def perplexity_probe(stage: str, losses: list[float], tokens: list[int]) -> Probe:
    """The mean losses of batches, and their numbers of tokens."""
    return Probe(stage, (torch.tensor(losses), torch.tensor(tokens)))


q2 = Function(
    chapter=CHAPTER,
    number=2,
    title="The perplexity of a corpus",
    level=1,
    task="The validation set is evaluated in batches that differ in size. Compute the perplexity "
    "of the whole set, which must not depend on how it is split into batches.",
    name="corpus_perplexity",
    stub='''\
def corpus_perplexity(losses, tokens):
    """The perplexity per token of all batches together: a number.

    losses: (batches,), the mean loss per token of each batch, in nats
    tokens: (batches,), the number of tokens of each batch
    """
    raise NotImplementedError
''',
    hints=(
        "Two batches have one token and 99 tokens. Should their losses have the same weight?",
        "What is the sum of the losses of all tokens in a batch, if you know their mean and their "
        "number?",
        "The perplexity belongs to the mean loss of all tokens. Which comes first, the mean or "
        "the exponential?",
    ),
    answer=versions.corpus_perplexity,
    remark="The loss per token is the total loss divided by the total number of tokens. A mean of "
    "perplexities is larger than the perplexity of the mean unless all losses are equal.",
    build=by_edits(versions.corpus_perplexity, versions.PERPLEXITY_MISTAKES),
    arguments=("losses", "tokens"),
    probes=(
        perplexity_probe("one batch", [0.5], [3]),
        perplexity_probe("two batches of equal size", [0.5, 1.5], [2, 2]),
        perplexity_probe("two batches of different size", [0.5, 2.0], [6, 2]),
        perplexity_probe("three batches", [1.2, 0.3, 2.2], [5, 20, 1]),
    ),
    mistakes=versions.PERPLEXITY_MISTAKES,
)


def smoothed_probe(stage: str, labels: list[int], vocab: int, epsilon: float, seed: int) -> Probe:
    """Logits, labels and the strength of the smoothing."""
    return Probe(stage, (numbers(seed, len(labels), vocab), torch.tensor(labels), epsilon))


q3 = Function(
    chapter=CHAPTER,
    number=3,
    title="Label smoothing",
    level=2,
    task="Write the loss with label smoothing for a batch with padding, whose positions have been "
    "joined along one axis.",
    name="smoothed_loss",
    stub='''\
def smoothed_loss(logits, labels, epsilon):
    """The mean loss of the real labels: a number.

    logits: (positions, vocab)
    labels: (positions,), token ids; 0 marks padding
    epsilon: float, which is spread over the whole vocabulary
    """
    raise NotImplementedError
''',
    hints=(
        "Start from the log-probabilities of all tokens at all positions.",
        "The loss of a position is a weighted sum of its negative log-probabilities. What is the "
        "weight of the correct token, and what is the weight of every other token?",
        "Write it as two terms, one for the correct token and one for all tokens. Then leave out "
        "the positions with padding.",
    ),
    answer=versions.smoothed_loss,
    remark="`F.cross_entropy` with `label_smoothing` and `ignore_index` computes the same.",
    build=by_edits(versions.smoothed_loss, versions.SMOOTHED_MISTAKES),
    arguments=("logits", "labels", "epsilon"),
    probes=(
        smoothed_probe("one position without smoothing", [1], 3, 0.0, 0),
        smoothed_probe("one position", [2], 3, 0.3, 10),
        smoothed_probe("two positions", [1, 3], 4, 0.1, 20),
        smoothed_probe("padding at the end", [2, 1, 0], 3, 0.2, 30),
        smoothed_probe("padding between labels", [3, 0, 1, 0, 4], 5, 0.1, 40),
    ),
    caveats=(
        Caveat(
            loops(
                smoothed_probe("", [1, 2], 3, 0.1, 50).arguments,
                smoothed_probe("", [1, 2, 1, 1, 2, 1], 3, 0.1, 50).arguments,
            ),
            "it loops over positions: `gather` finds the correct tokens of all of them.",
        ),
    ),
    mistakes=versions.SMOOTHED_MISTAKES,
)


def read_state(value: Any) -> Tensor | None:
    """Weights and averages, one below the other."""
    if not isinstance(value, tuple | list) or len(value) != 3:
        return as_tensor(value)
    parts = [as_tensor(each) for each in value]
    return torch.stack([each.float() for each in parts if each is not None])


def adam_probe(stage: str, n: int, t: int, lr: float, seed: int) -> Probe:
    """Weights, a gradient and the state of Adam before step t."""
    w, g, m, root = (numbers(seed + i, n) for i in range(4))
    old = float(t > 1)  # before the first step, both averages are 0
    return Probe(stage, (w, g, old * m + 0, old * root**2, t, lr))


q4 = Function(
    chapter=CHAPTER,
    number=4,
    title="A step of Adam",
    level=2,
    task="Write one step of Adam with β₁ = 0.9, β₂ = 0.98 and ε = 10⁻⁹.",
    name="adam_step",
    stub='''\
def adam_step(w, g, m, v, t, lr):
    """The new weights, the new m and the new v: three tensors (n,).

    w, g: (n,), the weights and their gradient
    m, v: (n,), the averages after step t - 1, without the correction
    t: int, the number of this step, counted from 1
    lr: float, the learning rate
    """
    raise NotImplementedError
''',
    hints=(
        "Update the averages first: the step uses the new ones.",
        "The corrected averages are needed for the step only. Which values does the next step "
        "expect?",
        "Test your function in the first step, where m and v are 0: a weight moves by one "
        "learning rate if its gradient is large, and by half of it if its gradient is ε.",
    ),
    answer=versions.adam_step,
    remark="The averages are returned without the correction, which has another divisor in each "
    "step.",
    build=by_edits(versions.adam_step, versions.ADAM_MISTAKES),
    arguments=("w", "g", "m", "v", "t", "lr"),
    read=read_state,
    probes=(
        adam_probe("the first step of one weight", 1, 1, 1.0, 0),
        adam_probe("the second step of one weight", 1, 2, 1.0, 10),
        adam_probe("the third step, with another learning rate", 1, 3, 0.5, 20),
        adam_probe("three weights", 3, 2, 0.1, 30),
        adam_probe("a late step", 2, 50, 0.2, 40),
        Probe(
            "a gradient of 10⁻⁹, as small as ε",
            (*torch.tensor([[0.5], [1e-9], [0.0], [0.0]]), 1, 1.0),
        ),
    ),
    mistakes=versions.ADAM_MISTAKES,
)


def parts_probe(stage: str, lengths: list[int], n: int, seed: int) -> Probe:
    """The gradients of the tokens of several parts, and which tokens are real."""
    real = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    return Probe(stage, (numbers(seed, len(lengths), max(lengths), n), real))


MEAN_OF_MEANS = """\
def accumulate(gradients, real):
    total = torch.zeros(gradients.shape[-1])
    for part, mask in zip(gradients, real, strict=True):
        total = total + part[mask].mean(dim=0) / len(gradients)
    return total
"""

q5 = Function(
    chapter=CHAPTER,
    number=5,
    title="Find the bug in the accumulation",
    level=2,
    task="A batch that is too large for the RAM is processed in parts, and their gradients are "
    "accumulated. The result should be the gradient of the mean loss per token. With the code "
    "below, it depends on the division into parts. Repair it.",
    name="accumulate",
    stub=f"""\
# Find the bug in this code, and repair it: gradients (parts, tokens, n)
# has the gradient of the loss of each token; real (parts, tokens) is
# boolean, False marks padding.
{MEAN_OF_MEANS}""",
    hints=(
        "Let the first part have one real token with the gradient 4, and the second three with "
        "the gradient 0. What should the result be, and what does the code return?",
        "When do the tokens of two parts get different weights?",
        "A mean is a sum, divided by a number. Which of the two can be collected part by part?",
    ),
    answer=versions.accumulate,
    remark="A mean of means is the mean only if all parts have the same number of real tokens.",
    build=by_edits(versions.accumulate, versions.ACCUMULATE_MISTAKES),
    given=versions.mean_of_means,
    arguments=("gradients", "real"),
    probes=(
        parts_probe("two parts of equal length", [2, 2], 2, 0),
        parts_probe("a part with padding", [3, 1], 2, 10),
        parts_probe("three parts", [1, 4, 2], 2, 20),
        parts_probe("three parts in another order", [4, 3, 1], 3, 30),
    ),
    mistakes=versions.ACCUMULATE_MISTAKES,
)


q6 = WriteTest(
    chapter=CHAPTER,
    number=6,
    title="Write the test for the schedule",
    level=2,
    task="A wrong learning rate raises no error. Write a test for the schedule of this chapter. It "
    "is run on three "
    "correct functions and on eight faulty ones.",
    name="schedule_test",
    stub='''\
def schedule_test(schedule):
    """Raise AssertionError if a learning rate is wrong.

    schedule: a function of t, the step, counted from 1; of peak, the
        learning rate at step warmup; and of warmup, the number of
        warm-up steps. It returns the learning rate, a float.

    During the linear warm-up, the learning rate at step t is t / warmup
    of the peak. Then it falls with the inverse square root of t.
    Accept every correct function.
    """
    raise NotImplementedError
''',
    hints=(
        "Which values need no computation: at the first step, at half of the warm-up, at its end?",
        "At step 4 · warmup the learning rate is half of the peak. A decay that is right there can "
        "still be wrong elsewhere.",
        "Compare with a small *relative* tolerance, and use more than one peak and one warm-up.",
    ),
    answer=versions.schedule_test,
    remark="It compares both phases, and the steps around the peak, with the formula.",
    correct=(
        Subject("the smaller of two terms is taken", versions.by_minimum),
        Subject("each phase has a formula of its own", versions.by_branches),
        Subject("equation 3 of the paper is scaled", versions.of_the_paper),
    ),
    mutants=(
        Subject("steps that are counted from 0", versions.from_zero),
        Subject("a constant learning rate during the warm-up", versions.no_warmup),
        Subject("a constant learning rate after the warm-up", versions.constant_after),
        Subject("a decay with 1 / t", versions.inverse_decay),
        Subject("a decay that is counted from the end of the warm-up", versions.decay_from_peak),
        Subject("a learning rate of peak / √t after the warm-up", versions.jump),
        Subject("a quadratic warm-up", versions.quadratic),
        Subject("the peak of the paper, whatever peak is given", versions.peak_of_the_paper),
    ),
)


q7 = Predict(
    chapter=CHAPTER,
    number=7,
    title="Change the training: a tiny threshold",
    level=3,
    task="A small network learns the last digit of the sum of two digits, with Adam and gradients "
    "clipped to the norm 1. After 200 steps its loss is about 0.02; chance level is ln 10 = "
    "2.303. Now clip to the norm 0.001. What is the loss after 200 steps? Predict first; the check "
    "then trains with both thresholds, three times each.",
    name="prediction",
    stub="""\
# a: above 2: with gradients this small, the network hardly learns
# b: between 0.1 and 2
# c: below 0.1: the network learns as before
prediction = None  # "a", "b" or "c"
""",
    hints=(
        "What happens to m and to v if all gradients are divided by 1,000?",
        "The step is m divided by a square root. What remains of the factor?",
        "Which part of the formula still depends on the scale of the gradient, and how large is "
        "it?",
    ),
    answer="c",
    remark="If all gradients are smaller by one factor, the step of Adam is the same, as long as "
    "√v is much larger than ε. Here the factor differs from step to step, so the runs need not be "
    "equal. Plain gradient descent takes steps of at most the learning rate times the threshold, "
    "so there the threshold would matter.",
    options={
        "a": "above 2",
        "b": "between 0.1 and 2",
        "c": "below 0.1",
    },
    replies={
        "a": "Adam divides the average gradient by the root of the average square, so a common "
        "factor cancels.",
        "b": "Adam divides the average gradient by the root of the average square, so a common "
        "factor cancels.",
    },
    experiment=versions.smaller_threshold,
)
