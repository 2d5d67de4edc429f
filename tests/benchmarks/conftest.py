"""Fixtures of the benchmark tests; the shapes of every signature are checked."""

from collections.abc import Callable
from typing import Any

import jaxtyping
import pytest

from tests.benchmarks.small import CORPUS, small_model
from tfmr.data import corpora
from tfmr.model import Transformer

jaxtyping.install_import_hook("benchmarks", "beartype.beartype")


@pytest.fixture
def model() -> Transformer:
    return small_model()


@pytest.fixture
def small_corpus(monkeypatch: pytest.MonkeyPatch) -> None:
    """Load a tenth of the pocket corpus; all of it takes seconds."""
    monkeypatch.setattr(corpora, "load", lambda *_: CORPUS)


@pytest.fixture
def in_process(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Measure in this process, where monkeypatches apply; the names of the measured tasks."""
    from benchmarks import profile, speed

    tasks: list[str] = []

    def call(function: Callable[..., Any], task: str, *arguments: Any) -> Any:
        tasks.append(task)
        return function(task, *arguments)

    for module in (profile, speed):
        monkeypatch.setattr(module, "run_in_new_process", call)
    return tasks
