"""A small copy of the project, in which tests plant faults."""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_notebook, new_output

from tools import ROOT
from tools.notebooks import normal_form, read

COPIED = (
    *("tfmr", "tools", "tests/conftest.py", "tests/shapes.py"),
    *("pyproject.toml", "requirements.lock"),
)


class Copy:
    """A copy of the project with methods to change it and to run its checks."""

    def __init__(self, root: Path) -> None:
        self.root = root
        for name in COPIED:
            self.add(name)

    def add(self, name: str) -> Path:
        """Copy a file or folder of the project to the same place in the copy."""
        source, target = ROOT / name, self.root / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target)
        else:
            shutil.copy(source, target)
        return target

    def write(self, name: str, *cells: NotebookNode) -> None:
        """Write a chapter in normal form."""
        path = self.root / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(normal_form(new_notebook(cells=cells)), "utf-8")

    def plant(self, name: str, correct: str, faulty: str) -> None:
        """Replace ``correct``, which the file must contain, by ``faulty``."""
        path = self.root / name
        text = path.read_text("utf-8")
        assert correct in text, f"{name} no longer contains {correct!r}; update the planted fault"
        path.write_text(text.replace(correct, faulty), "utf-8")

    def run(
        self, module: str, *arguments: str, **settings: str
    ) -> subprocess.CompletedProcess[str]:
        """Run ``python -m module`` in the copy, with the environment variables ``settings``."""
        environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}
        return subprocess.run(
            [sys.executable, "-m", module, *arguments],
            cwd=self.root,
            env=environment | {"PYTHONPATH": str(self.root)} | settings,
            capture_output=True,
            text=True,
            check=False,
        )

    def stamped(self) -> list[str]:
        """The names of the verified chapters."""
        return sorted(path.stem for path in (self.root / ".verified").glob("*.json"))

    def unit_tests(self, nodes: Sequence[str]) -> subprocess.CompletedProcess[str]:
        """Run tests, whose files are added."""
        for file in {node.partition("::")[0] for node in nodes}:
            self.add(file)
        options = ("-q", "-p", "no:cacheprovider")
        return self.run("pytest", *options, *nodes, PYTEST_DISABLE_PLUGIN_AUTOLOAD="1")


def printing(source: str, text: str = "") -> NotebookNode:
    """A code cell that was executed and printed ``text``."""
    return new_code_cell(source, outputs=[new_output("stream", text=text)] if text else [])


def cells_of(pattern: str, *parts: str) -> list[NotebookNode]:
    """The code cells of a chapter of the book that contain one of ``parts``, one for each."""
    [path] = (ROOT / "book").glob(pattern)
    code = [cell for cell in read(path).cells if cell.cell_type == "code"]
    found = [[cell for cell in code if part in cell.source] for part in parts]
    assert all(len(cells) == 1 for cells in found), f"{path.name} has changed; name its cells anew"
    return [cell for [cell] in found]


@pytest.fixture
def copy(tmp_path: Path) -> Copy:
    return Copy(tmp_path)
