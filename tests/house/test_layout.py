"""The house is as described: modules import downwards, files are short, no address is foreign."""

import ast
import doctest
import importlib
import re
import subprocess
from pathlib import Path

import pytest

import tfmr
from tools.notebooks import chapters

ROOT = Path(tfmr.__file__).parent.parent
ORDER = (
    *(
        "errors",
        "special_tokens",
        "dtype",
        "translator",
        "recurrent",
        "attention",
        "additive_attention",
        "local_attention",
    ),
    *(
        "position",
        "layers",
        "encoder",
        "decoder",
        "arranged",
        "step",
        "model",
        "seq2seq",
        "registry",
        "data",
    ),
    *("decode", "train", "analysis", "figures", "widgets", "commands", "__main__"),
)
MODULES = sorted((ROOT / "tfmr").rglob("*.py"))
SOURCES = sorted(
    path
    for folder in ("tfmr", "tests", "tools", "benchmarks")
    for path in (ROOT / folder).rglob("*.py")
    if "__pycache__" not in path.parts
)


def idea(path: Path) -> str:
    """The module or subpackage of ``tfmr`` that ``path`` belongs to."""
    return path.relative_to(ROOT / "tfmr").parts[0].removesuffix(".py")


def imported(path: Path) -> set[str]:
    """The modules and subpackages of ``tfmr`` that the file ``path`` imports, at any depth."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: write the whole name instead of a relative import"
            module = node.module or ""
            found |= {f"tfmr.{a.name}" for a in node.names} if module == "tfmr" else {module}
    return {name.split(".")[1] for name in found if name.startswith("tfmr.")} - {"__version__"}


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_module_imports_only_from_those_below_it(path: Path) -> None:
    own = idea(path)
    if own == "__init__":
        return
    assert own in ORDER, f"tfmr/{own} has no place in the order of the book"
    above = {name for name in imported(path) - {own} if ORDER.index(name) >= ORDER.index(own)}
    assert not above, f"tfmr/{own} imports from above: {sorted(above)}"


def test_the_package_tells_its_order() -> None:
    told = (tfmr.__doc__ or "").split("::")[1].split("Axis names")[0]
    assert tuple(told.replace("→", " ").split()) == ORDER


def test_an_arrow_that_points_up_is_seen(tmp_path: Path) -> None:
    module = tmp_path / "layers.py"
    module.write_text(
        "from tfmr import model\nimport tfmr.train.loss\nfrom tfmr.data.bpe import x\n"
    )
    assert imported(module) == {"model", "train", "data"}


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_file_fits_a_readers_head(path: Path) -> None:
    assert len(path.read_text("utf-8").splitlines()) <= 400


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_the_examples_in_docstrings_hold(path: Path) -> None:
    if path.name == "__main__.py":
        return
    name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    assert doctest.testmod(importlib.import_module(name)).failed == 0


def test_every_notebook_is_a_chapter_of_the_book() -> None:
    assert sorted((ROOT / "book").glob("*.ipynb")) == sorted(chapters())


def tracked() -> list[Path]:
    """The files of the project: those that git knows and those that it does not ignore."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    paths = (ROOT / name for name in listed.split("\0") if name)
    return [path for path in paths if path.is_file()]


FOLDERS = ("home", "work", "root", "tmp", "Users")
REGISTRIES = ("py|pi.org", "python|hosted.org", "npm|js.org", "npm|js.com", "download.py|torch.org")
FOREIGN = re.compile(
    "|".join(
        [rf"(?<![\w.}}])/{folder}/\w" for folder in FOLDERS]
        + [re.escape(host.replace("|", "")) for host in REGISTRIES]
        + [r"\.\./" + "shared"]
    )
)
"""Paths of one machine and hosts of registries, in pieces, so that this file does not name them."""


@pytest.mark.parametrize("line", ["cd /" + "home/me", "https://registry.npm" + "js.org/mathjax"])
def test_a_foreign_address_is_seen(line: str) -> None:
    assert FOREIGN.search(line)


def test_no_file_names_a_machine_or_a_registry() -> None:
    named = []
    for path in tracked():
        try:
            text = path.read_text("utf-8")
        except UnicodeDecodeError:
            continue
        for number, line in enumerate(text.splitlines(), start=1):
            if '"image/png"' not in line and (found := FOREIGN.search(line)):
                named.append(f"{path.relative_to(ROOT)}:{number}: {found[0]}")
    assert named == []
