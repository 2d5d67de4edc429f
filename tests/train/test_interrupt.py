"""Ctrl-C is deferred to the end of a step, for a limited time."""

import os
import signal
import threading
import time

import pytest

from tfmr.train import interrupt
from tfmr.train.interrupt import defer_interrupts, end_signals_interrupt


def press_ctrl_c() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def test_first_ctrl_c_is_recorded_and_second_raises() -> None:
    before = signal.getsignal(signal.SIGINT)
    with defer_interrupts() as interrupted:
        assert not interrupted()
        press_ctrl_c()
        assert interrupted()
        with pytest.raises(KeyboardInterrupt):
            press_ctrl_c()
    assert signal.getsignal(signal.SIGINT) is before
    with pytest.raises(KeyboardInterrupt):
        press_ctrl_c()


def test_long_step_is_interrupted_after_the_grace_period(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interrupt, "GRACE_SECONDS", 0.1)
    start = time.perf_counter()
    with defer_interrupts():
        press_ctrl_c()
        with pytest.raises(KeyboardInterrupt):
            time.sleep(60)
    assert time.perf_counter() - start < 30


def test_step_that_ends_in_time_is_not_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interrupt, "GRACE_SECONDS", 60.0)
    with defer_interrupts() as interrupted:
        press_ctrl_c()
        assert interrupted()
    for timer in threading.enumerate():
        if isinstance(timer, threading.Timer):
            timer.join(timeout=30)
            assert not timer.is_alive()


def test_sigterm_is_deferred_only_if_python_handles_it() -> None:
    with defer_interrupts():
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with defer_interrupts() as interrupted:
            os.kill(os.getpid(), signal.SIGTERM)
            assert interrupted()
    finally:
        signal.signal(signal.SIGTERM, before)


def test_other_threads_handle_no_signals() -> None:
    seen = []

    def work() -> None:
        with defer_interrupts() as interrupted:
            seen.append(interrupted())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [False]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_signals_to_end_interrupt_unless_they_are_ignored(number: signal.Signals) -> None:
    with end_signals_interrupt(), pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), number)
    assert signal.getsignal(number) == signal.SIG_DFL
    signal.signal(number, signal.SIG_IGN)
    try:
        with end_signals_interrupt():
            os.kill(os.getpid(), number)
        assert signal.getsignal(number) == signal.SIG_IGN
    finally:
        signal.signal(number, signal.SIG_DFL)


def test_other_threads_change_no_handler() -> None:
    def enter() -> None:
        with end_signals_interrupt():
            found.append(signal.getsignal(signal.SIGTERM))

    found: list[object] = []
    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    assert found == [signal.SIG_DFL]
