"""Solutions, known mistakes and wrong versions of the exercises of chapter 1."""

from collections.abc import Callable, Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from tfmr.exercises.edits import Edit, by_edits
from tfmr.exercises.exercise import Faults, Mistake

FIRST_NOUN = Mistake(
    "only the sentences that begin with the dogs are counted",
    "The context of this model is one token: count the tokens after every *dogs*.",
    "counts",
)
TOO_FEW = Mistake(
    "one of the two counts is divided by too few tokens",
    "Count all tokens of the context: 36 follow *the*, and of the nine after *dogs*, some are "
    "*near*.",
    "counts",
)
LAST_FACTOR = Mistake(
    "these are the probabilities of the verbs after dogs",
    "Multiply by the probability of *dogs* after *the*, too.",
    "product",
)
ADDED = Mistake(
    "the four factors are added",
    "Multiply them: this is the chain rule.",
    "product",
)
JOINT = Mistake(
    "the counts of the verbs are divided by the number of *the* instead of *dogs*",
    "Divide by the number of tokens after *dogs*, because *dogs* is the context of the verb.",
    "counts",
)
REVERSED = Mistake(
    "the counts are divided by the number of verbs, not by the number of contexts",
    "Divide by the number of tokens after *dogs*, because the context is given.",
    "counts",
)
EXCHANGED = Mistake(
    "the two probabilities are exchanged",
    "Count again how often *sleep* and *sleeps* follow *dogs*.",
    "counts",
)
COUNT_MISTAKES = (
    FIRST_NOUN,
    TOO_FEW,
    LAST_FACTOR,
    ADDED,
    JOINT,
    REVERSED,
    EXCHANGED,
)


def counted_with(faults: Faults) -> list[float]:
    """The probabilities of two sentences in the model of order 1, with mistakes."""
    values = {
        FIRST_NOUN.name: [1 / 20, 0.0],
        TOO_FEW.name: [9 / 36 * 3 / 5, 9 / 36 * 2 / 5],
        LAST_FACTOR.name: [3 / 9, 2 / 9],
        ADDED.name: [2 + 9 / 36 + 3 / 9, 2 + 9 / 36 + 2 / 9],
        JOINT.name: [9 / 36 * 3 / 36, 9 / 36 * 2 / 36],
        REVERSED.name: [9 / 36 * 3 / 10, 9 / 36 * 2 / 10],
        EXCHANGED.name: [9 / 36 * 2 / 9, 9 / 36 * 3 / 9],
    }
    right = [9 / 36 * 3 / 9, 9 / 36 * 2 / 9]
    return next((values[fault] for fault in faults), right)


def run_rnn(
    x: Float[Tensor, "batch length d_in"],
    h: Float[Tensor, "batch d"],
    w_x: Float[Tensor, "d_in d"],
    w_h: Float[Tensor, "d d"],
    b: Float[Tensor, " d"],
) -> Float[Tensor, "batch length d"]:
    """The states of a recurrent network after each step."""
    states = []
    for x_t in x.unbind(dim=1):
        h = torch.tanh(x_t @ w_x + h @ w_h + b)
        states.append(h)
    return torch.stack(states, dim=1)


