"""Attention: masks, scaled dot-product attention and multi-head attention.

:class:`tfmr.model.Transformer` makes the masks of a batch by the functions below. Masks are boolean
and ``True`` means "may attend": ``True`` keeps a key, ``False`` hides it. This is the convention of
:func:`torch.nn.functional.scaled_dot_product_attention`; :class:`torch.nn.MultiheadAttention` uses
the opposite one.
"""

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from einops import rearrange
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from tfmr.dtype import check_floating, check_ids, check_tensor
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

    The two axes of size one broadcast over heads and queries.

    Raises:
        TfmrError: if ``ids`` are not integers, there is no batch axis, or (for ids on a CPU) a
            sentence is only padding. On a GPU the latter is not checked, because the check would
            have to wait for the device.

    >>> padding_mask(torch.tensor([[5, 6, 7], [8, 0, 0]])).int().tolist()
    [[[[1, 1, 1]]], [[[1, 0, 0]]]]
    """
    check_ids(ids, "ids")
    require(
        ids.dim() == 2,
        f"expected a batch of ids (batch, length): got {tuple(ids.shape)}; for a single sentence "
        "use ids.unsqueeze(0)",
    )
    keep = ids != PAD
    if ids.device.type == "cpu" and not keep.any(dim=1).all():
        row = int((~keep.any(dim=1)).nonzero()[0])
        raise TfmrError(
            f"every sentence needs at least one token that is not padding (id {PAD}): row {row} "
            f"of {len(ids)} has none; remove empty lines before batching"
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
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    if mask is not None:
        require(
            bool(mask.any(dim=-1).all()),
            "every query must be allowed to attend to at least one key: the mask hides a whole "
            "row, whose softmax would be 0/0 (NaN)",
        )
        scores = scores.masked_fill(~mask, -math.inf)
    weights = scores.softmax(dim=-1)
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
    bias: Float[Tensor, "..."] | None = None,
) -> tuple[Float[Tensor, "*batch query d_v"], Float[Tensor, "*batch query key"]]:
    """:func:`scaled_dot_product_attention` with fewer temporary tensors and no checks.

    The scores are scaled and masked in place, and the mask is a bias (:func:`mask_to_bias`). The
    bias must leave every query at least one key.
    """
    scores = (q @ k.transpose(-2, -1)).mul_(1 / math.sqrt(q.shape[-1]))
    if bias is not None:
        scores += bias
    weights = scores.softmax(dim=-1)
    return weights @ v, weights


SHORT = 64
"""Up to this many keys, :func:`unfused_attention` is faster on a CPU than the fused kernel."""


def fused_attention(
    q: Float[Tensor, "*batch query d_k"],
    k: Float[Tensor, "*batch key d_k"],
    v: Float[Tensor, "*batch key d_v"],
    mask: Bool[Tensor, "..."] | None = None,
    *,
    is_causal: bool = False,
) -> Float[Tensor, "*batch query d_v"]:
    """The outputs of :func:`scaled_dot_product_attention`, by PyTorch's fused kernel.

    The kernel processes the keys in chunks and never stores the ``(query, key)`` attention weights
    (Dao et al., 2022), so it cannot return them. On a CPU, :func:`unfused_attention` replaces it
    for up to :data:`SHORT` keys, where it is faster, and bf16 inputs under :class:`torch.autocast`
    are converted to fp32, because the backward pass of the kernel is many times slower in bf16.

    Args:
        q, k, v: queries, keys and values.
        mask: ``True`` where a query may attend to a key. The output of a query that may attend to
            no key is zero. (The readable version raises an error instead; on a GPU, this check
            would have to wait for the device.)
        is_causal: apply :func:`causal_mask` as well. Without any other mask this enables the
            kernel's causal mode, which skips the hidden keys.

    Raises:
        TfmrError: if the shapes do not match or the mask is not boolean.
    """
    check_arguments(q, k, v, mask)
    on_cpu = q.device.type == "cpu"
    if on_cpu and torch.is_autocast_enabled("cpu"):
        with torch.autocast("cpu", enabled=False):
            return fused_attention(q.float(), k.float(), v.float(), mask, is_causal=is_causal)
    query, key = q.shape[-2], k.shape[-2]
    short = on_cpu and key <= SHORT
    if is_causal and mask is None and query == key and not short:
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)
    if is_causal and query > 1:  # a single query is the last position: no key is hidden
        mask = combine_masks(mask, causal_mask(query, key, device=q.device))
    if mask is None:
        return unfused_attention(q, k, v)[0] if short else F.scaled_dot_product_attention(q, k, v)
    empty = ~mask.any(dim=-1, keepdim=True)
    # Checking for empty rows would have to wait for a GPU, and would split a compiled graph in two.
    # In both cases the rows are masked without a check.
    has_empty = not on_cpu or torch.compiler.is_compiling() or bool(empty.any())
    if has_empty:
        mask = mask | empty
    if short:
        out = unfused_attention(q, k, v, mask_to_bias(mask, q.dtype))[0]
    else:
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    return out.masked_fill(empty, 0) if has_empty else out


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
    if q.shape[-1] != k.shape[-1]:
        raise TfmrError(
            "queries and keys need the same d_k, because their dot product is the score: got q "
            f"{tuple(q.shape)} and k {tuple(k.shape)}"
        )
    if k.shape[-2] != v.shape[-2]:
        raise TfmrError(
            f"every key needs one value: got {k.shape[-2]} keys {tuple(k.shape)} and "
            f"{v.shape[-2]} values {tuple(v.shape)}"
        )
    if mask is None:
        return
    check_mask(mask)
    scores = (*q.shape[:-1], k.shape[-2])
    fits = mask.dim() <= len(scores) and all(
        size == 1 or size == full  # torch.compile does not support "size in (1, full)"
        for size, full in zip(reversed(mask.shape), reversed(scores), strict=False)
    )
    if not fits:
        raise TfmrError(
            f"the mask must broadcast to the scores {scores} = (..., query, key): got "
            f"{tuple(mask.shape)}; a padding mask must be (batch, 1, 1, key)"
        )


Rotary = Callable[[Tensor, int], Tensor]
"""Rotates queries or keys ``(batch, heads, length, d_k)`` at positions ``start``, ``start + 1``, …:
see :class:`tfmr.position.RotaryPosition`."""


class MultiHeadAttention(nn.Module):
    r"""Several attention heads in parallel, each in its own subspace, joined by one projection.

    .. math:: \mathrm{head}_i = \mathrm{Attention}(X W^Q_i,\, M W^K_i,\, M W^V_i), \qquad
              \mathrm{MultiHead}(X, M) = \mathrm{Concat}(\mathrm{head}_1, …, \mathrm{head}_h)\, W^O

    Queries are projected from ``x``; keys and values from ``memory`` (cross-attention), or from
    ``x`` if ``memory`` is not given (self-attention). Vaswani et al. (2017), section 3.2.2, with
    :math:`d_k = d_v = d_{model} / h`.

    Args:
        d_model: size of input and output vectors.
        n_heads: number of heads, :math:`h`.
        rotary: rotates queries and keys by their positions; for self-attention only.

    Raises:
        TfmrError: if ``d_model`` is not divisible by ``n_heads``.
    """

    def __init__(self, d_model: int, n_heads: int, *, rotary: Rotary | None = None) -> None:
        super().__init__()
        require(
            d_model > 0 and n_heads > 0 and d_model % n_heads == 0,
            "d_model must be divisible by n_heads, because each head has d_model / n_heads "
            f"dimensions: got d_model={d_model}, n_heads={n_heads}",
        )
        self.d_model = d_model
        self.n_heads = n_heads
        self.d_k = d_model // n_heads
        self.w_q = nn.Linear(d_model, d_model)
        self.w_k = nn.Linear(d_model, d_model)
        self.w_v = nn.Linear(d_model, d_model)
        self.w_o = nn.Linear(d_model, d_model)
        self.rotary = rotary
        self.recorded_weights: list[Tensor] | None = None
        """While this is a list, every forward pass appends its attention weights
        ``(batch, heads, query, key)``; see :func:`tfmr.analysis.record_attention`."""

    def forward(
        self,
        x: Float[Tensor, "batch query d_model"],
        memory: Float[Tensor, "batch key d_model"] | None = None,
        *,
        mask: Bool[Tensor, "..."] | None = None,
        is_causal: bool = False,
        cache: KVCache | None = None,
    ) -> Float[Tensor, "batch query d_model"]:
        """Attend from ``x`` to ``memory``, or to ``x`` itself.

        Args:
            x: the vectors that are projected to queries.
            memory: the vectors that are projected to keys and values; ``x`` if not given.
            mask: ``True`` where a query may attend to a key.
            is_causal: apply :func:`causal_mask` as well; see :func:`fused_attention`.
            cache: for self-attention, the keys and values of the positions before ``x``, to which
                those of ``x`` are appended. For cross-attention, those of ``memory``, which is then
                projected in the first call only.

        Raises:
            TfmrError: if the last axis is not ``d_model`` or the mask does not fit.
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
        heads = self.attend(q, k, v, mask, is_causal=is_causal)
        joined: Tensor = self.w_o(
            rearrange(heads, "batch heads query d_k -> batch query (heads d_k)")
        )
        return joined

    def attend(
        self,
        q: Float[Tensor, "batch heads query d_k"],
        k: Float[Tensor, "batch heads key d_k"],
        v: Float[Tensor, "batch heads key d_k"],
        mask: Bool[Tensor, "..."] | None,
        *,
        is_causal: bool,
    ) -> Float[Tensor, "batch heads query d_k"]:
        """The outputs of all heads; adds the weights to ``recorded_weights`` if that is a list."""
        if self.recorded_weights is None:
            return fused_attention(q, k, v, mask, is_causal=is_causal)
        causal = causal_mask(q.shape[2], k.shape[2], device=q.device) if is_causal else None
        heads, weights = scaled_dot_product_attention(q, k, v, combine_masks(mask, causal))
        self.recorded_weights.append(weights.detach())
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
