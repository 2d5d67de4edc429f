"""Solutions, known mistakes and wrong versions of the exercises of chapter 7."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float, Shaped
from torch import Tensor

from tfmr.exercises.edits import Edit, by_edits
from tfmr.exercises.exercise import Faults
from tfmr.notebook import approximate

Sublayer = Callable[[Tensor], Tensor]


def normalise_vectors(
    x: Float[Tensor, "*batch d_model"],
    gain: Float[Tensor, " d_model"],
    bias: Float[Tensor, " d_model"],
    eps: float,
) -> Float[Tensor, "*batch d_model"]:
    """Layer normalisation."""
    deviation = x - x.mean(dim=-1, keepdim=True)
    variance = deviation.square().mean(dim=-1, keepdim=True)
    return gain * deviation / (variance + eps).sqrt() + bias


_VARIANCE = "deviation.square().mean(dim=-1, keepdim=True)"
UNBIASED = Edit(
    "the variance is divided by d − 1 instead of d",
    "Take the mean of the squares; torch.var and torch.std divide by d − 1 unless correction=0.",
    "statistics",
    _VARIANCE,
    "x.var(dim=-1, keepdim=True)",
)
NO_MEAN = Edit(
    "the mean is not subtracted",
    "Subtract the mean of each vector before you divide.",
    "statistics",
    "deviation / (variance",
    "x / (variance",
)
ROOT_MEAN_SQUARE = Edit(
    "this is RMSNorm: the vector is divided by its root mean square",
    "Subtract the mean first, and take the variance around it.",
    "statistics",
    "x - x.mean(dim=-1, keepdim=True)",
    "x",
)
NOT_CENTRED = Edit(
    "the deviations are divided by the root mean square of the vector",
    "The variance is the mean of the squared *deviations*.",
    "statistics",
    _VARIANCE,
    "x.square().mean(dim=-1, keepdim=True)",
)
NO_ROOT = Edit(
    "the deviations are divided by the variance instead of its square root",
    "Divide by the standard deviation, the square root of the variance.",
    "root",
    "(variance + eps).sqrt()",
    "(variance + eps)",
)
BY_LENGTH = Edit(
    "the deviations are divided by their Euclidean norm",
    "Divide by the root of the *mean* of the squares, not of their sum.",
    "statistics",
    _VARIANCE,
    "deviation.square().sum(dim=-1, keepdim=True)",
)
NO_GAIN = Edit(
    "the gain is missing",
    "Multiply the normalised numbers by the gain, component by component.",
    "gain",
    "gain * ",
    "",
)
NO_BIAS = Edit(
    "the bias is missing",
    "Add the bias at the end.",
    "bias",
    " + bias",
    "",
)
BIAS_FIRST = Edit(
    "the bias is added before the multiplication by the gain",
    "Multiply by the gain first, then add the bias.",
    "gain",
    "gain * deviation / (variance + eps).sqrt() + bias",
    "gain * (deviation / (variance + eps).sqrt() + bias)",
)
NORM_MISTAKES = (
    BIAS_FIRST,
    UNBIASED,
    NO_MEAN,
    ROOT_MEAN_SQUARE,
    NOT_CENTRED,
    NO_ROOT,
    BY_LENGTH,
    NO_GAIN,
    NO_BIAS,
    Edit(
        "eps is added to the standard deviation instead of the variance",
        "Add eps to the variance, inside the square root.",
        "root",
        "(variance + eps).sqrt()",
        "(variance.sqrt() + eps)",
    ),
    Edit(
        "eps is not used",
        "Add eps to the variance, so that a constant vector causes no division by zero.",
        "root",
        "(variance + eps).sqrt()",
        "variance.sqrt()",
    ),
    Edit(
        "the statistics are taken over the whole tensor",
        "Every vector has its own mean and variance: use dim=-1 and keepdim=True.",
        "statistics",
        "deviation = x - x.mean(dim=-1, keepdim=True)\n    variance = " + _VARIANCE,
        "deviation = x - x.mean()\n    variance = deviation.square().mean()",
    ),
    Edit(
        "the statistics are taken over the first axis, as in batch normalisation",
        "Every vector has its own mean and variance, over its d_model numbers: use dim=-1.",
        "statistics",
        "deviation = x - x.mean(dim=-1, keepdim=True)\n    variance = " + _VARIANCE,
        "deviation = x - x.mean(dim=0)\n    variance = deviation.square().mean(dim=0)",
    ),
    Edit(
        "the statistics are taken over the positions instead of the components",
        "Every vector has its own mean and variance, over its d_model numbers: use dim=-1.",
        "statistics",
        "deviation = x - x.mean(dim=-1, keepdim=True)\n    variance = " + _VARIANCE,
        "deviation = x - x.mean(dim=-2, keepdim=True)\n"
        "    variance = deviation.square().mean(dim=-2, keepdim=True)",
    ),
)
BY_HAND_MISTAKES = (
    BIAS_FIRST,
    UNBIASED,
    NO_MEAN,
    ROOT_MEAN_SQUARE,
    NOT_CENTRED,
    NO_ROOT,
    BY_LENGTH,
    NO_GAIN,
    NO_BIAS,
)
_by_hand_with = by_edits(normalise_vectors, BY_HAND_MISTAKES)


def by_hand_with(faults: Faults) -> list[float]:
    """The layer norm of (1, 1, 4, 2), with mistakes."""
    gain, bias = torch.tensor([1.0, 1, 2, 2]), torch.tensor([0.0, 1, 0, 1])
    x = torch.tensor([1.0, 1, 4, 2])
    output: list[float] = _by_hand_with(faults)(x, gain, bias, 0.0).tolist()
    return output


@dataclass(frozen=True, repr=False)
class Fixed:
    """A sublayer of the probes: a function with a readable name."""

    text: str
    function: Sublayer

    def __call__(self, x: Tensor) -> Tensor:
        """Apply the function."""
        return self.function(x)

    def __repr__(self) -> str:
        return self.text


def post_norm_block(
    x: Float[Tensor, "*batch d_model"],
    attention: Sublayer,
    feed_forward: Sublayer,
    norm_1: Sublayer,
    norm_2: Sublayer,
) -> Float[Tensor, "*batch d_model"]:
    """The block of the paper: each residual sum is normalised."""
    x = norm_1(x + attention(x))
    return norm_2(x + feed_forward(x))


_FIRST, _SECOND = "norm_1(x + attention(x))", "norm_2(x + feed_forward(x))"
BLOCK_MISTAKES = (
    Edit(
        "this is a pre-norm block: the input of each sublayer is normalised",
        "Normalise the sum instead: norm(x + sublayer(x)).",
        "first second norms",
        f"x = {_FIRST}\n    return {_SECOND}",
        "x = x + attention(norm_1(x))\n    return x + feed_forward(norm_2(x))",
    ),
    Edit(
        "the output of each sublayer is normalised before it is added",
        "Add first, then normalise the sum: norm(x + sublayer(x)).",
        "first second norms",
        f"x = {_FIRST}\n    return {_SECOND}",
        "x = x + norm_1(attention(x))\n    return x + norm_2(feed_forward(x))",
    ),
    Edit(
        "the feed-forward network gets the input of the block",
        "Its input is the output of the first sublayer, after the norm.",
        "first second norms",
        f"x = {_FIRST}\n    return {_SECOND}",
        "y = norm_1(x + attention(x))\n    return norm_2(y + feed_forward(x))",
    ),
    Edit(
        "the second residual connection adds the input of the block",
        "Each residual connection adds the input of its own sublayer.",
        "first second norms",
        f"x = {_FIRST}\n    return {_SECOND}",
        "y = norm_1(x + attention(x))\n    return norm_2(x + feed_forward(y))",
    ),
    Edit(
        "the feed-forward network comes before the attention",
        "Apply the attention first.",
        "first second norms",
        f"x = {_FIRST}\n    return {_SECOND}",
        "x = norm_1(x + feed_forward(x))\n    return norm_2(x + attention(x))",
    ),
    Edit(
        "the feed-forward network and its norm come before the attention",
        "Apply the attention first.",
        "first second norms",
        f"x = {_FIRST}\n    return {_SECOND}",
        f"x = {_SECOND}\n    return {_FIRST}",
    ),
    Edit(
        "the two norms are exchanged",
        "Use norm_1 after the attention and norm_2 after the feed-forward network.",
        "first second norms",
        "norm_1(x + attention(x))\n    return norm_2(",
        "norm_2(x + attention(x))\n    return norm_1(",
    ),
    Edit(
        "the residual connection around the attention is missing",
        "Add the input of the attention to its output, before the norm.",
        "first",
        "x + attention(x)",
        "attention(x)",
    ),
    Edit(
        "the residual connection around the feed-forward network is missing",
        "Add the input of the feed-forward network to its output, before the norm.",
        "second",
        "x + feed_forward(x)",
        "feed_forward(x)",
    ),
    Edit(
        "the norm after the attention is missing",
        "Normalise the sum of the first sublayer with norm_1.",
        "norms",
        "norm_1(",
        "(",
    ),
    Edit(
        "the norm after the feed-forward network is missing",
        "Normalise the sum of the second sublayer with norm_2.",
        "norms",
        "norm_2(",
        "(",
    ),
    Edit(
        "norm_1 is used after both sublayers",
        "Each sublayer has its own norm, with its own parameters: use norm_2 in the second.",
        "norms",
        "norm_2(",
        "norm_1(",
    ),
)


def pre_norm_block(
    x: Float[Tensor, "*batch d_model"],
    attention: Sublayer,
    feed_forward: Sublayer,
    norm_1: Sublayer,
    norm_2: Sublayer,
) -> Float[Tensor, "*batch d_model"]:
    """A pre-norm block: the stream itself is never normalised."""
    x = x + attention(norm_1(x))
    return x + feed_forward(norm_2(x))


def half_pre_norm(
    x: Float[Tensor, "*batch d_model"],
    attention: Sublayer,
    feed_forward: Sublayer,
    norm_1: Sublayer,
    norm_2: Sublayer,
) -> Float[Tensor, "*batch d_model"]:
    """The code with the bug: the first sublayer is post-norm."""
    x = norm_1(x + attention(x))
    return x + feed_forward(norm_2(x))


STREAM_MISTAKES = (
    Edit(
        "this is a post-norm block: the sums are normalised",
        "Normalise only what enters a sublayer: x + sublayer(norm(x)).",
        "first second norms",
        "x = x + attention(norm_1(x))\n    return x + feed_forward(norm_2(x))",
        "x = norm_1(x + attention(x))\n    return norm_2(x + feed_forward(x))",
    ),
    Edit(
        "the residual connections add the normalised vectors",
        "Do not assign a normalised vector to x: only a sublayer gets it.",
        "first second norms",
        "x = x + attention(norm_1(x))\n    return x + feed_forward(norm_2(x))",
        "x = norm_1(x)\n    x = x + attention(x)\n"
        "    x = norm_2(x)\n    return x + feed_forward(x)",
    ),
    Edit(
        "nothing is normalised",
        "Keep both norms, but apply them to the inputs of the sublayers only.",
        "first second norms",
        "x = x + attention(norm_1(x))\n    return x + feed_forward(norm_2(x))",
        "x = x + attention(x)\n    return x + feed_forward(x)",
    ),
    Edit(
        "the second residual connection adds the input of the block instead of the stream",
        "The stream contains the output of the attention, too: add it to the second output.",
        "first second norms",
        "x = x + attention(norm_1(x))\n    return x + feed_forward(norm_2(x))",
        "y = x + attention(norm_1(x))\n    return x + feed_forward(norm_2(y))",
    ),
    Edit(
        "the first residual connection still adds the normalised vector",
        "Add x as it was before norm_1.",
        "first",
        "x + attention(norm_1(x))",
        "norm_1(x) + attention(norm_1(x))",
    ),
    Edit(
        "the second residual connection still adds the normalised vector",
        "Add x as it was before norm_2.",
        "second",
        "x + feed_forward(norm_2(x))",
        "norm_2(x) + feed_forward(norm_2(x))",
    ),
    Edit(
        "the attention gets the vectors without the norm",
        "Its input is norm_1(x); only the residual connection adds x itself.",
        "first",
        "attention(norm_1(x))",
        "attention(x)",
    ),
    Edit(
        "the feed-forward network gets the vectors without the norm",
        "Its input is norm_2(x); only the residual connection adds x itself.",
        "second",
        "feed_forward(norm_2(x))",
        "feed_forward(x)",
    ),
    Edit(
        "norm_1 is used before both sublayers",
        "Each sublayer has its own norm, with its own parameters.",
        "second",
        "feed_forward(norm_2(x))",
        "feed_forward(norm_1(x))",
    ),
)


def norm_test(normalise: Callable[[Tensor], Tensor]) -> None:
    """Raise AssertionError if a layer norm is wrong."""
    x = 3 * torch.randn(3, 5, 4) + torch.tensor([2.0, -1, 0, 1])
    y = normalise(x)
    assert y.shape == x.shape
    assert torch.allclose(y.mean(dim=-1), torch.zeros(3, 5).to(y), atol=1e-3)
    assert torch.allclose(y.square().mean(dim=-1), torch.ones(3, 5).to(y), atol=1e-3)
    deviation = x - x.mean(dim=-1, keepdim=True)
    cosine = F.cosine_similarity(deviation, y.to(x), dim=-1)
    assert torch.allclose(cosine, torch.ones(3, 5), atol=1e-3)
    assert torch.allclose(normalise(x[:1, :1]), y[:1, :1], atol=1e-3)


Batch = Shaped[Tensor, "batch length d_model"]


def from_deviations(x: Batch) -> Tensor:
    """Correct: the formula."""
    deviation = x - x.mean(dim=-1, keepdim=True)
    return deviation / (deviation.square().mean(dim=-1, keepdim=True) + 1e-5).sqrt()


def by_torch(x: Batch) -> Tensor:
    """Correct: PyTorch's function."""
    return F.layer_norm(x, x.shape[-1:])


