r"""Layers that map a sequence of vectors to a sequence of the same length.

Table 1 of Vaswani et al. (2017) compares four types: recurrent, convolutional, self-attention and
local (restricted) self-attention. Linear attention, a recurrence that is also an attention, is
newer than the table. Each has the interface of :class:`SequenceLayer`; :mod:`tfmr.complexity` has
the formulas of the table and measures them.
"""

from collections.abc import Callable
from typing import Any, Literal

import torch
import torch.nn.functional as F
from einops import rearrange
from jaxtyping import Float
from torch import Tensor, nn

from tfmr.attention import MultiHeadAttention
from tfmr.checks import check_tensor
from tfmr.errors import TfmrError, require
from tfmr.local_attention import local_attention
from tfmr.recurrent import GRU, LSTM, RNN, Stack

CellName = Literal["rnn", "lstm", "gru"]
STACKS: dict[CellName, Callable[[int, int], Stack[Any]]] = {"rnn": RNN, "lstm": LSTM, "gru": GRU}


class SequenceLayer(nn.Module):
    """The interface of all types: ``(batch, length, d_model)`` in and out.

    With ``causal``, an output depends only on its own position and on earlier ones, as in a
    decoder; otherwise it may depend on both sides.
    """

    def __init__(self, d_model: int, causal: bool) -> None:
        super().__init__()
        require(d_model >= 1, f"d_model must be at least 1: got {d_model}")
        self.d_model = d_model
        self.causal = causal

    def forward(
        self, x: Float[Tensor, "batch length d_model"]
    ) -> Float[Tensor, "batch length d_model"]:
        """The outputs of all positions.

        Raises:
            TfmrError: if ``x`` is not ``(batch, length, d_model)`` with at least one position.
        """
        check_tensor(x, "x")
        if x.dim() != 3 or x.shape[1] < 1 or x.shape[-1] != self.d_model:
            raise TfmrError(
                f"x must be (batch, length, d_model={self.d_model}) with at least one position: "
                f"got {tuple(x.shape)}; for a single sequence add the batch axis with unsqueeze(0)"
            )
        return self.transform(x)

    def transform(
        self, x: Float[Tensor, "batch length d_model"]
    ) -> Float[Tensor, "batch length d_model"]:
        """The outputs of all positions, for a checked ``x``."""
        raise NotImplementedError


class RecurrentLayer(SequenceLayer):
    """One layer of :mod:`tfmr.recurrent`, from a state of zeros; always causal.

    ``cell`` is ``"rnn"`` (Elman, 1990), ``"lstm"`` or ``"gru"``.

    Raises:
        TfmrError: if there is no such cell.
    """

    def __init__(self, d_model: int, cell: CellName = "rnn") -> None:
        super().__init__(d_model, causal=True)
        require(cell in STACKS, f"cell must be one of {', '.join(STACKS)}: got {cell!r}")
        self.stack = STACKS[cell](d_model, d_model)

    def transform(
        self, x: Float[Tensor, "batch length d_model"]
    ) -> Float[Tensor, "batch length d_model"]:
        """The hidden states of all time steps."""
        outputs: Tensor = self.stack(x)[0]
        return outputs


def convolve_naive(
    x: Float[Tensor, "batch length d_in"],
    weight: Float[Tensor, "kernel d_in d_out"],
    *,
    dilation: int = 1,
    causal: bool = False,
) -> Float[Tensor, "batch length d_out"]:
    r"""A convolution by its definition, position by position.

    .. math:: \mathbf{y}_i = \sum_{j=0}^{k-1} \mathbf{x}_{i + j\,\delta - b}\, W_j

    with the dilation :math:`\delta`, and zeros outside the sequence. The offset :math:`b` is
    :math:`\delta (k - 1)` with ``causal``, so that the last matrix belongs to position :math:`i`;
    otherwise it is :math:`\delta (k - 1) / 2`, so that the middle matrix does.

    Raises:
        TfmrError: if the kernel is even without ``causal``, or the dilation is below 1.
    """
    kernel, _, d_out = weight.shape
    before, _ = _padding(kernel, dilation, causal)
    batch, length, _ = x.shape
    outputs = []
    for i in range(length):
        y = x.new_zeros(batch, d_out)
        for j in range(kernel):
            position = i + j * dilation - before
            if 0 <= position < length:
                y = y + x[:, position] @ weight[j]
        outputs.append(y)
    return torch.stack(outputs, dim=1)


