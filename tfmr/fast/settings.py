"""Process-wide settings of PyTorch for decoding on a CPU, changed for one whole call."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from tfmr.dtype import Arithmetic
from tfmr.translator import IncrementalTranslator

SMALL_MODEL = 2**22
"""A model with at most this many weights is small: they fit in the cache of one core."""
FEW_ROWS = 4
"""With at most this many rows, a step of a small model is too little work for two threads."""


@contextmanager
def cpu_matmul_settings(model: IncrementalTranslator, rows: int) -> Iterator[None]:
    """Settings under which incremental decoding on a CPU is fastest, restored at the end.

    fp32 matrices are multiplied in fp32, by PyTorch's default library. The library that
    :func:`torch.set_float32_matmul_precision` selects at ``"medium"`` takes up to five times as
    long for the small matmuls of attention. Few rows of a small model use one thread, because
    waking a second one takes longer than it saves.

    The settings are process-wide, so enter this context once, around all calls of a program or
    around one long call, and not in one of several threads.

    Args:
        model: the model that decodes, usually from :func:`tfmr.fast.decoder.prepare`.
        rows: hypotheses per step: sentences times beam.
    """
    if model.device.type != "cpu":
        yield
        return
    threads = torch.get_num_threads()
    if rows <= FEW_ROWS and model.count_parameters() <= SMALL_MODEL:
        torch.set_num_threads(1)
    try:
        with Arithmetic("fp32").applied():
            yield
    finally:
        torch.set_num_threads(threads)
