"""The shapes of every signature of the benchmarks are checked too."""

from collections.abc import Callable
from typing import Any

import jaxtyping
import pytest

jaxtyping.install_import_hook("benchmarks", "beartype.beartype")


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is measured apart is measured here, as the test has changed it; the names of it."""
    from benchmarks import profile, speed

    names: list[str] = []

    def call(function: Callable[..., Any], *arguments: Any) -> Any:
        names.append(" ".join(each for each in arguments if isinstance(each, str)))
        return function(*arguments)

    for module in (profile, speed):
        monkeypatch.setattr(module, "apart", call)
    return names
