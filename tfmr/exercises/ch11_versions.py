"""Solutions, known mistakes and wrong versions of the exercises of chapter 11."""

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from tfmr.exercises.edits import Edit
from tfmr.exercises.exercise import Faults, Mistake
from tfmr.notebook import approximate

NO_CORRECTION = Mistake(
    "the averages are not corrected",
    "Divide m by 1 − 0.5ᵗ and v by 1 − 0.9ᵗ.",
    "step",
)
CORRECTED_ONCE = Mistake(
    "the second step is corrected with t = 1",
    "In the second step t = 2, so divide by 1 − 0.5² and 1 − 0.9².",
    "step",
)
ONLY_V = Mistake(
    "only v is corrected",
    "Correct m as well: divide it by 1 − 0.5ᵗ.",
    "step",
)
ONLY_M = Mistake(
    "only m is corrected",
    "Correct v as well: divide it by 1 − 0.9ᵗ.",
    "step",
)
NO_ROOT = Mistake(
    "m is divided by v instead of its square root",
    "Take the square root of the corrected v.",
    "step",
)
NO_SQUARE = Mistake(
    "v is the average of the gradients instead of their squares",
    "Square the gradient before it enters v.",
    "step",
)
SWAPPED = Mistake(
    "the two factors β₁ and β₂ are exchanged",
    "The factor β₁ = 0.5 belongs to m, β₂ = 0.9 to v.",
    "step",
)
NEW_AND_OLD = Mistake(
    "the factor β₂ multiplies the new square instead of the old average",
    "The old average keeps the fraction β₂ = 0.9; the new square has the weight 0.1.",
    "step",
)
MOMENTUM = Mistake(
    "the step is m alone, without a division",
    "Divide by the square root of the corrected v.",
    "step",
)
NO_AVERAGE = Mistake(
    "both steps are computed as if they were the first",
    "The second gradient enters averages that already contain the first.",
    "step",
)
STEP_MISTAKES = (
    NO_CORRECTION,
    CORRECTED_ONCE,
    ONLY_V,
    ONLY_M,
    NO_ROOT,
    NO_SQUARE,
    SWAPPED,
    NEW_AND_OLD,
    MOMENTUM,
    NO_AVERAGE,
)


def steps_with(faults: Faults) -> list[float]:
    """The sizes of two steps of Adam for the gradients 4 and 2, with mistakes."""
    [fault] = faults or {""}
    beta_m, beta_v = (0.9, 0.5) if fault == SWAPPED.name else (0.5, 0.9)
    m, v, steps = 0.0, 0.0, []
    for t, g in enumerate((4.0, 2.0), start=1):
        square = g if fault == NO_SQUARE.name else g**2
        keep = 1 - beta_v if fault == NEW_AND_OLD.name else beta_v
        m, v = beta_m * m + (1 - beta_m) * g, keep * v + (1 - keep) * square
        n = 1 if fault == CORRECTED_ONCE.name else t
        m_hat = m if fault in (NO_CORRECTION.name, ONLY_V.name) else m / (1 - beta_m**n)
        v_hat = v if fault in (NO_CORRECTION.name, ONLY_M.name) else v / (1 - beta_v**n)
        values = {
            NO_ROOT.name: m_hat / v_hat,
            MOMENTUM.name: m_hat,
            NO_AVERAGE.name: 1.0,
        }
        steps.append(values.get(fault, m_hat / math.sqrt(v_hat)))
    return steps


def corpus_perplexity(
    losses: Float[Tensor, " batches"], tokens: Int[Tensor, " batches"]
) -> Float[Tensor, ""]:
    """The perplexity of all tokens, from the mean losses of batches."""
    total = (losses * tokens).sum()
    return torch.exp(total / tokens.sum())


