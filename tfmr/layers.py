"""What surrounds attention in every block: normalise, feed forward, drop out, add to the stream."""

from collections.abc import Callable
from typing import Literal, get_args

import torch
import torch.nn.functional as F
from jaxtyping import Float, Shaped
from torch import Tensor, nn

from tfmr.errors import require

Activation = Literal["relu", "gelu"]
Norm = Literal["post", "pre"]


def layer_norm(
    x: Float[Tensor, "*batch d_model"],
    gain: Float[Tensor, "d_model"],
    bias: Float[Tensor, "d_model"],
    eps: float = 1e-5,
) -> Float[Tensor, "*batch d_model"]:
    r"""Give every vector mean 0 and variance 1 over its own numbers, then rescale each dimension.

    .. math:: \mathrm{LayerNorm}(x) = g \odot \frac{x - \mu}{\sqrt{\sigma^2 + \epsilon}} + b

    The variance is the biased one, divided by ``d_model``. Ba et al. (2016), section 3.1, equation
    4: the version to read. :class:`LayerNorm` computes the same with PyTorch's kernel.
    """
    mean = x.mean(dim=-1, keepdim=True)
    variance = (x - mean).square().mean(dim=-1, keepdim=True)
    return gain * (x - mean) / (variance + eps).sqrt() + bias


class LayerNorm(nn.Module):
    """:func:`layer_norm` with a learned gain (from 1) and bias (from 0).

    Ba et al. (2016), section 3.1.

    Args:
        d_model: size of the vectors.
        eps: keeps the division safe for a constant vector.
    """

    def __init__(self, d_model: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))
        self.eps = eps

    def forward(self, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch d_model"]:
        """Normalise each vector of ``x`` on its own."""
        return F.layer_norm(x, self.gain.shape, self.gain, self.bias, self.eps)


class FeedForward(nn.Module):
    r"""Two linear maps with a nonlinearity between, applied to every position on its own.

    .. math:: \mathrm{FFN}(x) = \max(0, xW_1 + b_1) W_2 + b_2

    Vaswani et al. (2017), section 3.3, equation 2; with GELU (Hendrycks and Gimpel, 2016) in place
    of ReLU if asked.

    Args:
        d_model: size of the vectors that go in and come out.
        d_ff: size between the two maps; four times ``d_model`` in the paper.
        activation: ``"relu"`` or ``"gelu"``.

    Raises:
        TfmrError: if the activation is neither.
    """

    def __init__(self, d_model: int, d_ff: int, activation: Activation = "relu") -> None:
        super().__init__()
        require(
            activation in get_args(Activation),
            f"activation must be one of {', '.join(get_args(Activation))}: got {activation!r}",
        )
        self.expand = nn.Linear(d_model, d_ff)
        self.contract = nn.Linear(d_ff, d_model)
        self.activation: Callable[[Tensor], Tensor] = F.relu if activation == "relu" else F.gelu

    def forward(self, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch d_model"]:
        """Map every position with the same weights."""
        out: Tensor = self.contract(self.activation(self.expand(x)))
        return out


class Dropout(nn.Module):
    """Zero each number with probability ``p`` in training and scale up the rest.

    Srivastava et al. (2014). On a GPU this is :func:`torch.nn.functional.dropout`. On a CPU that
    function draws its numbers one after the other and may take a quarter of a training step; here
    one call fills 64-bit words with random bits, and each number reads one byte of them. ``p`` is
    therefore rounded to the next 1/256, in the scale as well as in the mask, so the expectation
    stays exact.

    Args:
        p: the probability of a zero.

    Raises:
        TfmrError: if ``p`` is not in [0, 1).
    """

    def __init__(self, p: float) -> None:
        super().__init__()
        require(0 <= p < 1, f"a dropout probability lies in [0, 1): got {p}")
        self.p = p

    def forward(self, x: Shaped[Tensor, "*shape"]) -> Shaped[Tensor, "*shape"]:
        """Drop, if the module is in training mode."""
        if not self.training or self.p == 0:
            return x
        if x.device.type != "cpu":
            return F.dropout(x, self.p)
        threshold = min(max(round(self.p * 256), 1), 255)
        words = torch.empty(-(-x.numel() // 8), dtype=torch.int64).random_(-(2**63), None)
        keep = words.view(torch.uint8)[: x.numel()].view(x.shape) >= threshold
        return x * keep * (256 / (256 - threshold))


class Residual(nn.Module):
    r"""Add what a sublayer found to the stream of vectors that runs through the stack.

    .. math:: \text{post: } \mathrm{LayerNorm}(x + \mathrm{Dropout}(f(x))), \qquad
              \text{pre: } x + \mathrm{Dropout}(f(\mathrm{LayerNorm}(x)))

    Post-norm is the paper's (Vaswani et al., 2017, section 3.1 and 5.4). Pre-norm leaves the stream
    itself untouched, so the stack needs one more norm at its end (Xiong et al., 2020, section 3).

    Args:
        d_model: size of the vectors.
        dropout: probability of a zero in the sublayer's output.
        norm: ``"post"`` or ``"pre"``.

    Raises:
        TfmrError: if ``norm`` is neither.
    """

    def __init__(self, d_model: int, dropout: float = 0.1, norm: Norm = "post") -> None:
        super().__init__()
        require(
            norm in get_args(Norm), f"norm must be one of {', '.join(get_args(Norm))}: got {norm!r}"
        )
        self.norm = LayerNorm(d_model)
        self.dropout = Dropout(dropout)
        self.pre = norm == "pre"

    def forward(
        self,
        x: Float[Tensor, "batch length d_model"],
        sublayer: Callable[[Tensor], Tensor],
    ) -> Float[Tensor, "batch length d_model"]:
        """Run ``sublayer`` beside the identity path."""
        if self.pre:
            added: Tensor = x + self.dropout(sublayer(self.norm(x)))
            return added
        normed: Tensor = self.norm(x + self.dropout(sublayer(x)))
        return normed


def final_norm(d_model: int, norm: Norm) -> nn.Module:
    """What a stack ends with: a norm if pre-norm, whose stream none has touched; else nothing."""
    return LayerNorm(d_model) if norm == "pre" else nn.Identity()
