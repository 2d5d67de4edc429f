"""Exercises that check the reader's answer and name the mistake in it.

Each chapter is a module whose exercises are ``q1``, ``q2``, and so on::

    from tfmr.exercises import ch04

    def attention(q, k, v):
        return (q @ k.mT).softmax(dim=-1) @ v

    ch04.q2.check(attention)  # names the mistake in the function
    ch04.q2.hint()            # the next hint
    ch04.q2.solution()

:func:`find_chapter` finds the module of a chapter by its number. To add a chapter, add its module.
"""

import importlib
import pkgutil
from types import ModuleType

from tfmr.errors import TfmrError
from tfmr.exercises.exercise import Exercise
from tfmr.wording import joined


def chapter_numbers() -> list[str]:
    """The numbers of the chapters that have exercises, such as ``"04"``."""
    names = (module.name for module in pkgutil.iter_modules(__path__))
    return sorted(name[2:] for name in names if name[:2] == "ch" and name[2:].isdecimal())


def find_chapter(number: str) -> ModuleType:
    """The module of a chapter.

    Raises:
        TfmrError: if there is no such chapter, or it has no exercises here.
    """
    numbers = chapter_numbers()
    if number.zfill(2) not in numbers:
        raise TfmrError(f"expected a chapter with exercises: {joined(numbers)}; got {number!r}")
    return importlib.import_module(f"{__name__}.ch{number.zfill(2)}")


def exercises_of(chapter: ModuleType) -> list[Exercise]:
    """The exercises of a chapter, in the order of their numbers."""
    found = [each for each in vars(chapter).values() if isinstance(each, Exercise)]
    return sorted(found, key=lambda exercise: exercise.number)