_PERPLEXITY = "torch.exp(total / tokens.sum())"
PERPLEXITY_MISTAKES = (
    Edit(
        "every batch has the same weight, whatever its number of tokens",
        "Weight the mean loss of a batch by its number of tokens.",
        "total mean",
        f"(losses * tokens).sum()\n    return {_PERPLEXITY}",
        "losses.mean()\n    return torch.exp(total)",
    ),
    Edit(
        "the perplexities of the batches are averaged",
        "Average the losses first, weighted by tokens; take the exponential at the end.",
        "total mean",
        f"(losses * tokens).sum()\n    return {_PERPLEXITY}",
        "losses.exp()\n    return total.mean()",
    ),
    Edit(
        "the perplexities of the batches are averaged, weighted by their tokens",
        "Average the losses, and take the exponential of the mean.",
        "total mean",
        f"(losses * tokens).sum()\n    return {_PERPLEXITY}",
        "(losses.exp() * tokens).sum()\n    return total / tokens.sum()",
    ),
    Edit(
        "the losses are treated as sums over the tokens of a batch",
        "They are means: multiply each by its number of tokens before you add.",
        "total",
        "(losses * tokens).sum()",
        "losses.sum()",
    ),
    Edit(
        "the sum of the losses is not divided by the number of tokens",
        "Divide by the number of all tokens before you take the exponential.",
        "mean",
        _PERPLEXITY,
        "torch.exp(total)",
    ),
    Edit(
        "the sum over all tokens is divided by the number of batches",
        "Divide by the number of all tokens.",
        "mean",
        _PERPLEXITY,
        "torch.exp(total / len(tokens))",
    ),
    Edit(
        "the exponential is taken before the division",
        "Divide the sum by the number of tokens first.",
        "mean",
        _PERPLEXITY,
        "torch.exp(total) / tokens.sum()",
    ),
    Edit(
        "the mean loss is returned instead of the perplexity",
        "The perplexity is the exponential of the mean loss.",
        "mean",
        _PERPLEXITY,
        "total / tokens.sum()",
    ),
    Edit(
        "the base of the exponential is 2",
        "The losses are in nats, so the base is e.",
        "mean",
        _PERPLEXITY,
        "2 ** (total / tokens.sum())",
    ),
    Edit(
        "the sign of the exponent is negative",
        "The loss is already the negative log-probability: do not negate it again.",
        "mean",
        _PERPLEXITY,
        "torch.exp(-total / tokens.sum())",
    ),
)


def smoothed_loss(
    logits: Float[Tensor, "positions vocab"], labels: Int[Tensor, " positions"], epsilon: float
) -> Float[Tensor, ""]:
    """The mean loss of the real labels with label smoothing."""
    log_probs = logits.log_softmax(dim=-1)
    correct = log_probs.gather(-1, labels[:, None])[:, 0]
    losses = -(1 - epsilon) * correct - epsilon * log_probs.mean(dim=-1)
    return losses[labels != 0].mean()


