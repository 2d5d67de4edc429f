"""The time that a chapter states for its reading follows from its words and notebook cells."""

import re

import pytest
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from tools import ROOT
from tools.notebooks import chapters, read

WORDS_PER_MINUTE, CELLS_PER_MINUTE = 200, 2
STATED = re.compile(r"\*\*Time:\*\* about (\d+) minutes to read( without the exercises)?,")
NO_WORDS = re.compile(r"\]\([^)]*\)|</?[a-z][^<>]*>")
"""Addresses of links, and HTML."""
WORD = re.compile(r"[A-Za-z0-9][^\s|]*")


CELL = "\0"
"""Stands for a notebook cell with code."""
EXERCISES = re.compile(r"^## Exercises$.*?(?=^## |\Z)", re.M | re.S)
MINUTES, WORDS = 45, 4500
"""The time that a chapter may take, and its words. The appendix is for reference."""


def text_of(notebook: NotebookNode) -> str:
    """The text, with :data:`CELL` for each cell with code except the first."""
    return "\n".join(
        cell.source if cell.cell_type == "markdown" else CELL
        for cell in notebook.cells
        if "remove-cell" not in cell.metadata.get("tags", ())
    )


def words_and_minutes(notebook: NotebookNode) -> tuple[int, int]:
    """The words, and the time to read them and the code, rounded to five minutes.

    The exercises are not included.
    """
    text = EXERCISES.sub("", text_of(notebook))
    words = len(WORD.findall(NO_WORDS.sub(" ", text)))
    exact = words / WORDS_PER_MINUTE + text.count(CELL) / CELLS_PER_MINUTE
    return words, 5 * int(exact / 5 + 0.5)


def minutes(notebook: NotebookNode) -> int:
    """The time only."""
    return words_and_minutes(notebook)[1]


def test_text_and_cells_take_time() -> None:
    link = new_markdown_cell("A [word](address of the link). " * 500)  # two words each
    setup = new_code_cell("import torch", metadata={"tags": ["remove-cell"]})
    assert minutes(new_notebook(cells=[link])) == 5
    assert minutes(new_notebook(cells=[link, setup])) == 5
    cells = [link, *(new_code_cell("1") for _ in range(10))]
    assert minutes(new_notebook(cells=cells)) == 10
    formula = new_markdown_cell("If $i < j$, " + "a word " * 500 + "<em>and $j > i$</em>.")
    assert minutes(new_notebook(cells=[formula])) == 5
    exercises = [new_markdown_cell("Its end.\n\n## Exercises"), new_code_cell("1")]
    other = [new_markdown_cell("Its answer. " * 1000), new_markdown_cell("## Summary")]
    assert minutes(new_notebook(cells=[link, *exercises, *other, formula])) == 10


READ = {path.stem: read(path) for path in chapters() if path.stem != "translator"}


@pytest.mark.parametrize("name", READ)
def test_a_chapter_states_the_time_to_read_it(name: str) -> None:
    text = text_of(READ[name])
    [(stated, without)] = STATED.findall(text)
    words, needed = words_and_minutes(READ[name])
    assert int(stated) == needed
    assert bool(without) == bool(EXERCISES.search(text))
    assert name == "common-mistakes" or (words <= WORDS and needed <= MINUTES)


def test_the_cover_states_the_time_of_all_chapters() -> None:
    total = sum(minutes(notebook) for name, notebook in READ.items() if name[0].isdigit())
    assert f"about {total / 60:.0f} hours to read" in (ROOT / "book/index.md").read_text("utf-8")
