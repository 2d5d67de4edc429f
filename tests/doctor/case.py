"""Correct models, and faults planted in them."""

from collections.abc import Callable
from dataclasses import dataclass

from tfmr.doctor import Subject


@dataclass(frozen=True)
class Case:
    """A model: how it is made, and the fault that was planted in it."""

    name: str
    build: Callable[[], Subject]
    fault: str | None = None
    """The name of the finding; ``None`` for a correct model."""

    def __repr__(self) -> str:
        return self.name.replace(" ", "-")
