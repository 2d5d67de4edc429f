"""The other parts of a block: norms, feed-forward network, dropout, residual connection."""

from collections.abc import Callable
from typing import get_args

import torch
import torch.nn.functional as F
from jaxtyping import Float, Shaped
from torch import Tensor, nn

from tfmr.checks import check_sizes, check_tensor, check_vectors
from tfmr.config import Activation, Norm, check_choice, check_dropout
from tfmr.dtype import at_least_fp32


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
    mean = at_least_fp32(x).mean(dim=-1, keepdim=True)
    variance = (x - mean).square().mean(dim=-1, keepdim=True)
    return (weight * (x - mean) / (variance + eps).sqrt() + bias).to(x.dtype)


class LayerNorm(nn.Module):
    """:func:`layer_norm` with a learned weight (initially 1) and bias (initially 0).

    Ba et al. (2016), section 3.1.

    Args:
        d_model: size of the vectors.
        eps: added to the variance, so that a constant vector causes no division by zero.
    """

    def __init__(self, d_model: int, eps: float = 1e-5) -> None:
        super().__init__()
        check_sizes(d_model=d_model)
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

    def extra_repr(self) -> str:
        """The size and epsilon."""
        return f"{len(self.weight)}, eps={self.eps}"


def rms_norm(
    x: Float[Tensor, "*batch d_model"], weight: Float[Tensor, "d_model"], eps: float = 1e-6
) -> Float[Tensor, "*batch d_model"]:
    r"""Divide every vector by its root mean square, then rescale each dimension.

    .. math:: \mathrm{RMSNorm}(x) = w \odot \frac{x}{\sqrt{\frac{1}{d}\sum_i x_i^2 + \epsilon}}

    Unlike :func:`layer_norm`, it subtracts no mean and adds no bias. Zhang and Sennrich (2019),
    section 4, equation 4. This is the readable version of :class:`RMSNorm`.

    Raises:
        TfmrError: if ``x`` has the wrong size or type.
    """
    check_vectors(x, "x", weight)
    mean_square = at_least_fp32(x).square().mean(dim=-1, keepdim=True)
    return (weight * (x / (mean_square + eps).sqrt())).to(x.dtype)


class RMSNorm(nn.Module):
    """:func:`rms_norm` with a learned weight, initially 1.

    Args:
        d_model: size of the vectors.
        eps: added to the mean square, so that a zero vector causes no division by zero.
    """

    def __init__(self, d_model: int, eps: float = 1e-6) -> None:
        super().__init__()
        check_sizes(d_model=d_model)
        self.weight = nn.Parameter(torch.ones(d_model))
        self.eps = eps

    def forward(self, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch d_model"]:
        """Normalise each vector of ``x`` separately.

        Raises:
            TfmrError: if ``x`` has the wrong size or type.
        """
        check_vectors(x, "x", self.weight)
        return F.rms_norm(x, self.weight.shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        """The size and epsilon."""
        return f"{len(self.weight)}, eps={self.eps}"


class FeedForward(nn.Module):
    r"""Two linear layers with a nonlinearity between them, applied to every position separately.

    .. math:: \mathrm{FFN}(x) = \max(0, xW_1 + b_1) W_2 + b_2

    Vaswani et al. (2017), section 3.3, equation 2; optionally with GELU (Hendrycks and Gimpel,
    2016) or another function instead of ReLU. If it is ``gated``, the activations multiply a second
    projection of ``x`` component by component; with :math:`\mathrm{swish}(z) = z\,\sigma(z)`, this
    is SwiGLU (Shazeer, 2020, section 2, equation 6):

    .. math:: \mathrm{SwiGLU}(x) = (\mathrm{swish}(xW_g) \odot xW_1)\, W_2

    It has three matrices, so with an inner size of :math:`\frac{2}{3}\,d_{ff}` it has as many
    weights as the network with two matrices and the inner size :math:`d_{ff}`.

    Args:
        d_model: size of input and output vectors.
        d_ff: inner size; four times ``d_model`` in the paper.
        activation: ``"relu"``, ``"gelu"`` or a function, such as :func:`torch.nn.functional.silu`.
        gated: whether a third linear layer computes the inputs of the activation.
        bias: whether the linear layers have biases.

    Raises:
        TfmrError: if a size is not positive or ``activation`` is an unknown name.
    """

    def __init__(
        self,
        d_model: int,
        d_ff: int,
        activation: Activation | Callable[[Tensor], Tensor] = "relu",
        *,
        gated: bool = False,
        bias: bool = True,
    ) -> None:
        super().__init__()
        check_sizes(d_model=d_model, d_ff=d_ff)
        self.expand = nn.Linear(d_model, d_ff, bias=bias)
        self.contract = nn.Linear(d_ff, d_model, bias=bias)
        self.gate = nn.Linear(d_model, d_ff, bias=bias) if gated else None
        if isinstance(activation, str):
            check_choice("activation", activation, get_args(Activation))
            activation = F.relu if activation == "relu" else F.gelu
        self.activation = activation

    def forward(self, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch d_model"]:
        """Apply the network to every position.

        Raises:
            TfmrError: if ``x`` has the wrong size or type.
        """
        check_vectors(x, "x", self.expand.weight)
        if self.gate is None:
            inner = self.activation(self.expand(x))
        else:
            inner = self.activation(self.gate(x)) * self.expand(x)
        out: Tensor = self.contract(inner)
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

    def extra_repr(self) -> str:
        """The probability."""
        return f"p={self.p}"


class Residual(nn.Module):
    r"""A residual connection around a sublayer, with dropout and layer norm.

    .. math:: \text{post: } \mathrm{LayerNorm}(x + \mathrm{Dropout}(f(x))), \qquad
              \text{pre: } x + \mathrm{Dropout}(f(\mathrm{LayerNorm}(x)))

    Post-norm is the paper's (Vaswani et al., 2017, sections 3.1 and 5.4). Pre-norm does not
    normalise the residual stream itself, so the stack usually ends with one more layer norm (Xiong
    et al., 2020, section 3).

    Args:
        d_model: size of the vectors.
        dropout: dropout probability for the output of the sublayer.
        norm: ``"post"`` or ``"pre"``.
        eps: epsilon of the norm.
        norm_class: :class:`LayerNorm` or :class:`RMSNorm`.

    Raises:
        TfmrError: if ``norm`` is neither.
    """

    def __init__(
        self,
        d_model: int,
        dropout: float = 0.1,
        norm: Norm = "post",
        eps: float = 1e-5,
        norm_class: type[LayerNorm | RMSNorm] = LayerNorm,
    ) -> None:
        super().__init__()
        check_choice("norm", norm, get_args(Norm))
        self.norm = norm_class(d_model, eps)
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

    def extra_repr(self) -> str:
        """The position of the norm."""
        return f"norm={'pre' if self.pre_norm else 'post'}"


def final_norm(
    d_model: int,
    norm: Norm,
    eps: float = 1e-5,
    norm_class: type[LayerNorm | RMSNorm] = LayerNorm,
) -> nn.Module:
    """The last module of a stack: a norm after pre-norm blocks, otherwise the identity."""
    return norm_class(d_model, eps) if norm == "pre" else nn.Identity()
