r"""Restricted self-attention: each position reads only its neighbours.

Full self-attention compares every position with every other, :math:`n^2` pairs. Within a distance
of :math:`r` there are at most :math:`n\,(2r + 1)`, and the cost grows in proportion to the text.
The price is the path between two words: one layer there, :math:`n / r` layers here. Vaswani et al.
(2017), section 4 and the last row of table 1, where :math:`r` is the size of the neighbourhood;
here it is the distance, so that a neighbourhood has :math:`2r + 1` positions.
"""

import torch
import torch.nn.functional as F
from einops import rearrange
from jaxtyping import Bool, Float
from torch import Tensor

from tfmr.attention import fused_attention, scaled_dot_product_attention
from tfmr.errors import TfmrError, require

BLOCK = 64
"""Queries that are worked on together, at least: smaller products leave a processor idle."""


def local_attention_mask(
    length: int, radius: int, *, causal: bool = False, device: torch.device | None = None
) -> Bool[Tensor, "query key"]:
    """Let each position read those at most ``radius`` away: ``(query, key)``, ``True`` = may read.

    With ``causal``, it reads itself and the ``radius`` positions before it only.

    Raises:
        TfmrError: if there is no position, or the radius is negative.

    >>> local_attention_mask(4, 1).int().tolist()
    [[1, 1, 0, 0], [1, 1, 1, 0], [0, 1, 1, 1], [0, 0, 1, 1]]
    >>> local_attention_mask(4, 1, causal=True).int().tolist()
    [[1, 0, 0, 0], [1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 1]]
    """
    _check_radius(length, radius)
    pos = torch.arange(length, device=device)
    ahead = pos - pos[:, None]
    return (-radius <= ahead) & (ahead <= (0 if causal else radius))


def local_attention_naive(
    q: Float[Tensor, "batch heads length d_k"],
    k: Float[Tensor, "batch heads length d_k"],
    v: Float[Tensor, "batch heads length d_v"],
    radius: int,
    *,
    causal: bool = False,
    padding: Bool[Tensor, "batch 1 1 length"] | None = None,
) -> Float[Tensor, "batch heads length d_v"]:
    """Attention under a :func:`local_attention_mask`: the version to read, which saves nothing.

    It computes all :math:`n^2` scores and then hides most of them. :func:`local_attention` gives
    the same outputs and never computes what it would hide.

    Args:
        q: queries ``(batch, heads, length, d_k)``.
        k: keys, one per query.
        v: values ``(batch, heads, length, d_v)``, one per key.
        radius: how far a position reads.
        causal: whether it reads only itself and what came before.
        padding: as from :func:`~tfmr.attention.padding_mask`. Around a padded position everything
            may be padding, and its softmax would be 0/0; so each position reads itself at least.
            Only the outputs of padding, which nobody uses, depend on that.

    Raises:
        TfmrError: if the shapes do not fit each other, or the radius is negative.
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
    """The outputs of :func:`local_attention_naive`, in time and memory that grow as :math:`n r`.

    The queries are cut into blocks. The keys that a block can read are its own and ``radius`` more
    on either side (with ``causal``, before it only), and all blocks attend at once, as if they were
    sentences of a batch. The band of keys that a query may read is the same in every block.

    Args and errors are those of :func:`local_attention_naive`.
    """
    _check(q, k, v, radius, padding)
    batch, length = q.shape[0], q.shape[2]
    block = min(max(radius, BLOCK), length)
    blocks = -(-length // block)
    filling = blocks * block - length
    before, after = radius, 0 if causal else radius
    size = before + block + after

    queries = F.pad(q, (0, 0, 0, filling)).unfold(2, block, block)
    keys, values = (
        F.pad(x, (0, 0, before, filling + after)).unfold(2, size, block) for x in (k, v)
    )
    if padding is None:
        padding = torch.ones(1, 1, 1, length, dtype=torch.bool, device=q.device)
    real = F.pad(padding, (before, filling + after)).unfold(3, size, block)

    # The keys of a block begin `before` positions earlier than its queries.
    query = torch.arange(block, device=q.device)[:, None] + before
    ahead = torch.arange(size, device=q.device) - query
    band = (-before <= ahead) & (ahead <= after)
    real = rearrange(real, "rows 1 1 blocks key -> rows blocks 1 1 key")
    mask = band & (real | (ahead == 0))
    mask = mask.expand(batch, -1, -1, -1, -1).flatten(0, 1)

    queries, keys, values = (
        rearrange(x, "batch heads blocks d length -> (batch blocks) heads length d")
        for x in (queries, keys, values)
    )
    out = fused_attention(queries, keys, values, mask)
    joined = rearrange(
        out, "(batch blocks) heads query d_v -> batch heads (blocks query) d_v", batch=batch
    )
    return joined[:, :, :length]


def _check_radius(length: int, radius: int) -> None:
    require(length > 0, f"a window needs at least one position: got {length}")
    require(
        radius >= 0,
        f"a position reads those at most radius away, itself at 0: got radius={radius}",
    )


def _check(q: Tensor, k: Tensor, v: Tensor, radius: int, padding: Tensor | None) -> None:
    """Say what does not fit, before a block of it does not."""
    require(
        q.dim() == 4 and q.shape[:3] == k.shape[:3] == v.shape[:3],
        "positions read their neighbours in the same text, so queries, keys and values are "
        f"(batch, heads, length, d) with one length: got q {tuple(q.shape)}, k {tuple(k.shape)}, "
        f"v {tuple(v.shape)}",
    )
    _check_radius(q.shape[2], radius)
    wanted = (q.shape[0], 1, 1, q.shape[2])
    if padding is not None and (padding.dtype != torch.bool or padding.shape != wanted):
        raise TfmrError(
            f"padding must be boolean and {wanted} = (batch, 1, 1, length), as padding_mask makes "
            f"it: got {padding.dtype} {tuple(padding.shape)}; for a causal window say causal=True"
        )