_LOSSES = "-(1 - epsilon) * correct - epsilon * log_probs.mean(dim=-1)"
_MEAN = "losses[labels != 0].mean()"
SMOOTHED_MISTAKES = (
    Edit(
        "the padding is counted, too",
        "Leave out the positions with label 0, in the sum and in the number.",
        "mean",
        _MEAN,
        "losses.mean()",
    ),
    Edit(
        "the sum over the real labels is divided by the number of all positions",
        "Divide by the number of real labels.",
        "mean",
        _MEAN,
        "losses[labels != 0].sum() / len(labels)",
    ),
    Edit(
        "the losses are added instead of averaged",
        "Return the mean over the real labels.",
        "mean",
        _MEAN,
        "losses[labels != 0].sum()",
    ),
    Edit(
        "the smoothing is missing",
        "The target distribution gives every token ε / |V|, and the correct one 1 − ε more.",
        "losses",
        _LOSSES,
        "-correct",
    ),
    Edit(
        "the probability ε is spread over the other tokens only, without the correct one",
        "Spread ε over the whole vocabulary: the correct token gets 1 − ε + ε / |V|.",
        "losses",
        _LOSSES,
        "-(1 - epsilon) * correct - epsilon * (log_probs.sum(dim=-1) - correct) / "
        "(logits.shape[-1] - 1)",
    ),
    Edit(
        "the correct token has the weight 1 in addition to the smoothing",
        "Its weight is 1 − ε, plus its part of ε: the target distribution must sum to 1.",
        "losses",
        _LOSSES,
        "-correct - epsilon * log_probs.mean(dim=-1)",
    ),
    Edit(
        "every token gets the whole ε",
        "Divide ε by the number of tokens in the vocabulary.",
        "losses",
        _LOSSES,
        "-(1 - epsilon) * correct - epsilon * log_probs.sum(dim=-1)",
    ),
    Edit(
        "the correct token gets 1 − ε only, without its part of ε",
        "Its part is ε / |V|, as for every token: the target distribution must sum to 1.",
        "losses",
        _LOSSES,
        "-(1 - epsilon) * correct - epsilon * (log_probs.sum(dim=-1) - correct) / logits.shape[-1]",
    ),
    Edit(
        "the weights ε and 1 − ε are exchanged",
        "The correct token gets the large part, 1 − ε.",
        "losses",
        _LOSSES,
        "-epsilon * correct - (1 - epsilon) * log_probs.mean(dim=-1)",
    ),
    Edit(
        "the sign is missing: this is the log-probability",
        "The loss is the *negative* log-probability.",
        "losses",
        _LOSSES,
        "(1 - epsilon) * correct + epsilon * log_probs.mean(dim=-1)",
    ),
    Edit(
        "the logits are used as log-probabilities",
        "Apply log_softmax over the vocabulary first.",
        "log",
        "logits.log_softmax(dim=-1)",
        "logits",
    ),
    Edit(
        "probabilities are used instead of their logarithms",
        "Take the logarithm: log_softmax.",
        "log",
        "logits.log_softmax(dim=-1)",
        "logits.softmax(dim=-1)",
    ),
    Edit(
        "the softmax is taken over the positions",
        "Each position has its own distribution over the vocabulary: dim=-1.",
        "log",
        "log_softmax(dim=-1)",
        "log_softmax(dim=0)",
    ),
)


def adam_step(
    w: Float[Tensor, " n"],
    g: Float[Tensor, " n"],
    m: Float[Tensor, " n"],
    v: Float[Tensor, " n"],
    t: int,
    lr: float,
) -> tuple[Float[Tensor, " n"], Float[Tensor, " n"], Float[Tensor, " n"]]:
    """The weights and both averages after step t of Adam."""
    m = 0.9 * m + 0.1 * g
    v = 0.98 * v + 0.02 * g**2
    m_hat, v_hat = m / (1 - 0.9**t), v / (1 - 0.98**t)
    return w - lr * m_hat / (v_hat.sqrt() + 1e-9), m, v


