r"""Exact attention in tiles, without the matrix of attention weights: the idea of FlashAttention.

:func:`~tfmr.attention.scaled_dot_product_attention` stores one weight per query and key, and keeps
all of them for the backward pass: :math:`n^2` numbers per head. Here the scores are computed one
tile at a time, a few queries by a few keys, and are discarded after use. The softmax of a row is
completed while its keys pass by (the *online softmax*; Milakov and Gimelshein, 2018), and the
backward pass computes the scores again from queries and keys (Dao et al., 2022). The results are
equal up to rounding, the memory is of order :math:`n`, and the number of operations grows by one
sixth in training.

FlashAttention is fast because a tile stays in the fast memory of a GPU. This module, in Python,
shows the algorithm and its memory; for speed use :func:`~tfmr.attention.fused_attention`.
"""

import math
from collections.abc import Iterator
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from tfmr.attention import check_arguments
from tfmr.checks import check_sizes
from tfmr.dtype import at_least_fp32
from tfmr.errors import TfmrError, require

TILE = 64
"""Queries and keys of a tile, by default."""


def tiled_attention(
    q: Float[Tensor, "*batch query d_k"],
    k: Float[Tensor, "*batch key d_k"],
    v: Float[Tensor, "*batch key d_v"],
    mask: Bool[Tensor, "..."] | None = None,
    *,
    is_causal: bool = False,
    tile: int = TILE,
) -> Float[Tensor, "*batch query d_v"]:
    """The outputs of :func:`~tfmr.attention.scaled_dot_product_attention`, computed in tiles.

    For the backward pass it keeps queries, keys, values, outputs and one number per query.

    Args:
        q, k, v: queries, keys and values.
        mask: ``True`` where a query may attend to a key. The output of a query that may attend to
            no key is zero, as in :func:`~tfmr.attention.fused_attention`.
        is_causal: apply :func:`~tfmr.attention.causal_mask` as well, without storing it. Tiles that
            it hides completely are skipped.
        tile: number of queries and of keys in a tile.

    Raises:
        TfmrError: if the shapes do not match, the mask is not boolean, ``tile`` is not positive, or
            there are more queries than keys with ``is_causal``.
    """
    check_arguments(q, k, v, mask)
    query, key = q.shape[-2], k.shape[-2]
    check_sizes(tile=tile)
    require(
        not is_causal or query <= key,
        "with is_causal the queries belong to the last positions of the key sequence, so there "
        f"must be at least as many keys: got {query} queries and {key} keys",
    )
    batch = torch.broadcast_shapes(q.shape[:-2], k.shape[:-2], v.shape[:-2])
    inputs = (at_least_fp32(x).expand(*batch, -1, -1) for x in (q, k, v))
    apply: Any = TiledAttention.apply
    out: Tensor = apply(*inputs, mask, is_causal, tile)
    return out.to(q.dtype)


class TiledAttention(torch.autograd.Function):
    """Forward and backward pass of :func:`tiled_attention`."""

    @staticmethod
    def forward(
        ctx: Any,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        mask: Tensor | None,
        is_causal: bool,
        tile: int,
    ) -> Tensor:
        """Compute the outputs tile by tile, and keep one number per query for the backward pass."""
        out = q.new_empty(*q.shape[:-1], v.shape[-1])
        log_sum = q.new_empty(*q.shape[:-1], 1)
        for rows in _slices(q.shape[-2], tile):
            # Of the keys so far: maximum score, sum of exponentials, and weighted sum of values,
            # the last two relative to the maximum. The start is finite, so that a row without any
            # key gives exp(-inf) = 0 instead of NaN.
            maximum = torch.full_like(log_sum[..., rows, :], torch.finfo(q.dtype).min)
            total = torch.zeros_like(maximum)
            weighted = torch.zeros_like(out[..., rows, :])
            for columns in _key_slices(q, k, rows, is_causal, tile):
                scores = _scores(q, k, mask, is_causal, rows, columns)
                larger = torch.maximum(maximum, scores.amax(dim=-1, keepdim=True))
                rescale = (maximum - larger).exp()
                exponentials = (scores - larger).exp()
                total = total * rescale + exponentials.sum(dim=-1, keepdim=True)
                weighted = weighted * rescale + exponentials @ v[..., columns, :]
                maximum = larger
            total = total.masked_fill(total == 0, 1)
            out[..., rows, :] = weighted / total
            log_sum[..., rows, :] = maximum + total.log()
        ctx.save_for_backward(q, k, v, mask, out, log_sum)
        ctx.is_causal, ctx.tile = is_causal, tile
        return out

    @staticmethod
    def backward(ctx: Any, d_out: Tensor) -> tuple[Tensor | None, ...]:
        """Compute the attention weights of each tile again, and from them the gradients."""
        if torch.is_grad_enabled():
            raise TfmrError(
                "tiled_attention has no second derivatives, which create_graph=True requires: use "
                "scaled_dot_product_attention"
            )
        q, k, v, mask, out, log_sum = ctx.saved_tensors
        d_q, d_k, d_v = torch.zeros_like(q), torch.zeros_like(k), torch.zeros_like(v)
        # The gradient of a score is weight * (d_weight - mean), with the mean of d_weight over the
        # row, weighted by the weights. It equals this product, which needs no row of weights.
        mean = (d_out * out).sum(dim=-1, keepdim=True)
        scale = 1 / math.sqrt(q.shape[-1])
        for rows in _slices(q.shape[-2], ctx.tile):
            d_rows = d_out[..., rows, :]
            for columns in _key_slices(q, k, rows, ctx.is_causal, ctx.tile):
                scores = _scores(q, k, mask, ctx.is_causal, rows, columns)
                weights = (scores - log_sum[..., rows, :]).exp()
                d_v[..., columns, :] += weights.mT @ d_rows
                d_weights = d_rows @ v[..., columns, :].mT
                d_scores = weights * (d_weights - mean[..., rows, :]) * scale
                d_q[..., rows, :] += d_scores @ k[..., columns, :]
                d_k[..., columns, :] += d_scores.mT @ q[..., rows, :]
        return d_q, d_k, d_v, None, None, None


def _slices(length: int, tile: int) -> Iterator[slice]:
    """The positions 0 to ``length`` - 1, ``tile`` at a time."""
    for start in range(0, length, tile):
        yield slice(start, min(start + tile, length))


def _key_slices(q: Tensor, k: Tensor, rows: slice, is_causal: bool, tile: int) -> Iterator[slice]:
    """The tiles of keys for the queries ``rows``, without those that the causal mask hides."""
    query, key = q.shape[-2], k.shape[-2]
    return _slices(rows.stop + key - query if is_causal else key, tile)


def _scores(
    q: Tensor, k: Tensor, mask: Tensor | None, is_causal: bool, rows: slice, columns: slice
) -> Float[Tensor, "*batch rows columns"]:
    """The scores of one tile, -inf where a mask hides the key."""
    query, key = q.shape[-2], k.shape[-2]
    scores = q[..., rows, :] @ k[..., columns, :].mT / math.sqrt(q.shape[-1])
    if mask is not None:
        # The expanded mask is a view: it needs no memory.
        full = mask.expand(torch.broadcast_shapes(mask.shape, (query, key)))
        scores = scores.masked_fill(~full[..., rows, columns], -math.inf)
    if is_causal:
        row = torch.arange(rows.start, rows.stop, device=q.device) + key - query
        column = torch.arange(columns.start, columns.stop, device=q.device)
        scores = scores.masked_fill(column > row[:, None], -math.inf)
    return scores