def convolve(
    x: Float[Tensor, "batch length d_in"],
    weight: Float[Tensor, "kernel d_in d_out"],
    *,
    dilation: int = 1,
    causal: bool = False,
) -> Float[Tensor, "batch length d_out"]:
    """:func:`convolve_naive` for all positions at once, by one matrix multiplication.

    The ``kernel`` inputs of each position are concatenated to a row of ``kernel · d_in`` numbers.

    Raises:
        TfmrError: as :func:`convolve_naive`.
    """
    kernel, length = weight.shape[0], x.shape[1]
    padded = F.pad(x, (0, 0, *_padding(kernel, dilation, causal)))
    shifted = [padded[:, j * dilation : j * dilation + length] for j in range(kernel)]
    return torch.cat(shifted, dim=-1) @ weight.flatten(0, 1)


def _padding(kernel: int, dilation: int, causal: bool) -> tuple[int, int]:
    """The numbers of zeros before and after the sequence."""
    require(
        kernel >= 1 and (causal or kernel % 2 == 1),
        "a convolution that is not causal needs an odd kernel, so that it has a middle: got "
        f"kernel={kernel}; use causal=True for an even one",
    )
    require(dilation >= 1, f"dilation must be at least 1, which is contiguous: got {dilation}")
    span = dilation * (kernel - 1)
    return (span, 0) if causal else (span // 2, span // 2)


class ConvolutionalLayer(SequenceLayer):
    """A convolution with a bias; equal to :class:`torch.nn.Conv1d` with the same padding.

    Args:
        d_model: size of input and output vectors.
        kernel: number of inputs of each output, ``k``.
        dilation: distance between these inputs; 1 is a contiguous kernel.
        causal: use only the position itself and earlier ones.

    Raises:
        TfmrError: as :func:`convolve_naive`.
    """

    def __init__(
        self, d_model: int, kernel: int, *, dilation: int = 1, causal: bool = False
    ) -> None:
        super().__init__(d_model, causal)
        _padding(kernel, dilation, causal)
        self.kernel = kernel
        self.dilation = dilation
        self.weight = nn.Parameter(torch.empty(kernel, d_model, d_model))
        self.bias = nn.Parameter(torch.empty(d_model))
        # The bound of torch.nn.Conv1d: one over the square root of the inputs of an output.
        bound = (kernel * d_model) ** -0.5
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -bound, bound)

    def transform(
        self, x: Float[Tensor, "batch length d_model"]
    ) -> Float[Tensor, "batch length d_model"]:
        """The convolution of ``x`` plus the bias."""
        return convolve(x, self.weight, dilation=self.dilation, causal=self.causal) + self.bias


class SelfAttentionLayer(SequenceLayer):
    """Multi-head self-attention, full or local.

    Args:
        d_model: size of input and output vectors.
        n_heads: number of heads.
        radius: maximum distance between query and key (:mod:`tfmr.local_attention`); ``None`` for
            full attention.
        causal: attend only to the position itself and to earlier ones.

    Raises:
        TfmrError: if ``d_model`` is not divisible by ``n_heads``, or the radius is negative.
    """

    def __init__(
        self, d_model: int, n_heads: int = 1, *, radius: int | None = None, causal: bool = False
    ) -> None:
        super().__init__(d_model, causal)
        require(
            radius is None or radius >= 0,
            f"radius must be at least 0, or None for full attention: got {radius}",
        )
        self.radius = radius
        self.attention = MultiHeadAttention(d_model, n_heads)

    def transform(
        self, x: Float[Tensor, "batch length d_model"]
    ) -> Float[Tensor, "batch length d_model"]:
        """The outputs of the attention."""
        module = self.attention
        if self.radius is None:
            full: Tensor = module(x, is_causal=self.causal)
            return full
        heads = local_attention(*_heads(module, x), self.radius, causal=self.causal)
        outputs: Tensor = module.w_o(_joined(heads))
        return outputs