def from_squares(x: Batch) -> Tensor:
    """Correct: the variance is the mean square minus the square of the mean, in fp64."""
    wide = x.double()
    mean = wide.mean(dim=-1, keepdim=True)
    variance = wide.square().mean(dim=-1, keepdim=True) - mean**2
    return ((wide - mean) / (variance + 1e-6).sqrt()).to(x.dtype)


def over_batch(x: Batch) -> Tensor:
    """Statistics over the sentences and positions."""
    return (x - x.mean(dim=(0, 1))) / (x.var(dim=(0, 1), correction=0) + 1e-5).sqrt()


def over_positions(x: Batch) -> Tensor:
    """Statistics over the positions."""
    mean, variance = x.mean(dim=1, keepdim=True), x.var(dim=1, correction=0, keepdim=True)
    return (x - mean) / (variance + 1e-5).sqrt()


def over_all(x: Batch) -> Tensor:
    """Statistics over the whole tensor."""
    return (x - x.mean()) / (x.var(correction=0) + 1e-5).sqrt()


def root_mean_square(x: Batch) -> Tensor:
    """RMSNorm."""
    return x / (x.square().mean(dim=-1, keepdim=True) + 1e-5).sqrt()


def unbiased(x: Batch) -> Tensor:
    """The variance is divided by d − 1."""
    return (x - x.mean(dim=-1, keepdim=True)) / (x.var(dim=-1, keepdim=True) + 1e-5).sqrt()


