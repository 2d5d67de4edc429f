"""Attention: masks, scaled dot-product attention and multi-head attention.

:class:`tfmr.model.Transformer` makes the masks of a batch by the functions below. Masks are boolean
and ``True`` means "may attend": ``True`` keeps a key, ``False`` hides it. This is the convention of
:func:`torch.nn.functional.scaled_dot_product_attention`; :class:`torch.nn.MultiheadAttention` uses
the opposite one.
"""

import math
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import zip_longest

import torch
import torch.nn.functional as F
from einops import rearrange, repeat
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from tfmr.checks import check_device, check_floating, check_ids, check_sizes, check_tensor
from tfmr.dtype import at_least_fp32
from tfmr.errors import TfmrError, require
from tfmr.kv_cache import KVCache
from tfmr.special_tokens import PAD


def causal_mask(
    query: int, key: int | None = None, *, device: torch.device | None = None
) -> Bool[Tensor, "query key"]:
    """Let each position attend to itself and to earlier positions: ``(query, key)``.

    The queries are the *last* ``query`` of the ``key`` positions (``key`` defaults to ``query``),
    so the mask also serves a decoder whose cache already holds the keys of a prefix. Vaswani et al.
    (2017), section 3.2.3.

    Raises:
        TfmrError: if there are more queries than keys.

    >>> causal_mask(3).int().tolist()
    [[1, 0, 0], [1, 1, 0], [1, 1, 1]]
    """
    key = query if key is None else key
    require(
        0 < query <= key,
        "a causal mask needs 0 < query <= key, because the queries belong to the last "
        f"positions of the key sequence: got query={query}, key={key}",
    )
    return torch.ones(query, key, dtype=torch.bool, device=device).tril(diagonal=key - query)


def padding_mask(ids: Int[Tensor, "batch key"]) -> Bool[Tensor, "batch 1 1 key"]:
    """Hide the padding of a batch of sentences: ``(batch, 1, 1, key)``, ``True`` = a real token.

    The two axes of size one broadcast over heads and queries. :meth:`tfmr.model.Transformer.encode`
    applies this mask to the source; the decoder's cross-attention uses it again. The decoder's
    self-attention needs none: its causal mask hides the padding, which follows the sentence.

    Raises:
        TfmrError: if ``ids`` are not integers, there is no batch axis, or (for ids on a CPU) a
            sentence is only padding. On a GPU the latter is not checked, because the check would
            have to wait for the device.

    >>> padding_mask(torch.tensor([[5, 6, 7], [8, 0, 0]])).int().tolist()
    [[[[1, 1, 1]]], [[[1, 0, 0]]]]
    """
    check_ids(ids)
    keep = ids != PAD
    if ids.device.type == "cpu" and not keep.any(dim=1).all():
        row = int((~keep.any(dim=1)).nonzero()[0])
        raise TfmrError(
            f"every sentence needs at least one token that is not padding: row {row} of {len(ids)} "
            "has none; remove empty lines before batching"
        )
    return rearrange(keep, "batch key -> batch 1 1 key")


def combine_masks(*masks: Bool[Tensor, "..."] | None) -> Bool[Tensor, "..."] | None:
    """Hide every key that any of the masks hides; ``None`` hides nothing.

    Raises:
        TfmrError: if a mask is not a boolean tensor, or the masks do not broadcast to a common
            shape.

    >>> both = combine_masks(causal_mask(2), padding_mask(torch.tensor([[5, 0]])))
    >>> both.int().tolist()
    [[[[1, 0], [1, 0]]]]
    """
    combined: Tensor | None = None
    for mask in masks:
        if mask is None:
            continue
        check_mask(mask)
        try:
            combined = mask if combined is None else combined & mask
        except RuntimeError as error:
            shapes = ", ".join(str(tuple(m.shape)) for m in masks if m is not None)
            raise TfmrError(
                f"masks must broadcast to one shape (batch, heads, query, key): got {shapes}; a "
                "padding mask is (batch, 1, 1, key), a causal mask (query, key)"
            ) from error
    return combined


