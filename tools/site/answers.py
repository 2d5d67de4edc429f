"""Forms for exercises whose answers a page marks without a kernel: numbers, and predictions.

``book/_assets/marking.js`` marks what the reader enters; ``book/_assets/answers.js`` loads it when
it is first needed. Every text of a verdict comes from ``Exercise.check``, so a page, a notebook and
a terminal state the same.
"""

import re
from collections.abc import Iterator
from dataclasses import asdict, replace
from html import escape
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.environment import BuildEnvironment
from sphinx.errors import ExtensionError
from torch import Tensor

from tfmr.exercises.chapters import chapter_numbers, exercises_of, find_chapter
from tfmr.exercises.exercise import Numbers, Predict
from tools import notebooks
from tools.site.exercises import EXERCISE
from tools.site.figures import script

RIGHT = "Right: "
FAR = 1e30
"""A number that is far from those of every answer and of every known mistake."""
OPTION = re.compile(r"^# (\w): (.+)$", re.MULTILINE)
PROGRESS = """<div class="answer answers pst-js-only" role="group" aria-label="Your answers">
<p role="status">Solved in the forms on this page: 0 of {}</p>
<label><input type="checkbox" autocomplete="off"> Remember my answers in this browser</label>
<button class="button" type="button" hidden>Remove all my answers</button>
</div>"""
COMMENT = re.compile(r"^# (.+)$", re.MULTILINE)


def answerable(chapter: str) -> Iterator[Numbers | Predict]:
    """The exercises of a chapter that its page marks."""
    if chapter in chapter_numbers():
        for each in exercises_of(find_chapter(chapter)):
            if isinstance(each, Numbers | Predict):
                yield each


def marking(exercise: Numbers | Predict, path: Path) -> dict[str, Any]:
    """What ``marking.js`` needs to mark an answer: values, and the verdict for each case."""
    if isinstance(exercise, Predict):
        measured = exercise.answer, report(exercise, path)
        known = replace(exercise, experiment=lambda: measured)
        return {"options": {each: asdict(known.check(each)) for each in exercise.options}}
    versions = [exercise.build(frozenset({each.name})) for each in exercise.mistakes]
    far = [FAR] * len(exercise.answer)
    return {
        "tolerance": exercise.tolerance,
        "expected": values(exercise, exercise.build(frozenset())),
        "right": asdict(exercise.check(exercise.answer)),
        "mistakes": [
            {"values": values(exercise, each), "verdict": asdict(exercise.check(each))}
            for each in versions
        ],
        "wrong": asdict(exercise.check(far)),
        "rounded": exercise.answer,
        "partly": exercise.check([exercise.answer[0], *far[1:]]).details,
    }


def values(exercise: Numbers, answer: Any) -> list[float]:
    """The numbers of an answer, as they are compared."""
    [vector] = exercise.observe(answer)
    assert isinstance(vector, Tensor)
    return [float(each) for each in vector]


def report(exercise: Predict, path: Path) -> str:
    """What the experiment measures, from the output of the solution in the verified chapter.

    Raises:
        ExtensionError: if the chapter does not contain it.
    """
    name = f"ch{exercise.chapter}.q{exercise.number}"
    call = f"print({name}.check({name}.answer))"
    for cell in notebooks.read(path).cells:
        if cell.source.startswith(call) and cell.outputs[0].text.startswith(RIGHT):
            return str(cell.outputs[0].text).strip().removeprefix(RIGHT)
    raise ExtensionError(
        f"expected a notebook cell in {path.name} that begins with {call}, and the output "
        f'"{RIGHT}…" below it: run `make refresh CHAPTERS={path.name}`'
    )


def form(exercise: Numbers | Predict, path: Path) -> str:
    """The form of an exercise: its fields, and the data for marking."""
    key = f"answer-{exercise.label.replace('.', '-')}"
    if isinstance(exercise, Predict):
        title, note = "Your prediction", ""
        fields = "".join(
            f'<label><input type="radio" name="{key}" value="{letter}"> {escape(text)}</label>'
            for letter, text in OPTION.findall(exercise.stub)
        )
    else:
        title = "Your answer"
        asked = COMMENT.search(exercise.stub)
        note = f"<p>In this order: {escape(asked[1])}.</p>" if asked else ""
        note += f'<p id="{key}">You may write 0.5, 0,5 or 1/2. Three decimal places suffice.</p>'
        count = len(exercise.answer)
        labels = [f"Number {i + 1}" for i in range(count)] if count > 1 else ["Number"]
        # The numeric keyboard of an iPhone has no minus sign.
        mode = "text" if min(exercise.answer) < 0 else "decimal"
        fields = "".join(
            f'<label>{label} <input type="text" inputmode="{mode}" autocomplete="off" '
            f'spellcheck="false" aria-describedby="{key}"></label>'
            for label in labels
        )
    return (
        f'<form class="answer pst-js-only" method="dialog" aria-label="Exercise {exercise.label}">'
        f'<fieldset><legend>{title}</legend>{note}<div class="answer-fields">{fields}</div>'
        '</fieldset><button class="button button-first">Check</button>'
        '<div class="verdict" role="status"></div>'
        f"{script('application/json', marking(exercise, path))}</form>"
    )


def add_forms(document: nodes.document, env: BuildEnvironment) -> None:
    """Add a form to each exercise that the page marks; above the first exercise, the progress."""
    path = Path(env.doc2path(env.docname))
    exercises = {each.label: each for each in answerable(path.stem[:2])}
    for section in list(document.findall(nodes.section)):
        found = EXERCISE.match(section[0].astext()) if section.children else None
        if found is None:
            continue
        if found[1].endswith(".1") and exercises:
            progress = nodes.raw("", PROGRESS.format(len(exercises)), format="html")
            section.parent.insert(section.parent.index(section), progress)
        if exercise := exercises.get(found[1]):
            text = nodes.title | nodes.paragraph | nodes.math_block
            at = next(i for i, each in enumerate(section) if not isinstance(each, text))
            section.insert(at, nodes.raw("", form(exercise, path), format="html"))