_CORRECTED = "m / (1 - 0.9**t), v / (1 - 0.98**t)"
_RESULT = "w - lr * m_hat / (v_hat.sqrt() + 1e-9), m, v"
ADAM_MISTAKES = (
    Edit(
        "the averages are not corrected",
        "Divide m by 1 − β₁ᵗ and v by 1 − β₂ᵗ for the step.",
        "step",
        _CORRECTED,
        "m, v",
    ),
    Edit(
        "the corrected averages are returned",
        "Keep m and v without the correction: only the step uses the corrected values.",
        "step",
        _RESULT,
        "w - lr * m_hat / (v_hat.sqrt() + 1e-9), m_hat, v_hat",
    ),
    Edit(
        "only m is corrected",
        "Correct v as well: divide it by 1 − β₂ᵗ.",
        "step",
        _CORRECTED,
        "m / (1 - 0.9**t), v",
    ),
    Edit(
        "only v is corrected",
        "Correct m as well: divide it by 1 − β₁ᵗ.",
        "step",
        _CORRECTED,
        "m, v / (1 - 0.98**t)",
    ),
    Edit(
        "the averages are multiplied by 1 − βᵗ instead of divided",
        "Divide: the averages start at 0, so they are too small.",
        "step",
        _CORRECTED,
        "m * (1 - 0.9**t), v * (1 - 0.98**t)",
    ),
    Edit(
        "the step uses the old averages",
        "Update m and v first, and use the new ones.",
        "m v step",
        f"m = 0.9 * m + 0.1 * g\n    v = 0.98 * v + 0.02 * g**2\n    m_hat, v_hat = {_CORRECTED}",
        f"m_hat, v_hat = {_CORRECTED}\n    m = 0.9 * m + 0.1 * g\n    v = 0.98 * v + 0.02 * g**2",
    ),
    Edit(
        "the factor β₂ is 0.999, the default of PyTorch",
        "In this task it is 0.98, as in the paper.",
        "v step",
        f"v = 0.98 * v + 0.02 * g**2\n    m_hat, v_hat = {_CORRECTED}",
        "v = 0.999 * v + 0.001 * g**2\n    m_hat, v_hat = m / (1 - 0.9**t), v / (1 - 0.999**t)",
    ),
    Edit(
        "only the new weights are returned",
        "Return m and v, too: the next step needs them.",
        "step",
        _RESULT,
        "w - lr * m_hat / (v_hat.sqrt() + 1e-9)",
    ),
    Edit(
        "the divisors do not depend on the step",
        "Take the power t: 1 − β₁ᵗ and 1 − β₂ᵗ.",
        "step",
        _CORRECTED,
        "m / (1 - 0.9), v / (1 - 0.98)",
    ),
    Edit(
        "the powers are those of the next step",
        "Steps are counted from 1: use the power t itself.",
        "step",
        _CORRECTED,
        "m / (1 - 0.9 ** (t + 1)), v / (1 - 0.98 ** (t + 1))",
    ),
    Edit(
        "m is divided by v instead of its square root",
        "Take the square root of the corrected v.",
        "step",
        _RESULT,
        "w - lr * m_hat / (v_hat + 1e-9), m, v",
    ),
    Edit(
        "the constant ε is added under the root",
        "Take the root of the corrected v first, and add ε to it.",
        "step",
        _RESULT,
        "w - lr * m_hat / (v_hat + 1e-9).sqrt(), m, v",
    ),
    Edit(
        "the constant ε is added before v is corrected",
        "Correct v first, take its root, and then add ε.",
        "step",
        _RESULT,
        "w - lr * m_hat * (1 - 0.98**t) ** 0.5 / (v.sqrt() + 1e-9), m, v",
    ),
    Edit(
        "the constant ε is missing",
        "Add ε to the root, so that the step is also defined where all gradients are 0.",
        "step",
        _RESULT,
        "w - lr * m_hat / v_hat.sqrt(), m, v",
    ),
    Edit(
        "the constant ε is 10⁻⁸, the default of PyTorch",
        "In this task it is 10⁻⁹, as in the paper.",
        "step",
        _RESULT,
        "w - lr * m_hat / (v_hat.sqrt() + 1e-8), m, v",
    ),
    Edit(
        "the step has the wrong sign",
        "Subtract the step: the weights move against the gradient.",
        "step",
        _RESULT,
        "w + lr * m_hat / (v_hat.sqrt() + 1e-9), m, v",
    ),
    Edit(
        "the gradient itself is divided instead of its average m",
        "The numerator is the corrected m.",
        "step",
        _RESULT,
        "w - lr * g / (v_hat.sqrt() + 1e-9), m, v",
    ),
    Edit(
        "the step is m alone, without a division",
        "Divide by the square root of the corrected v.",
        "step",
        _RESULT,
        "w - lr * m_hat, m, v",
    ),
    Edit(
        "the learning rate is not used",
        "Multiply the step by lr.",
        "step",
        _RESULT,
        "w - m_hat / (v_hat.sqrt() + 1e-9), m, v",
    ),
    Edit(
        "the step is returned instead of the new weights",
        "Subtract it from w.",
        "step",
        _RESULT,
        "lr * m_hat / (v_hat.sqrt() + 1e-9), m, v",
    ),
    Edit(
        "v is an average of the gradients instead of their squares",
        "Square the gradient before it enters v.",
        "v",
        "g**2",
        "g",
    ),
    Edit(
        "v is an average of the squares of m instead of the gradients",
        "Square the gradient of this step, before it is averaged.",
        "v",
        "g**2",
        "m**2",
    ),
    Edit(
        "the new gradient has the weight β₁ instead of 1 − β₁",
        "The old average keeps the fraction β₁.",
        "m",
        "0.9 * m + 0.1 * g",
        "0.1 * m + 0.9 * g",
    ),
    Edit(
        "the new square has the weight β₂ instead of 1 − β₂",
        "The old average keeps the fraction β₂.",
        "v",
        "0.98 * v + 0.02 * g**2",
        "0.02 * v + 0.98 * g**2",
    ),
    Edit(
        "the new gradient is added with the weight 1, as in momentum",
        "Give it the weight 1 − β₁: m is an average.",
        "m",
        "0.9 * m + 0.1 * g",
        "0.9 * m + g",
    ),
    Edit(
        "the two factors β₁ and β₂ are exchanged",
        "The factor β₁ = 0.9 belongs to m, β₂ = 0.98 to v.",
        "m v step",
        f"0.9 * m + 0.1 * g\n    v = 0.98 * v + 0.02 * g**2\n    m_hat, v_hat = {_CORRECTED}",
        "0.98 * m + 0.02 * g\n    v = 0.9 * v + 0.1 * g**2\n"
        "    m_hat, v_hat = m / (1 - 0.98**t), v / (1 - 0.9**t)",
    ),
)


