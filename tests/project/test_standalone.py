"""The standalone form of the chapters: what it rejects, and the setup cell."""

import ast
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from tools import ROOT, notebooks, standalone
from tools.standalone import COLLAPSED, NOT_PUBLISHED, fold_in_colab, problems, set_up

ADDRESS = "https://github.com/owner/name"
SOLVED = (
    new_markdown_cell("## Exercises\n\n### Exercise 4.1: Masks\n\nText."),
    new_markdown_cell("#### Solution of exercise 4.1", metadata={COLLAPSED: True}),
)


def with_text(text: str) -> NotebookNode:
    return new_notebook(cells=[new_markdown_cell(text)])


ACCEPTED = (
    "The set $\\{a\\}$ and `{x}`; $\\mathbf{x}$ is {small}.",
    "```python\n{1: 2}\n```",
    "By [Elman (1990)](https://doi.org/10.1207/s15516709cog1402_1).",
    "([Elman, 1990](https://doi.org/10.1207/s15516709cog1402_1))",
    "### The *first* mask, 4.1: $M$\n\n[x](#the-first-mask-41-)",
    "The [softmax](glossary.md#softmax) and [Chapter 4](04-self-attention.ipynb).",
)
REJECTED = {
    "```{literalinclude} ../tfmr/attention.py\n```": "MyST",
    "````{exercise}\nText.\n````": "MyST",
    ":::{note}\nText.\n:::": "MyST",
    "~~~{note}\nText.\n~~~": "MyST",
    "By {cite:t}`vaswani2017attention`.": "MyST",
    "A {term}`softmax`.": "MyST",
    "(section-a)=\n## A": "MyST",
    "[Elman (1991)](https://doi.org/10.1207/s15516709cog1402_1)": "to be Elman (1990) or",
    "[A (2000)](https://arxiv.org/abs/0000.00000)": "not the address of an entry",
    "## A\n\n[x](#b)": "no heading with the anchor b",
    "[x](04-self-attention.ipynb#nowhere)": "04-self-attention.ipynb has no heading",
    "[x](99-nothing.ipynb#a)": "no file book/99-nothing.ipynb",
    "[x](glossary.md#no-such-term)": "glossary.md has no heading with the anchor no-such-term",
}
"""Texts, and what is reported about them."""


@pytest.mark.parametrize("text", [*ACCEPTED, *REJECTED])
def test_the_text_of_a_chapter(text: str) -> None:
    found = problems(with_text(text))
    assert len(found) == (text in REJECTED)
    assert all(REJECTED[text] in problem for problem in found)


def test_exercises_have_solutions_below_a_heading_of_their_own() -> None:
    exercise, solution = SOLVED
    heading = solution.source
    renumbered = [
        new_markdown_cell(cell.source.replace("4.1", "4.2"), metadata=cell.metadata)
        for cell in SOLVED
    ]
    assert problems(new_notebook(cells=list(SOLVED))) == []
    for message, cells in {
        "a solution for each": [exercise],
        f"metadata {COLLAPSED}": [exercise, new_markdown_cell(heading)],
        "alone in its cell": [exercise, new_markdown_cell(f"{heading}\n\nText.")],
        "numbered from 1": renumbered,
    }.items():
        assert any(message in problem for problem in problems(new_notebook(cells=cells))), message


def test_the_setup_cell_follows_the_title_and_is_written_once() -> None:
    notebook = with_text("# Title")
    for _ in range(2):
        set_up(notebook)
        assert [cell.cell_type for cell in notebook.cells] == ["markdown", "code"]
    assert NOT_PUBLISHED in notebook.cells[1].source
    for path in notebooks.chapters():
        first = next(c for c in notebooks.read(path).cells if c.cell_type == "code")
        assert first.source == notebook.cells[1].source


