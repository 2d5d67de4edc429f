"""Solutions, known mistakes and wrong versions of the exercises of the primer."""

import math
import random
from collections.abc import Callable

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from tfmr.exercises.edits import Edit
from tfmr.exercises.exercise import Faults, Mistake
from tfmr.notebook import approximate

SUMMED = Mistake(
    "the surprisals are added but not averaged",
    "The cross-entropy is their mean: divide by the number of tokens.",
    "perplexity",
)
MEAN_PROBABILITY = Mistake(
    "the probabilities are averaged before the logarithm",
    "Take the surprisal of each token first, then the mean.",
    "perplexity",
)
WRONG_UNIT = Mistake(
    "the bits are divided by ln 2 to get nats",
    "Multiply by ln 2: a nat is larger than a bit, so the number of nats is smaller.",
    "perplexity",
)
TENS = Mistake(
    "the base of the logarithms is 10",
    "Bits have the base 2, nats the base e.",
    "perplexity",
)
NEGATIVE = Mistake(
    "the minus sign of the surprisal is missing",
    "Negate the logarithm: it is negative, but a surprisal is positive.",
    "perplexity",
)
E_TO_BITS = Mistake(
    "the perplexity is e to the power of the bits",
    "Match the base to the unit: e belongs to nats, not to bits.",
    "perplexity",
)
PROBABILITY = Mistake(
    "the last number is the probability of the sentence",
    "The task asks for 1 divided by this probability.",
    "perplexity",
)
WEIGHTED = Mistake(
    "each surprisal is weighted by its probability",
    "All tokens of the sentence count equally: take the plain mean of their surprisals.",
    "perplexity",
)
RECIPROCALS = Mistake(
    "the perplexity is the mean of the reciprocal probabilities",
    "Compute the perplexity from the cross-entropy, which is a mean of logarithms.",
    "perplexity",
)
PERPLEXITY_MISTAKES = (
    SUMMED,
    MEAN_PROBABILITY,
    WRONG_UNIT,
    TENS,
    NEGATIVE,
    E_TO_BITS,
    PROBABILITY,
    WEIGHTED,
    RECIPROCALS,
)


def perplexity_with(faults: Faults) -> list[float]:
    """Bits, nats, the perplexity and 1 / P of a sentence, with mistakes."""
    [fault] = faults or {""}
    p = [1 / 2, 1 / 8, 1 / 8, 1 / 8]
    bits = -sum(map(math.log2, p)) / (1 if fault == SUMMED.name else 4)
    if fault == MEAN_PROBABILITY.name:
        bits = -math.log2(sum(p) / 4)
    if fault == WEIGHTED.name:
        bits = -sum(each * math.log2(each) for each in p)
    nats = bits / math.log(2) if fault == WRONG_UNIT.name else bits * math.log(2)
    if fault == TENS.name:
        bits = nats = bits * math.log10(2)
    if fault == NEGATIVE.name:
        bits, nats = -bits, -nats
    perplexity = math.exp(bits) if fault == E_TO_BITS.name else 2**bits
    if fault == RECIPROCALS.name:
        perplexity = sum(1 / each for each in p) / 4
    product = math.prod(p)
    return [bits, nats, perplexity, product if fault == PROBABILITY.name else 1 / product]


NO_TWO = Mistake(
    "the factor 2 of the square is missing",
    "The derivative of u² is 2u.",
    "step",
)
NO_INNER = Mistake(
    "the derivative with respect to w lacks the inner derivative",
    "Multiply by the derivative of wx + b with respect to w, as in the chain rule.",
    "step",
)
FOR_X = Mistake(
    "the first derivative is that with respect to x",
    "The parameters are w and b; x belongs to the example.",
    "step",
)
NO_TARGET = Mistake(
    "y is left out",
    "The square is that of the difference between wx + b and y.",
    "step",
)
UPHILL = Mistake(
    "the step is added",
    "Gradient descent moves against the derivative.",
    "step",
)
NO_RATE = Mistake(
    "the learning rate is missing",
    "Multiply each derivative by η before you subtract it.",
    "step",
)
ONLY_STEP = Mistake(
    "the last two numbers are the changes of w and b",
    "Subtract each change from the old value.",
    "step",
)
NEW_W = Mistake(
    "the derivative with respect to b is computed with the new w",
    "Both derivatives belong to the old w and b; both parameters change at once.",
    "step",
)
STEP_AT_NEW_W = Mistake(
    "b changes by a derivative at the new w, not by the one that you state",
    "The step uses the two derivatives at the old w and b.",
    "step",
)
STEP_MISTAKES = (
    NO_TWO,
    NO_INNER,
    FOR_X,
    NO_TARGET,
    UPHILL,
    NO_RATE,
    ONLY_STEP,
    NEW_W,
    STEP_AT_NEW_W,
)


