"""Write each chapter that has exercises as a zip archive, for students or for the teacher.

``python -m tools.handouts student`` writes ``dist/student/NN-….zip``: the notebook without its
solutions and with a cell for each answer, the file of stubs that ``tfmr exercises start`` writes,
and the pages that the notebook links to. Each notebook is first run up to its first stub.
``python -m tools.handouts teacher`` writes ``dist/teacher/NN-….zip``: the notebook with its
solutions and a table of the known mistakes. Equal chapters give equal archives.
"""

import argparse
import copy
import re
import sys
from html import escape
from pathlib import Path

from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell

from tfmr.exercises.chapters import chapter_numbers, exercises_of, find_chapter
from tfmr.exercises.exercise import Diagnosed, Exercise, Predict, WriteTest
from tfmr.exercises.files import file_name, stubs
from tools import ROOT, notebooks
from tools.dist import write_archive
from tools.lab import PAGES
from tools.site import published_pages
from tools.standalone import EXERCISE, LINK, SOLUTION

TARGET = ROOT / "dist"
ANSWER = "# Write your answer to exercise {} here: code, or text in comments."
STUB = re.compile(r"^ch\d\d\.q\d+\.check\(\w+\)$|\A# Write your answer to exercise ", re.MULTILINE)
SECTION = re.compile(r"#{1,3} ")


class HandoutError(Exception):
    """A chapter that cannot be handed out."""


def without_solutions(chapter: NotebookNode) -> NotebookNode:
    """A chapter without its solutions; an exercise that has no stub gets a cell for the answer."""
    kept: list[NotebookNode] = []
    in_solution = False
    for cell in copy.deepcopy(chapter.cells):
        if solution := SOLUTION.match(cell.source):
            in_solution = True
            if not is_stub(kept[-1]):
                number = solution[1]
                identifier = f"answer-{number.replace('.', '-')}"
                kept.append(new_code_cell(ANSWER.format(number), id=identifier))
        elif cell.cell_type == "markdown" and SECTION.match(cell.source):
            in_solution = False
        if not in_solution:
            kept.append(cell)
    return NotebookNode(chapter | {"cells": kept})


def is_stub(cell: NotebookNode) -> bool:
    """Whether a notebook cell is to be completed by the student."""
    return cell.cell_type == "code" and bool(STUB.search(cell.source))


def prove(notebook: NotebookNode) -> None:
    """Run a student's notebook up to its first stub.

    Raises:
        HandoutError: if a cell raises, or the stub is not reported as one.
    """
    at = next(i for i, cell in enumerate(notebook.cells) if is_stub(cell))
    first = NotebookNode(notebook | {"cells": copy.deepcopy(notebook.cells[: at + 1])})
    try:
        stub = notebooks.run(first, ROOT / "book").cells[at]
    except (CellExecutionError, CellTimeoutError, DeadKernelError) as error:
        problem = notebooks.COLOUR.sub("", str(error)).strip().splitlines()[-1]
        raise HandoutError(f"a cell before the first stub fails: {problem}") from error
    shown = [output.get("data", {}).get("text/plain", "") for output in stub.outputs]
    if not all(text.startswith("Not attempted") for text in shown):
        raise HandoutError(f'expected "Not attempted" for the first stub, got: {shown}')


def with_mistakes(chapter: NotebookNode, exercises: list[Exercise]) -> NotebookNode:
    """A chapter with a table of the known mistakes at its end."""
    rows = ["## Known mistakes", "", "| exercise | mistake | advice |", "|---|---|---|"]
    for each in exercises:
        for mistake, advice in known(each):
            row = (escape(text, quote=False) for text in (each.label, mistake, advice))
            rows.append(f"| {' | '.join(text.replace('|', '&#124;') for text in row)} |")
    table = new_markdown_cell("\n".join(rows), id="known-mistakes")
    return NotebookNode(chapter | {"cells": [*chapter.cells, *([table] if exercises else [])]})


def known(exercise: Exercise) -> list[tuple[str, str]]:
    """Each known mistake in an exercise, and the advice that a reader gets."""
    if isinstance(exercise, Diagnosed):
        return [(each.name, each.advice) for each in exercise.mistakes]
    if isinstance(exercise, WriteTest):
        return [(f"the test accepts: {each.description}", "") for each in exercise.mutants]
    assert isinstance(exercise, Predict)
    return [(exercise.options[letter], text) for letter, text in exercise.replies.items()]


def resolved(text: str, names: set[str]) -> str:
    """A text whose links lead to files of the archive, ``names``, or to the published site.

    If the project has no published site, links to other pages become text.
    """
    site = published_pages()

    def resolve(link: re.Match[str]) -> str:
        label, address = link.groups()
        page, mark, anchor = address.partition("#")
        if page in names or Path(page).suffix not in (".ipynb", ".md") or "://" in page:
            return link[0]
        return f"[{label}]({site}/{Path(page).stem}.html{mark}{anchor})" if site else label

    return LINK.sub(resolve, text)


def hand_out(path: Path, audience: str, target: Path = TARGET) -> Path | None:
    """Write the archive of a chapter; return its path, or ``None`` if it has no exercises."""
    chapter, number = notebooks.read(path), path.stem[:2]
    if not any(EXERCISE.search(cell.source) for cell in chapter.cells):
        return None
    files = {page: (ROOT / "book" / page).read_text("utf-8") for page in PAGES}
    module = find_chapter(number) if number in chapter_numbers() else None
    if audience == "student":
        notebook = without_solutions(chapter)
        prove(notebook)
        if module:
            files[file_name(module)] = stubs(module)
    else:
        notebook = with_mistakes(chapter, exercises_of(module) if module else [])
    names = {path.name, *files}
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            cell.source = resolved(cell.source, names)
    files |= {page: resolved(files[page], names) for page in PAGES}
    files[path.name] = notebooks.normal_form(notebook)
    archive = target / audience / f"{path.stem}.zip"
    write_archive(archive, path.stem, {name: text.encode() for name, text in files.items()})
    return archive


def main(arguments: list[str] | None = None) -> int:
    """Write the archives of the given chapters, or of all; the exit status is 1 on failure."""
    parser = argparse.ArgumentParser(prog="python -m tools.handouts", description=__doc__)
    parser.add_argument("audience", choices=("student", "teacher"))
    parser.add_argument("paths", nargs="*", type=Path, help="chapters; default: all")
    options = parser.parse_args(arguments)
    paths = [path.resolve() for path in options.paths] or notebooks.chapters()
    for path in paths:
        if path not in notebooks.chapters():
            parser.error(f"expected a chapter such as book/04-….ipynb, got {path}")
    failed = False
    for path in paths:
        try:
            archive = hand_out(path, options.audience)
        except HandoutError as problem:
            failed = True
            print(f"handouts: {notebooks.shown(path)}: {problem}", file=sys.stderr)
        else:
            if archive:
                print(f"handouts: {notebooks.shown(archive)}", flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
