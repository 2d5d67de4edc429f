"""Exercises in their frames, solutions, which are folded, and the page that lists exercises."""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment

from tfmr.exercises.chapters import chapter_numbers, exercises_of, find_chapter
from tfmr.exercises.exercise import LEVELS, Exercise, Function, Numbers, WriteTest
from tfmr.records import record_path
from tools import handouts, notebooks

PAGE = "book/exercises"
EXERCISE = re.compile(r"Exercise (\d+\.\d+)")
RESULTS = {
    "named rightly": "names the mistake",
    "named partly": "names a part of the mistake",
    "named wrongly": "names another mistake",
    "not named": "shows the smallest failing input",
    "raised": "shows the error that the answer raises",
    "not attempted": "recognises the code that was given",
    "accepted with a remark": "accepts the answer with a remark",
    "accepted": "accepts the answer",
}
"""The results of the blind test, as clauses."""
SOLUTION = re.compile(r"Solution of exercise \d+\.\d+")


def frame_exercises(document: nodes.document, env: BuildEnvironment) -> None:
    """Give the sections of exercises a class, and fold the sections of solutions."""
    for section in list(document.findall(nodes.section)):
        title = section[0].astext() if section.children else ""
        if EXERCISE.match(title):
            section["classes"].append("exercise")
        elif SOLUTION.fullmatch(title):
            anchor = f' id="{section["ids"][0]}"' if section["ids"] else ""
            opening = f'<details class="solution"{anchor}><summary>{title}</summary>'
            section.replace_self(
                [
                    nodes.raw("", opening, format="html"),
                    *section.children[1:],
                    nodes.raw("", "</details>", format="html"),
                ]
            )


def fill_page(app: Sphinx, docname: str, source: list[str]) -> None:
    """Replace the marks of the page of exercises by its tables."""
    if docname == PAGE:
        source[0] = source[0].replace("<!-- exercises -->", "\n".join(listed()))
        rows = json.loads(record_path("diagnosis.json").read_text("utf-8"))["rows"]
        source[0] = source[0].replace("<!-- diagnosis -->", blind_test(rows))


def listed() -> Iterator[str]:
    """The rows of a table of all exercises."""
    yield "| exercise | answer and level | mistakes |"
    yield "|---|---|--:|"
    files = {path.stem[:2]: path.name for path in notebooks.chapters()}
    for number in chapter_numbers():
        for each in exercises_of(find_chapter(number)):
            title = f"Exercise {each.label}: {each.title}"
            anchor = re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-")
            link = f"[{each.label} {each.title}]({files[number]}#{anchor})"
            mistakes = len(handouts.known(each))
            yield f"| {link} | {answer(each)}, {LEVELS[each.level]} | {mistakes} |"


def answer(exercise: Exercise) -> str:
    """What the reader writes."""
    if isinstance(exercise, Numbers):
        return "numbers"
    if isinstance(exercise, WriteTest):
        return "a test"
    if isinstance(exercise, Function):
        return "a function" if exercise.given is None else "a repair"
    return "a prediction"


def counts(rows: Iterable[dict[str, Any]], **values: object) -> Counter[str]:
    """The results of the blind test, from the rows with these values."""
    chosen = [row["results"] for row in rows if values.items() <= row.items()]
    return Counter(result for results in chosen for result in results)


def blind_test(rows: list[dict[str, Any]]) -> str:
    """The results of the blind test: a table, and a paragraph about tests and predictions."""
    columns = [
        counts(rows, kind="numbers and functions", correct=correct, when=when)
        for correct, when in ((False, "at first"), (False, "now"), (True, "now"))
    ]
    tests, right_tests = (counts(rows, kind="tests", correct=each, when="now") for each in (0, 1))
    predictions = counts(rows, kind="predictions", correct=False, when="now")
    named, every = columns[0]["named rightly"], columns[0].total()
    lines = [
        f"At first, {named} of {every} mistakes in numbers and functions were named rightly "
        f"({100 * named / every:.0f} %). The column *now* contains the results after known "
        "mistakes and inputs were added because of these answers, so it is not a blind test.",
        "",
        "| the check | wrong answers, at first | wrong answers, now | right answers |",
        "|---|--:|--:|--:|",
    ]
    for name in RESULTS:
        lines.append(f"| {RESULTS[name]} | {' | '.join(str(each[name]) for each in columns)} |")
    lines += [
        f"| all | {' | '.join(str(each.total()) for each in columns)} |",
        "",
        f"Of {tests.total()} insufficient tests, {tests['not named']} were rejected with the "
        f"functions that they accept or reject wrongly, {tests['raised']} with the error that it "
        "raised, and "
        f"{right_tests['accepted']} of {right_tests.total()} right tests were accepted. "
        f"{predictions['not named']} of {predictions.total()} wrong predictions were answered "
        "with the measured result.",
    ]
    return "\n".join(lines)
