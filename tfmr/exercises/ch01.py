"""Chapter 1: sequences and recurrence."""

from typing import Any

import torch
from torch import Tensor

from tfmr.exercises import ch01_versions as versions
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

CHAPTER = "01"


q1 = Numbers(
    chapter=CHAPTER,
    number=1,
    title="Probabilities from counts",
    level=1,
    task="Compute by hand, from counts in the twenty sentences, the probabilities that the Markov "
    "model (τ = 1) assigns to *the dogs sleep .* and to *the dogs sleeps .*",
    name="probabilities",
    stub="probabilities = [None, None]\n",
    hints=(
        "Each sentence has four factors, of which two are 1.",
        "The token *the* occurs 36 times: once at the beginning of each sentence, and once more in "
        "each of the sixteen long ones. How many of the tokens after it are *dogs*?",
        "*dogs* can be the first or the second noun. Which tokens follow it, and how often?",
    ),
    answer=[0.083, 0.056],
    remark="Nine of the 36 tokens after *the* are *dogs*. Of the nine tokens after *dogs*, four "
    "are *near*, three *sleep* and two *sleeps*. So the probabilities are 1/12 and 1/18: the model "
    "does not distinguish the first noun from the second, and generates ungrammatical sentences.",
    build=versions.counted_with,
    mistakes=versions.COUNT_MISTAKES,
)


def rnn_probe(stage: str, batch: int, length: int, d_in: int, d: int, seed: int) -> Probe:
    """Inputs, initial states and the three parameters."""
    shapes = (batch, length, d_in), (batch, d), (d_in, d), (d, d), (d,)
    return Probe(stage, tuple(numbers(seed + i, *shape) for i, shape in enumerate(shapes)))


q2 = Function(
    chapter=CHAPTER,
    number=2,
    title="A recurrent network",
    level=1,
    task="Write the recurrent network of this chapter, with the tanh, for a batch of sequences.",
    name="run_rnn",
    stub='''\
def run_rnn(x, h, w_x, w_h, b):
    """The states after each step: (batch, length, d).

    x: (batch, length, d_in), the inputs
    h: (batch, d), the initial states, which are not in the result
    w_x: (d_in, d); w_h: (d, d); b: (d,)
    """
    raise NotImplementedError
''',
    hints=(
        "The steps are computed one after the other. Which axis does the loop run over?",
        "`x[:, t]` contains the inputs of step t for the whole batch. What is the h of the next "
        "step?",
        "Collect the states in a list. `torch.stack` joins them; where does the axis of the steps "
        "belong?",
    ),
    answer=versions.run_rnn,
    remark="The loop is over the steps only: within a step, the whole batch is one matrix.",
    build=by_edits(versions.run_rnn, versions.RNN_MISTAKES),
    arguments=("x", "h", "w_x", "w_h", "b"),
    probes=(
        rnn_probe("one step", 1, 1, 2, 2, 0),
        rnn_probe("two steps", 1, 2, 2, 2, 10),
        rnn_probe("four steps", 1, 4, 3, 2, 20),
        rnn_probe("a batch of two", 2, 3, 2, 3, 30),
        rnn_probe("a batch of three", 3, 2, 1, 4, 40),
    ),
    mistakes=versions.RNN_MISTAKES,
)


def gradient_probe(stage: str, w: float, h0: float, length: int, seed: int) -> Probe:
    """A weight, an initial state, inputs and targets."""
    x, y = numbers(seed, length) / 2, numbers(seed + 1, length)
    return Probe(stage, (torch.tensor(w), torch.tensor(h0), x, y))


q3 = Function(
    chapter=CHAPTER,
    number=3,
    title="Backpropagation through time for one weight",
    level=2,
    task="Take the smallest recurrent network: the state and the input are single numbers, "
    "hₜ = tanh(w hₜ₋₁ + xₜ), and the loss is the sum of ½ (hₜ − yₜ)² over all steps. Write "
    "the derivative of the loss with respect to w, with a forward loop and a backward loop.",
    name="weight_gradient",
    stub='''\
def weight_gradient(w, h0, x, y):
    """The derivative of the loss with respect to w: a number.

    w, h0: tensors of one number, the weight and the initial state
    x, y: (length,), the inputs and the targets
    """
    raise NotImplementedError
''',
    hints=(
        "Keep all states of the forward loop in a list. Each step has an old state and a new one.",
        "A state changes the loss through its own term and through the next state. What arrives at "
        "the last state?",
        "Multiply what arrives at a state by the derivative of the tanh. From this number, "
        "compute the term of this step and what arrives at the previous state.",
    ),
    answer=versions.weight_gradient,
    remark="`delta` is the derivative of the loss with respect to the argument of the tanh. At the "
    "end, `from_next` is the derivative with respect to the initial state.",
    build=versions.gradient_with,
    arguments=("w", "h0", "x", "y"),
    probes=(
        gradient_probe("one step", 0.5, 1.0, 1, 0),
        gradient_probe("two steps", 0.5, 1.0, 2, 10),
        gradient_probe("two steps, a negative weight", -1.5, 0.5, 2, 20),
        gradient_probe("four steps", 0.8, -0.5, 4, 30),
        gradient_probe("seven steps", 1.2, 0.25, 7, 40),
    ),
    mistakes=versions.GRADIENT_MISTAKES,
)


def read_gradients(value: Any) -> Tensor | None:
    """Both gradients as one vector."""
    if not isinstance(value, tuple | list) or len(value) != 2:
        return as_tensor(value)
    parts = [as_tensor(each) for each in value]
    return torch.cat([each.flatten() for each in parts if each is not None])


def clip_probe(stage: str, d: int, limit: float, seed: int) -> Probe:
    """The gradients of a matrix and of a bias."""
    return Probe(stage, (numbers(seed, d, d), numbers(seed + 1, d), limit))


