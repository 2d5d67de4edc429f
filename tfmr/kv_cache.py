"""The key-value cache of incremental decoding.

It stores the keys and values of earlier positions, so that each is computed only once. All
decoders use it: the readable one, those of the family, and :mod:`tfmr.fast.decoder`. When a beam
search selects hypotheses (:meth:`tfmr.translator.DecoderState.reorder`), the caches get the rows of
their parents; the fast decoder changes a mask instead.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from tfmr.errors import TfmrError


class KVCache:
    """The keys and values of the positions decoded so far.

    The buffers are allocated at full capacity by the first :meth:`extend`. Each later step writes
    its own keys and values in place and copies nothing.

    Args:
        capacity: maximum number of positions.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.length = 0
        self._keys = torch.empty(0)
        self._values = torch.empty(0)

    def extend(
        self,
        k: Float[Tensor, "batch heads length d_k"],
        v: Float[Tensor, "batch heads length d_k"],
    ) -> tuple[Float[Tensor, "batch heads key d_k"], Float[Tensor, "batch heads key d_k"]]:
        """Append positions; return the keys and values of all positions, oldest first.

        Raises:
            TfmrError: if the capacity is exceeded, or the keys and values belong to another batch
                or another attention than those before.
        """
        self._check(k, v)
        end = self.length + k.shape[2]
        if self.length == 0:
            batch, heads, _, d_k = k.shape
            self._keys = k.new_empty(batch, heads, self.capacity, d_k)
            self._values = v.new_empty(batch, heads, self.capacity, d_k)
        self._keys[:, :, self.length : end] = k
        self._values[:, :, self.length : end] = v
        self.length = end
        return self.read()

    def _check(self, k: Tensor, v: Tensor) -> None:
        """Raise :class:`TfmrError` unless these keys and values can be appended."""
        if self.length + k.shape[2] > self.capacity:
            raise TfmrError(
                f"the cache has a capacity of {self.capacity} positions and holds {self.length}, "
                f"so it cannot take {k.shape[2]} more; create it with a larger capacity"
            )
        for held, new in ((self._keys, k), (self._values, v)):
            if self.length and (held.shape[:2] != new.shape[:2] or held.shape[3] != new.shape[3]):
                raise TfmrError(
                    "the cache holds keys or values (batch, heads, capacity, d_k) = "
                    f"{tuple(held.shape)}: got {tuple(new.shape)} to append; make new caches for "
                    "another batch"
                )

    def read(
        self,
    ) -> tuple[Float[Tensor, "batch heads key d_k"], Float[Tensor, "batch heads key d_k"]]:
        """The keys and values of all positions so far, as views of the buffers."""
        return self._keys[:, :, : self.length], self._values[:, :, : self.length]

    def select(self, rows: Int[Tensor, "selected"]) -> None:
        """Replace the batch by these rows of it, in this order; a row may be repeated.

        Rows that keep their index are not copied.
        """
        if self.length == 0:
            return
        if len(rows) > len(self._keys):
            self._keys, self._values = self._keys[rows], self._values[rows]
            return
        moved = (rows != torch.arange(len(rows), device=rows.device)).nonzero().flatten()
        if len(moved):
            for past in self.read():
                past[moved] = past[rows[moved]]
        self._keys, self._values = self._keys[: len(rows)], self._values[: len(rows)]


@dataclass(frozen=True)
class BlockCache:
    """The two key-value caches of a decoder block during incremental decoding."""

    self_attention: KVCache
    """Keys and values of the target positions decoded so far; grows by one per step."""
    cross_attention: KVCache
    """Keys and values of the encoder output; filled in the first step."""

    def select(self, rows: Int[Tensor, "selected"]) -> None:
        """Replace the batch by these rows of it, in this order; a row may be repeated."""
        self.self_attention.select(rows)
        self.cross_attention.select(rows)


def new_caches(n_layers: int, target: int, source: int = 0) -> list[BlockCache]:
    """Empty caches, one per block, for at most ``target`` and ``source`` positions.

    ``source`` is 0 for a decoder without cross-attention.
    """
    return [BlockCache(KVCache(target), KVCache(source)) for _ in range(n_layers)]
