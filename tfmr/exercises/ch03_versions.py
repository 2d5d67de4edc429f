"""Solutions, known mistakes and wrong versions of the exercises of chapter 3."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from tfmr.exercises.edits import Edit, by_edits
from tfmr.exercises.exercise import Faults, Mistake, numbers
from tfmr.notebook import approximate

OUTPUTS = torch.tensor([[0.0, 0], [1, 0], [0, 1]])
"""The encoder outputs of *the black cat*, in the exercise."""
NO_TANH = Mistake(
    "the tanh is missing",
    "Apply tanh to each component before you multiply by v: tanh(1) = 0.762.",
    "tanh",
)
TANH_LATE = Mistake(
    "the tanh is applied to the score instead of the components",
    "Apply tanh to the components first, then multiply by v.",
    "tanh",
)
NO_V = Mistake(
    "the components are added without v = (4, 4)",
    "Multiply the components by v before you add them.",
    "v",
)
NO_SOFTMAX = Mistake(
    "the scores are divided by their sum, without exponentials",
    "The softmax takes the exponential of each score first; exp(0) is 1, not 0.",
    "softmax",
)
NOT_DIVIDED = Mistake(
    "the exponentials are not divided by their sum",
    "Divide them by their sum: the weights must sum to 1.",
    "softmax",
)
UNIFORM = Mistake(
    "all three words have the same weight",
    "Only two of the three scores are equal.",
    "softmax",
)
SCALED = Mistake(
    "the scores are divided by √2",
    "Additive attention has no such factor.",
    "scale",
)
AVERAGED = Mistake(
    "the weighted outputs are divided by their number",
    "Add them up: the weights sum to 1 already.",
    "context",
)
STATE_MISTAKES = (NO_TANH, TANH_LATE, NO_V, NO_SOFTMAX, NOT_DIVIDED, UNIFORM, SCALED, AVERAGED)


def state_with(faults: Faults) -> list[float]:
    """The weights and the context vector for the state (0, 0), with mistakes."""
    hidden = OUTPUTS if faults & {NO_TANH.name, TANH_LATE.name} else OUTPUTS.tanh()
    scores = hidden.sum(dim=-1) if NO_V.name in faults else 4 * hidden.sum(dim=-1)
    scores = scores.tanh() if TANH_LATE.name in faults else scores
    scores = scores / math.sqrt(2) if SCALED.name in faults else scores
    options = {
        NO_SOFTMAX.name: scores / scores.sum(),
        NOT_DIVIDED.name: scores.exp(),
        UNIFORM.name: torch.ones(3) / 3,
    }
    weights = next((options[f] for f in faults if f in options), scores.softmax(dim=0))
    context = weights @ OUTPUTS / (3 if AVERAGED.name in faults else 1)
    result: list[float] = torch.cat([weights, context]).tolist()
    return result


def context_vector(
    s: Float[Tensor, "batch d_state"],
    memory: Float[Tensor, "batch source d"],
    w: Float[Tensor, "d_state hidden"],
    u: Float[Tensor, "d hidden"],
    v: Float[Tensor, " hidden"],
) -> Float[Tensor, "batch d"]:
    """The context vector of additive attention."""
    hidden = torch.tanh((s @ w)[:, None, :] + memory @ u)  # (batch, source, hidden)
    weights = (hidden @ v).softmax(dim=-1)  # (batch, source)
    return (weights[:, :, None] * memory).sum(dim=1)


_HIDDEN = "torch.tanh((s @ w)[:, None, :] + memory @ u)"
_WEIGHTS = "(hidden @ v).softmax(dim=-1)"
_CONTEXT = "(weights[:, :, None] * memory).sum(dim=1)"
CONTEXT_MISTAKES = (
    Edit(
        "the tanh is missing",
        "Apply tanh to the sum of the two projections: without it, the state cancels in the "
        "softmax.",
        "hidden",
        _HIDDEN,
        "((s @ w)[:, None, :] + memory @ u)",
    ),
    Edit(
        "the state has no effect, because it is not added inside the tanh",
        "Add s @ w to each projected encoder output first, then apply tanh to the sum.",
        "hidden",
        _HIDDEN,
        "torch.tanh(memory @ u)",
    ),
    Edit(
        "the two projections are multiplied instead of added",
        "Add them: this is why the attention is called additive.",
        "hidden",
        _HIDDEN,
        "torch.tanh((s @ w)[:, None, :] * (memory @ u))",
    ),
    Edit(
        "the tanh is applied to the scores instead of the components",
        "Apply tanh before the product with v.",
        "hidden weights",
        f"{_HIDDEN}  # (batch, source, hidden)\n    weights = {_WEIGHTS}",
        "((s @ w)[:, None, :] + memory @ u)\n    weights = (hidden @ v).tanh().softmax(dim=-1)",
    ),
    Edit(
        "the components are added without v",
        "The score is the dot product with v: hidden @ v.",
        "weights",
        _WEIGHTS,
        "hidden.sum(dim=-1).softmax(dim=-1)",
    ),
    Edit(
        "the scores are used as weights, without a softmax",
        "Apply the softmax over the source positions.",
        "weights",
        _WEIGHTS,
        "(hidden @ v)",
    ),
    Edit(
        "the softmax is taken over the batch",
        "The weights of one sentence sum to 1: take the softmax over the source, the last axis.",
        "weights",
        _WEIGHTS,
        "(hidden @ v).softmax(dim=0)",
    ),
    Edit(
        "the scores are divided by the square root of the hidden size",
        "Additive attention has no such factor: use hidden @ v.",
        "weights",
        _WEIGHTS,
        "(hidden @ v / math.sqrt(len(v))).softmax(dim=-1)",
    ),
    Edit(
        "the projected encoder outputs are averaged",
        "Average the encoder outputs themselves: the projections serve the scores only.",
        "context",
        _CONTEXT,
        "(weights[:, :, None] * (memory @ u)).sum(dim=1)",
    ),
    Edit(
        "the weights are returned instead of the context vector",
        "Multiply the encoder outputs by the weights, and add them up.",
        "context",
        _CONTEXT,
        "weights",
    ),
    Edit(
        "the weighted outputs are averaged once more",
        "Add them up: the weights sum to 1 already.",
        "context",
        _CONTEXT,
        "(weights[:, :, None] * memory).mean(dim=1)",
    ),
)


def masked_weights(
    scores: Float[Tensor, "batch source"], keep: Bool[Tensor, "batch source"]
) -> Float[Tensor, "batch source"]:
    """The attention weights of the real tokens."""
    scores = scores.masked_fill(~keep, -math.inf)
    return scores.softmax(dim=-1)


def zero_scores(
    scores: Float[Tensor, "batch source"], keep: Bool[Tensor, "batch source"]
) -> Float[Tensor, "batch source"]:
    """The code with the bug: the scores of padding are 0."""
    scores = scores * keep
    return scores.softmax(dim=-1)


_FILL = "scores.masked_fill(~keep, -math.inf)"
MASKED_MISTAKES = (
    Edit(
        "the weights of padding are set to 0 after the softmax, and the rest no longer sums to 1",
        "Hide the padding in the scores, before the softmax.",
        "fill softmax",
        f"{_FILL}\n    return scores.softmax(dim=-1)",
        "scores\n    return scores.softmax(dim=-1) * keep",
    ),
    Edit(
        "the mask is inverted: the real tokens are hidden",
        "Fill where keep is False: ~keep.",
        "fill",
        _FILL,
        "scores.masked_fill(keep, -math.inf)",
    ),
    Edit(
        "the mask is inverted: the real tokens get a large negative score",
        "Fill where keep is False: ~keep.",
        "fill",
        _FILL,
        "scores.masked_fill(keep, -1e9)",
    ),
    Edit(
        "the mask is multiplied by −∞, which makes the scores of the real tokens NaN",
        "The product of 0 and −∞ is NaN: change the scores of padding only.",
        "fill",
        _FILL,
        "scores + (~keep).float() * -math.inf",
    ),
    Edit(
        "the mask is not used",
        "Set the scores where keep is False to −∞.",
        "fill",
        _FILL,
        "scores",
    ),
    Edit(
        "the scores of padding are lowered by only 1",
        "Set them to −∞: a score that is lower by 1 still leaves a large weight.",
        "fill",
        _FILL,
        "scores - (~keep).float()",
    ),
    Edit(
        "the scores of padding are set to a finite number, and a real score can be lower",
        "Set them to −∞: no score is lower.",
        "fill",
        _FILL,
        "scores.masked_fill(~keep, -10)",
    ),
    Edit(
        "the softmax is taken over the batch",
        "The weights of one sentence sum to 1: use the last axis.",
        "softmax",
        "softmax(dim=-1)",
        "softmax(dim=0)",
    ),
)


def weights_test(attend: Callable[[Tensor, Tensor], Tensor]) -> None:
    """Raise AssertionError if attention weights are wrong."""
    scores = 2 * torch.randn(3, 4) - 1
    keep = torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0], [1, 0, 0, 0]], dtype=torch.bool)
    weights = attend(scores, keep)
    for i, length in enumerate((4, 2, 1)):
        expected = scores[i, :length].softmax(dim=0)
        assert torch.allclose(weights[i, :length], expected, atol=1e-5)
        assert (weights[i, length:].abs() < 1e-5).all()


WEIGHTS_MUTANTS = (
    Edit("scores of padding that are 0", "", "", _FILL, "scores * keep"),
    Edit("padding that is not hidden", "", "", _FILL, "scores"),
    Edit("an inverted mask", "", "", _FILL, "scores.masked_fill(keep, -1e9)"),
    Edit("padding with a lower score", "", "", _FILL, "scores - 3 * (~keep).float()"),
    Edit(
        "weights of padding set to 0 after the softmax",
        "",
        "",
        f"{_FILL}\n    return scores",
        "scores\n    return keep * scores",
    ),
    Edit("exponentials that are not divided by their sum", "", "", "softmax(dim=-1)", "exp()"),
    Edit("the mask of the first sentence for all", "", "", "~keep", "~keep[:1]"),
    Edit("a softmax of halved scores", "", "", "scores.softmax", "(scores / 2).softmax"),
)
_mutant = by_edits(masked_weights, WEIGHTS_MUTANTS)


def weights_mutants() -> dict[str, Callable[..., Tensor]]:
    """Faulty weights, by description."""
    return {each.name: _mutant(frozenset({each.name})) for each in WEIGHTS_MUTANTS}


def by_exponentials(
    scores: Float[Tensor, "batch source"], keep: Bool[Tensor, "batch source"]
) -> Float[Tensor, "batch source"]:
    """Correct: masked exponentials, divided by their sum."""
    weights = scores.exp() * keep
    return weights / weights.sum(dim=-1, keepdim=True)


def sentence_by_sentence(
    scores: Float[Tensor, "batch source"], keep: Bool[Tensor, "batch source"]
) -> Float[Tensor, "batch source"]:
    """Correct: each sentence alone, without its padding."""
    weights = torch.zeros_like(scores)
    for row, values, real in zip(weights, scores, keep, strict=True):
        row[real] = values[real].softmax(dim=0)
    return weights


def change_of_weights(function: Callable[[Tensor], Tensor]) -> float:
    """The largest change of an attention weight between two random decoder states."""
    memory, w, u = torch.randn(10, 8), torch.randn(8, 16), torch.randn(8, 16)
    v, states = torch.randn(16), torch.randn(2, 8)
    first, second = ((function(s @ w + memory @ u) @ v).softmax(dim=0) for s in states)
    return float((first - second).abs().max())


def without_tanh() -> tuple[str, str]:
    """Measure how much the weights depend on the state, with and without the tanh."""
    linear = max(change_of_weights(lambda x: x) for _ in range(100))
    tanh = sum(change_of_weights(torch.tanh) for _ in range(100)) / 100
    option = "a" if linear < 0.001 else "b" if linear < tanh else "c"
    without, mean = approximate(linear, 0.0, 0.001), approximate(tanh, 0.5, 0.2)
    return option, f"the largest change is {without} without tanh; with it, the mean is {mean}."


@dataclass(frozen=True)
class Attend:
    """Additive attention with parameters drawn at random."""

    d: int
    seed: int

    def __call__(
        self, s: Float[Tensor, "batch d"], memory: Float[Tensor, "batch source d"]
    ) -> Float[Tensor, "batch d"]:
        """The context vectors."""
        shapes = (self.d, self.d), (self.d, self.d), (self.d,)
        w, u, v = (numbers(self.seed + i, *shape).to(s) for i, shape in enumerate(shapes))
        return context_vector(s, memory, w, u, v)


@dataclass(frozen=True)
class Cell:
    """A recurrent cell with tanh and with parameters drawn at random."""

    d: int
    seed: int

    def __call__(
        self, x: Float[Tensor, "batch two_d"], s: Float[Tensor, "batch d"]
    ) -> Float[Tensor, "batch d"]:
        """The new state."""
        w_x, w_h = numbers(self.seed, 2 * self.d, self.d), numbers(self.seed + 1, self.d, self.d)
        return torch.tanh(x @ w_x.to(x) + s @ w_h.to(s))


def decode(
    y: Float[Tensor, "batch target d"],
    s: Float[Tensor, "batch d"],
    memory: Float[Tensor, "batch source d"],
    attend: Callable[[Tensor, Tensor], Tensor],
    cell: Callable[[Tensor, Tensor], Tensor],
    w_t: Float[Tensor, "three_d d"],
) -> Float[Tensor, "batch target d"]:
    """The vectors t of a decoder with attention, for all target tokens."""
    outputs = []
    for previous in y.unbind(dim=1):
        context = attend(s, memory)
        s = cell(torch.cat([previous, context], dim=-1), s)
        t = torch.tanh(torch.cat([s, context, previous], dim=-1) @ w_t)
        outputs.append(t)
    return torch.stack(outputs, dim=1)


_LOOP = "for previous in y.unbind(dim=1):\n"
_ATTEND = "        context = attend(s, memory)\n"
_CELL = "s = cell(torch.cat([previous, context], dim=-1), s)"
_T = "torch.tanh(torch.cat([s, context, previous], dim=-1) @ w_t)"
DECODE_MISTAKES = (
    Edit(
        "the context vector in t is computed from the new state",
        "Compute it once per step, from the state before the step.",
        "attend t",
        f"t = {_T}",
        f"context = attend(s, memory)\n        t = {_T}",
    ),
    Edit(
        "the context vector is computed once, before the loop",
        "Every step needs a context vector of its own: call attend in the loop.",
        "attend loop",
        _LOOP + _ATTEND,
        f"context = attend(s, memory)\n    {_LOOP}",
    ),
    Edit(
        "the context vector is the mean of the encoder outputs",
        "Call attend, which weights them.",
        "attend",
        "attend(s, memory)",
        "memory.mean(dim=1)",
    ),
    Edit(
        "the context vector is computed from the token instead of the state",
        "The query is the state before the step: attend(s, memory).",
        "attend",
        "attend(s, memory)",
        "attend(previous, memory)",
    ),
    Edit(
        "the input of the cell has the context vector first",
        "The token comes first: [y; c].",
        "cell",
        "[previous, context]",
        "[context, previous]",
    ),
    Edit(
        "the context vector does not enter the state",
        "The input of the cell is [y; c].",
        "cell",
        "[previous, context]",
        "[previous, 0 * context]",
    ),
    Edit(
        "every step starts from the initial state",
        "The new state is the state before the next step: overwrite s.",
        "attend cell t",
        f"{_CELL}\n        t = {_T}",
        "new = cell(torch.cat([previous, context], dim=-1), s)\n"
        "        t = torch.tanh(torch.cat([new, context, previous], dim=-1) @ w_t)",
    ),
    Edit(
        "t is computed from the state before the step",
        "The state in t is the new one: call cell first.",
        "cell t",
        f"{_CELL}\n        t = {_T}",
        f"t = {_T}\n        {_CELL}",
    ),
    Edit(
        "t is computed without the tanh",
        "Apply tanh to the product with w_t.",
        "t",
        _T,
        "torch.cat([s, context, previous], dim=-1) @ w_t",
    ),
    Edit(
        "the three vectors in t are in another order: the token is second",
        "The order is [s; c; y].",
        "t",
        "[s, context, previous]",
        "[s, previous, context]",
    ),
    Edit(
        "the three vectors in t are in another order: the context vector is first",
        "The order is [s; c; y].",
        "t",
        "[s, context, previous]",
        "[context, s, previous]",
    ),
    Edit(
        "the three vectors in t are in another order: the token is first",
        "The order is [s; c; y].",
        "t",
        "[s, context, previous]",
        "[previous, context, s]",
    ),
    Edit(
        "t enters the next step instead of the state",
        "Keep the state and t apart: only s is passed on.",
        "t pass",
        f"t = {_T}\n",
        f"s = t = {_T}\n",
    ),
    Edit(
        "the states are returned instead of t",
        "Collect t: it is computed from the state, the context vector and the token.",
        "pass result",
        "outputs.append(t)",
        "outputs.append(s)",
    ),
    Edit(
        "the context vectors are returned instead of t",
        "Collect t: it is computed from the state, the context vector and the token.",
        "pass result",
        "outputs.append(t)",
        "outputs.append(context)",
    ),
    Edit(
        "only the last t is returned",
        "Collect the t of every step.",
        "result axis",
        "torch.stack(outputs, dim=1)",
        "t",
    ),
    Edit(
        "the steps are the first axis of the result",
        "The batch comes first: stack along dim=1.",
        "axis",
        "outputs, dim=1",
        "outputs, dim=0",
    ),
    Edit(
        "the target tokens are shifted once more",
        "The argument y contains the previous target tokens already: step i uses y[:, i].",
        "loop",
        "y.unbind(dim=1)",
        "torch.cat([0 * y[:, :1], y[:, :-1]], dim=1).unbind(dim=1)",
    ),
    Edit(
        "t is the next input of the cell instead of the known target token",
        "The target tokens are known: step i uses y[:, i].",
        "attend loop",
        _LOOP,
        "t = y[:, 0]\n    for _ in y.unbind(dim=1):\n        previous = t\n",
    ),
    Edit(
        "the steps run from the last target token to the first",
        "Begin with y[:, 0].",
        "loop",
        "y.unbind(dim=1)",
        "y.flip(1).unbind(dim=1)",
    ),
)