_STATE = "torch.tanh(x_t @ w_x + h @ w_h + b)"
_STACK = "torch.stack(states, dim=1)"
RNN_MISTAKES = (
    Edit(
        "the tanh is missing",
        "Apply tanh to the sum.",
        "state",
        _STATE,
        "x_t @ w_x + h @ w_h + b",
    ),
    Edit(
        "the previous state is not used",
        "Add h @ w_h: this term makes the network recurrent.",
        "state",
        _STATE,
        "torch.tanh(x_t @ w_x + b)",
    ),
    Edit(
        "every step starts from the initial state",
        "The new state is the h of the next step: overwrite h.",
        "state",
        f"h = {_STATE}\n        states.append(h)",
        f"states.append({_STATE})",
    ),
    Edit(
        "the bias is missing",
        "Add b inside the tanh.",
        "state",
        _STATE,
        "torch.tanh(x_t @ w_x + h @ w_h)",
    ),
    Edit(
        "w_h is transposed",
        "The states are rows, so multiply by w_h from the right: h @ w_h.",
        "state",
        _STATE,
        "torch.tanh(x_t @ w_x + h @ w_h.T + b)",
    ),
    Edit(
        "the tanh is applied to the recurrent part only",
        "Apply tanh to the whole sum.",
        "state",
        _STATE,
        "x_t @ w_x + torch.tanh(h @ w_h + b)",
    ),
    Edit(
        "the bias is added after the tanh",
        "Add it inside the tanh.",
        "state",
        _STATE,
        "torch.tanh(x_t @ w_x + h @ w_h) + b",
    ),
    Edit(
        "the input is used in the first step only",
        "Every step has an input of its own, x[:, t].",
        "loop",
        "for x_t in x.unbind(dim=1):",
        "for x_t in [x[:, 0], *(0 * x[:, 1:]).unbind(dim=1)]:",
    ),
    Edit(
        "the loop runs over the sentences instead of the steps",
        "The first axis of x is the batch: loop over the second.",
        "loop",
        "x.unbind(dim=1)",
        "x",
    ),
    Edit(
        "the steps run from the last to the first",
        "Begin with x[:, 0].",
        "loop",
        "x.unbind(dim=1)",
        "x.flip(1).unbind(dim=1)",
    ),
    Edit(
        "only the last state is returned",
        "Collect the states of all steps.",
        "result axis",
        _STACK,
        "h",
    ),
    Edit(
        "the result contains the initial state, too",
        "Return the states after each step only.",
        "result",
        "states = []",
        "states = [h]",
    ),
    Edit(
        "the last state is left out",
        "There is one state for each step: append it after it is computed.",
        "state result",
        f"        h = {_STATE}\n        states.append(h)",
        f"        states.append(h)\n        h = {_STATE}",
    ),
    Edit(
        "the steps are the first axis of the result",
        "The batch comes first: stack the states along dim=1.",
        "axis",
        "states, dim=1",
        "states, dim=0",
    ),
    Edit(
        "the states of all steps are joined side by side",
        "The steps need an axis of their own: use torch.stack.",
        "axis",
        "torch.stack(states, dim=1)",
        "torch.cat(states, dim=1)",
    ),
)

Scalar = Tensor | float


def weight_gradient(w: Scalar, h0: Scalar, x: Tensor, y: Tensor) -> Tensor:
    """The derivative of the loss with respect to the recurrent weight."""
    states = [torch.as_tensor(h0)]
    for x_t in x:
        states.append(torch.tanh(w * states[-1] + x_t))
    gradient = from_next = torch.zeros(())
    for t in reversed(range(len(x))):
        old, new = states[t], states[t + 1]
        delta = (new - y[t] + from_next) * (1 - new**2)
        gradient = gradient + delta * old
        from_next = delta * w
    return gradient


_DELTA = "(new - y[t] + from_next) * (1 - new**2)"
GRADIENT_MISTAKES = (
    Edit(
        "no gradient flows from a step to the step before it",
        "A state also changes the losses of later steps: add the gradient that arrives from the "
        "next step.",
        "flow",
        "from_next = delta * w",
        "from_next = 0 * delta",
    ),
    Edit(
        "the gradient is not multiplied by w on its way to the step before",
        "The next step multiplies the state by w, so its gradient is multiplied by w, too.",
        "flow",
        "from_next = delta * w",
        "from_next = delta",
    ),
    Edit(
        "the gradient that arrives from the next step lacks the derivative of the tanh",
        "Pass on delta · w, in which the derivative is included.",
        "flow",
        "from_next = delta * w",
        "from_next = (new - y[t] + from_next) * w",
    ),
    Edit(
        "the derivative of the tanh is missing",
        "Multiply by 1 − h² of the new state.",
        "delta",
        _DELTA,
        "(new - y[t] + from_next)",
    ),
    Edit(
        "the derivative of the tanh is computed from the old state",
        "Use the state that the tanh returned: 1 − h² of the new state.",
        "delta",
        _DELTA,
        "(new - y[t] + from_next) * (1 - old**2)",
    ),
    Edit(
        "the derivative of the tanh is computed from the pre-activation",
        "In terms of the state h = tanh(a), the derivative is 1 − h².",
        "delta",
        _DELTA,
        "(new - y[t] + from_next) * (1 - (w * old + x[t]) ** 2)",
    ),
    Edit(
        "the derivative of the tanh is 1 − h, without the square",
        "The derivative is 1 − h².",
        "delta",
        _DELTA,
        "(new - y[t] + from_next) * (1 - new)",
    ),
    Edit(
        "only the loss of the last step counts",
        "Every step has a loss: add h − y at each of them.",
        "delta",
        _DELTA,
        "((new - y[t]) * (t == len(x) - 1) + from_next) * (1 - new**2)",
    ),
    Edit(
        "the derivative of the loss has a factor of 2",
        "The loss has a factor of ½, so its derivative is h − y.",
        "delta",
        _DELTA,
        "(2 * (new - y[t]) + from_next) * (1 - new**2)",
    ),
    Edit(
        "the gradient is multiplied by the new state instead of the old one",
        "In step t, the weight multiplies the state before the step.",
        "sum",
        "gradient + delta * old",
        "gradient + delta * new",
    ),
    Edit(
        "the terms of the steps are overwritten instead of added",
        "All steps use the same weight: add their terms.",
        "sum",
        "gradient + delta * old",
        "delta * old",
    ),
    Edit(
        "only the last use of the weight counts",
        "All steps use the same weight: add the terms of all of them.",
        "sum",
        "gradient + delta * old",
        "gradient + (t == len(x) - 1) * delta * old",
    ),
    Edit(
        "the terms are not multiplied by the old state",
        "The derivative of w · h with respect to w is h, the state before the step.",
        "sum",
        "gradient + delta * old",
        "gradient + delta",
    ),
    Edit(
        "the backward pass runs from the first step to the last",
        "Begin with the last step: its gradient is needed by the step before it.",
        "loop",
        "reversed(range(len(x)))",
        "range(len(x))",
    ),
    Edit(
        "the backward loop ends before the first step",
        "The first step uses the weight, too, together with the initial state.",
        "loop",
        "reversed(range(len(x)))",
        "range(len(x) - 1, 0, -1)",
    ),
    Edit(
        "the sign is reversed",
        "The derivative of ½ (h − y)² is h − y, not y − h.",
        "result",
        "return gradient",
        "return -gradient",
    ),
    Edit(
        "the gradient is divided by the number of steps",
        "The loss is a sum over the steps, not a mean.",
        "result",
        "return gradient",
        "return gradient / len(x)",
    ),
)
gradient_with = by_edits(weight_gradient, GRADIENT_MISTAKES)


