"""Many numbers from 0 to 1 as short text, so that the state of a figure stays small."""

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