def linear_attention_naive(
    q: Float[Tensor, "*leading length d_k"],
    k: Float[Tensor, "*leading length d_k"],
    v: Float[Tensor, "*leading length d_v"],
) -> Float[Tensor, "*leading length d_v"]:
    r"""Causal linear attention as a recurrence, position by position.

    The state is a matrix and a vector, whatever the length:

    .. math:: S_i = S_{i-1} + \varphi(\mathbf{k}_i)^\top \mathbf{v}_i, \qquad
        \mathbf{z}_i = \mathbf{z}_{i-1} + \varphi(\mathbf{k}_i), \qquad
        \mathbf{o}_i = \frac{\varphi(\mathbf{q}_i)\, S_i}
                           {\varphi(\mathbf{q}_i) \cdot \mathbf{z}_i}

    with :math:`\varphi(x) = \operatorname{elu}(x) + 1` (Katharopoulos et al., 2020).
    """
    state = q.new_zeros(*q.shape[:-2], q.shape[-1], v.shape[-1])
    total = q.new_zeros(*q.shape[:-2], q.shape[-1], 1)
    outputs = []
    for q_i, k_i, v_i in zip(q.split(1, -2), k.split(1, -2), v.split(1, -2), strict=True):
        key, query = (F.elu(k_i) + 1).transpose(-2, -1), F.elu(q_i) + 1
        state = state + key @ v_i
        total = total + key
        outputs.append((query @ state) / (query @ total))
    return torch.cat(outputs, dim=-2)


def linear_attention(
    q: Float[Tensor, "*leading length d_k"],
    k: Float[Tensor, "*leading length d_k"],
    v: Float[Tensor, "*leading length d_v"],
) -> Float[Tensor, "*leading length d_v"]:
    """:func:`linear_attention_naive` for all positions at once, by masked matrix multiplications.

    The products of queries and keys replace the exponentials of the softmax. This form needs
    ``length**2`` operations, like self-attention; chunks of it with the state in between need
    ``length``.
    """
    weights = ((F.elu(q) + 1) @ (F.elu(k) + 1).transpose(-2, -1)).tril()
    outputs: Tensor = (weights @ v) / weights.sum(dim=-1, keepdim=True)
    return outputs


class LinearAttentionLayer(SequenceLayer):
    """Causal linear attention with the projections of multi-head attention.

    Raises:
        TfmrError: if ``d_model`` is not divisible by ``n_heads``.
    """

    def __init__(self, d_model: int, n_heads: int = 1) -> None:
        super().__init__(d_model, causal=True)
        self.attention = MultiHeadAttention(d_model, n_heads)

    def transform(
        self, x: Float[Tensor, "batch length d_model"]
    ) -> Float[Tensor, "batch length d_model"]:
        """The outputs of the linear attention."""
        q, k, v = _heads(self.attention, x)
        outputs: Tensor = self.attention.w_o(_joined(linear_attention(q, k, v)))
        return outputs


def _heads(
    module: MultiHeadAttention, x: Float[Tensor, "batch length d_model"]
) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, keys and values of all heads."""
    q, k, v = (
        rearrange(w(x), "batch length (heads d) -> batch heads length d", heads=module.n_heads)
        for w in (module.w_q, module.w_k, module.w_v)
    )
    return q, k, v


def _joined(heads: Float[Tensor, "batch heads length d"]) -> Float[Tensor, "batch length d_model"]:
    """The concatenated heads."""
    return rearrange(heads, "batch heads length d -> batch length (heads d)")