def accumulate(
    gradients: Float[Tensor, "parts tokens n"], real: Bool[Tensor, "parts tokens"]
) -> Float[Tensor, " n"]:
    """The gradient of the mean loss of all real tokens, from several parts."""
    total = torch.zeros(gradients.shape[-1])
    for part, mask in zip(gradients, real, strict=True):
        total = total + part[mask].sum(dim=0)
    return total / real.sum()


def mean_of_means(
    gradients: Float[Tensor, "parts tokens n"], real: Bool[Tensor, "parts tokens"]
) -> Float[Tensor, " n"]:
    """The code with the bug: every part has the same weight."""
    total = torch.zeros(gradients.shape[-1])
    for part, mask in zip(gradients, real, strict=True):
        total = total + part[mask].mean(dim=0) / len(gradients)
    return total


_SUM = "total + part[mask].sum(dim=0)"
_TOTAL = "total / real.sum()"
ACCUMULATE_MISTAKES = (
    Edit(
        "the sum is not divided",
        "Divide it once, by the number of all real tokens.",
        "number",
        _TOTAL,
        "total",
    ),
    Edit(
        "the sum is divided by the number of all positions",
        "Divide by the number of real tokens.",
        "number",
        _TOTAL,
        "total / real.numel()",
    ),
    Edit(
        "the sum over the tokens is divided by the number of parts",
        "Divide by the number of real tokens of all parts.",
        "number",
        _TOTAL,
        "total / len(real)",
    ),
    Edit(
        "the sum is divided by the number of tokens of the last part",
        "Divide by the number of real tokens of all parts.",
        "number",
        _TOTAL,
        "total / mask.sum()",
    ),
    Edit(
        "the means of the parts are added, not averaged",
        "Add the gradients of all real tokens, and divide once, by their number.",
        "sum number",
        f"{_SUM}\n    return {_TOTAL}",
        "total + part[mask].mean(dim=0)\n    return total",
    ),
    Edit(
        "the means of the parts are divided by the number of tokens",
        "Add sums instead of means before you divide by the number of all real tokens.",
        "sum",
        _SUM,
        "total + part[mask].mean(dim=0)",
    ),
    Edit(
        "the padding is counted, too",
        "Keep the mask: only real tokens contribute.",
        "sum number",
        f"{_SUM}\n    return {_TOTAL}",
        "total + part.sum(dim=0)\n    return total / real.numel()",
    ),
    Edit(
        "the gradients of the padding are added",
        "Keep the mask in the sum: only real tokens contribute.",
        "sum",
        _SUM,
        "total + part.sum(dim=0)",
    ),
    Edit(
        "only the last part remains",
        "Add the parts: do not overwrite the total.",
        "sum",
        _SUM,
        "part[mask].sum(dim=0)",
    ),
)


