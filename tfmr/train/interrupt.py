"""A wish to stop waits for the end of the step, so that no step is half done."""

import _thread
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

GRACE = 10.0
"""Seconds that whoever does not come to the end of a step is left alone."""


@contextmanager
def deferred() -> Iterator[Callable[[], bool]]:
    """Within, Ctrl-C does not break in: the function it gives says whether it came.

    A second Ctrl-C does break in, and so does the first after :data:`GRACE` seconds. So does
    SIGTERM, where Python handles it. Outside the main thread, where Python sees no signals,
    nothing changes.
    """
    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return
    asked = False
    late = threading.Timer(GRACE, _interrupt, [threading.get_ident()])
    late.daemon = True
    former = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def note(number: int, frame: FrameType | None) -> None:
        nonlocal asked
        handler = former[signal.Signals(number)]
        if asked and callable(handler):
            handler(number, frame)
        elif not asked:
            asked = True
            late.start()

    handled = [number for number, handler in former.items() if callable(handler)]
    for number in handled:
        signal.signal(number, note)
    try:
        yield lambda: asked
    finally:
        late.cancel()
        for number in handled:
            signal.signal(number, former[number])


def _interrupt(thread: int) -> None:
    """Let Ctrl-C come to a thread, out of its sleep if need be."""
    if hasattr(signal, "pthread_kill"):
        signal.pthread_kill(thread, signal.SIGINT)
    else:
        _thread.interrupt_main()