def scaled_dot_product_attention(
    q: Float[Tensor, "*batch query d_k"],
    k: Float[Tensor, "*batch key d_k"],
    v: Float[Tensor, "*batch key d_v"],
    mask: Bool[Tensor, "..."] | None = None,
) -> tuple[Float[Tensor, "*batch query d_v"], Float[Tensor, "*batch query key"]]:
    r"""Average the values, weighted by the similarity of each key to the query.

    .. math:: \mathrm{Attention}(Q, K, V) =
              \mathrm{softmax}\!\left(\frac{QK^\top}{\sqrt{d_k}}\right) V

    Vaswani et al. (2017), section 3.2.1, equation 1. This is the readable version;
    :func:`fused_attention` computes the same outputs without returning the attention weights.

    Returns:
        The outputs ``(..., query, d_v)`` and the attention weights ``(..., query, key)``, each row
        of which sums to one.

    Raises:
        TfmrError: if the shapes do not match, the mask is not boolean, or the mask hides every key
            of a query.
    """
    check_arguments(q, k, v, mask)
    scores = at_least_fp32(q) @ at_least_fp32(k).transpose(-2, -1) / math.sqrt(q.shape[-1])
    if mask is not None:
        require(
            bool(mask.any(dim=-1).all()),
            "every query must be allowed to attend to at least one key: the mask hides a whole "
            "row, whose softmax would be 0/0 (NaN)",
        )
        scores = scores.masked_fill(~mask, -math.inf)
    weights = scores.softmax(dim=-1).to(v.dtype)
    return weights @ v, weights


def mask_to_bias(mask: Bool[Tensor, "*shape"], dtype: torch.dtype) -> Float[Tensor, "*shape"]:
    """The mask as a bias to add to the scores: 0 where it is ``True``, -inf where ``False``.

    Raises:
        TfmrError: if ``mask`` is not a boolean tensor.
    """
    check_mask(mask)
    return torch.zeros(mask.shape, dtype=dtype, device=mask.device).masked_fill(~mask, -math.inf)


def unfused_attention(
    q: Float[Tensor, "*batch query d_k"],
    k: Float[Tensor, "*batch key d_k"],
    v: Float[Tensor, "*batch key d_v"],
    mask: Bool[Tensor, "..."] | None = None,
    *,
    bias: Float[Tensor, "..."] | None = None,
    scale: float | None = None,
) -> tuple[Float[Tensor, "*batch query d_v"], Float[Tensor, "*batch query key"]]:
    """:func:`scaled_dot_product_attention` with fewer temporary tensors and no checks.

    The scores are scaled and masked in place. ``bias`` is added to the scores; it must leave every
    query at least one key. If the mask allows a query no key, its output and its weights are zero.
    """
    scores = at_least_fp32(q) @ at_least_fp32(k).transpose(-2, -1)
    scores.mul_(1 / math.sqrt(q.shape[-1]) if scale is None else scale)
    if bias is not None:
        scores += bias
    empty = None
    if mask is not None:
        mask, empty = _fill_empty_rows(mask)
        scores += mask_to_bias(mask, scores.dtype)
    weights = scores.softmax(dim=-1).to(v.dtype)
    if empty is not None:
        weights = weights.masked_fill(empty, 0)
    return weights @ v, weights


def _fill_empty_rows(mask: Bool[Tensor, "..."]) -> tuple[Tensor, Tensor | None]:
    """``mask`` with all keys allowed in the rows that hide every key, and those rows, if any.

    A check for such rows would have to wait for a GPU, and would split a compiled graph in two. In
    both cases the rows are returned without a check.
    """
    empty = ~mask.any(dim=-1, keepdim=True)
    if mask.device.type == "cpu" and not torch.compiler.is_compiling() and not empty.any():
        return mask, None
    return mask | empty, empty


SHORT = 64
"""Up to this many keys, :func:`unfused_attention` is faster on a CPU than the fused kernel.

The two round differently, so the last bits of an output depend on the padded length of the batch.
"""


