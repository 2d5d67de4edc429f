"""The order of imports, the length of files, doctests, and machine-specific paths."""

import ast
import doctest
import importlib
import re
import subprocess
from pathlib import Path

import pytest

import tfmr
from tools import module_order
from tools.notebooks import chapters

ROOT = Path(tfmr.__file__).parent.parent
ORDER = module_order()
MODULES = sorted((ROOT / "tfmr").rglob("*.py"))
SOURCES = sorted(
    path
    for folder in ("tfmr", "tests", "tools", "benchmarks")
    for path in (ROOT / folder).rglob("*.py")
    if "__pycache__" not in path.parts
)


def component(path: Path) -> str:
    """The module or subpackage of ``tfmr`` that ``path`` belongs to."""
    return path.relative_to(ROOT / "tfmr").parts[0].removesuffix(".py")


def modules(path: Path) -> set[str]:
    """The modules that the file ``path`` imports, at any depth."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: expected an absolute import"
            module = node.module or ""
            found |= {f"tfmr.{a.name}" for a in node.names} if module == "tfmr" else {module}
    return found


def imported(path: Path) -> set[str]:
    """The modules and subpackages of ``tfmr`` that the file ``path`` imports."""
    names = {name.split(".")[1] for name in modules(path) if name.startswith("tfmr.")}
    return names - {"__version__"}


def test_a_module_imports_only_from_lower_modules() -> None:
    for path in MODULES:
        own = component(path)
        lower = ORDER[: ORDER.index(own)] if own != "__init__" else ORDER
        assert imported(path) <= {own, *lower}, path


LOWER = {"tfmr": set(), "tools": {"tfmr"}, "benchmarks": {"tfmr", "tools"}}
"""What the modules of a folder may import of the other folders."""


@pytest.mark.parametrize("folder", LOWER)
def test_a_folder_imports_only_from_lower_folders(folder: str) -> None:
    higher = {"tfmr", "tools", "benchmarks", "tests"} - LOWER[folder] - {folder}
    for path in (ROOT / folder).rglob("*.py"):
        assert not higher & {name.split(".")[0] for name in modules(path)}, path


def test_the_module_order_is_complete() -> None:
    assert {component(path) for path in MODULES} - {"__init__"} == set(ORDER)
    assert len(set(ORDER)) == len(ORDER)


def test_imports_are_found_at_any_depth(tmp_path: Path) -> None:
    module = tmp_path / "layers.py"
    module.write_text(
        "from tfmr import model\nimport tfmr.train.loss\nfrom tfmr.data.bpe import x\n"
    )
    assert imported(module) == {"model", "train", "data"}


def test_a_file_has_at_most_700_lines() -> None:
    for path in SOURCES:
        assert len(path.read_text("utf-8").splitlines()) <= 700, path


def test_the_examples_in_docstrings_are_correct() -> None:
    for path in MODULES:
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        if path.name != "__main__.py":
            assert doctest.testmod(importlib.import_module(name)).failed == 0, name


def test_every_notebook_is_a_chapter_of_the_book() -> None:
    assert sorted((ROOT / "book").glob("*.ipynb")) == sorted(chapters())


def tracked() -> list[Path]:
    """All files of the project that git does not ignore."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    paths = (ROOT / name for name in listed.split("\0") if name)
    return [path for path in paths if path.is_file()]


FOLDERS = ("home", "work", "root", "tmp", "Users")
REGISTRIES = ("py|pi.org", "python|hosted.org", "npm|js.org", "npm|js.com")
FOREIGN = re.compile(
    "|".join(
        [rf"(?<![\w.}}])/{folder}/\w" for folder in FOLDERS]
        + [re.escape(host.replace("|", "")) for host in REGISTRIES]
        # The address of the CPU builds in PyTorch's instructions is the only one allowed.
        + [r"download\.py" + r"torch\.org(?!/whl/cpu\b)"]
        + [r"\.\./" + "shared"]
    )
)
"""Machine-specific paths and package registries; split, so that this file does not match."""


@pytest.mark.parametrize(
    "line",
    [
        "cd /" + "home/me",
        "https://registry.npm" + "js.org/mathjax",
        "https://download.py" + "torch.org/whl/cu128",
    ],
)
def test_the_pattern_matches(line: str) -> None:
    assert FOREIGN.search(line)


def test_no_file_has_a_machine_specific_path_or_registry() -> None:
    found_lines = []
    for path in tracked():
        try:
            text = path.read_text("utf-8")
        except UnicodeDecodeError:
            continue
        for number, line in enumerate(text.splitlines(), start=1):
            if '"image/png"' not in line and (found := FOREIGN.search(line)):
                found_lines.append(f"{path.relative_to(ROOT)}:{number}: {found[0]}")
    assert found_lines == []
