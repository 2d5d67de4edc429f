"""Interleaved timing, so that a disturbance of the machine affects all systems alike.

On a machine that also does other work, the time of one system alone says little. Systems that are
compared therefore run in turn within each round, in an order that rotates from round to round. Each
round gives one ratio per system; the median of the ratios is reported with the lowest and the
highest.

Every task runs in a process of its own (:func:`run_in_new_process`).
"""

import os
import time
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context, parent_process
from statistics import median
from threading import Thread
from typing import ParamSpec, TypeVar

from tfmr.errors import require

Name = TypeVar("Name", bound=Hashable)
Result = TypeVar("Result")
Arguments = ParamSpec("Arguments")


@dataclass(frozen=True)
class Spread:
    """Median, minimum and maximum of some numbers."""

    median: float
    min: float
    max: float

    @classmethod
    def of(cls, numbers: Sequence[float]) -> "Spread":
        """The spread of one number or more."""
        require(len(numbers) > 0, "expected at least one round, got none: there is no median")
        return cls(median(numbers), min(numbers), max(numbers))


def time_interleaved(
    functions: dict[Name, Callable[[int], object]],
    *,
    rounds: int,
    warmup: int = 1,
    clock: Callable[[], float] = time.perf_counter,
    on_call: Callable[[Name], object] = lambda _: None,
) -> dict[Name, list[float]]:
    """The seconds of each function in each round.

    Args:
        functions: called with the number of the round, warm-up rounds included, by name.
        rounds: the number of measured rounds.
        warmup: the number of rounds before them, which are not measured.
        clock: returns the time in seconds.
        on_call: called with a function's name after each call (for a progress bar).
    """
    names = list(functions)
    seconds: dict[Name, list[float]] = {name: [] for name in names}
    for k in range(warmup + rounds):
        first = k % len(names)
        for name in names[first:] + names[:first]:
            start = clock()
            functions[name](k)
            if k >= warmup:
                seconds[name].append(clock() - start)
            on_call(name)
    return seconds


def ratio(seconds: Sequence[float], baseline: Sequence[float]) -> Spread:
    """The spread over the rounds of ``seconds`` divided by ``baseline``, round by round."""
    return Spread.of([a / b for a, b in zip(seconds, baseline, strict=True)])


def run_in_new_process(
    function: Callable[Arguments, Result], *args: Arguments.args, **kwargs: Arguments.kwargs
) -> Result:
    """What ``function`` returns when a new process calls it.

    The allocator's speed depends on what a process has allocated and freed before, so a measurement
    must not follow another one in the same process.
    """
    context = get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context, initializer=_end_with_parent) as process:
        return process.submit(function, *args, **kwargs).result()


def _end_with_parent() -> None:
    """End this process when its parent ends, so that a killed benchmark leaves no load behind."""

    def watch() -> None:
        parent = parent_process()
        if parent is not None:
            parent.join()
            os._exit(1)

    Thread(target=watch, daemon=True).start()


def device_clock(device: str) -> Callable[[], float]:
    """A clock that first waits until all work queued on the device is done."""
    if not device.startswith("cuda"):
        return time.perf_counter

    import torch  # not for the other functions, which new processes import

    def clock() -> float:
        torch.cuda.synchronize(device)
        return time.perf_counter()

    return clock