def fused_attention(
    q: Float[Tensor, "*batch query d_k"],
    k: Float[Tensor, "*batch key d_k"],
    v: Float[Tensor, "*batch key d_v"],
    mask: Bool[Tensor, "..."] | None = None,
    *,
    scale: float | None = None,
    is_causal: bool = False,
) -> Float[Tensor, "*batch query d_v"]:
    r"""The outputs of :func:`scaled_dot_product_attention`, by PyTorch's fused kernel.

    The kernel processes the keys in chunks and never stores the ``(query, key)`` attention weights
    (Dao et al., 2022), so it cannot return them. It has no second derivative; for
    ``create_graph=True`` use :func:`scaled_dot_product_attention`. On a CPU,
    :func:`unfused_attention` replaces the kernel for up to :data:`SHORT` keys, because it is
    faster there. Also on a CPU, inputs in half precision or under :class:`torch.autocast` are
    converted to fp32, because the backward pass of the kernel is many times slower in bf16.

    Args:
        q, k, v: queries, keys and values.
        mask: ``True`` where a query may attend to a key. The output of a query that may attend to
            no key is zero. (The readable version raises an error instead; on a GPU, this check
            would have to wait for the device.)
        scale: factor of the scores; :math:`1/\sqrt{d_k}` if not given.
        is_causal: apply :func:`causal_mask` as well. Without any other mask this enables the
            kernel's causal mode, which skips the hidden keys.

    Raises:
        TfmrError: if the shapes do not match or the mask is not boolean.
    """
    check_arguments(q, k, v, mask)
    on_cpu = q.device.type == "cpu"
    autocast = on_cpu and torch.is_autocast_enabled("cpu")
    if autocast or (on_cpu and q.dtype in (torch.float16, torch.bfloat16)):
        q_, k_, v_ = (at_least_fp32(x) for x in (q, k, v))
        with torch.autocast("cpu", enabled=False):
            out = fused_attention(q_, k_, v_, mask, scale=scale, is_causal=is_causal)
        return out if autocast else out.to(q.dtype)
    query, key = q.shape[-2], k.shape[-2]
    short = on_cpu and key <= SHORT
    if is_causal and mask is None and query == key and not short:
        return F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=scale)
    if is_causal and query > 1:  # a single query is the last position: no key is hidden
        mask = combine_masks(mask, causal_mask(query, key, device=q.device))
    if short:
        return unfused_attention(q, k, v, mask, scale=scale)[0]
    if mask is None:
        return F.scaled_dot_product_attention(q, k, v, scale=scale)
    mask, empty = _fill_empty_rows(mask)
    out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=scale)
    return out if empty is None else out.masked_fill(empty, 0)


def check_mask(mask: Tensor) -> None:
    """Raise :class:`TfmrError` unless ``mask`` is a boolean tensor."""
    check_tensor(mask, "mask")
    if mask.dtype != torch.bool:
        raise TfmrError(
            f"a mask must be boolean, True where a query may attend to a key: got {mask.dtype}; "
            "convert an additive mask of 0 and -inf with `mask == 0`"
        )


def check_arguments(
    q: Float[Tensor, "..."],
    k: Float[Tensor, "..."],
    v: Float[Tensor, "..."],
    mask: Tensor | None,
) -> None:
    """Raise :class:`TfmrError` if queries, keys, values and mask do not fit together."""
    for name, x in (("q", q), ("k", k), ("v", v)):
        check_floating(x, name)
        check_device(x, name, q)
        if x.dim() < 2:
            raise TfmrError(
                f"{name} must be (..., length, d), one row per position: got {tuple(x.shape)}; for "
                f"a single vector use {name}.unsqueeze(0)"
            )
    if not q.dtype == k.dtype == v.dtype:
        raise TfmrError(
            f"q, k and v must have one dtype: got {q.dtype}, {k.dtype} and {v.dtype}; convert them "
            "with .to(q.dtype)"
        )
    if q.shape[-1] != k.shape[-1] or q.shape[-1] == 0:
        raise TfmrError(
            "queries and keys need the same d_k of at least 1, because their dot product is the "
            f"score: got q {tuple(q.shape)} and k {tuple(k.shape)}"
        )
    if k.shape[-2] != v.shape[-2] or k.shape[-2] == 0:
        raise TfmrError(
            f"every query needs a key, and every key one value: got {k.shape[-2]} keys "
            f"{tuple(k.shape)} and {v.shape[-2]} values {tuple(v.shape)}"
        )
    batch: tuple[int, ...] = q.shape[:-2]
    for x in (k, v):
        joined = _broadcast(batch, x.shape[:-2])
        if joined is None:
            raise TfmrError(
                "the axes of q, k and v before the last two, such as batch and heads, must "
                f"broadcast: got q {tuple(q.shape)}, k {tuple(k.shape)} and v {tuple(v.shape)}"
            )
        batch = joined
    if mask is None:
        return
    check_mask(mask)
    check_device(mask, "mask", q)
    scores = (*batch, q.shape[-2], k.shape[-2])
    if _broadcast(scores, mask.shape) != scores:
        raise TfmrError(
            f"the mask must broadcast to the scores {scores} = (..., query, key): got "
            f"{tuple(mask.shape)}; a padding mask must be (batch, 1, 1, key)"
        )