def test_colab_folds_what_jupyterlab_folds() -> None:
    notebook = new_notebook(
        cells=[
            new_code_cell("plot()", metadata={"jupyter": {"source_hidden": True}}),
            new_code_cell("compute()"),
            new_markdown_cell("#### Solution of exercise 4.1", metadata={COLLAPSED: True}),
            new_markdown_cell("Text."),
        ]
    )
    fold_in_colab(notebook)
    plot, compute, solution, text = notebook.cells
    assert plot.metadata["cellView"] == "form"
    assert solution.metadata["id"] == solution.id
    assert notebook.metadata == {"colab": {"collapsed_sections": [solution.id]}}
    assert compute.metadata == text.metadata == {}


@pytest.mark.parametrize("path", notebooks.chapters(), ids=lambda path: path.stem)
def test_every_chapter_is_folded_in_colab(path: Path) -> None:
    notebook = notebooks.read(path)
    hidden = [c for c in notebook.cells if c.metadata.get("jupyter", {}).get("source_hidden")]
    assert hidden
    assert all(cell.metadata.get("cellView") == "form" for cell in hidden)
    solutions = [c.id for c in notebook.cells if c.source.startswith("#### Solution of exercise")]
    assert notebook.metadata.get("colab", {}).get("collapsed_sections", []) == solutions


def setup_cell(monkeypatch: pytest.MonkeyPatch, address: str | None) -> str:
    monkeypatch.setattr(standalone, "published", lambda name: address)
    notebook = with_text("# Title")
    set_up(notebook)
    source: str = notebook.cells[1].source
    return source


def test_the_setup_cell_installs_a_missing_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = setup_cell(monkeypatch, ADDRESS).replace("tfmr", "missing_package")
    shell: Any = InteractiveShell()
    lines = []

    def install(line: str) -> None:
        lines.append(line)
        (tmp_path / "missing_package").mkdir()
        (tmp_path / "missing_package" / "notebook.py").write_text(
            "def load_ipython_extension(shell):\n    shell.loaded = True\n"
        )

    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    shell.register_magic_function(install, magic_name="pip")
    shell.run_cell(source).raise_error()
    assert lines == [re.search("%pip (.*)", source)[1]]  # type: ignore[index]
    assert lines[0].endswith(f" git+{ADDRESS}")
    assert shell.loaded
    shell.run_cell(source).raise_error()
    assert len(lines) == 1, "an installed package is not installed again"


def test_without_an_address_the_setup_cell_states_what_to_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source = setup_cell(monkeypatch, None).replace('"tfmr"', '"absent_package"')
    shell: Any = InteractiveShell()
    with pytest.raises(ModuleNotFoundError, match="pip install"):
        shell.run_cell(source).raise_error()


def test_addresses_are_set_in_one_place() -> None:
    text = (ROOT / "README.md").read_text("utf-8")
    for name in ("Repository", "Documentation"):
        address = standalone.published(name)
        assert address is None or address in text


@pytest.mark.parametrize("path", notebooks.chapters(), ids=lambda path: path.stem)
def test_a_chapter_reads_no_file_beside_it(path: Path) -> None:
    code = [cell.source for cell in notebooks.read(path).cells if cell.cell_type == "code"]
    assert not re.search(r"\.\./|benchmarks/|open\(\"book|Path\(\"(?!/)[\w-]+/", "\n".join(code))


@pytest.mark.parametrize("path", notebooks.chapters(), ids=lambda path: path.stem)
def test_asserts_are_statements_of_a_cell(path: Path) -> None:
    """In a function, a failing assert would end the cell; in a cell, it explains what differs."""
    cells = [cell.source for cell in notebooks.read(path).cells if cell.cell_type == "code"]
    trees = [ast.parse(re.sub(r"^%.*$", "", source, flags=re.MULTILINE)) for source in cells]
    functions = [
        node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)
    ]
    nested = [node for function in functions for node in ast.walk(function)]
    assert [ast.unparse(node) for node in nested if isinstance(node, ast.Assert)] == []
