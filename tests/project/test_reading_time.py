"""The time that a chapter states for its reading follows from its words and notebook cells."""

import re

import pytest
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from tools.notebooks import chapters, read

WORDS_PER_MINUTE, CELLS_PER_MINUTE = 200, 2
STATED = re.compile(r"\*\*Time:\*\* about (\d+) minutes to read")
NO_WORDS = re.compile(r"\]\([^)]*\)|<[^>]+>")
"""Addresses of links, and HTML."""
WORD = re.compile(r"[A-Za-z0-9][^\s|]*")


def text_of(notebook: NotebookNode) -> str:
    return "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")


def minutes(notebook: NotebookNode) -> int:
    """The time to read the text and the code, without the first cell, rounded to five minutes."""
    words = len(WORD.findall(NO_WORDS.sub(" ", text_of(notebook))))
    code = [
        cell
        for cell in notebook.cells
        if cell.cell_type == "code" and "remove-cell" not in cell.metadata.get("tags", ())
    ]
    exact = words / WORDS_PER_MINUTE + len(code) / CELLS_PER_MINUTE
    return 5 * int(exact / 5 + 0.5)


def test_text_and_cells_take_time() -> None:
    link = new_markdown_cell("A [word](address of the link). " * 500)  # two words each
    setup = new_code_cell("import torch", metadata={"tags": ["remove-cell"]})
    assert minutes(new_notebook(cells=[link])) == 5
    assert minutes(new_notebook(cells=[link, setup])) == 5
    assert minutes(new_notebook(cells=[link, *(new_code_cell("1") for _ in range(10))])) == 10


READ = {path.stem: read(path) for path in chapters() if path.stem != "translator"}


@pytest.mark.parametrize("name", READ)
def test_a_chapter_states_the_time_to_read_it(name: str) -> None:
    [stated] = STATED.findall(text_of(READ[name]))
    assert int(stated) == minutes(READ[name])
