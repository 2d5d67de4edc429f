"""Attention: which positions a position reads from, and how much of each.

Masks are boolean and say what may be read: ``True`` keeps a key, ``False`` hides it. That is the
convention of :func:`torch.nn.functional.scaled_dot_product_attention`;
:class:`torch.nn.MultiheadAttention` uses the opposite one.
"""

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from einops import rearrange
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from tfmr.errors import TfmrError, require
from tfmr.special_tokens import PAD


def causal_mask(
    query: int, key: int | None = None, *, device: torch.device | None = None
) -> Bool[Tensor, "query key"]:
    """Let each position read itself and what came before it: ``(query, key)``, ``True`` = may read.

    The queries are the *last* ``query`` of the ``key`` positions (``key`` defaults to ``query``),
    so the mask also serves a decoder that already holds the keys of a prefix. Vaswani et al.
    (2017), section 3.2.3.

    Raises:
        TfmrError: if there are more queries than keys.

    >>> causal_mask(3).int().tolist()
    [[1, 0, 0], [1, 1, 0], [1, 1, 1]]
    """
    key = query if key is None else key
    require(
        0 < query <= key,
        f"a causal mask needs 0 < query <= key, because the queries are the last of the keys: "
        f"got query={query}, key={key}",
    )
    return torch.ones(query, key, dtype=torch.bool, device=device).tril(diagonal=key - query)


def padding_mask(ids: Int[Tensor, "batch key"]) -> Bool[Tensor, "batch 1 1 key"]:
    """Hide the padding of a batch of sentences: ``(batch, 1, 1, key)``, ``True`` = a real token.

    The two axes of size one let it broadcast over heads and queries.

    Raises:
        TfmrError: if there is no batch axis, or a sentence is nothing but padding. A query that may
            read no key has no weights: its softmax would be 0/0.

    >>> padding_mask(torch.tensor([[5, 6, 7], [8, 0, 0]])).int().tolist()
    [[[[1, 1, 1]]], [[[1, 0, 0]]]]
    """
    require(
        ids.dim() == 2,
        f"a batch of ids is (batch, length): got {tuple(ids.shape)}; a single sentence becomes "
        "one by ids.unsqueeze(0)",
    )
    keep = ids != PAD
    empty = (~keep.any(dim=1)).nonzero().flatten().tolist()
    require(
        not empty,
        f"every sentence needs at least one token that is not padding (id {PAD}): row {empty[:1]} "
        f"of {len(ids)} has none; drop empty lines before batching",
    )
    return rearrange(keep, "batch key -> batch 1 1 key")


def combine_masks(*masks: Bool[Tensor, "..."] | None) -> Bool[Tensor, "..."] | None:
    """Hide whatever any of the masks hides; ``None`` hides nothing.

    >>> both = combine_masks(causal_mask(2), padding_mask(torch.tensor([[5, 0]])))
    >>> both.int().tolist()
    [[[[1, 0], [1, 0]]]]
    """
    combined: Tensor | None = None
    for mask in masks:
        if mask is not None:
            combined = mask if combined is None else combined & mask
    return combined


def _check(
    q: Float[Tensor, "..."],
    k: Float[Tensor, "..."],
    v: Float[Tensor, "..."],
    mask: Tensor | None,
) -> None:
    """Say which of the four arguments of an attention does not fit the others."""
    require(
        q.shape[-1] == k.shape[-1],
        f"a query is compared with a key, so both need the same d_k: got q {tuple(q.shape)} and "
        f"k {tuple(k.shape)}",
    )
    require(
        k.shape[-2] == v.shape[-2],
        f"every key needs its value: got {k.shape[-2]} keys {tuple(k.shape)} and {v.shape[-2]} "
        f"values {tuple(v.shape)}",
    )
    if mask is None:
        return
    require(
        mask.dtype == torch.bool,
        f"a mask is boolean, True where a query may read a key: got {mask.dtype}; turn an "
        "additive mask of 0 and -inf into one with `mask == 0`",
    )
    scores = (*q.shape[:-1], k.shape[-2])
    fits = mask.dim() <= len(scores) and all(
        size == 1 or size == wanted  # torch.compile does not see through "size in (1, wanted)"
        for size, wanted in zip(reversed(mask.shape), reversed(scores), strict=False)
    )
    require(
        fits,
        f"the mask must broadcast to the scores {scores} = (..., query, key): got "
        f"{tuple(mask.shape)}; a padding mask needs the form (batch, 1, 1, key)",
    )


