"""The package reference has one page per module."""

from pathlib import Path

import pytest

from tools import ROOT, api_pages

TOC = "parts:\n  - file: book/api\n    - file: book/api/gone\n  - file: book/end\n"


@pytest.fixture
def book(tmp_path: Path) -> Path:
    """A book with the modules *errors* and *model*, and a page of a module that is gone."""
    (tmp_path / "tfmr").mkdir()
    for name in ("model", "errors"):
        (tmp_path / "tfmr" / f"{name}.py").touch()
    (tmp_path / "book" / "api").mkdir(parents=True)
    (tmp_path / "book" / "api" / "gone.md").touch()
    (tmp_path / "_toc.yml").write_text(TOC)
    return tmp_path


def test_modules_are_in_the_order_of_the_package(tmp_path: Path) -> None:
    package = tmp_path / "tfmr"
    for name in ("model", "attention", "__main__", "later", "data/batches", "_private", "errors"):
        file = package / f"{name}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    (package / "data/__init__.py").write_text('"""Without definitions."""\n')
    (package / "encoder").mkdir()
    (package / "encoder/__init__.py").write_text("class Encoder:\n    pass\n")
    assert api_pages.modules(package) == [
        "tfmr.errors",
        "tfmr.attention",
        "tfmr.encoder",
        "tfmr.model",
        "tfmr.data.batches",
        "tfmr.later",
    ]


def test_what_the_tool_changes(book: Path) -> None:
    toc = TOC.replace("api/gone", "api/errors\n    - file: book/api/model")
    assert api_pages.expected(book) == {
        book / "book/api/errors.md": "# tfmr.errors\n\n<!-- module -->\n",
        book / "book/api/model.md": "# tfmr.model\n\n<!-- module -->\n",
        book / "_toc.yml": toc,
        book / "book/api/gone.md": None,
    }


def test_it_needs_an_entry_to_replace(book: Path) -> None:
    (book / "_toc.yml").write_text("parts: []\n")
    with pytest.raises(
        ValueError, match=r"expected an entry '- file: book/api/\.\.\.' in _toc\.yml"
    ):
        api_pages.expected(book)


def test_the_reference_is_complete() -> None:
    assert api_pages.expected(ROOT) == {}
