r"""Local (windowed) self-attention: each position attends only to nearby positions.

Full self-attention computes :math:`n^2` scores for a text of :math:`n` positions. Within a distance
of :math:`r` there are at most :math:`n\,(2r + 1)`, so the cost is linear in the length of the text.
The disadvantage is the maximum path length between two positions, which grows from one layer to
:math:`n / r` layers. Vaswani et al. (2017), section 4 and the last row of table 1. In the paper,
:math:`r` is the size of the window; here it is the maximum distance, so that a window has
:math:`2r + 1` positions.
"""

import torch
import torch.nn.functional as F
from einops import rearrange
from jaxtyping import Bool, Float
from torch import Tensor

from tfmr.attention import fused_attention, scaled_dot_product_attention
from tfmr.errors import TfmrError, require

MIN_CHUNK = 64
"""Minimum number of queries per chunk: smaller matrix multiplications are inefficient."""


def local_attention_mask(
    length: int, radius: int, *, causal: bool = False, device: torch.device | None = None
) -> Bool[Tensor, "query key"]:
    """Let each position attend to positions at most ``radius`` away: ``(query, key)``.

    With ``causal``, it attends only to itself and the ``radius`` positions before it.

    Raises:
        TfmrError: if ``length`` is not positive or ``radius`` is negative.

    >>> local_attention_mask(4, 1).int().tolist()
    [[1, 1, 0, 0], [1, 1, 1, 0], [0, 1, 1, 1], [0, 0, 1, 1]]
    >>> local_attention_mask(4, 1, causal=True).int().tolist()
    [[1, 0, 0, 0], [1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 1]]
    """
    _check_radius(length, radius)
    pos = torch.arange(length, device=device)
    offset = pos - pos[:, None]
    return (-radius <= offset) & (offset <= (0 if causal else radius))


def local_attention_naive(
    q: Float[Tensor, "batch heads length d_k"],
    k: Float[Tensor, "batch heads length d_k"],
    v: Float[Tensor, "batch heads length d_v"],
    radius: int,
    *,
    causal: bool = False,
    padding: Bool[Tensor, "batch 1 1 length"] | None = None,
) -> Float[Tensor, "batch heads length d_v"]:
    """Attention with a :func:`local_attention_mask`: the readable version.

    It computes all :math:`n^2` scores and masks most of them. :func:`local_attention` computes the
    same outputs without the masked scores.

    Args:
        q: queries ``(batch, heads, length, d_k)``.
        k: keys, one per query.
        v: values ``(batch, heads, length, d_v)``, one per key.
        radius: maximum distance between query and key.
        causal: whether a position attends only to itself and earlier positions.
        padding: as from :func:`~tfmr.attention.padding_mask`. The whole window of a padded position
            may be padding, so that its softmax would be 0/0; therefore every position attends at
            least to itself. This changes only the outputs at padding, which are not used.

    Raises:
        TfmrError: if the shapes do not match, or the radius is negative.
    """
    _check(q, k, v, radius, padding)
    length = q.shape[2]
    mask = local_attention_mask(length, radius, causal=causal, device=q.device)
    if padding is not None:
        itself = torch.eye(length, dtype=torch.bool, device=q.device)
        mask = mask & (padding | itself)
    return scaled_dot_product_attention(q, k, v, mask)[0]


def local_attention(
    q: Float[Tensor, "batch heads length d_k"],
    k: Float[Tensor, "batch heads length d_k"],
    v: Float[Tensor, "batch heads length d_v"],
    radius: int,
    *,
    causal: bool = False,
    padding: Bool[Tensor, "batch 1 1 length"] | None = None,
) -> Float[Tensor, "batch heads length d_v"]:
    """The outputs of :func:`local_attention_naive` in time and memory of order :math:`n r`.

    The queries are split into chunks. The keys of a chunk are its own positions and ``radius`` more
    on each side (with ``causal``, only before it), and all chunks are computed at once, as rows of
    a batch. The band of keys that a query may attend to is the same in every chunk.

    Arguments and errors are those of :func:`local_attention_naive`.
    """
    _check(q, k, v, radius, padding)
    batch, length = q.shape[0], q.shape[2]
    chunk = min(max(radius, MIN_CHUNK), length)
    chunks = -(-length // chunk)
    filler = chunks * chunk - length
    before, after = radius, 0 if causal else radius
    size = before + chunk + after

    queries = F.pad(q, (0, 0, 0, filler)).unfold(2, chunk, chunk)
    keys, values = (F.pad(x, (0, 0, before, filler + after)).unfold(2, size, chunk) for x in (k, v))
    if padding is None:
        padding = torch.ones(1, 1, 1, length, dtype=torch.bool, device=q.device)
    real = F.pad(padding, (before, filler + after)).unfold(3, size, chunk)

    # The keys of a chunk begin `before` positions earlier than its queries.
    query = torch.arange(chunk, device=q.device)[:, None] + before
    offset = torch.arange(size, device=q.device) - query
    band = (-before <= offset) & (offset <= after)
    real = rearrange(real, "rows 1 1 chunks key -> rows chunks 1 1 key")
    mask = band & (real | (offset == 0))
    mask = mask.expand(batch, -1, -1, -1, -1).flatten(0, 1)

    queries, keys, values = (
        rearrange(x, "batch heads chunks d length -> (batch chunks) heads length d")
        for x in (queries, keys, values)
    )
    out = fused_attention(queries, keys, values, mask)
    joined = rearrange(
        out, "(batch chunks) heads query d_v -> batch heads (chunks query) d_v", batch=batch
    )
    return joined[:, :, :length]


def _check_radius(length: int, radius: int) -> None:
    require(length > 0, f"length must be at least 1: got {length}")
    require(
        radius >= 0,
        f"radius must be at least 0, where a position attends only to itself: got radius={radius}",
    )


def _check(q: Tensor, k: Tensor, v: Tensor, radius: int, padding: Tensor | None) -> None:
    """Raise :class:`TfmrError` if the arguments do not fit together."""
    require(
        q.dim() == 4 and q.shape[:3] == k.shape[:3] == v.shape[:3],
        "local self-attention needs queries, keys and values (batch, heads, length, d) of one "
        f"length: got q {tuple(q.shape)}, k {tuple(k.shape)}, "
        f"v {tuple(v.shape)}",
    )
    _check_radius(q.shape[2], radius)
    expected = (q.shape[0], 1, 1, q.shape[2])
    if padding is not None and (padding.dtype != torch.bool or padding.shape != expected):
        raise TfmrError(
            f"padding must be boolean and {expected} = (batch, 1, 1, length), as padding_mask "
            f"returns it: got {padding.dtype} {tuple(padding.shape)}; for a causal window use "
            "causal=True"
        )