def clip(d_w: Tensor, d_b: Tensor, limit: float) -> tuple[Tensor, Tensor]:
    """Both gradients, scaled by one factor."""
    norm = (d_w.square().sum() + d_b.square().sum()).sqrt()
    factor = (limit / norm).clamp(max=1)
    return d_w * factor, d_b * factor


def clipped_apart(d_w: Tensor, d_b: Tensor, limit: float) -> tuple[Tensor, Tensor]:
    """The code with the bug: each gradient has a norm of its own."""
    d_w = d_w * (limit / d_w.norm()).clamp(max=1)
    d_b = d_b * (limit / d_b.norm()).clamp(max=1)
    return d_w, d_b


_NORM = "(d_w.square().sum() + d_b.square().sum()).sqrt()"
_FACTOR = "(limit / norm).clamp(max=1)"
_CLIPPED = "d_w * factor, d_b * factor"
CLIP_MISTAKES = (
    Edit(
        "each component is clamped to the limit",
        "Scale all components by one factor, which keeps the direction.",
        "norm factor result",
        f"norm = {_NORM}\n    factor = {_FACTOR}\n    return {_CLIPPED}",
        "return d_w.clamp(-limit, limit), d_b.clamp(-limit, limit)",
    ),
    Edit(
        "a gradient below the limit is scaled up",
        "Use a factor of at most 1.",
        "factor",
        _FACTOR,
        "limit / norm",
    ),
    Edit(
        "the two norms are added",
        "The norm of the whole gradient is the root of the sum of all squares.",
        "norm",
        _NORM,
        "d_w.norm() + d_b.norm()",
    ),
    Edit(
        "the larger of the two norms is used",
        "The norm of the whole gradient is the root of the sum of all squares.",
        "norm",
        _NORM,
        "torch.maximum(d_w.norm(), d_b.norm())",
    ),
    Edit(
        "the square root of the sum of squares is missing",
        "The Euclidean norm is the root of the sum of all squares.",
        "norm",
        _NORM,
        "(d_w.square().sum() + d_b.square().sum())",
    ),
    Edit(
        "the norm of the weight matrix alone is used",
        "The bias belongs to the gradient, too: add its squares.",
        "norm",
        _NORM,
        "d_w.norm()",
    ),
    Edit(
        "the sum of the absolute values is used as the norm",
        "Use the Euclidean norm: the root of the sum of all squares.",
        "norm",
        _NORM,
        "d_w.abs().sum() + d_b.abs().sum()",
    ),
    Edit(
        "the norm for d_b is computed after d_w has been scaled",
        "Compute the norm once, before either gradient changes.",
        "norm factor result",
        f"norm = {_NORM}\n    factor = {_FACTOR}\n    return {_CLIPPED}",
        f"d_w = d_w * (limit / {_NORM}).clamp(max=1)\n"
        f"    return d_w, d_b * (limit / {_NORM}).clamp(max=1)",
    ),
    Edit(
        "the gradient of the bias is not scaled",
        "Scale both by the same factor.",
        "result",
        _CLIPPED,
        "d_w * factor, d_b",
    ),
    Edit(
        "a large gradient is multiplied by norm / limit",
        "The factor is limit / norm, which is below 1 for a large gradient.",
        "factor",
        _FACTOR,
        "torch.where(norm > limit, norm / limit, 1)",
    ),
    Edit(
        "a large gradient is scaled to the norm 1 instead of the limit",
        "The factor is limit / norm.",
        "factor",
        _FACTOR,
        "torch.where(norm > limit, 1 / norm, 1)",
    ),
)


