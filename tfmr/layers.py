"""The other parts of a block: layer norm, feed-forward network, dropout, residual connection."""

from collections.abc import Callable
from typing import get_args

import torch
import torch.nn.functional as F
from jaxtyping import Float, Shaped
from torch import Tensor, nn

from tfmr.config import Activation, Norm, check_dropout
from tfmr.dtype import check_tensor, check_vectors
from tfmr.errors import require


def layer_norm(
    x: Float[Tensor, "*batch d_model"],
    weight: Float[Tensor, "d_model"],
    bias: Float[Tensor, "d_model"],
    eps: float = 1e-5,
) -> Float[Tensor, "*batch d_model"]:
    r"""Normalise every vector to mean 0 and variance 1, then scale and shift each dimension.

    .. math:: \mathrm{LayerNorm}(x) = w \odot \frac{x - \mu}{\sqrt{\sigma^2 + \epsilon}} + b

    Mean and variance are taken over the ``d_model`` numbers of each vector; the variance is the
    biased one. Ba et al. (2016), section 3.1, equation 4. This is the readable version;
    :class:`LayerNorm` computes the same result with PyTorch's kernel.

    Raises:
        TfmrError: if ``x`` has the wrong size or type.
    """
    check_vectors(x, "x", weight)
    mean = x.mean(dim=-1, keepdim=True)
    variance = (x - mean).square().mean(dim=-1, keepdim=True)
    return weight * (x - mean) / (variance + eps).sqrt() + bias


class LayerNorm(nn.Module):
    """:func:`layer_norm` with a learned weight (initially 1) and bias (initially 0).

    Ba et al. (2016), section 3.1.

    Args:
        d_model: size of the vectors.
        eps: added to the variance, so that a constant vector causes no division by zero.
    """

    def __init__(self, d_model: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))
        self.eps = eps

    def forward(self, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch d_model"]:
        """Normalise each vector of ``x`` separately.

        Raises:
            TfmrError: if ``x`` has the wrong size or type.
        """
        check_vectors(x, "x", self.weight)
        return F.layer_norm(x, self.weight.shape, self.weight, self.bias, self.eps)


class FeedForward(nn.Module):
    r"""Two linear layers with a nonlinearity between them, applied to every position separately.

    .. math:: \mathrm{FFN}(x) = \max(0, xW_1 + b_1) W_2 + b_2

    Vaswani et al. (2017), section 3.3, equation 2; optionally with GELU (Hendrycks and Gimpel,
    2016) instead of ReLU.

    Args:
        d_model: size of input and output vectors.
        d_ff: inner size; four times ``d_model`` in the paper.
        activation: ``"relu"`` or ``"gelu"``.

    Raises:
        TfmrError: if ``activation`` is neither.
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
        """Apply the network to every position.

        Raises:
            TfmrError: if ``x`` has the wrong size or type.
        """
        check_vectors(x, "x", self.expand.weight)
        out: Tensor = self.contract(self.activation(self.expand(x)))
        return out


class Dropout(nn.Module):
    """Zero each number with probability ``p`` during training and scale up the rest.

    Srivastava et al. (2014). On a GPU this is :func:`torch.nn.functional.dropout`. On a CPU, that
    function draws its random numbers one by one, which can take a quarter of a training step; here
    one call fills 64-bit words with random bits, and each number uses 16 of them. ``p`` is rounded
    to a multiple of 1/65536, in the scale as well, so that the expected value is exact.

    Args:
        p: probability of a zero.

    Raises:
        TfmrError: if ``p`` is not in [0, 1).
    """

    def __init__(self, p: float) -> None:
        super().__init__()
        check_dropout(p)
        self.p = p

    def forward(self, x: Shaped[Tensor, "*shape"]) -> Shaped[Tensor, "*shape"]:
        """Apply dropout in training mode; return ``x`` itself in evaluation mode.

        Raises:
            TfmrError: if ``x`` is not a tensor.
        """
        check_tensor(x, "x")
        if not self.training or self.p == 0:
            return x
        if x.device.type != "cpu":
            return F.dropout(x, self.p)
        zeros = min(max(round(self.p * 2**16), 1), 2**16 - 1)
        words = torch.empty(-(-x.numel() // 4), dtype=torch.int64).random_(-(2**63), None)
        keep = words.view(torch.int16)[: x.numel()].view(x.shape) >= zeros - 2**15
        return x * keep * (2**16 / (2**16 - zeros))


class Residual(nn.Module):
    r"""A residual connection around a sublayer, with dropout and layer norm.

    .. math:: \text{post: } \mathrm{LayerNorm}(x + \mathrm{Dropout}(f(x))), \qquad
              \text{pre: } x + \mathrm{Dropout}(f(\mathrm{LayerNorm}(x)))

    Post-norm is the paper's (Vaswani et al., 2017, sections 3.1 and 5.4). Pre-norm does not
    normalise the residual stream itself, so the stack needs one more layer norm at its end (Xiong
    et al., 2020, section 3).

    Args:
        d_model: size of the vectors.
        dropout: dropout probability for the output of the sublayer.
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
        self.pre_norm = norm == "pre"

    def forward(
        self,
        x: Float[Tensor, "batch length d_model"],
        sublayer: Callable[[Tensor], Tensor],
    ) -> Float[Tensor, "batch length d_model"]:
        """Apply ``sublayer`` and add its output to ``x``."""
        if self.pre_norm:
            added: Tensor = x + self.dropout(sublayer(self.norm(x)))
            return added
        normed: Tensor = self.norm(x + self.dropout(sublayer(x)))
        return normed


def final_norm(d_model: int, norm: Norm) -> nn.Module:
    """The last module of a stack: a layer norm after pre-norm blocks, otherwise the identity."""
    return LayerNorm(d_model) if norm == "pre" else nn.Identity()
