"""Numbers from 0 to 1 as short text, and back."""

from collections.abc import Sequence

import torch
from torch import Tensor

from tfmr.widgets.packing import DIGITS, UNIT, pack


def unpack(packed: str, shape: Sequence[int]) -> Tensor:
    """The reverse of ``pack``."""
    units = [int(packed[i : i + DIGITS], 36) for i in range(0, len(packed), DIGITS)]
    return torch.tensor(units, dtype=torch.float64).view(*shape) / UNIT


def test_packed_numbers_are_rounded() -> None:
    numbers = torch.cat((torch.tensor([[0.0, 0.5, 1.0]]), torch.rand(40, 3)))
    packed = pack(numbers)
    assert len(packed) == DIGITS * numbers.numel()
    found = unpack(packed, numbers.shape)
    assert found[0].tolist() == [0, 0.5, 1]
    torch.testing.assert_close(found, numbers.double(), atol=0.5001 / UNIT, rtol=0)
