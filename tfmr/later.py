"""Read numbers from a GPU without stopping its work."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

STEPS_AHEAD = 4
"""How many steps of training or decoding a GPU is given before the results of the first one are
read. Reading them earlier would leave the GPU without work until the next step is prepared."""


def read_later(numbers: Tensor) -> Callable[[], list[Any]]:
    """Start to copy ``numbers`` from their device; return the function that reads the copy.

    On a GPU, the function waits for the work that was started before this call, and not for later
    work.
    """
    copy = numbers.to("cpu", non_blocking=True)
    if not numbers.is_cuda:
        return copy.tolist
    copied = torch.cuda.Event()
    copied.record(torch.cuda.current_stream(numbers.device))

    def read() -> list[Any]:
        copied.synchronize()
        values: list[Any] = copy.tolist()
        return values

    return read
