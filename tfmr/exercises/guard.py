"""Run the reader's code: with a time limit, on copies, and without effects on random numbers."""

import copy
import ctypes
import linecache
import os
import random
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

SECONDS = 10.0
"""The time limit of a check."""
PACKAGE = f"{Path(__file__).parent.parent}{os.sep}"


class TimeLimitExceeded(BaseException):
    """Raised in the reader's code when its time is over.

    It is not an :class:`Exception`, so that the reader's code does not catch it by mistake.
    """


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise :class:`TimeLimitExceeded` in the calling thread if the body takes too long.

    This also works in a notebook, on Windows and outside the main thread, where signals do not. A
    body that waits in a C function, such as :func:`time.sleep`, is interrupted when that returns.
    """
    thread, finished, lock = threading.get_ident(), threading.Event(), threading.Lock()

    def interrupt() -> None:
        wait = seconds
        while not finished.wait(wait):
            wait = 0.5  # again, in case a bare `except` caught the first exception
            with lock:
                if not finished.is_set():
                    _raise_in(thread, TimeLimitExceeded)

    threading.Thread(target=interrupt, daemon=True).start()
    try:
        yield
    finally:
        while not finished.is_set():
            try:
                with lock:
                    finished.set()
            except TimeLimitExceeded:  # it arrived just after the end of the body
                continue
        _raise_in(thread, None)


def _raise_in(thread: int, kind: type[BaseException] | None) -> None:
    """Raise an exception in a thread; ``None`` withdraws one that has not been raised yet."""
    error = None if kind is None else ctypes.py_object(kind)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), error)


@contextmanager
def random_state_kept() -> Iterator[None]:
    """Seed the global random generators for the body, and restore their states after it."""
    states = random.getstate(), np.random.get_state()
    with torch.random.fork_rng(range(torch.cuda.device_count())):
        random.seed(0)
        np.random.seed(0)
        torch.manual_seed(0)
        try:
            yield
        finally:
            random.setstate(states[0])
            np.random.set_state(states[1])


@dataclass(frozen=True)
class Failure:
    """An exception in the reader's code, and the line that raised it."""

    error: BaseException
    line: str

    @property
    def where(self) -> str:
        """The line as the end of a sentence: `` at line 3: x = y``; empty if it is not known."""
        return f" at {self.line}" if self.line else ""

    def __str__(self) -> str:
        """The exception on one line, such as ``ValueError: too small``."""
        return f"{type(self.error).__name__}: {self.error}".splitlines()[0].removesuffix(": ")


@dataclass(frozen=True)
class Call:
    """What the reader's function did: its result or failure, and which arguments it changed."""

    result: Any
    changed: tuple[int, ...] = ()


def call(function: Callable[..., Any], arguments: tuple[Any, ...]) -> Call:
    """Call the reader's function with copies of the arguments.

    The exception that ends an endless loop is a failure of the call, too.
    """
    given = copy.deepcopy(arguments)
    try:
        result = function(*given)
    except (Exception, SystemExit) as error:
        return Call(Failure(error, failing_line(error)))
    pairs = enumerate(zip(given, arguments, strict=True))
    return Call(result, tuple(i for i, (now, before) in pairs if not _unchanged(now, before)))


def failing_line(error: BaseException) -> str:
    """The innermost line of the reader's code in a traceback: ``line 3: x = y``."""
    found = ""
    for frame, number in traceback.walk_tb(error.__traceback__):
        name = frame.f_code.co_filename
        library = "site-packages" in name or name.startswith(PACKAGE) or name.startswith("<frozen")
        linecache.checkcache(name)  # a file of answers may have been edited
        text = linecache.getline(name, number, frame.f_globals).strip()
        if not library and text:
            found = f"line {number}: {text}"
    return found


def _unchanged(now: Any, before: Any) -> bool:
    if isinstance(before, Tensor):
        return now.shape == before.shape and bool(torch.equal(now, before))
    return bool(now == before)
