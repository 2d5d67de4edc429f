"""Marks a folder of submissions: a table, a page for each student, and one for the class.

A submission is a notebook or a Python file, or a folder that contains one. Its name without the
ending is the name of the student.
"""

import csv
import os
import re
import resource
import secrets
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from html import escape
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch

from tfmr.data.files import explain_os_error
from tfmr.errors import TfmrError, require
from tfmr.exercises import guard
from tfmr.exercises.chapters import exercises_of, find_chapter
from tfmr.exercises.exercise import Exercise, WriteTest
from tfmr.exercises.guard import Failure
from tfmr.exercises.sandbox import PATIENCE, Answer, Command, Ended, Submission
from tfmr.exercises.verdict import Verdict
from tfmr.exercises.worker import SPARE, memory_in_use

KINDS = (".ipynb", ".py")
LARGEST = 20_000_000
"""The largest number of bytes in a submission."""
CHAPTER = re.compile(r"""CHAPTER = \\?["'](\d+)|from tfmr\.exercises import ch(\d\d)""")


@dataclass(frozen=True)
class Mark:
    """The verdict on one answer of a student."""

    label: str
    title: str
    verdict: Verdict


@dataclass(frozen=True)
class Marked:
    """A student's submission and its marks."""

    student: str
    marks: list[Mark] = field(default_factory=list)
    problem: str = ""
    """Why the submission could not be marked, or not completely."""

    @property
    def right(self) -> int:
        """The number of right answers."""
        return sum(each.verdict.solved for each in self.marks)

    def __str__(self) -> str:
        if self.problem and not self.marks:
            return f"{self.student}: not marked; {self.problem}"
        problem = f"; {self.problem}" if self.problem else ""
        return f"{self.student}: {self.right} of {len(self.marks)} right{problem}"


def submissions(folder: Path) -> dict[str, Path]:
    """The files and folders of the students, by name.

    Raises:
        TfmrError: if there are none.
    """
    try:
        found = sorted(each for each in folder.iterdir() if not each.name.startswith("."))
    except OSError as error:
        raise TfmrError(f"cannot read {folder}: {explain_os_error(error)}") from error
    require(
        bool(found),
        f"expected submissions in {folder}, got an empty folder: put a notebook or a Python file "
        "for each student into it, such as ada.ipynb, or a folder that contains one",
    )
    students: dict[str, Path] = {}
    for path in found:
        name = _printable(path.name if path.is_dir() else path.stem)
        if name in students:
            name = _printable(path.name)
        while name in students:
            name += "+"
        students[name] = path
    return students


def _printable(name: str) -> str:
    """A name that can be printed, and that is not too long for a file."""
    return "".join(each if each.isprintable() else "?" for each in name)[:80]


def mark_all(students: dict[str, Path], sandbox: Command, seconds: float) -> Iterator[Marked]:
    """Mark submissions in parallel, in processes of their own."""
    jobs = min(len(students), os.cpu_count() or 1)
    with ProcessPoolExecutor(jobs, get_context("spawn"), _prepare) as pool:
        futures = [
            (student, pool.submit(mark, student, path, sandbox, seconds))
            for student, path in students.items()
        ]
        for student, future in futures:
            try:
                yield future.result()
            except Exception as error:  # a submission must not stop the others
                yield Marked(student, problem=f"it could not be marked: {type(error).__name__}")


def _prepare() -> None:
    """Limit the memory of a process that marks, in which submissions call functions of tests."""
    torch.set_num_threads(1)
    memory = memory_in_use() + 2 * SPARE
    with suppress(ValueError):  # macOS
        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))


