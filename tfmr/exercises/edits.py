"""Wrong versions of a solution that differ from it by edits of its source code."""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from tfmr.errors import require
from tfmr.exercises.exercise import Faults, Mistake, source


@dataclass(frozen=True)
class Edit(Mistake):
    """A known mistake, as an edit of the solution."""

    old: str
    """Code that occurs once in the solution."""
    new: str


def by_edits(
    solution: Callable[..., Any], mistakes: Sequence[Edit]
) -> Callable[[Faults], Callable[..., Any]]:
    """The function ``build`` of an exercise whose mistakes are edits of its solution."""

    @cache
    def build(faults: Faults) -> Callable[..., Any]:
        code = source(solution)
        for each in mistakes:
            if each.name in faults:
                require(
                    code.count(each.old) == 1, f"expected {each.old!r} once in {solution.__name__}"
                )
                code = code.replace(each.old, each.new)
        names = dict(vars(sys.modules[solution.__module__]))
        exec(compile(code, f"<{solution.__name__} with mistakes>", "exec"), names)
        version: Callable[..., Any] = names[solution.__name__]
        return version

    return build