MUTANTS = {
    "no gradient flows": "a gradient that stops after one step",
    "the gradient is not multiplied": "a gradient that is not multiplied by w between the steps",
    "the backward loop": "a gradient without the term of the first step",
    "the derivative of the tanh is computed from the old": "a derivative at the old state",
    "only the loss": "a gradient of the last loss only",
    "the gradient is multiplied": "new states in place of the old ones",
    "the terms of the steps": "the term of the first step only",
    "the derivative of the loss": "a derivative of the loss that is twice as large",
}


def gradient_mutants(starts: Sequence[str]) -> list[Callable[..., Tensor]]:
    """Versions of the gradient, each with the mistake whose name begins as stated."""
    found = [[m.name for m in GRADIENT_MISTAKES if m.name.startswith(s)] for s in starts]
    return [gradient_with(frozenset(each)) for each in found]


def by_autograd(w: Scalar, h0: Scalar, x: Tensor, y: Tensor) -> Tensor:
    """Correct: automatic differentiation."""
    weight = torch.as_tensor(w).detach().clone().requires_grad_()
    (gradient,) = torch.autograd.grad(loss(weight, h0, x, y), weight)
    return gradient


def forwards(w: Scalar, h0: Scalar, x: Tensor, y: Tensor) -> Tensor:
    """Correct: the derivative of the state is computed along with the state."""
    h, slope, gradient = torch.as_tensor(h0), torch.zeros(()), torch.zeros(())
    for x_t, y_t in zip(x, y, strict=True):
        old, h = h, torch.tanh(w * h + x_t)
        slope = (1 - h**2) * (old + w * slope)
        gradient = gradient + (h - y_t) * slope
    return gradient


def loss(w: Scalar, h0: Scalar, x: Tensor, y: Tensor) -> Tensor:
    """Half the sum of the squared errors of the states."""
    h, total = torch.as_tensor(h0), torch.zeros(())
    for x_t, y_t in zip(x, y, strict=True):
        h = torch.tanh(w * h + x_t)
        total = total + (h - y_t) ** 2 / 2
    return total


def gradient_test(gradient: Callable[..., Tensor]) -> None:
    """Raise AssertionError if a gradient is wrong."""
    w, h0 = torch.tensor(0.7).double(), torch.tensor(0.5).double()
    x, y = torch.randn(5).double(), torch.randn(5).double()
    step = 1e-5

    def loss_at(w: Tensor) -> Tensor:
        h, total = h0, torch.zeros(()).double()
        for x_t, y_t in zip(x, y, strict=True):
            h = torch.tanh(w * h + x_t)
            total = total + (h - y_t) ** 2 / 2
        return total

    expected = (loss_at(w + step) - loss_at(w - step)) / (2 * step)
    assert abs(gradient(w, h0, x, y) - expected) < 1e-4


def window_gradient(w: Scalar, h0: Scalar, x: Tensor, y: Tensor, k: int) -> Tensor:
    """The derivative of the loss, if the gradient of each step reaches k uses of the weight."""
    states = [torch.as_tensor(h0)]
    for x_t in x:
        states.append(torch.tanh(w * states[-1] + x_t))
    gradient = torch.zeros(())
    for t in range(len(x)):
        arriving = states[t + 1] - y[t]
        for i in range(t, max(t - k, -1), -1):
            delta = arriving * (1 - states[i + 1] ** 2)
            gradient = gradient + delta * states[i]
            arriving = delta * w
    return gradient