def mark(student: str, path: Path, sandbox: Command, seconds: float) -> Marked:
    """Mark the submission of a student."""
    marks, problem = list[Mark](), ""
    try:
        text, is_notebook = _read(path)
        found = CHAPTER.search(text)
        if found is None:
            raise TfmrError(
                "it contains no exercises: a notebook imports them, as in `from tfmr.exercises "
                'import ch04`, and a Python file states its chapter, as in CHAPTER = "04"'
            )
        rest = exercises_of(find_chapter(found[1] or found[2]))
    except TfmrError as error:
        return Marked(student, problem=str(error))
    guard.SECONDS = 2 * PATIENCE * seconds  # the submission has limits of its own
    while rest:
        with Submission(sandbox, seconds) as submission:
            try:
                names = [each.name for each in rest]
                answers, failure = submission.define(text, is_notebook, names)
            except Ended as reason:
                problem = f"it could not be run: {reason}"
                verdict = Verdict(
                    "raised", f"Not checked: your submission could not be run; {reason}."
                )
                marks += [Mark(each.label, each.title, verdict) for each in rest]
                break
            if failure:
                problem = f"it raised {failure}{failure.where}"
            while rest:
                exercise = rest.pop(0)
                stopped = None
                try:
                    verdict = _verdict(exercise, answers[exercise.name])
                except Ended as reason:
                    stopped = reason
                    problem = f"exercise {exercise.label} was stopped: {reason}"
                    verdict = Verdict("raised", f"Your code was stopped: {reason}.")
                marks.append(Mark(exercise.label, exercise.title, verdict))
                if stopped:
                    break  # the rest is checked in a new process
    return Marked(student, marks, problem)


def _read(path: Path) -> tuple[str, bool]:
    """The text of a submission, and whether it is a notebook.

    Raises:
        TfmrError: if there is no such text.
    """
    try:
        if path.is_dir() and not path.is_symlink():
            files = [each for each in sorted(path.iterdir()) if each.suffix in KINDS]
            require(
                len(files) == 1,
                f"expected a folder with one notebook or Python file, got {len(files)} of them",
            )
            [path] = files
        require(
            path.suffix in KINDS and path.is_file() and not path.is_symlink(),
            f"expected a notebook or a Python file, got {_printable(path.name)}",
        )
        require(path.stat().st_size <= LARGEST, f"it is larger than {LARGEST // 1_000_000} MB")
        return path.read_text("utf-8"), path.suffix == ".ipynb"
    except OSError as error:
        raise TfmrError(f"it cannot be read: {explain_os_error(error)}") from error
    except UnicodeDecodeError as error:
        raise TfmrError("it is not a text file") from error


def _verdict(exercise: Exercise, answer: Any) -> Verdict:
    """The verdict on an answer.

    Raises:
        Ended: if the process of the submission ends early.
    """
    if isinstance(answer, Failure):
        return Verdict("raised", f"Your code raised an error{answer.where}", str(answer))
    if isinstance(exercise, WriteTest) and isinstance(answer, Answer):
        answer = _in_any_order(exercise, answer)
    return exercise.check(answer)


def _in_any_order(
    exercise: WriteTest, test: Callable[[Callable[..., Any]], Any]
) -> Callable[[Callable[..., Any]], Any]:
    """The outcomes of a test, which runs on correct and faulty functions in a random order.

    A test that counts its calls could otherwise tell them apart.
    """
    subjects = [*exercise.correct, *exercise.mutants]
    secrets.SystemRandom().shuffle(subjects)
    outcomes = {each.function: test(each.function) for each in subjects}
    return outcomes.__getitem__


def write(folder: Path, students: dict[str, Path], marked: Sequence[Marked]) -> None:
    """Write ``marks.csv``, ``class.html``, and ``feedback/NAME.html`` for each student.

    Raises:
        TfmrError: if the folder exists or cannot be written.
    """
    try:
        (folder / "feedback").mkdir(parents=True)
        with (folder / "marks.csv").open("w", encoding="utf-8-sig", newline="") as file:
            csv.writer(file).writerows(table(students, marked))
        (folder / "class.html").write_text(class_page(marked), "utf-8")
        for each in marked:
            page = folder / "feedback" / f"{each.student}.html"
            page.write_text(student_page(each), "utf-8")
    except OSError as error:
        raise TfmrError(f"cannot write {folder}: {explain_os_error(error)}") from error