CLIPPED_APART = """\
def clip(d_w, d_b, limit):
    d_w = d_w * (limit / d_w.norm()).clamp(max=1)
    d_b = d_b * (limit / d_b.norm()).clamp(max=1)
    return d_w, d_b
"""

q4 = Function(
    chapter=CHAPTER,
    number=4,
    title="Find the bug in the clipping",
    level=1,
    task="Clipping should keep the direction of the gradient. In the code below, the norm of "
    "neither gradient exceeds the limit, but the direction of the whole gradient changes. Repair "
    "the code.",
    name="clip",
    stub=f"""\
# Find the bug in this code, and repair it: d_w (d, d) and d_b (d,) are the
# gradients of one network; limit is the largest norm that they may have
# together.
{CLIPPED_APART}""",
    hints=(
        "Let d_w be the number 4 and d_b the number 3, with a limit of 1. What does "
        "the code return, and which vector has the direction of (4, 3) and the norm 1?",
        "The direction is kept if all numbers are multiplied by the same factor.",
        "The factor needs the norm of all numbers together.",
    ),
    answer=versions.clip,
    remark="The gradient (4, 3) has the norm 5 and becomes (0.8, 0.6); the faulty code returned "
    "(1, 1).",
    build=by_edits(versions.clip, versions.CLIP_MISTAKES),
    given=versions.clipped_apart,
    arguments=("d_w", "d_b", "limit"),
    read=read_gradients,
    probes=(
        Probe(
            "a gradient below the limit",
            (torch.tensor([[0.5]]), torch.tensor([0.25]), 2.0),
        ),
        Probe("the gradient (4, 3)", (torch.tensor([[4.0]]), torch.tensor([3.0]), 1.0)),
        clip_probe("six numbers", 2, 0.5, 10),
        clip_probe("twelve numbers, a larger limit", 3, 2.0, 20),
    ),
    mistakes=versions.CLIP_MISTAKES,
)


q5 = WriteTest(
    chapter=CHAPTER,
    number=5,
    title="Write the gradient check",
    level=2,
    task="A wrong gradient often still lowers the loss. Write a test for the function of exercise "
    "1.3 that finds such mistakes. It is run on three correct functions and on eight faulty ones.",
    name="gradient_test",
    stub='''\
def gradient_test(gradient):
    """Raise AssertionError if a gradient is wrong.

    gradient: a function of w, h0, x and y, as in exercise 1.3

    Accept every correct function.
    """
    raise NotImplementedError
''',
    hints=(
        "The derivative is the limit of a quotient. How does the loss change if w changes a "
        "little?",
        "Compare the losses at w + ε and w − ε. In single precision the quotient is inaccurate if "
        "ε is very small: convert the numbers with `.double()`.",
        "Some mistakes are invisible if there is only one step.",
    ),
    answer=versions.gradient_test,
    remark="A difference quotient checks any gradient, and needs only the loss. Autograd would "
    "work as well.",
    correct=(
        Subject("a backward loop computes the derivative", versions.weight_gradient),
        Subject("autograd computes the derivative", versions.by_autograd),
        Subject("a forward loop computes it along with the state", versions.forwards),
    ),
    mutants=tuple(
        Subject(description, function)
        for description, function in zip(
            versions.MUTANTS.values(),
            versions.gradient_mutants(list(versions.MUTANTS)),
            strict=True,
        )
    ),
)


def window_probe(stage: str, w: float, length: int, window: int, seed: int) -> Probe:
    """The arguments of :func:`gradient_probe`, and a window."""
    first, *others = gradient_probe(stage, w, 0.5, length, seed).arguments
    return Probe(stage, (first, *others, window))


q6 = Function(
    chapter=CHAPTER,
    number=6,
    title="Truncation by a window",
    level=3,
    task="Truncation at chunks treats the losses differently: the gradient of the first loss of a "
    "chunk flows back through one step, that of the last through all steps of the chunk. Take the "
    "network of exercise 1.3, "
    "and let the gradient of *every* loss flow back through its own step and the k − 1 steps "
    "before it, as far as they exist. All states are computed as before. Write a "
    "function that computes the sum of these derivatives with respect to w.",
    name="window_gradient",
    stub='''\
def window_gradient(w, h0, x, y, k):
    """The truncated derivative of the loss with respect to w: a number.

    w, h0: tensors of one number, the weight and the initial state
    x, y: (length,), the inputs and the targets
    k: int, at least 1, the number of uses of w that each loss reaches,
        that of its own step included

    The loss of a step is ½ (h - y)², and h = tanh(w h_before + x).
    """
    raise NotImplementedError
''',
    hints=(
        "With k = 1, the old state of a step is a constant. What is then the derivative of its "
        "loss?",
        "The losses can no longer share one backward loop, because each stops elsewhere. Which two "
        "loops do you need?",
        "Follow one loss back: at every use of the weight, add a term, then continue to the state "
        "before. At which step does the loss of step t stop?",
    ),
    answer=versions.window_gradient,
    remark="If k is at least the length, this is the whole gradient. The number of backward "
    "steps is about k times the length, because each loss has its own window.",
    build=by_edits(versions.window_gradient, versions.WINDOW_MISTAKES),
    arguments=("w", "h0", "x", "y", "k"),
    probes=(
        window_probe("one step, k = 1", 0.5, 1, 1, 0),
        window_probe("three steps, k = 1", 0.5, 3, 1, 10),
        window_probe("three steps, k = 2", -1.5, 3, 2, 20),
        window_probe("seven steps, k = 3", 1.2, 7, 3, 30),
        window_probe("four steps, k = 6", 0.8, 4, 6, 40),
    ),
    mistakes=versions.WINDOW_MISTAKES,
)
