"""Timing side by side: whatever slows the machine slows all who are measured.

On a machine that does anything else, the time of one thing alone says little, and the mean of many
less. So those who are compared take turns, in an order that moves on by one place each round; each
round's times are compared with one another; and of all the rounds the median is kept, with the
lowest and the highest beside it.

What is not compared is kept apart, each in a process of its own.
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

import torch

from tfmr.errors import require

Name = TypeVar("Name", bound=Hashable)
Result = TypeVar("Result")
Arguments = ParamSpec("Arguments")


@dataclass(frozen=True)
class Spread:
    """The median of some numbers, and the ends between which all of them lie."""

    middle: float
    low: float
    high: float

    @classmethod
    def of(cls, numbers: Sequence[float]) -> "Spread":
        """Of one number or more."""
        require(len(numbers) > 0, "there is no median of nothing: measure at least one round")
        return cls(median(numbers), min(numbers), max(numbers))


def take_turns(
    contenders: dict[Name, Callable[[int], object]],
    *,
    rounds: int,
    warmup: int = 1,
    clock: Callable[[], float] = time.perf_counter,
    on_turn: Callable[[Name], object] = lambda _: None,
) -> dict[Name, list[float]]:
    """The seconds that each contender took in each round.

    Args:
        contenders: what to do in round ``k``, ``warmup`` rounds included, by name.
        rounds: how many are measured.
        warmup: how many go before them unmeasured.
        clock: tells the time in seconds.
        on_turn: is called with the name of whoever has had its turn.
    """
    names = list(contenders)
    seconds: dict[Name, list[float]] = {name: [] for name in names}
    for k in range(warmup + rounds):
        first = k % len(names)
        for name in names[first:] + names[:first]:
            began = clock()
            contenders[name](k)
            if k >= warmup:
                seconds[name].append(clock() - began)
            on_turn(name)
    return seconds


def apart(
    function: Callable[Arguments, Result], *args: Arguments.args, **kwargs: Arguments.kwargs
) -> Result:
    """What ``function`` returns when a new process calls it.

    How fast memory is to be had depends on what a process has taken and given back before. So what
    is measured by itself must not come after something else.
    """
    kind = get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=kind, initializer=_end_with_parent) as process:
        return process.submit(function, *args, **kwargs).result()


def _end_with_parent() -> None:
    """Or whoever kills a measurement and begins another would measure beside what is left of it."""

    def watch() -> None:
        parent = parent_process()
        if parent is not None:
            parent.join()
            os._exit(1)

    Thread(target=watch, daemon=True).start()


def ratio(seconds: Sequence[float], others: Sequence[float]) -> Spread:
    """How many times as long as ``others`` took ``seconds``, round by round."""
    return Spread.of([own / other for own, other in zip(seconds, others, strict=True)])


def wall_clock(device: str) -> Callable[[], float]:
    """A clock that first waits until the device has done what it was told."""
    if not device.startswith("cuda"):
        return time.perf_counter

    def clock() -> float:
        torch.cuda.synchronize(device)
        return time.perf_counter()

    return clock