Schedule = Callable[[int, float, int], float]


def schedule_test(schedule: Schedule) -> None:
    """Raise AssertionError if a schedule is wrong."""
    for peak, warmup in ((0.003, 10), (1.0, 400)):
        for t in (1, 2, warmup // 2, warmup - 1, warmup, warmup + 1, 4 * warmup, 50 * warmup):
            expected = peak * (t / warmup if t < warmup else math.sqrt(warmup / t))
            assert math.isclose(schedule(t, peak, warmup), expected, rel_tol=1e-4)


def by_minimum(t: int, peak: float, warmup: int) -> float:
    """Correct: the smaller of two terms."""
    return peak * min(t / warmup, math.sqrt(warmup / t))


def by_branches(t: int, peak: float, warmup: int) -> float:
    """Correct: one formula for each phase."""
    return peak * t / warmup if t <= warmup else peak * (t / warmup) ** -0.5


def of_the_paper(t: int, peak: float, warmup: int) -> float:
    """Correct: equation 3 of the paper, scaled to the peak."""
    return float(peak * warmup**0.5 * min(t**-0.5, t * warmup**-1.5))


def from_zero(t: int, peak: float, warmup: int) -> float:
    """The first learning rate is 0."""
    return by_minimum(t - 1, peak, warmup) if t > 1 else 0.0


def no_warmup(t: int, peak: float, warmup: int) -> float:
    """The peak is kept during the warm-up."""
    return peak * min(1.0, math.sqrt(warmup / t))


def constant_after(t: int, peak: float, warmup: int) -> float:
    """There is no decay."""
    return peak * min(1.0, t / warmup)


def inverse_decay(t: int, peak: float, warmup: int) -> float:
    """The decay is 1 / t."""
    return peak * min(t / warmup, warmup / t)


def decay_from_peak(t: int, peak: float, warmup: int) -> float:
    """The decay counts its steps from the end of the warm-up."""
    return peak * (t / warmup if t <= warmup else (t - warmup + 1) ** -0.5)


def jump(t: int, peak: float, warmup: int) -> float:
    """After the warm-up, the learning rate is peak / √t."""
    return peak * (t / warmup if t <= warmup else t**-0.5)


def quadratic(t: int, peak: float, warmup: int) -> float:
    """The warm-up is quadratic."""
    return peak * min((t / warmup) ** 2, math.sqrt(warmup / t))


def peak_of_the_paper(t: int, peak: float, warmup: int) -> float:
    """The peak is that of the paper for d_model = 512."""
    return by_minimum(t, (512 * warmup) ** -0.5, warmup)


def loss_after(limit: float, steps: int = 200) -> float:
    """The loss of a small network that is trained with Adam and clipping."""
    model = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, betas=(0.9, 0.98), eps=1e-9)
    for _ in range(steps):
        digits = torch.randint(10, (64, 2))
        logits = model(F.one_hot(digits, 10).flatten(1).float())
        loss = F.cross_entropy(logits, digits.sum(dim=1) % 10)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), limit)
        optimizer.step()
    return loss.item()


def smaller_threshold() -> tuple[str, str]:
    """Train with two thresholds of clipping."""
    usual, small = (sum(loss_after(limit) for _ in range(3)) / 3 for limit in (1.0, 0.001))
    option = "a" if small > 2 else "b" if small > 0.1 else "c"
    texts = approximate(small, 0.0, 0.03), approximate(usual, 0.02, 0.03)
    return option, f"the loss is {texts[0]} with the threshold 0.001, and {texts[1]} with 1."