def table(students: dict[str, Path], marked: Sequence[Marked]) -> list[list[str]]:
    """One row for each student, with one column for each exercise."""
    labels = list(exercises_in(marked))
    rows = [["student", "file", "right", "exercises", *labels, "problem"]]
    for each in marked:
        kinds = {one.label: one.verdict.kind for one in each.marks}
        texts = (each.student, _printable(students[each.student].name), each.problem)
        # A spreadsheet would compute a text that begins with one of these characters.
        student, file, problem = (f"'{one}" if one[:1] in "=+-@" and one else one for one in texts)
        numbers = [str(each.right), str(len(each.marks))]
        rows.append([student, file, *numbers, *(kinds.get(one, "") for one in labels), problem])
    return rows


def exercises_in(marked: Sequence[Marked]) -> dict[str, list[Mark]]:
    """The marks of each exercise, by its label, in the order of the book."""
    marks = [one for each in marked for one in each.marks]
    labels = sorted({one.label for one in marks}, key=lambda label: [*map(int, label.split("."))])
    return {label: [one for one in marks if one.label == label] for label in labels}


PAGE = """\
<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
body {{ font: 1rem/1.5 system-ui, sans-serif; max-width: 46rem; margin: auto; padding: 1rem }}
section {{ border-left: 4px solid #a33; margin: 1.5rem 0; padding-left: 1rem }}
section.solved {{ border-color: #284 }}
h2 {{ font-size: 1.1rem; margin: 0 }}
p, pre {{ margin: 0.4rem 0 }}
pre {{ white-space: pre-wrap; overflow-wrap: anywhere }}
td {{ padding-right: 1rem; vertical-align: top }}
</style>
<h1>{title}</h1>
{body}
"""


def student_page(marked: Marked) -> str:
    """A student's page of feedback."""
    body = [f"<p>Right answers: {marked.right} of {len(marked.marks)}.</p>"]
    if marked.problem:
        body.append(f"<p>Your submission has a problem: {escape(marked.problem)}.</p>")
    for each in marked.marks:
        solved = ' class="solved"' if each.verdict.solved else ""
        body.append(f"<section{solved}>\n<h2>{escape(f'{each.label} {each.title}')}</h2>")
        body.append(f"<p>{escape(each.verdict.headline)}</p>")
        if each.verdict.details:
            body.append(f"<pre>{escape(each.verdict.details)}</pre>")
        body.append("</section>")
    return PAGE.format(title=f"Feedback for {escape(marked.student)}", body="\n".join(body))


def class_page(marked: Sequence[Marked]) -> str:
    """The page for the class: for each exercise, how many made which mistake."""
    body = [f"<p>Submissions: {len(marked)}.</p>"]
    for label, marks in exercises_in(marked).items():
        solved = sum(each.verdict.solved for each in marks)
        body.append(
            f"<h2>{escape(f'{label} {marks[0].title}')}: {solved} of {len(marks)} right</h2>"
        )
        counts = Counter(_what(each.verdict) for each in marks if not each.verdict.solved)
        rows = [
            f"<tr><td>{count} of {len(marks)}</td><td>{escape(what)}</td></tr>"
            for what, count in counts.most_common()
        ]
        body += ["<table>", *rows, "</table>"] if rows else []
    if problems := [each for each in marked if each.problem]:
        body.append("<h2>Submissions with a problem</h2>\n<table>")
        for each in problems:
            student, problem = escape(each.student), escape(each.problem)
            body.append(f"<tr><td>{student}</td><td>{problem}</td></tr>")
        body.append("</table>")
    return PAGE.format(title="Feedback for the class", body="\n".join(body))


def _what(verdict: Verdict) -> str:
    """The mistake that a verdict names, or its kind."""
    if verdict.kind == "mistake":
        return verdict.headline.partition(": ")[2].removesuffix(".")
    return {"wrong": "another wrong answer", "raised": "an error"}.get(verdict.kind, verdict.kind)