def scaled_dot_product_attention(
    q: Float[Tensor, "*batch query d_k"],
    k: Float[Tensor, "*batch key d_k"],
    v: Float[Tensor, "*batch key d_v"],
    mask: Bool[Tensor, "..."] | None = None,
) -> tuple[Float[Tensor, "*batch query d_v"], Float[Tensor, "*batch query key"]]:
    r"""Read from every value, in proportion to how well its key answers the query.

    .. math:: \mathrm{Attention}(Q, K, V) =
              \mathrm{softmax}\!\left(\frac{QK^\top}{\sqrt{d_k}}\right) V

    Vaswani et al. (2017), section 3.2.1, equation 1: the version to read. :func:`fused_attention`
    computes the same without keeping the weights.

    Returns:
        The outputs ``(..., query, d_v)`` and the weights ``(..., query, key)``, each row of which
        sums to one.

    Raises:
        TfmrError: if the shapes do not fit each other, the mask is not boolean, or a query may read
            no key.
    """
    _check(q, k, v, mask)
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    if mask is not None:
        require(
            bool(mask.any(dim=-1).all()),
            "every query must be allowed to read at least one key: the mask hides a whole row, "
            "whose softmax would be 0/0 (NaN)",
        )
        scores = scores.masked_fill(~mask, -math.inf)
    weights = scores.softmax(dim=-1)
    return weights @ v, weights


def additive(mask: Bool[Tensor, "*shape"], dtype: torch.dtype) -> Float[Tensor, "*shape"]:
    """The mask as a number to add to a score: 0 where a query may read, -inf where it may not."""
    return torch.zeros(mask.shape, dtype=dtype, device=mask.device).masked_fill(~mask, -math.inf)


def unfused_attention(
    q: Float[Tensor, "*batch query d_k"],
    k: Float[Tensor, "*batch key d_k"],
    v: Float[Tensor, "*batch key d_v"],
    bias: Float[Tensor, "..."] | None = None,
) -> tuple[Float[Tensor, "*batch query d_v"], Float[Tensor, "*batch query key"]]:
    """:func:`scaled_dot_product_attention` in a hurry: the scores are changed where they lie, the
    mask comes as an :func:`additive` bias, and nothing is checked.
    """
    scores = (q @ k.transpose(-2, -1)).mul_(1 / math.sqrt(q.shape[-1]))
    if bias is not None:
        scores += bias
    weights = scores.softmax(dim=-1)
    return weights @ v, weights


SHORT = 64
"""Up to this many keys, a CPU attends faster without blocks."""


def fused_attention(
    q: Float[Tensor, "*batch query d_k"],
    k: Float[Tensor, "*batch key d_k"],
    v: Float[Tensor, "*batch key d_v"],
    mask: Bool[Tensor, "..."] | None = None,
) -> Float[Tensor, "*batch query d_v"]:
    """The outputs of :func:`scaled_dot_product_attention`, by PyTorch's fused kernel.

    The kernel works through the keys in blocks and never holds the ``(query, key)`` weights in
    memory (Dao et al., 2022), so there are none to return. On a CPU, blocks cost more than they
    save while a sentence has at most :data:`SHORT` keys, and :func:`unfused_attention` does it
    instead; and :class:`torch.autocast` does not reach the kernel, whose backward pass is many
    times slower there in bfloat16 than in single precision.

    A query that may read no key finds 0 or NaN: unlike there, nobody looks for one.

    Raises:
        TfmrError: if the shapes do not fit each other or the mask is not boolean.
    """
    _check(q, k, v, mask)
    if q.device.type != "cpu":
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    if torch.is_autocast_enabled("cpu"):
        with torch.autocast("cpu", enabled=False):
            return fused_attention(q.float(), k.float(), v.float(), mask)
    if k.shape[-2] > SHORT:
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    bias = None if mask is None else additive(mask, q.dtype)
    return unfused_attention(q, k, v, bias)[0]


Rotation = Callable[[Tensor, int], Tensor]
"""Turns queries or keys ``(batch, heads, length, d_k)`` as those of positions ``start``,
``start + 1``, …: see :class:`tfmr.position.RotaryPosition`."""


class KVCache:
    """The keys and values of the positions already read, kept so that they are computed once.

    The buffers are allocated in full at the first :meth:`extend`; after that, a step writes its own
    keys and values and copies nothing. What is read is a view of the part in use.

    Args:
        capacity: the most positions it will ever hold.
        dtype: in which it keeps them; that of the first keys if not given.
    """

    def __init__(self, capacity: int, dtype: torch.dtype | None = None) -> None:
        self.capacity = capacity
        self.dtype = dtype
        self.length = 0
        self._keys = torch.empty(0)
        self._values = torch.empty(0)

    def extend(
        self,
        k: Float[Tensor, "batch heads length d_k"],
        v: Float[Tensor, "batch heads length d_k"],
    ) -> tuple[Float[Tensor, "batch heads key d_k"], Float[Tensor, "batch heads key d_k"]]:
        """Add the newest positions; return all of them, oldest first.

        Raises:
            TfmrError: if they do not fit into the capacity.
        """
        end = self.length + k.shape[2]
        if end > self.capacity:
            raise TfmrError(
                f"the cache holds {self.capacity} positions and has {self.length}: {k.shape[2]} "
                "more do not fit; make it with a larger capacity"
            )
        if self.length == 0:
            batch, heads, _, d_k = k.shape
            self._keys = k.new_empty(batch, heads, self.capacity, d_k, dtype=self.dtype)
            self._values = v.new_empty(batch, heads, self.capacity, d_k, dtype=self.dtype)
        self._keys[:, :, self.length : end] = k
        self._values[:, :, self.length : end] = v
        self.length = end
        return self.read()

    def read(
        self,
    ) -> tuple[Float[Tensor, "batch heads key d_k"], Float[Tensor, "batch heads key d_k"]]:
        """All keys and values so far, as views."""
        return self._keys[:, :, : self.length], self._values[:, :, : self.length]

    def keep(self, rows: Int[Tensor, "kept"]) -> None:
        """Go on with these sentences of the batch only, in this order.

        A sentence that keeps its place is not copied.
        """
        moved = (rows != torch.arange(len(rows), device=rows.device)).nonzero().flatten()
        if len(moved):
            for past in self.read():
                past[moved] = past[rows[moved]]
        self._keys, self._values = self._keys[: len(rows)], self._values[: len(rows)]


