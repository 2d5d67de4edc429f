"""Defer SIGINT, SIGTERM and SIGHUP until the current training step ends."""

import _thread
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

GRACE_SECONDS = 10.0
"""Time after which a deferred signal interrupts a step that has not ended."""


END = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))
"""The signals by which a system asks a process to end."""


@contextmanager
def end_signals_interrupt() -> Iterator[None]:
    """Inside the ``with`` statement, SIGTERM and SIGHUP raise :class:`KeyboardInterrupt`.

    Signals that are ignored, as by ``nohup``, or have a handler keep their effect. Outside the main
    thread nothing changes.
    """
    is_main = threading.current_thread() is threading.main_thread()
    handled = [number for number in END if is_main and signal.getsignal(number) == signal.SIG_DFL]
    for number in handled:
        signal.signal(number, signal.default_int_handler)
    try:
        yield
    finally:
        for number in handled:
            signal.signal(number, signal.SIG_DFL)


@contextmanager
def defer_interrupts() -> Iterator[Callable[[], bool]]:
    """Inside the ``with`` statement, only record the first Ctrl-C instead of raising.

    Yields a function that returns whether a signal has arrived. A second Ctrl-C interrupts
    immediately, and so does the first one after :data:`GRACE_SECONDS`. SIGTERM and SIGHUP are
    treated in the same way if they have a Python handler. Outside the main thread, where Python
    runs no signal handlers, nothing changes.
    """
    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return
    interrupted = False
    timer = threading.Timer(GRACE_SECONDS, _interrupt, [threading.get_ident()])
    timer.daemon = True
    previous = {number: signal.getsignal(number) for number in (signal.SIGINT, *END)}

    def record(number: int, frame: FrameType | None) -> None:
        nonlocal interrupted
        handler = previous[signal.Signals(number)]
        if interrupted and callable(handler):
            handler(number, frame)
        elif not interrupted:
            interrupted = True
            timer.start()

    handled = [number for number, handler in previous.items() if callable(handler)]
    for number in handled:
        signal.signal(number, record)
    try:
        yield lambda: interrupted
    finally:
        timer.cancel()
        for number in handled:
            signal.signal(number, previous[number])


def _interrupt(thread: int) -> None:
    """Send SIGINT to ``thread``, which also ends a blocking system call."""
    if hasattr(signal, "pthread_kill"):
        signal.pthread_kill(thread, signal.SIGINT)
    else:
        _thread.interrupt_main()