def step_with(faults: Faults) -> list[float]:
    """Two derivatives and the parameters after a step, with mistakes."""
    [fault] = faults or {""}
    w, b, x, y, rate = 3.0, 1.0, 2.0, 5.0, 0.1
    outer = (1 if fault == NO_TWO.name else 2) * (w * x + b - (0 if fault == NO_TARGET.name else y))
    for_w = outer * {NO_INNER.name: 1, FOR_X.name: w}.get(fault, x)
    at_new_w = 2 * ((w - rate * for_w) * x + b - y)
    for_b = at_new_w if fault == NEW_W.name else outer
    if fault == ONLY_STEP.name:
        return [for_w, for_b, rate * for_w, rate * for_b]
    if fault == STEP_AT_NEW_W.name:
        return [for_w, for_b, w - rate * for_w, b - rate * at_new_w]
    factor = {UPHILL.name: -rate, NO_RATE.name: 1.0}.get(fault, rate)
    return [for_w, for_b, w - factor * for_w, b - factor * for_b]


def softmax_rows(logits: Float[Tensor, "n vocab"]) -> Float[Tensor, "n vocab"]:
    """The softmax of each row."""
    largest = logits.amax(dim=1, keepdim=True)
    exponentials = (logits - largest).exp()
    return exponentials / exponentials.sum(dim=1, keepdim=True)


_LARGEST = "logits.amax(dim=1, keepdim=True)"
_SHIFTED = "(logits - largest)"
_SUM = "exponentials.sum(dim=1, keepdim=True)"
SOFTMAX_MISTAKES = (
    Edit(
        "the exponentials of large logits overflow",
        "Shift all logits of a row by the same number first, so that no exponential is infinite.",
        "shift",
        _SHIFTED,
        "logits",
    ),
    Edit(
        "large logits are clamped, which makes their probabilities equal",
        "Keep the differences between the logits of a row: they determine its probabilities.",
        "shift",
        _SHIFTED,
        "logits.clamp(max=80)",
    ),
    Edit(
        "the largest logit of the whole matrix is subtracted",
        "Each row has its own largest logit; otherwise all exponentials of a row can become 0.",
        "largest",
        _LARGEST,
        "logits.amax()",
    ),
    Edit(
        "the columns sum to 1 instead of the rows",
        "The rows are the distributions: add along the vocabulary.",
        "largest shift base sum",
        f"{_LARGEST}\n    exponentials = {_SHIFTED}.exp()\n    return exponentials / {_SUM}",
        "logits.amax(dim=0)\n    exponentials = (logits - largest).exp()\n"
        "    return exponentials / exponentials.sum(dim=0)",
    ),
    Edit(
        "the whole matrix sums to 1 instead of each row",
        "Every row is a distribution of its own.",
        "sum",
        _SUM,
        "exponentials.sum()",
    ),
    Edit(
        "nothing is divided by a sum",
        "Probabilities sum to 1.",
        "sum",
        f" / {_SUM}",
        "",
    ),
    Edit(
        "the base of the powers is 2",
        "The softmax has the base e.",
        "base",
        ".exp()",
        ".exp2()",
    ),
    Edit(
        "the logits are divided by their sum, without exponentials",
        "Probabilities must be positive: exponentials come first.",
        "base",
        ".exp()",
        "",
    ),
    Edit(
        "the logarithms of the probabilities are returned",
        "Return the probabilities themselves.",
        "sum",
        f"exponentials / {_SUM}",
        f"(exponentials / {_SUM}).log()",
    ),
)


def logit_gradient(
    logits: Float[Tensor, "n vocab"], correct: Int[Tensor, " n"]
) -> Float[Tensor, "n vocab"]:
    """The gradient of the mean cross-entropy with respect to the logits."""
    probs = logits.softmax(dim=-1)
    one_hot = F.one_hot(correct, logits.shape[-1])
    return (probs - one_hot) / len(correct)


