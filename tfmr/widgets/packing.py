"""Many numbers from 0 to 1 as short text, so that the state of a figure stays small."""

from collections.abc import Mapping

import numpy as np
from jaxtyping import Float
from torch import Tensor

UNIT = 10_000
"""A packed number is a whole number of 1 / UNIT."""
DIGITS = 3
"""The digits of a packed number, in base 36."""


def pack(numbers: Float[Tensor, "row column"]) -> str:
    """The numbers as whole numbers of 1 / UNIT, row by row, with DIGITS digits in base 36 each.

    The function ``unpack`` in ``weight_map.js`` is the reverse.
    """
    units = (numbers * UNIT).round().long().flatten().tolist()
    return "".join(np.base_repr(each, 36).zfill(DIGITS) for each in units)


def pack_maps(
    maps: Mapping[str, Float[Tensor, "block head query key"]],
) -> dict[str, list[list[str]]]:
    """Attention maps by kind, with the weights of each head as one text.

    The function ``unpackMaps`` in ``weight_map.js`` is the reverse.
    """
    return {
        kind: [[pack(weights) for weights in block] for block in blocks]
        for kind, blocks in maps.items()
    }
