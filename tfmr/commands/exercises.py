"""``exercises``: list the exercises of the book, write stubs, check answers, mark a class."""

import os
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from tfmr.errors import require


@dataclass(frozen=True)
class Exercises:
    """List the exercises, write a file of stubs, check answers, or mark the answers of a class.

    Without arguments, the command lists the exercises of all chapters. If the current folder
    contains the file of a chapter, such as exercises_04.py, the exercises solved in it are marked
    as done.

    Start: python -m tfmr exercises start 04

    Check: python -m tfmr exercises check exercises_04.py

    The file is run, so check only files that you trust. The exit status of check is 0 if all
    answers are right, and 1 otherwise.

    Mark: python -m tfmr exercises mark homework

    The folder contains a notebook or a Python file for each student, such as ada.ipynb, or a folder
    for each student that contains one. Each submission runs in a sandbox, which bubblewrap or
    util-linux makes on Linux. The table of marks, a page of feedback for each student and one for
    the class are written to homework-marks. The exit status of mark is 1 if a submission could not
    be marked or was stopped.
    """

    action: tyro.conf.Positional[Literal["list", "start", "check", "mark"]] = "list"
    """List all exercises, start a chapter, check a file, or mark a folder of submissions."""
    subject: Annotated[
        tyro.conf.Positional[str | None], tyro.conf.arg(metavar="[CHAPTER|FILE|FOLDER]")
    ] = None
    """With start: the chapter, such as 04. With check: the file of answers. With mark: the folder
    of submissions."""
    seconds: float = 60.0
    """With mark: the limit of processor time for a submission; a single call gets a sixth of it."""
    unsandboxed: bool = False
    """With mark: run submissions without a sandbox. They can then read and delete your files."""

    def __call__(self) -> None:
        """List, start, check or mark.

        Raises:
            SystemExit: with status 1, if an answer that is checked is not right, or a submission
                was not marked.
        """
        if self.action == "list":
            require(
                self.subject is None,
                f"expected no argument after list, got {self.subject!r}; use start, check or mark",
            )
            self._list()
        elif self.action == "start":
            self._start()
        elif self.action == "check":
            self._check()
        else:
            self._mark()

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
        print(f"wrote {path}: complete it, then run python -m tfmr exercises check {path}")

    def _check(self) -> None:
        from tfmr.exercises.files import check_file

        require(self.subject is not None, "expected a file, as in: exercises check exercises_04.py")
        checked = check_file(Path(str(self.subject)))
        for each in checked:
            print(f"{each.exercise.label}  {each.verdict.headline}")
            if each.verdict.kind != "not attempted" and each.verdict.details:
                print(textwrap.indent(each.verdict.details, " " * 5))
        if not all(each.verdict.solved for each in checked):
            sys.exit(1)

    def _mark(self) -> None:
        require(os.name == "posix", "marking needs Linux or macOS; on Windows, use WSL")
        from tfmr.exercises.marking import mark_all, submissions, write
        from tfmr.exercises.sandbox import find_sandbox

        require(self.subject is not None, "expected a folder, as in: exercises mark homework")
        require(self.seconds > 0, f"expected a positive number of seconds, got {self.seconds:g}")
        folder = Path(str(self.subject)).resolve()
        students = submissions(folder)
        target = folder.with_name(f"{folder.name}-marks")
        require(not target.exists(), f"{target} already exists: rename it or delete it")
        sandbox = () if self.unsandboxed else find_sandbox()
        require(
            sandbox is not None,
            "expected a sandbox for the submissions, but neither bwrap nor unshare works here: "
            "install bubblewrap, or mark with --unsandboxed in a container that holds nothing of "
            "value",
        )
        assert sandbox is not None
        marked = []
        for each in mark_all(students, sandbox, self.seconds):
            print(each, flush=True)
            marked.append(each)
        write(target, students, marked)
        print(f"wrote {target}: marks.csv, class.html and a page for each student in feedback")
        if any(each.problem for each in marked):
            sys.exit(1)