_BACK = "range(t, max(t - k, -1), -1)"
_ARRIVING = "arriving = states[t + 1] - y[t]"
_WINDOW_DELTA = "arriving * (1 - states[i + 1] ** 2)"
WINDOW_MISTAKES = (
    Edit(
        "the sequence is cut into chunks of k steps",
        "The gradient of every loss reaches k uses of the weight, not only that of the last loss "
        "of a chunk.",
        "window",
        _BACK,
        "range(t, t - t % k - 1, -1)",
    ),
    Edit(
        "the gradient flows back to the first step: nothing is truncated",
        "Stop after k uses of the weight.",
        "window",
        _BACK,
        "range(t, -1, -1)",
    ),
    Edit(
        "each loss reaches one use of the weight too many",
        "The use in the step of the loss itself counts as the first of k.",
        "window",
        _BACK,
        "range(t, max(t - k - 1, -1), -1)",
    ),
    Edit(
        "each loss reaches one use of the weight too few",
        "With k = 1, the loss of a step still reaches the use in this step.",
        "window",
        _BACK,
        "range(t, max(t - k + 1, -1), -1)",
    ),
    Edit(
        "each loss reaches one use of the weight only",
        "Continue through k steps: multiply by w, and go on to the step before.",
        "window",
        _BACK,
        "range(t, t - 1, -1)",
    ),
    Edit(
        "the losses of the first k − 1 steps are left out",
        "They have fewer steps before them: follow them back to the first step.",
        "losses window",
        f"for t in range(len(x)):\n        {_ARRIVING}\n        for i in {_BACK}:",
        f"for t in range(k - 1, len(x)):\n        {_ARRIVING}\n"
        "        for i in range(t, t - k, -1):",
    ),
    Edit(
        "every window starts at the initial state instead of the state that was reached there",
        "Only the gradient is truncated: use the states of the whole sequence.",
        "losses states",
        _ARRIVING,
        "states[max(t - k + 1, 0)] = torch.as_tensor(h0)\n"
        "        for i in range(max(t - k + 1, 0), t + 1):\n"
        "            states[i + 1] = torch.tanh(w * states[i] + x[i])\n"
        f"        {_ARRIVING}",
    ),
    Edit(
        "only the loss of the last step counts",
        "Every step has a loss: follow each of them back.",
        "losses",
        _ARRIVING,
        "arriving = (states[t + 1] - y[t]) * (t == len(x) - 1)",
    ),
    Edit(
        "the gradient is divided by the number of steps",
        "The loss is the sum over the steps, not their mean.",
        "result",
        "return gradient",
        "return gradient / len(x)",
    ),
    Edit(
        "the derivative of the loss has a factor of 2",
        "The loss has a factor of ½, so its derivative is h − y.",
        "losses",
        _ARRIVING,
        "arriving = 2 * (states[t + 1] - y[t])",
    ),
    Edit(
        "losses are counted several times: those of earlier steps are added on the way back",
        "Follow each loss back alone: begin with h − y of its own step only.",
        "flow",
        "arriving = delta * w",
        "arriving = delta * w + states[i] - y[i - 1]",
    ),
    Edit(
        "the derivative of the tanh is missing",
        "Multiply by 1 − h² of the new state at every step.",
        "delta",
        _WINDOW_DELTA,
        "arriving",
    ),
    Edit(
        "the derivative of the tanh is computed from the old state",
        "Use the state that the tanh returned: 1 − h² of the new state.",
        "delta",
        _WINDOW_DELTA,
        "arriving * (1 - states[i] ** 2)",
    ),
    Edit(
        "the gradient is not multiplied by w on its way to the step before",
        "The step multiplies the old state by w, so the gradient is multiplied by w, too.",
        "flow",
        "arriving = delta * w",
        "arriving = delta",
    ),
    Edit(
        "the gradient that flows back lacks the derivative of the tanh",
        "Pass on delta · w, in which the derivative is included.",
        "flow",
        "arriving = delta * w",
        "arriving = arriving * w",
    ),
    Edit(
        "the gradient is multiplied by the new state instead of the old one",
        "In step i, the weight multiplies the state before the step.",
        "sum",
        "delta * states[i]",
        "delta * states[i + 1]",
    ),
    Edit(
        "the terms are overwritten instead of added",
        "All steps use the same weight: add their terms.",
        "sum",
        "gradient + delta * states[i]",
        "delta * states[i]",
    ),
)