class MultiHeadAttention(nn.Module):
    r"""Several attentions side by side, each in its own subspace, joined by one projection.

    .. math:: \mathrm{head}_i = \mathrm{Attention}(X W^Q_i,\, M W^K_i,\, M W^V_i), \qquad
              \mathrm{MultiHead}(X, M) = \mathrm{Concat}(\mathrm{head}_1, …, \mathrm{head}_h)\, W^O

    The queries come from ``x``. Keys and values come from ``memory``, or from ``x`` as well if
    there is none (self-attention). Vaswani et al. (2017), section 3.2.2;
    :math:`d_k = d_v = d_{model} / h`.

    Args:
        d_model: size of the vectors that go in and come out.
        n_heads: the number of heads, :math:`h`.
        rotate: turns queries and keys by their positions; for self-attention only.

    Raises:
        TfmrError: if ``d_model`` is not divisible by ``n_heads``.
    """

    def __init__(self, d_model: int, n_heads: int, *, rotate: Rotation | None = None) -> None:
        super().__init__()
        require(
            d_model > 0 and n_heads > 0 and d_model % n_heads == 0,
            "d_model must be divisible by n_heads, because each head works in d_model / n_heads "
            f"dimensions: got d_model={d_model}, n_heads={n_heads}",
        )
        self.d_model = d_model
        self.n_heads = n_heads
        self.w_q = nn.Linear(d_model, d_model)
        self.w_k = nn.Linear(d_model, d_model)
        self.w_v = nn.Linear(d_model, d_model)
        self.w_o = nn.Linear(d_model, d_model)
        self.rotate = rotate
        self.recorded: list[Tensor] | None = None
        """While this is a list, every forward adds its weights ``(batch, heads, query, key)``."""

    def forward(
        self,
        x: Float[Tensor, "batch query d_model"],
        memory: Float[Tensor, "batch key d_model"] | None = None,
        *,
        mask: Bool[Tensor, "..."] | None = None,
        cache: KVCache | None = None,
    ) -> Float[Tensor, "batch query d_model"]:
        """Attend from ``x`` to ``memory`` (or to ``x``), where ``mask`` allows it.

        With a ``cache``, self-attention also reads the positions stored before ``x``, and
        cross-attention projects ``memory`` at the first call only.

        Raises:
            TfmrError: if the last axis is not ``d_model`` or the mask does not fit.
        """
        for name, given in (("x", x), ("memory", memory)):
            if given is not None and given.shape[-1] != self.d_model:
                raise TfmrError(
                    f"{name} must have d_model={self.d_model} numbers per position in its last "
                    f"axis: got {tuple(given.shape)}"
                )
        q = self._split(self.w_q(x))
        if memory is not None and cache is not None and cache.length:
            k, v = cache.read()
        else:
            source = x if memory is None else memory
            k, v = self._split(self.w_k(source)), self._split(self.w_v(source))
            if memory is None and self.rotate is not None:
                start = cache.length if cache is not None else 0
                q, k = self.rotate(q, start), self.rotate(k, start)
            if cache is not None:
                k, v = cache.extend(k, v)
        if self.recorded is None:
            heads = fused_attention(q, k, v, mask)
        else:
            heads, weights = scaled_dot_product_attention(q, k, v, mask)
            self.recorded.append(weights.detach())
        joined: Tensor = self.w_o(
            rearrange(heads, "batch heads query d_k -> batch query (heads d_k)")
        )
        return joined

    def _split(
        self, x: Float[Tensor, "batch length d_model"]
    ) -> Float[Tensor, "batch heads length d_k"]:
        """Give each head its own ``d_k`` consecutive columns."""
        return rearrange(
            x, "batch length (heads d_k) -> batch heads length d_k", heads=self.n_heads
        )
