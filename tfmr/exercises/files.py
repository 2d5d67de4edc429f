"""Files of answers: written with stubs, run, and checked."""

import textwrap
import traceback
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from tfmr.data.files import explain_os_error
from tfmr.errors import TfmrError, require
from tfmr.exercises import guard
from tfmr.exercises.chapters import exercises_of, find_chapter
from tfmr.exercises.exercise import Exercise
from tfmr.exercises.verdict import Verdict


def file_name(chapter: ModuleType) -> str:
    """The name of a chapter's file of answers, such as ``exercises_04.py``."""
    return f"exercises_{chapter.CHAPTER}.py"


def stubs(chapter: ModuleType) -> str:
    """The content of a file of answers in which no exercise has been attempted."""
    name = file_name(chapter)
    parts = [
        f'"""Exercises of chapter {int(chapter.CHAPTER)}.\n\n'
        f"To check your answers: python -m tfmr exercises check {name}\n"
        f"For a hint, in Python: from tfmr.exercises import ch{chapter.CHAPTER}; "
        f"ch{chapter.CHAPTER}.q1.hint()\n"
        f'"""\n\nimport math\n\nimport torch\n\nCHAPTER = "{chapter.CHAPTER}"\n'
    ]
    for each in exercises_of(chapter):
        task = textwrap.fill(each.task, 76, initial_indent="# ", subsequent_indent="# ")
        parts.append(f"# {each!r}\n#\n{task}\n\n{each.stub}")
    return "\n\n".join(parts)


def write_stubs(chapter: ModuleType, folder: Path) -> Path:
    """Write a file of stubs to ``folder``.

    Raises:
        TfmrError: if the file exists or cannot be written.
    """
    path = folder / file_name(chapter)
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(stubs(chapter))
    except FileExistsError:
        raise TfmrError(f"{path} already exists: rename it or delete it to start again") from None
    except OSError as error:
        raise TfmrError(f"cannot write {path}: {explain_os_error(error)}") from error
    return path


@dataclass(frozen=True)
class Checked:
    """An exercise and the verdict on its answer in a file."""

    exercise: Exercise
    verdict: Verdict


def check_file(path: Path) -> list[Checked]:
    """Run a file of answers, and check each of them.

    Raises:
        TfmrError: if the file cannot be read or run, or does not state its chapter.
    """
    answers = run_file(path, guard.SECONDS)
    require(
        isinstance(answers.get("CHAPTER"), str),
        f'expected a line that states the chapter in {path}, as in CHAPTER = "04"; `python -m tfmr '
        "exercises start 04` writes a file with it",
    )
    exercises = exercises_of(find_chapter(answers["CHAPTER"]))
    return [Checked(each, each.check(answers.get(each.name))) for each in exercises]


def run_file(path: Path, seconds: float) -> dict[str, Any]:
    """The global names of a Python file after it has run.

    Raises:
        TfmrError: if the file cannot be read, raises, or runs longer than ``seconds``.
    """
    try:
        code = compile(path.read_text("utf-8"), str(path), "exec")
    except OSError as error:
        raise TfmrError(f"cannot read {path}: {explain_os_error(error)}") from error
    except (SyntaxError, ValueError) as error:  # a ValueError, if it is not text
        line = f", line {error.lineno}" if isinstance(error, SyntaxError) else ""
        reason = error.msg if isinstance(error, SyntaxError) else "not a text file"
        raise TfmrError(f"expected Python code in {path}{line}: {reason}") from error
    names: dict[str, Any] = {"__name__": "answers", "__file__": str(path)}
    try:
        with guard.random_state_kept(), guard.time_limit(seconds):
            exec(code, names)
    except guard.TimeLimitExceeded as error:
        line = guard.failing_line(error)
        raise TfmrError(f"{path} ran for more than {seconds:g} seconds, at {line}") from error
    except (Exception, SystemExit) as error:
        reason = traceback.format_exception_only(error)[-1].strip()
        line = guard.failing_line(error)
        raise TfmrError(f"cannot run {path}: {reason} ({line})") from error
    return names