_DIFFERENCE = "(probs - one_hot)"
GRADIENT_MISTAKES = (
    Edit(
        "the gradient is that of the sum of the losses",
        "The loss is the mean over the positions.",
        "mean",
        " / len(correct)",
        "",
    ),
    Edit(
        "the gradient is divided by the number of logits",
        "The mean is taken over the positions, not over the vocabulary as well.",
        "mean",
        "len(correct)",
        "logits.numel()",
    ),
    Edit(
        "the sign is reversed",
        "The loss falls when the logit of the correct token grows.",
        "difference",
        _DIFFERENCE,
        "(one_hot - probs)",
    ),
    Edit(
        "the correct tokens are not taken into account",
        "The logit of the correct token also occurs outside the sum of exponentials.",
        "difference",
        _DIFFERENCE,
        "probs",
    ),
    Edit(
        "the other tokens have no gradient",
        "The logits of all tokens occur in the sum of exponentials.",
        "difference",
        _DIFFERENCE,
        "(probs - 1) * one_hot",
    ),
    Edit(
        "the logit of the correct token is counted twice",
        "The correct token has the derivative of the sum, minus 1.",
        "difference",
        _DIFFERENCE,
        "(probs - 2 * one_hot)",
    ),
    Edit(
        "the derivative of the probability is computed, not of its logarithm",
        "The loss is the negative logarithm of the correct probability.",
        "difference",
        _DIFFERENCE,
        "(probs - one_hot) * (probs * one_hot).sum(dim=-1, keepdim=True)",
    ),
    Edit(
        "the most probable token is used instead of the correct one",
        "The loss is the surprisal of the correct token.",
        "target",
        "F.one_hot(correct, logits.shape[-1])",
        "F.one_hot(logits.argmax(dim=-1), logits.shape[-1])",
    ),
    Edit(
        "in every row, 1 is subtracted in the columns of all correct tokens",
        "Each position has one correct token: index the rows together with the columns.",
        "target",
        "F.one_hot(correct, logits.shape[-1])",
        "F.one_hot(correct, logits.shape[-1]).amax(dim=0)",
    ),
    Edit(
        "the softmax is taken over the positions",
        "Every row is a distribution over the vocabulary.",
        "softmax",
        "softmax(dim=-1)",
        "softmax(dim=0)",
    ),
    Edit(
        "the logits are used as probabilities",
        "Apply the softmax first.",
        "softmax",
        "logits.softmax(dim=-1)",
        "logits",
    ),
)


def train(
    w: Float[Tensor, ""], examples: Float[Tensor, " n"], lr: float, steps: int
) -> Float[Tensor, ""]:
    """The number w after some steps of gradient descent."""
    w = w.clone().requires_grad_()
    for _ in range(steps):
        w.grad = None
        loss = ((w - examples) ** 2).mean()
        loss.backward()
        assert w.grad is not None
        w.data -= lr * w.grad
    return w.detach()


def without_reset(
    w: Float[Tensor, ""], examples: Float[Tensor, " n"], lr: float, steps: int
) -> Float[Tensor, ""]:
    """The code with the bug: the gradients of all steps are added."""
    w = w.clone().requires_grad_()
    for _ in range(steps):
        loss = ((w - examples) ** 2).mean()
        loss.backward()
        assert w.grad is not None
        w.data -= lr * w.grad
    return w.detach()


_RESET = "        w.grad = None\n"
_BACKWARD = "        loss = ((w - examples) ** 2).mean()\n        loss.backward()\n"
TRAIN_MISTAKES = (
    Edit(
        "the gradient is reset between the backward pass and the step",
        "The step needs the gradient of this backward pass.",
        "reset loss",
        f"{_RESET}{_BACKWARD}",
        f"{_BACKWARD}        w.grad = torch.zeros(())\n",
    ),
    Edit(
        "the gradient is reset in every second step only",
        "No step should use the gradient of an earlier one.",
        "reset steps",
        f"for _ in range(steps):\n{_RESET}",
        "for t in range(steps):\n        w.grad = w.grad if t % 2 else None\n",
    ),
    Edit(
        "the first gradient is used in all steps",
        "Each step needs the gradient at the current w.",
        "reset loss",
        f"{_RESET}{_BACKWARD}",
        "        if w.grad is None:\n            ((w - examples) ** 2).mean().backward()\n",
    ),
    Edit(
        "the steps go uphill",
        "Subtract the gradient, as the given code does.",
        "rate",
        "-= lr",
        "+= lr",
    ),
    Edit(
        "the learning rate is divided by the number of steps",
        "The learning rate of the given code was right.",
        "rate",
        "-= lr",
        "-= lr / steps",
    ),
    Edit(
        "only one step is made",
        "Repeat the step as often as the given code did.",
        "steps",
        "range(steps)",
        "range(1)",
    ),
    Edit(
        "one step too many is made",
        "Repeat the step as often as the given code did.",
        "steps",
        "range(steps)",
        "range(steps + 1)",
    ),
    Edit(
        "the squared errors are added instead of averaged",
        "The loss of the given code was right.",
        "loss",
        ".mean()",
        ".sum()",
    ),
)


