"""Endless loops end, also in a notebook and in another thread."""

import threading
import time

import pytest
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell, new_notebook

from tfmr.exercises import ch04, guard
from tfmr.exercises.guard import TimeLimitExceeded, time_limit


@pytest.fixture(autouse=True)
def short_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """A limit that the code before and after a loop does not reach, also on a busy machine."""
    monkeypatch.setattr(guard, "SECONDS", 1.5)


def endless(*arguments):
    while True:
        pass


def stubborn(*arguments):
    caught = 0
    while True:
        try:
            endless()
        except:  # noqa: E722  it catches the first exception, too
            caught += 1
            if caught == 2:
                raise


@pytest.mark.parametrize("answer", [endless, stubborn])
def test_an_endless_loop_is_ended(answer) -> None:
    verdict = ch04.q2.check(answer)
    assert verdict.kind == "raised"
    assert verdict.headline.startswith("Your code was stopped after 1.5 seconds, at line ")
    assert "loop" in verdict.details


def test_an_endless_loop_is_ended_in_another_thread() -> None:
    verdicts: list = []
    thread = threading.Thread(target=lambda: verdicts.append(ch04.q2.check(endless)))
    thread.start()
    thread.join()
    assert verdicts[0].kind == "raised"


def test_code_after_the_limit_is_not_interrupted() -> None:
    for _ in range(3):
        with time_limit(1.5):
            pass
    time.sleep(2)
    with pytest.raises(TimeLimitExceeded), time_limit(0.05):
        endless()
    time.sleep(0.6)


def test_the_limit_is_ten_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    assert guard.SECONDS == 10


def test_an_endless_loop_is_ended_in_a_notebook() -> None:
    cells = [
        "from tfmr.exercises import ch04, guard\nguard.SECONDS = 3",
        "def attention(q, k, v):\n    while True:\n        pass",
        "ch04.q2.check(attention)",
    ]
    notebook = new_notebook(cells=[new_code_cell(source) for source in cells])
    NotebookClient(notebook, timeout=120, kernel_name="python3").execute()
    [output] = notebook.cells[-1].outputs
    assert output["data"]["text/plain"].startswith("Your code was stopped after 3 seconds, at")
