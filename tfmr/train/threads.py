"""Measure with how many CPU threads a training step is fastest.

On a busy machine, one thread can be several times as fast as one per core: in each operation, all
threads wait for the one whose core is taken.
"""

import time
from collections.abc import Callable, Sequence
from statistics import median

import torch

ROUNDS = 3
MOST_SECONDS = 4.0
"""Time after which no further round starts."""


def measure_threads(
    step: Callable[[], object],
    candidates: Sequence[int],
    clock: Callable[[], float] = time.perf_counter,
) -> dict[int, float]:
    """The median time of ``step`` in seconds, by the number of threads.

    The candidates take turns, after one step each that is not measured, so that all meet the same
    load. PyTorch's number of threads is restored.
    """
    before, began = torch.get_num_threads(), clock()
    seconds: dict[int, list[float]] = {threads: [] for threads in candidates}
    try:
        for turn in range(1 + ROUNDS):
            if turn > 1 and clock() - began > MOST_SECONDS:
                break
            for threads in candidates:
                torch.set_num_threads(threads)
                start = clock()
                step()
                if turn > 0:
                    seconds[threads].append(clock() - start)
    finally:
        torch.set_num_threads(before)
    return {threads: median(times) for threads, times in seconds.items()}