Split = tuple[list[str], list[str]]


def split(sentences: list[str], n_valid: int, seed: int) -> Split:
    """Correct: a shuffled copy is cut."""
    order = random.Random(seed).sample(sentences, len(sentences))
    return order[n_valid:], order[:n_valid]


def in_old_order(sentences: list[str], n_valid: int, seed: int) -> Split:
    """Correct: indices are drawn, and the order is kept."""
    chosen = set(np.random.default_rng(seed).choice(len(sentences), n_valid, replace=False))
    parts = [[s for i, s in enumerate(sentences) if (i in chosen) == part] for part in (0, 1)]
    return parts[0], parts[1]


def by_permutation(sentences: list[str], n_valid: int, seed: int) -> Split:
    """Correct: a permutation of the indices is cut."""
    order = torch.randperm(len(sentences), generator=torch.Generator().manual_seed(seed)).tolist()
    return [sentences[i] for i in order[n_valid:]], [sentences[i] for i in order[:n_valid]]


def training_on_all(sentences: list[str], n_valid: int, seed: int) -> Split:
    """The validation set is part of the training set."""
    return list(sentences), split(sentences, n_valid, seed)[1]


def exchanged(sentences: list[str], n_valid: int, seed: int) -> Split:
    """The training set has the size of the validation set."""
    train, valid = split(sentences, n_valid, seed)
    return valid, train


def one_lost(sentences: list[str], n_valid: int, seed: int) -> Split:
    """A sentence between the two parts is lost."""
    train, valid = split(sentences, n_valid, seed)
    return train[1:], valid


def last_ones(sentences: list[str], n_valid: int, seed: int) -> Split:
    """The last sentences are held out, whatever the seed is."""
    return sentences[:-n_valid], sentences[-n_valid:]


def unseeded(sentences: list[str], n_valid: int, seed: int) -> Split:
    """Every call splits differently."""
    return split(sentences, n_valid, random.SystemRandom().randrange(10**9))


def drawn_twice(sentences: list[str], n_valid: int, seed: int) -> Split:
    """The two parts are drawn independently."""
    return split(sentences, n_valid, seed)[0], split(sentences, n_valid, seed + 1)[1]


def one_twice(sentences: list[str], n_valid: int, seed: int) -> Split:
    """A held-out sentence is drawn twice."""
    valid = random.Random(seed).sample(sentences, n_valid - 1)
    valid.append(valid[0])
    return [each for each in sentences if each not in valid], valid


def in_place(sentences: list[str], n_valid: int, seed: int) -> Split:
    """The list of the caller is shuffled."""
    random.Random(seed).shuffle(sentences)
    return sentences[n_valid:], sentences[:n_valid]


def split_test(split: Callable[[list[str], int, int], Split]) -> None:
    """Raise AssertionError if a split is wrong."""
    sentences = [f"sentence {i}" for i in range(60)]
    train, valid = split(sentences, 20, 0)
    assert sentences == [f"sentence {i}" for i in range(60)]
    assert (len(train), len(valid)) == (40, 20)
    assert sorted(train + valid) == sorted(sentences)
    assert (train, valid) == split(sentences, 20, 0)
    assert sorted(valid) != sorted(split(sentences, 20, 1)[1])


def accuracies(steps: int = 200) -> tuple[float, float]:
    """Train on labels that are drawn at random: the accuracy in training and validation."""
    x, labels = torch.randn(1050, 20), torch.randint(4, (1050,))
    model = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 4))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    for _ in range(steps):
        optimizer.zero_grad()
        F.cross_entropy(model(x[:50]), labels[:50]).backward()
        optimizer.step()
    correct = (model(x).argmax(dim=1) == labels).double()
    return 100 * correct[:50].mean().item(), 100 * correct[50:].mean().item()


def random_labels() -> tuple[str, str]:
    """Train with random labels."""
    fitted, unseen = accuracies()
    option = "a" if fitted < 50 else "c" if unseen > 60 else "b"
    texts = approximate(fitted, 100.0, 3.0, ".0f"), approximate(unseen, 25.0, 5.0, ".0f")
    return option, f"{texts[0]} % of the training labels are right, {texts[1]} % of the others."
