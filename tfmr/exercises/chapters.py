"""The chapters that have exercises, by number."""

import importlib
import pkgutil
from pathlib import Path
from types import ModuleType

from tfmr.errors import TfmrError
from tfmr.exercises.exercise import Exercise
from tfmr.wording import joined


def chapter_numbers() -> list[str]:
    """The numbers of the chapters that have exercises, such as ``"04"``."""
    names = (module.name for module in pkgutil.iter_modules([str(Path(__file__).parent)]))
    return sorted(name[2:] for name in names if name[:2] == "ch" and name[2:].isdecimal())


def find_chapter(number: str) -> ModuleType:
    """The module of a chapter.

    Raises:
        TfmrError: if there is no such chapter, or it has no exercises here.
    """
    numbers = chapter_numbers()
    if number.zfill(2) not in numbers:
        raise TfmrError(f"expected a chapter with exercises: {joined(numbers)}; got {number!r}")
    return importlib.import_module(f"{__package__}.ch{number.zfill(2)}")


def exercises_of(chapter: ModuleType) -> list[Exercise]:
    """The exercises of a chapter, in the order of their numbers."""
    found = [each for each in vars(chapter).values() if isinstance(each, Exercise)]
    return sorted(found, key=lambda exercise: exercise.number)
