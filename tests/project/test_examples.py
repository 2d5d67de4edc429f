"""Every literal block (``::``) in a docstring of ``tfmr`` is an example that runs.

Blocks that are not Python name their language: ``.. code-block:: text``.
"""

import ast
import itertools
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

import tfmr
from tfmr.records import record_path

ROOT = Path(tfmr.__file__).parent
LANGUAGES = {"text", "javascript", "bash"}
"""What a block may name instead of being run."""
DIRECTIVE = re.compile(r"\s*\.\. code-block:: (\S+)")


def docstrings(path: Path) -> Iterator[str]:
    """Every string that is a statement: of modules, classes, functions and attributes."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        match node:
            case ast.Expr(value=ast.Constant(value=str(text))):
                yield text


def examples(docstring: str) -> Iterator[str]:
    """The Python code of the literal blocks of a docstring."""
    lines = docstring.expandtabs().splitlines()
    for number, line in enumerate(lines):
        directive = DIRECTIVE.fullmatch(line)
        if not (directive or line.rstrip().endswith("::")):
            continue
        inside = re.compile(rf"\s*|\s{{{len(line) - len(line.lstrip()) + 1},}}\S.*").fullmatch
        block = itertools.takewhile(inside, lines[number + 1 :])
        code = textwrap.dedent("\n".join(block)).strip()
        assert code, f"an empty block after {line!r}"
        if not (directive and directive[1] in LANGUAGES):
            yield code


FOUND = [
    pytest.param(code, id=f"{path.relative_to(ROOT)}-{number}")
    for path in sorted(ROOT.rglob("*.py"))
    if "::" in path.read_text("utf-8")
    for number, code in enumerate(
        code for docstring in docstrings(path) for code in examples(docstring)
    )
]


@pytest.mark.parametrize("code", FOUND)
def test_an_example_runs(code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "runs").mkdir()
    for run in ("pocket-en-fr", "multi30k-de-en"):
        (tmp_path / "runs" / run).symlink_to(record_path(run))
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "the example", "exec"), {})


def test_the_first_example_of_the_package_is_found() -> None:
    assert any("load_translator" in str(param.values[0]) for param in FOUND)


@pytest.mark.parametrize(
    ("docstring", "expected"),
    [
        ("As follows::\n\n    a = 1\n\n    b = 2\n\nThen.", ["a = 1\n\nb = 2"]),
        ("One.\n\n    As in::\n\n        x\n", ["x"]),
        ("One.\n\n::\n\n    x\n\nOther::\n\n    y\n", ["x", "y"]),
        ("Formula:\n\n.. code-block:: text\n\n    h ⊙ c\n", []),
        ("Code:\n\n.. code-block:: python\n\n    x\n", ["x"]),
        ("No example: a::b and x :: y.", []),
    ],
)
def test_how_examples_are_found(docstring: str, expected: list[str]) -> None:
    assert list(examples(docstring)) == expected
