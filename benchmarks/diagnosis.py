"""``python -m benchmarks.diagnosis``: which mistakes the exercises name in answers written blind.

The folder ``answers`` has 20 wrong and five right answers or more for each chapter. Their authors
had only the texts of the exercises, without hints, solutions or lists of mistakes, and ran no code.
An answer begins with a line ``#### wrong 4.2 | what is wrong with it``. If the check names a
mistake, the next line has the judgement on this name: ``# rightly: the name``, ``# partly: …`` or
``# wrongly: …``. A line ``# at first: not named`` has the result before the lists of mistakes or
the probes were extended after the test.
"""

import contextlib
import io
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from benchmarks import record
from benchmarks.record import Record, Row
from benchmarks.tables import Claims
from tfmr.errors import require
from tfmr.exercises.chapters import chapter_numbers, find_chapter
from tfmr.exercises.exercise import Diagnosed, Exercise, Predict, WriteTest
from tools.site.exercises import blind_test, counts

FOLDER = Path(__file__).parent / "answers"
HEADER = re.compile(r"#### (wrong|right) \d+\.(\d+)(?: \| (.+))?\n")
JUDGEMENT = re.compile(r"# (rightly|partly|wrongly): (.+)\n")
AT_FIRST = re.compile(r"# at first: (.+)\n")
VERDICTS = {
    "right": "accepted",
    "right, but": "accepted with a remark",
    "wrong": "not named",
    "raised": "raised",
    "not attempted": "not attempted",
}
KINDS: dict[type, str] = {
    Diagnosed: "numbers and functions",
    WriteTest: "tests",
    Predict: "predictions",
}


@dataclass(frozen=True)
class Answer:
    """An answer of the blind test."""

    correct: bool
    exercise: Exercise
    fault: str
    """What is wrong with it, in the words of its author."""
    named: str
    """The judgement on the mistake that the check names, and its name; empty if it names none."""
    at_first: str
    """The result before the lists were extended; empty if it is the same."""
    code: str

    def result(self) -> str:
        """The name of a column: what the check says about the answer.

        Raises:
            TfmrError: if the check names another mistake than the one that was judged.
        """
        names: dict[str, Any] = {}
        exec(compile("import math\nimport torch\n" + self.code, "<answer>", "exec"), names)
        with contextlib.redirect_stdout(io.StringIO()):
            verdict = self.exercise.check(names[self.exercise.name])
        how, _, judged = self.named.partition(": ")
        found = verdict.headline.partition(": ")[2].rstrip(".") if verdict.kind == "mistake" else ""
        require(
            found == judged,
            f"exercise {self.exercise.label}, {self.fault}: expected the judged name {judged!r}, "
            f"got {found!r}; judge it, and write it into the file of answers",
        )
        return f"named {how}" if how else VERDICTS[verdict.kind]


def answers(chapter: str) -> Iterator[Answer]:
    """The answers to the exercises of a chapter."""
    text = (FOLDER / f"{chapter}.txt").read_text("utf-8")
    starts = [*HEADER.finditer(text)]
    ends = [each.start() for each in starts[1:]] + [len(text)]
    for start, end in zip(starts, ends, strict=True):
        kind, number, fault = start.groups()
        code = text[start.end() : end]
        judgement, at_first = JUDGEMENT.search(code), AT_FIRST.search(code)
        yield Answer(
            correct=kind == "right",
            exercise=getattr(find_chapter(chapter), f"q{number}"),
            fault=fault or "",
            named=f"{judgement[1]}: {judgement[2]}" if judgement else "",
            at_first=at_first[1] if at_first else "",
            code=code,
        )


def measure(chapters: Iterable[str]) -> Iterator[Row]:
    """For each chapter, kind of exercise and kind of answer, the results now and at first."""
    for chapter in chapters:
        found: dict[tuple[str, bool, str], list[str]] = {}
        for each in answers(chapter):
            kind = next(name for base, name in KINDS.items() if isinstance(each.exercise, base))
            now = each.result()
            for when, result in (("at first", each.at_first or now), ("now", now)):
                found.setdefault((kind, each.correct, when), []).append(result)
        for (kind, correct, when), results in sorted(found.items()):
            row = {"chapter": chapter, "kind": kind, "correct": correct, "when": when}
            yield row | {"results": results}


@dataclass(frozen=True)
class Diagnosis:
    """Check the answers of all chapters and record the results."""

    out: Path = record.FOLDER / "diagnosis.json"
    """The record."""

    def __call__(self) -> None:
        """Check and record."""
        torch.set_num_threads(1)
        metadata = record.collect_metadata()
        rows = measure(chapter_numbers())
        record.write(self.out, "diagnosis", rows, settings={"threads": 1}, metadata=metadata)


def table(rows: list[Row], settings: Row) -> list[str]:
    """The results of the blind test, as on the page of exercises."""
    return [blind_test(rows)]


def claims(rows: list[Row], settings: Row, records: dict[str, Record]) -> Claims:
    """The goals of the diagnosis, which hold for the results at first."""
    for chapter in chapter_numbers():
        wrong = counts(rows, chapter=chapter, correct=False, when="now").total()
        yield f"chapter {chapter}: there are at least 20 wrong answers", wrong >= 20
    first = counts(rows, kind=KINDS[Diagnosed], correct=False, when="at first")
    yield "at least 80 % are named rightly", first["named rightly"] >= 0.8 * first.total()
    yield "at most 2 % are named wrongly", first["named wrongly"] <= 0.02 * first.total()
    right = counts(rows, correct=True, when="at first")
    yield "every right answer is accepted", set(right) <= {"accepted", "accepted with a remark"}


if __name__ == "__main__":
    record.run(Diagnosis)
