"""Ctrl-C waits for the end of a step, and does not wait for ever."""

import os
import signal
import threading
import time

import pytest

from tfmr.train import interrupt
from tfmr.train.interrupt import deferred


def press() -> None:
    """Ctrl-C."""
    os.kill(os.getpid(), signal.SIGINT)


def test_the_first_waits_and_the_second_does_not() -> None:
    before = signal.getsignal(signal.SIGINT)
    with deferred() as asked:
        assert not asked()
        press()
        assert asked()
        with pytest.raises(KeyboardInterrupt):
            press()
    assert signal.getsignal(signal.SIGINT) is before
    with pytest.raises(KeyboardInterrupt):
        press()


def test_what_takes_long_is_broken_into(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interrupt, "GRACE", 0.1)
    began = time.perf_counter()
    with deferred():
        press()
        with pytest.raises(KeyboardInterrupt):
            time.sleep(60)
    assert time.perf_counter() - began < 30


def test_who_is_done_in_time_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interrupt, "GRACE", 0.1)
    with deferred() as asked:
        press()
        assert asked()
    time.sleep(0.3)


def test_sigterm_is_python_s_only_where_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    with deferred():
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with deferred() as asked:
            os.kill(os.getpid(), signal.SIGTERM)
            assert asked()
    finally:
        signal.signal(signal.SIGTERM, before)


def test_another_thread_sees_no_signals() -> None:
    seen = []

    def work() -> None:
        with deferred() as asked:
            seen.append(asked())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [False]
