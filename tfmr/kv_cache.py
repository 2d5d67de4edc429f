"""The key-value cache of incremental decoding.

It stores the keys and values of earlier positions, so that each is computed only once. Both the
readable decoder and :mod:`tfmr.fast.decoder` use it.
"""

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
            TfmrError: if the capacity is exceeded.
        """
        end = self.length + k.shape[2]
        if end > self.capacity:
            raise TfmrError(
                f"the cache has a capacity of {self.capacity} positions and holds {self.length}, "
                f"so it cannot take {k.shape[2]} more; create it with a larger capacity"
            )
        if self.length == 0:
            batch, heads, _, d_k = k.shape
            self._keys = k.new_empty(batch, heads, self.capacity, d_k)
            self._values = v.new_empty(batch, heads, self.capacity, d_k)
        self._keys[:, :, self.length : end] = k
        self._values[:, :, self.length : end] = v
        self.length = end
        return self.read()

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
        moved = (rows != torch.arange(len(rows), device=rows.device)).nonzero().flatten()
        if len(moved):
            for past in self.read():
                past[moved] = past[rows[moved]]
        self._keys, self._values = self._keys[: len(rows)], self._values[: len(rows)]
