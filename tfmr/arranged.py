"""The matrices of a decoder, arranged for the products of a step and kept until a weight changes.

Before a CPU can multiply several rows fast, it must rearrange the matrix, and the rows of a step
are so few that this takes longer than the product. Here it is done once for a decoder: not in every
step, and not again for the next sentences.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple, cast
from weakref import WeakKeyDictionary

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from tfmr.decoder import Decoder, DecoderBlock
from tfmr.dtype import type_of_products

LIGHT = 2**21
"""A decoder of up to so many weights is light: a core keeps them at hand from step to step. Those
of a heavier one come from memory each time."""
ROWS = 64
"""For so many rows a matrix is arranged. One that is arranged for two or more serves any number."""

LinearMap = Callable[[Tensor], Tensor]
"""From rows ``(*rows, d_in)`` to rows ``(*rows, d_out)``, by a matrix of its own: see
:func:`product`."""


class BlockMaps(NamedTuple):
    """What a decoder block multiplies by, as :class:`tfmr.decoder.DecoderBlock` names it."""

    project_own: LinearMap
    """Queries, keys and values of the self-attention, side by side."""
    join_own: LinearMap
    project_query: LinearMap
    join_across: LinearMap
    expand: LinearMap
    contract: LinearMap


class Arranged:
    """What a decoder multiplies by to read a source and then to say one word after the other.

    Args:
        decoder: the decoder.
        output: from its last vectors to scores.
    """

    def __init__(self, decoder: Decoder, output: nn.Linear) -> None:
        self.light = is_light(decoder, output)
        blocks = cast(list[DecoderBlock], list(decoder.blocks))
        across = [block.cross_attention for block in blocks]
        self.hear = self._side_by_side([w for each in across for w in (each.w_k, each.w_v)])
        """Keys and values of the source, those of all blocks side by side."""
        self.blocks = [self._block(block) for block in blocks]
        self.output = self._alone(output)

    def _block(self, block: DecoderBlock) -> BlockMaps:
        own, across, feed = block.self_attention, block.cross_attention, block.feed_forward
        return BlockMaps(
            project_own=self._side_by_side([own.w_q, own.w_k, own.w_v]),
            join_own=self._alone(own.w_o),
            project_query=self._alone(across.w_q),
            join_across=self._alone(across.w_o),
            expand=self._alone(feed.expand),
            contract=self._alone(feed.contract),
        )

    def _alone(self, linear: nn.Linear) -> LinearMap:
        return product(linear.weight, linear.bias, self.light)

    def _side_by_side(self, maps: Sequence[nn.Linear]) -> LinearMap:
        weight = torch.cat([w.weight for w in maps])
        return product(weight, torch.cat([w.bias for w in maps]), self.light)


_KEPT: WeakKeyDictionary[Decoder, tuple[object, Arranged]] = WeakKeyDictionary()
"""The last of each decoder, and of what it was made."""


def arranged(decoder: Decoder, output: nn.Linear) -> Arranged:
    """The :class:`Arranged` matrices of a decoder as it is now, made anew only if it has changed.

    Nobody has to say that a weight has changed. All are looked at: where they lie, how many changes
    PyTorch has counted, and their sums, for it counts none that is made through ``.data`` or in
    inference mode.
    """
    if not _can_be_arranged(output.weight):
        return Arranged(decoder, output)
    weights = [*decoder.parameters(), *output.parameters()]
    made_of = (
        type_of_products(output.weight),
        is_light(decoder, output),
        [(w.data_ptr(), None if w.is_inference() else w._version) for w in weights],
        torch.stack([w.detach().sum() for w in weights]).tolist(),
    )
    kept = _KEPT.get(decoder)
    if kept is None or kept[0] != made_of:
        kept = _KEPT[decoder] = (made_of, Arranged(decoder, output))
    return kept[1]


def product(
    weight: Float[Tensor, "d_out d_in"], bias: Float[Tensor, "d_out"] | None, light: bool
) -> LinearMap:
    """:func:`torch.nn.functional.linear` for many calls with the same weights and few rows.

    PyTorch has the two operations that this takes for its compiler and no public name for them, so
    without them, and for numbers that are not of single precision, the plain function does it.

    The products with a heavy decoder are taken, and returned, in the
    :func:`tfmr.dtype.type_of_products`: bf16 halves what must be read and multiplied. With a
    ``light`` one, it would take as long to change the type; and a single row the plain function
    multiplies sooner.
    """

    def plain(x: Tensor) -> Tensor:
        return F.linear(x, weight, bias)

    if not _can_be_arranged(weight):
        return plain
    inner = weight.dtype if light else type_of_products(weight)
    try:
        ready = torch.ops.mkldnn._reorder_linear_weight(weight.detach().to(inner), ROWS)
        multiply = torch.ops.mkldnn._linear_pointwise.default
    except (AttributeError, RuntimeError):
        return plain
    added = None if bias is None else bias.detach().to(inner)

    def fast(x: Tensor) -> Tensor:
        return cast(Tensor, multiply(x.to(inner), ready, added, "none", [], ""))

    return (lambda x: plain(x) if len(x) == 1 else fast(x)) if light else fast


def is_light(decoder: Decoder, output: nn.Linear) -> bool:
    """Whether the decoder has at most :data:`LIGHT` weights, the output's among them."""
    return sum(w.numel() for w in [*decoder.parameters(), *output.parameters()]) <= LIGHT


def _can_be_arranged(weight: Tensor) -> bool:
    return weight.device.type == "cpu" and weight.dtype == torch.float32
