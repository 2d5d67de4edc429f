"""The normal form of a notebook does not depend on who ran it, or how often."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from tools import notebooks, standalone
from tools.notebooks import (
    NOT_STARTED,
    WIDGET_STATE,
    WIDGET_VIEW,
    check,
    normal_form,
    problems,
    refresh,
)

WIDGET = """
import anywidget, traitlets

class Dial(anywidget.AnyWidget):
    _esm = "export default { render({ model, el }) { el.textContent = model.get('turn') } }"
    turn = traitlets.Int(0).tag(sync=True)
    def __repr__(self):
        return f"Dial(turn={self.turn})"

unused, dial = Dial(turn=1), Dial(turn=2)
dial
"""
FIGURE = """
from tfmr.figures.style import figure
drawn, (axes,) = figure()
_ = axes.plot([1, 2])
drawn.alt = "A line from 1 to 2."
drawn
"""


@pytest.fixture(scope="module")
def chapter(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small chapter with text, a stream, a picture and a widget, executed once."""
    path = tmp_path_factory.mktemp("book") / "01-small.ipynb"
    cells = [
        new_markdown_cell("# Small"),
        new_code_cell("print('one')\nprint('two', flush=True)\nprint('three')"),
        new_code_cell(FIGURE),
        new_code_cell(WIDGET),
        new_code_cell("dial.turn = 3\ndial"),
    ]
    path.write_text(json.dumps(new_notebook(cells=cells)), "utf-8")
    assert refresh(path) == []
    return path


def stored(path: Path) -> Any:
    return json.loads(path.read_text("utf-8"))


def test_a_second_run_changes_no_byte(chapter: Path) -> None:
    before = chapter.read_bytes()
    assert refresh(chapter) == []
    assert chapter.read_bytes() == before
    assert notebooks.main(["check", str(chapter)]) == 0


def test_the_file_has_only_what_the_page_needs(chapter: Path) -> None:
    notebook = stored(chapter)
    assert chapter.read_text("utf-8").endswith("}\n")
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    assert sorted(notebook["metadata"]) == ["kernelspec", "language_info", "widgets"]
    assert notebook["metadata"]["language_info"] == {"name": "python"}
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in code] == [1, 2, 3, 4, 5]
    assert code[0]["id"] == "setup"
    assert code[1]["outputs"][0]["text"] == ["one\n", "two\n", "three\n"]
    setup, *others = [cell["metadata"] for cell in code]
    assert setup == {"cellView": "form", **standalone.FOLDED}
    assert others == [{}] * 4


def test_widgets_have_stable_identifiers_and_no_code(chapter: Path) -> None:
    notebook = stored(chapter)
    state = notebook["metadata"]["widgets"][WIDGET_STATE]["state"]
    views = [
        output["data"][WIDGET_VIEW]["model_id"]
        for cell in notebook["cells"]
        for output in cell.get("outputs", ())
        if WIDGET_VIEW in output.get("data", {})
    ]
    assert views == [f"{1:032x}"] * 2
    assert list(state) == [f"{1:032x}", f"{2:032x}"], "the dial and its layout; no unused model"
    dial = state[views[0]]["state"]
    assert dial["turn"] == 3
    assert dial["layout"] == f"IPY_MODEL_{2:032x}"
    assert dial["_esm"] == NOT_STARTED
    assert not {"_css", "tabbable", "tooltip"} & dial.keys()
    assert None not in state[f"{2:032x}"]["state"].values()


def test_the_normal_form_is_idempotent_and_does_not_change_its_argument(chapter: Path) -> None:
    notebook = notebooks.read(chapter)
    notebook.cells[1].metadata["execution"] = {"iopub.execute_input": "2017-06-12"}
    notebook.cells[1].metadata["collapsed"] = True
    notebook.metadata["kernelspec"]["name"] = "mine"
    assert normal_form(notebook) == chapter.read_text("utf-8")
    assert notebook.metadata["kernelspec"]["name"] == "mine"


def test_check_states_what_to_run(chapter: Path, tmp_path: Path) -> None:
    other = tmp_path / "02-other.ipynb"
    other.write_text(json.dumps(stored(chapter)), "utf-8")
    [problem] = check(other)
    assert f"python -m tools.notebooks normalise {other}" in problem
    notebooks.normalise(other)
    assert check(other) == []
    assert other.read_bytes() == chapter.read_bytes()


def cell_with(
    source: str = "1", output: NotebookNode | None = None, **metadata: Any
) -> NotebookNode:
    cell = new_code_cell(source, metadata=metadata, outputs=[output] if output else [])
    return new_notebook(cells=[cell])


def picture(text: str, size: int = 100) -> NotebookNode:
    return new_output("display_data", data={"image/png": "A" * size, "text/plain": text})


@pytest.mark.parametrize(
    ("notebook", "message"),
    [
        (cell_with("# NBVAL_IGNORE_OUTPUT\nx"), "excludes its output"),
        (cell_with(tags=["raises-exception"]), "excludes its output"),
        (cell_with(output=new_output("error", ename="ValueError")), "raises ValueError"),
        (cell_with(output=new_output("stream", name="stderr", text="Warning: x")), "stderr"),
        (cell_with(output=new_output("stream", text="<thing at 0x7f00aa>")), "define __repr__"),
        (cell_with(output=picture("<Figure size 1x1>")), "picture without a text"),
        (cell_with(output=picture("A line.", 100_000)), "75 KB"),
    ],
)
def test_problems_are_reported(notebook: NotebookNode, message: str) -> None:
    [problem] = problems(notebook)
    assert message in problem
    assert problem.startswith("code cell 1 ")


WARNS = "import warnings\nwarnings.warn('careful', stacklevel=1)"


@pytest.mark.parametrize(
    ("sources", "messages"),
    [
        (["1 / 0"], ["ZeroDivisionError"]),
        ([WARNS, "assert 1 > 2"], ["stderr", "This differs from the book"]),
    ],
)
def test_a_chapter_with_problems_is_not_changed(
    tmp_path: Path, sources: list[str], messages: list[str]
) -> None:
    path = tmp_path / "03-wrong.ipynb"
    path.write_text(normal_form(new_notebook(cells=list(map(new_code_cell, sources)))), "utf-8")
    before = path.read_bytes()
    for problem, message in zip(refresh(path), messages, strict=True):
        assert message in problem
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_kernels_do_not_use_the_settings_and_the_font_list_of_the_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "matplotlibrc").write_text("figure.dpi: 7\n", "utf-8")
    monkeypatch.setenv("MPLCONFIGDIR", str(tmp_path))
    code = (
        "import matplotlib, matplotlib.font_manager as fonts; "
        "print(matplotlib.rcParams['figure.dpi'], fonts.findfont('STIXGeneral'))"
    )
    found = subprocess.run(
        [sys.executable, "-c", code],
        env=notebooks.kernel_environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stderr == ""
    dpi, font = found.stdout.split(maxsplit=1)
    assert dpi == "100.0"
    assert Path(font.strip()).name == "STIXGeneral.ttf"
    assert list(notebooks.matplotlib_folder().glob("fontlist*.json"))