def variance_only(x: Batch) -> Tensor:
    """The deviations are divided by the variance."""
    return (x - x.mean(dim=-1, keepdim=True)) / (x.var(dim=-1, correction=0, keepdim=True) + 1e-5)


def negated(x: Batch) -> Tensor:
    """The deviations have the wrong sign."""
    return (x.mean(dim=-1, keepdim=True) - x) / (
        x.var(-1, correction=0, keepdim=True) + 1e-5
    ).sqrt()


def first_statistics(x: Batch) -> Tensor:
    """Each sentence uses the statistics of its first position."""
    first = x[:, :1]
    variance = first.var(dim=-1, correction=0, keepdim=True)
    return (x - first.mean(dim=-1, keepdim=True)) / (variance + 1e-5).sqrt()


def loss_on_digits(activation: Callable[[Tensor], Tensor], steps: int = 500) -> float:
    """The loss of one sublayer x + FFN(x) on the last digit of the sum of two digits."""
    torch.manual_seed(0)
    pairs = torch.cartesian_prod(torch.arange(10), torch.arange(10))
    labels = pairs.sum(dim=1) % 10
    embedding = torch.randn(20, 16) * 0.5**0.5
    w1, w2 = torch.randn(16, 64) * (2 / 16) ** 0.5, torch.randn(64, 16) / 8
    w_out = torch.randn(16, 10) / 4
    weights = [weight.requires_grad_() for weight in (embedding, w1, w2, w_out)]
    optimizer = torch.optim.Adam(weights, lr=0.003)
    for _ in range(steps):
        x = embedding[pairs[:, 0]] + embedding[pairs[:, 1] + 10]
        x = x + activation(x @ w1) @ w2
        loss = F.cross_entropy(x @ w_out, labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item()


def without_relu() -> tuple[str, str]:
    """Train the sublayer with and without the ReLU."""
    without, relu = loss_on_digits(lambda x: x), loss_on_digits(F.relu)
    option = "a" if without < 0.2 else "b" if without < 2.2 else "c"
    texts = approximate(without, 2.30, 0.02), approximate(relu, 0.0, 0.03)
    return option, f"the loss is {texts[0]} without the ReLU and {texts[1]} with it."
