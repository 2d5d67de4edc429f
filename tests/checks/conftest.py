"""A small copy of the project, in which tests plant faults."""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from nbformat.v4 import new_code_cell, new_notebook

from tools import ROOT
from tools.notebooks import normal_form, read

COPIED = ("tfmr", "tools", "tests/conftest.py", "pyproject.toml", "requirements.lock")

EXECUTED: dict[tuple[object, ...], str] = {}
"""The chapters that were executed, by their code, their name and the settings."""


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

    def chapter(self, pattern: str, cells: int) -> str:
        """Add the first code cells of the chapter that matches ``pattern``; return its name."""
        [original] = (ROOT / "book").glob(pattern)
        name = original.relative_to(ROOT).as_posix()
        notebook = read(self.add(name))
        code = [cell for cell in notebook.cells if cell.cell_type == "code"]
        notebook.cells = code[:cells]
        (self.root / name).write_text(normal_form(notebook), "utf-8")
        return name

    def write_chapter(
        self, *sources: str, name: str = "book/01-small.ipynb", **settings: str
    ) -> str:
        """Write a chapter with code cells and execute it, once for all copies of the project."""
        path = self.root / name
        path.parent.mkdir(exist_ok=True)
        made = (sources, name, tuple(settings.items()))
        if made not in EXECUTED:
            cells = [new_code_cell(source) for source in sources]
            path.write_text(normal_form(new_notebook(cells=cells)), "utf-8")
            done = self.run("tools.notebooks", "refresh", name, **settings)
            assert done.returncode == 0, done.stderr
            EXECUTED[made] = path.read_text("utf-8")
        path.write_text(EXECUTED[made], "utf-8")
        return name

    def write_chapters(self, sources: Mapping[str, Sequence[str]]) -> None:
        """Write chapters, given by their names and code cells, and execute them."""
        for name, cells in sources.items():
            notebook = new_notebook(cells=[new_code_cell(cell) for cell in cells])
            (self.root / name).parent.mkdir(exist_ok=True)
            (self.root / name).write_text(normal_form(notebook), "utf-8")
        done = self.run("tools.notebooks", "refresh", *sources)
        assert done.returncode == 0, done.stderr

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

    def verify(self, *arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
        """Run ``python -m tools.verify`` in the copy."""
        return self.run("tools.verify", *arguments, **settings)

    def stamped(self) -> list[str]:
        """The names of the verified chapters."""
        return sorted(path.stem for path in (self.root / ".verified").glob("*.json"))

    def unit_tests(self, name: str, *needed: str) -> subprocess.CompletedProcess[str]:
        """Run a test file, which needs other files, in the copy, up to the first failure."""
        for file in (name, *needed):
            self.add(file)
        return self.run("pytest", "-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", name)


@pytest.fixture
def copy(tmp_path: Path) -> Copy:
    return Copy(tmp_path)
