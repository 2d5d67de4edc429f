"""What the model family adds to the blocks of the original Transformer."""

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from einops import repeat
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from tfmr.attention import (
    MultiHeadAttention,
    Rotary,
    causal_mask,
    combine_masks,
    unfused_attention,
)
from tfmr.config import Norm
from tfmr.dtype import check_tensor
from tfmr.errors import require
from tfmr.kv_cache import KVCache
from tfmr.layers import Residual


def rms_norm(
    x: Float[Tensor, "*batch d_model"], weight: Float[Tensor, "d_model"], eps: float = 1e-6
) -> Float[Tensor, "*batch d_model"]:
    r"""Divide every vector by its root mean square, then rescale each dimension.

    .. math:: \mathrm{RMSNorm}(x) = w \odot \frac{x}{\sqrt{\frac{1}{d}\sum_i x_i^2 + \epsilon}}

    Unlike :func:`tfmr.layers.layer_norm`, it subtracts no mean and adds no bias. Zhang and Sennrich
    (2019), section 4, equation 4. This is the readable version of :class:`RMSNorm`.
    """
    return weight * x / (x.square().mean(dim=-1, keepdim=True) + eps).sqrt()


class RMSNorm(nn.Module):
    """:func:`rms_norm` with a learned weight, initially 1.

    Args:
        d_model: size of the vectors.
        eps: added to the mean square, so that a zero vector causes no division by zero.
    """

    def __init__(self, d_model: int, eps: float = 1e-6) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(d_model))
        self.eps = eps

    def forward(self, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch d_model"]:
        """Normalise each vector of ``x`` separately."""
        check_tensor(x, "x", self.weight)
        return F.rms_norm(x, self.weight.shape, self.weight, self.eps)


class SwiGLU(nn.Module):
    r"""A feed-forward network whose inner activations are multiplied by a gate.

    .. math:: \mathrm{SwiGLU}(x) = (\mathrm{swish}(xW_g) \odot xW_1)\, W_2, \qquad
              \mathrm{swish}(z) = z\,\sigma(z)

    Shazeer (2020), section 2, equation 6. With three matrices instead of two, an inner size of
    :math:`\frac{2}{3}\,d_{ff}` has as many weights as :class:`tfmr.layers.FeedForward` with
    :math:`d_{ff}`.

    Args:
        d_model: size of input and output vectors.
        d_ff: inner size.
        bias: whether the linear layers have biases.
    """

    def __init__(self, d_model: int, d_ff: int, *, bias: bool = False) -> None:
        super().__init__()
        self.gate = nn.Linear(d_model, d_ff, bias=bias)
        self.expand = nn.Linear(d_model, d_ff, bias=bias)
        self.contract = nn.Linear(d_ff, d_model, bias=bias)

    def forward(self, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch d_model"]:
        """Apply the network to every position."""
        check_tensor(x, "x", self.gate.weight)
        out: Tensor = self.contract(F.silu(self.gate(x)) * self.expand(x))
        return out


class GroupedQueryAttention(MultiHeadAttention):
    """Multi-head attention in which several query heads share one key head and one value head.

    The KV cache shrinks by the factor ``n_heads / n_kv_heads``. With ``n_kv_heads = n_heads`` this
    is multi-head attention, with one it is multi-query attention (Shazeer, 2019). Ainslie et al.
    (2023), section 2.2.

    Args:
        d_model: size of input and output vectors.
        n_heads: number of query heads.
        n_kv_heads: number of key heads and of value heads, a divisor of ``n_heads``.
        bias: whether the four projections have biases.
        rotary: rotates queries and keys by their positions.

    Raises:
        TfmrError: if ``n_heads`` is not divisible by ``n_kv_heads``, or ``d_model`` by ``n_heads``.
    """

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        n_kv_heads: int,
        *,
        bias: bool = False,
        rotary: Rotary | None = None,
    ) -> None:
        super().__init__(d_model, n_heads, rotary=rotary)
        require(
            n_kv_heads > 0 and n_heads % n_kv_heads == 0,
            "n_heads must be divisible by n_kv_heads, because every key head serves n_heads / "
            f"n_kv_heads query heads: got n_heads={n_heads}, n_kv_heads={n_kv_heads}",
        )
        self.n_kv_heads = n_kv_heads
        self.w_q = nn.Linear(d_model, d_model, bias=bias)
        self.w_k = nn.Linear(d_model, n_kv_heads * self.d_k, bias=bias)
        self.w_v = nn.Linear(d_model, n_kv_heads * self.d_k, bias=bias)
        self.w_o = nn.Linear(d_model, d_model, bias=bias)

    def attend(
        self,
        q: Float[Tensor, "batch heads query d_k"],
        k: Float[Tensor, "batch kv_heads key d_k"],
        v: Float[Tensor, "batch kv_heads key d_k"],
        mask: Bool[Tensor, "..."] | None,
        *,
        is_causal: bool,
    ) -> Float[Tensor, "batch heads query d_k"]:
        """The outputs of all query heads; each key head is used by a group of them."""
        group = self.n_heads // self.n_kv_heads
        k, v = (
            repeat(x, "batch kv_heads key d_k -> batch (kv_heads group) key d_k", group=group)
            for x in (k, v)
        )
        return super().attend(q, k, v, mask, is_causal=is_causal)


class RelativeBias(nn.Module):
    """A learned number per head and range of distances, added to the attention scores.

    Half of the ``n_buckets`` ranges hold one distance each; the others grow logarithmically up to
    ``max_distance``, and all greater distances share the last one. Raffel et al. (2020),
    section 2.1.

    Args:
        n_heads: number of heads.
        bidirectional: use half of the ranges for keys after the query; otherwise all such keys
            count as distance 0, for attention with a causal mask.
        n_buckets: number of ranges.
        max_distance: distances from here on share one range.
    """

    def __init__(
        self, n_heads: int, *, bidirectional: bool, n_buckets: int = 32, max_distance: int = 128
    ) -> None:
        super().__init__()
        self.bidirectional = bidirectional
        self.n_buckets = n_buckets
        self.max_distance = max_distance
        self.bias = nn.Embedding(n_buckets, n_heads)

    def bucket(self, offset: Int[Tensor, "query key"]) -> Int[Tensor, "query key"]:
        """The range of each offset (position of the key minus position of the query)."""
        n_buckets, after = self.n_buckets, torch.zeros_like(offset)
        if self.bidirectional:
            n_buckets //= 2
            after = (offset > 0) * n_buckets
            distance = offset.abs()
        else:
            distance = (-offset).clamp(min=0)
        exact = n_buckets // 2
        growth = (n_buckets - exact) / math.log(self.max_distance / exact)
        wide = exact + (growth * (distance.clamp(min=1) / exact).log()).long()
        return after + torch.where(distance < exact, distance, wide.clamp(max=n_buckets - 1))

    def forward(self, query: int, key: int) -> Float[Tensor, "heads query key"]:
        """The bias for the last ``query`` of ``key`` positions."""
        position = torch.arange(key, device=self.bias.weight.device)
        offset = position - position[key - query :, None]
        bias: Tensor = self.bias(self.bucket(offset)).permute(2, 0, 1)
        return bias


class T5Attention(MultiHeadAttention):
    r"""Multi-head attention with a relative bias, without scaling and without biases.

    Raffel et al. (2020), section 2.1, and the authors' code, in which the factor
    :math:`1/\sqrt{d_k}` is part of the initial weights of the queries instead.

    Args:
        d_model: size of input and output vectors.
        n_heads: number of heads.
        d_k: size of queries, keys and values of one head.
        relative: the bias; ``None`` for cross-attention, which has none.
    """

    def __init__(
        self, d_model: int, n_heads: int, d_k: int, relative: RelativeBias | None = None
    ) -> None:
        super().__init__(d_model, n_heads)
        self.d_k = d_k
        self.w_q, self.w_k, self.w_v = (
            nn.Linear(d_model, n_heads * d_k, bias=False) for _ in range(3)
        )
        self.w_o = nn.Linear(n_heads * d_k, d_model, bias=False)
        self.relative = relative

    def attend(
        self,
        q: Float[Tensor, "batch heads query d_k"],
        k: Float[Tensor, "batch heads key d_k"],
        v: Float[Tensor, "batch heads key d_k"],
        mask: Bool[Tensor, "..."] | None,
        *,
        is_causal: bool,
    ) -> Float[Tensor, "batch heads query d_k"]:
        """The outputs of all heads."""
        query, key = q.shape[2], k.shape[2]
        bias = q.new_zeros(1, query, key) if self.relative is None else self.relative(query, key)
        causal = causal_mask(query, key, device=q.device) if is_causal else None
        keep = combine_masks(mask, causal)
        if keep is not None:
            bias = bias.masked_fill(~keep, -math.inf)
        heads, weights = unfused_attention(q * math.sqrt(self.d_k), k, v, bias)
        if self.recorded_weights is not None:
            self.recorded_weights.append(weights.detach())
        return heads


class Block(nn.Module):
    """Self-attention, cross-attention if given, and a feed-forward network.

    Args:
        d_model: size of the vectors.
        attention: the self-attention.
        feed_forward: the feed-forward network.
        cross_attention: the attention to an encoder output.
        make_norm: makes the norm of each sublayer.
        dropout: dropout probability for the output of every sublayer.
        norm: ``"pre"`` or ``"post"``, as in :class:`tfmr.layers.Residual`.
    """

    def __init__(
        self,
        d_model: int,
        attention: MultiHeadAttention,
        feed_forward: nn.Module,
        *,
        make_norm: Callable[[], nn.Module],
        cross_attention: MultiHeadAttention | None = None,
        dropout: float = 0.0,
        norm: Norm = "pre",
    ) -> None:
        super().__init__()
        self.attention = attention
        self.cross_attention = cross_attention
        self.feed_forward = feed_forward
        sublayers = 2 if cross_attention is None else 3
        self.residuals = nn.ModuleList(Residual(d_model, dropout, norm) for _ in range(sublayers))
        for residual in self.residuals:
            residual.norm = make_norm()

    def forward(
        self,
        x: Float[Tensor, "batch length d_model"],
        memory: Float[Tensor, "batch source d_model"] | None = None,
        *,
        mask: Bool[Tensor, "..."] | None = None,
        is_causal: bool = False,
        memory_mask: Bool[Tensor, "..."] | None = None,
        cache: KVCache | None = None,
        cross_cache: KVCache | None = None,
    ) -> Float[Tensor, "batch length d_model"]:
        """Apply the sublayers; the arguments are those of :class:`tfmr.decoder.DecoderBlock`."""
        x = self.residuals[0](
            x, lambda y: self.attention(y, mask=mask, is_causal=is_causal, cache=cache)
        )
        if self.cross_attention is not None:
            attend = self.cross_attention
            x = self.residuals[1](
                x, lambda y: attend(y, memory, mask=memory_mask, cache=cross_cache)
            )
        out: Tensor = self.residuals[-1](x, self.feed_forward)
        return out