def _broadcast(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...] | None:
    """The shape to which both shapes broadcast; ``None`` if there is none."""
    if a == b:
        return a
    sizes = []
    for x, y in zip_longest(reversed(a), reversed(b), fillvalue=1):
        if x != y and x != 1 and y != 1:
            return None
        sizes.append(y if x == 1 else x)
    return tuple(reversed(sizes))


Rotary = Callable[[Tensor, int | Tensor], Tensor]
"""Rotates queries or keys ``(batch, heads, length, d_k)`` at positions ``start``, ``start + 1``, …:
see :class:`tfmr.position.RotaryPosition`."""


class MultiHeadAttention(nn.Module):
    r"""Several attention heads in parallel, each in its own subspace, joined by one projection.

    .. math:: \mathrm{head}_i = \mathrm{Attention}(X W^Q_i,\, M W^K_i,\, M W^V_i), \qquad
              \mathrm{MultiHead}(X, M) = \mathrm{Concat}(\mathrm{head}_1, …, \mathrm{head}_h)\, W^O

    Queries are projected from ``x``; keys and values from ``memory`` (cross-attention), or from
    ``x`` if ``memory`` is not given (self-attention). Vaswani et al. (2017), section 3.2.2, with
    :math:`d_k = d_v`.

    With fewer key heads than query heads, each key head and its value head serve a group of query
    heads, and the KV cache shrinks by the factor ``n_heads / n_kv_heads``: grouped-query attention
    (Ainslie et al., 2023, section 2.2) or, with one key head, multi-query attention (Shazeer,
    2019).

    Args:
        d_model: size of input and output vectors.
        n_heads: number of heads, :math:`h`.
        d_k: size of queries, keys and values of one head; ``d_model / n_heads`` if not given.
        n_kv_heads: number of key heads and of value heads; ``n_heads`` if not given.
        bias: whether the four projections have biases.
        scale: factor of the scores; :math:`1/\sqrt{d_k}` if not given.
        rotary: rotates queries and keys by their positions; for self-attention only.

    Raises:
        TfmrError: if a size is not positive, ``n_heads`` is not divisible by ``n_kv_heads``, or
            ``d_k`` is not given and ``d_model`` is not divisible by ``n_heads``.
    """

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        *,
        d_k: int | None = None,
        n_kv_heads: int | None = None,
        bias: bool = True,
        scale: float | None = None,
        rotary: Rotary | None = None,
    ) -> None:
        super().__init__()
        n_kv_heads = n_heads if n_kv_heads is None else n_kv_heads
        check_sizes(d_model=d_model, n_heads=n_heads, n_kv_heads=n_kv_heads)
        require(
            d_k is not None or d_model % n_heads == 0,
            "d_model must be divisible by n_heads, because each head has d_model / n_heads "
            f"dimensions: got d_model={d_model}, n_heads={n_heads}; or give d_k",
        )
        require(
            n_heads % n_kv_heads == 0,
            "n_heads must be divisible by n_kv_heads, because every key head serves n_heads / "
            f"n_kv_heads query heads: got n_heads={n_heads}, n_kv_heads={n_kv_heads}",
        )
        self.d_k = d_model // n_heads if d_k is None else d_k
        check_sizes(d_k=self.d_k)
        self.d_model, self.n_heads, self.n_kv_heads = d_model, n_heads, n_kv_heads
        self.w_q = nn.Linear(d_model, n_heads * self.d_k, bias=bias)
        self.w_k = nn.Linear(d_model, n_kv_heads * self.d_k, bias=bias)
        self.w_v = nn.Linear(d_model, n_kv_heads * self.d_k, bias=bias)
        self.w_o = nn.Linear(n_heads * self.d_k, d_model, bias=bias)
        self.scale = scale
        self.rotary = rotary

    def extra_repr(self) -> str:
        """The hyperparameters that the projections do not show."""
        return f"n_heads={self.n_heads}, n_kv_heads={self.n_kv_heads}, d_k={self.d_k}"

    def forward(
        self,
        x: Float[Tensor, "batch query d_model"],
        memory: Float[Tensor, "batch key d_model"] | None = None,
        *,
        mask: Bool[Tensor, "..."] | None = None,
        bias: Float[Tensor, "heads query key"] | None = None,
        is_causal: bool = False,
        cache: KVCache | None = None,
    ) -> Float[Tensor, "batch query d_model"]:
        """Attend from ``x`` to ``memory``, or to ``x`` itself.

        Args:
            x: the vectors that are projected to queries.
            memory: the vectors that are projected to keys and values; ``x`` if not given.
            mask: ``True`` where a query may attend to a key.
            bias: added to the scores, for example :class:`tfmr.family.t5.RelativeBias`.
            is_causal: apply :func:`causal_mask` as well; see :func:`fused_attention`.
            cache: for self-attention, the keys and values of the positions before ``x``, to which
                those of ``x`` are appended. For cross-attention, those of ``memory``, which is then
                projected in the first call only.

        Raises:
            TfmrError: if the last axis is not ``d_model``, the batches differ, or the mask does not
                fit.
        """
        self._check_input("x", x)
        q = self._split_heads(self.w_q(x))
        if memory is not None and cache is not None and cache.length > 0:
            k, v = cache.read()
        else:
            if memory is not None:
                self._check_input("memory", memory)
            attended = x if memory is None else memory
            k = self._split_heads(self.w_k(attended))
            v = self._split_heads(self.w_v(attended))
            if memory is None and self.rotary is not None:
                start = 0 if cache is None else cache.length
                q, k = self.rotary(q, start), self.rotary(k, start)
            if cache is not None:
                k, v = cache.extend(k, v)
        if len(q) != len(k):
            raise TfmrError(
                f"queries and keys must belong to the same sentences: got {len(q)} rows of x and "
                f"{len(k)} rows of memory or cache"
            )
        heads = self.attend(q, k, v, mask, bias=bias, is_causal=is_causal)
        joined: Tensor = self.w_o(
            rearrange(heads, "batch heads query d_k -> batch query (heads d_k)")
        )
        return joined

    def attend(
        self,
        q: Float[Tensor, "batch heads query d_k"],
        k: Float[Tensor, "batch kv_heads key d_k"],
        v: Float[Tensor, "batch kv_heads key d_k"],
        mask: Bool[Tensor, "..."] | None,
        *,
        bias: Float[Tensor, "heads query key"] | None = None,
        is_causal: bool = False,
    ) -> Float[Tensor, "batch heads query d_k"]:
        """The outputs of all heads; their weights are kept within :func:`recording`."""
        if self.n_kv_heads < self.n_heads:
            group = "batch kv_heads key d_k -> batch (kv_heads group) key d_k"
            k, v = (repeat(x, group, group=self.n_heads // self.n_kv_heads) for x in (k, v))
        weights: dict[MultiHeadAttention, list[Tensor]] = getattr(_recorded, "weights", {})
        if bias is None and self not in weights:
            return fused_attention(q, k, v, mask, scale=self.scale, is_causal=is_causal)
        check_arguments(q, k, v, mask)
        if is_causal:
            mask = combine_masks(mask, causal_mask(q.shape[2], k.shape[2], device=q.device))
        heads, own_weights = unfused_attention(q, k, v, mask, bias=bias, scale=self.scale)
        if self in weights:
            weights[self].append(own_weights.detach())
        return heads

    def _split_heads(
        self, x: Float[Tensor, "batch length d_model"]
    ) -> Float[Tensor, "batch heads length d_k"]:
        """Give each head its own ``d_k`` consecutive columns."""
        return rearrange(x, "batch length (heads d_k) -> batch heads length d_k", d_k=self.d_k)

    def _check_input(self, name: str, x: Tensor) -> None:
        check_tensor(x, name, self.w_q.weight)
        if x.dim() != 3 or x.shape[-1] != self.d_model:
            raise TfmrError(
                f"{name} must be (batch, length, d_model={self.d_model}): got {tuple(x.shape)}; "
                "for a single sentence add the batch axis with unsqueeze(0)"
            )


_recorded = threading.local()
"""Its attribute ``weights`` holds what :func:`recording` collects in this thread."""


@contextmanager
def recording(*attentions: MultiHeadAttention) -> Iterator[dict[MultiHeadAttention, list[Tensor]]]:
    """Keep the attention weights of these modules within the ``with`` statement.

    Only the calls of this thread are recorded. If two recordings are nested, the inner one receives
    the weights of the modules that both name.

    Yields:
        For each module, the weights ``(batch, heads, query, key)`` of each call, in order.
    """
    weights: dict[MultiHeadAttention, list[Tensor]] = {attention: [] for attention in attentions}
    before = getattr(_recorded, "weights", {})
    _recorded.weights = before | weights
    try:
        yield weights
    finally:
        _recorded.weights = before
