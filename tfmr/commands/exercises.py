"""``exercises``: list the exercises of the book, write a file of stubs, and check answers."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from tfmr.errors import require


@dataclass(frozen=True)
class Exercises:
    """List the exercises with what is done, write a file of stubs, or check your answers.

    Without arguments, the command lists the exercises of all chapters. Those that are right in the
    file of the chapter in the current folder, such as exercises_04.py, are marked.

    Start: python -m tfmr exercises start 04

    Check: python -m tfmr exercises check exercises_04.py

    The file is run, so check only files that you trust. The exit status of check is 0 if all
    answers are right, and 1 otherwise.
    """

    action: tyro.conf.Positional[Literal["list", "start", "check"]] = "list"
    """List all exercises, start a chapter, or check a file."""
    subject: Annotated[
        tyro.conf.Positional[str | None], tyro.conf.arg(metavar="[CHAPTER|FILE]")
    ] = None
    """With start: the chapter, such as 04. With check: the file of answers."""

    def __call__(self) -> None:
        """List, start or check.

        Raises:
            SystemExit: with status 1, if an answer that is checked is not right.
        """
        if self.action == "list":
            require(
                self.subject is None,
                f"expected no argument after list, got {self.subject!r}; use start or check",
            )
            self._list()
        elif self.action == "start":
            self._start()
        else:
            self._check()

    def _list(self) -> None:
        from tfmr.exercises.chapters import chapter_numbers, exercises_of, find_chapter
        from tfmr.exercises.exercise import LEVELS
        from tfmr.exercises.files import check_file, file_name

        for number in chapter_numbers():
            chapter = find_chapter(number)
            path = Path(file_name(chapter))
            done = set()
            if path.exists():
                done = {each.exercise.label for each in check_file(path) if each.verdict.solved}
            for each in exercises_of(chapter):
                mark = "done" if each.label in done else "-"
                print(f"{each.label:4} {mark:4}  {LEVELS[each.level]:12}  {each.title}")

    def _start(self) -> None:
        from tfmr.exercises.chapters import find_chapter
        from tfmr.exercises.files import write_stubs

        require(self.subject is not None, "expected a chapter, as in: exercises start 04")
        path = write_stubs(find_chapter(str(self.subject)), Path())
        print(f"wrote {path}: complete it, then python -m tfmr exercises check {path}")

    def _check(self) -> None:
        from tfmr.exercises.files import check_file

        require(self.subject is not None, "expected a file, as in: exercises check exercises_04.py")
        checked = check_file(Path(str(self.subject)))
        for each in checked:
            print(f"{each.exercise.label}  {each.verdict.headline}")
        if not all(each.verdict.solved for each in checked):
            sys.exit(1)
