"""The package reference has one page per module."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tools.site import reference


def test_modules_are_in_the_order_of_the_package(tmp_path: Path) -> None:
    package = tmp_path / "tfmr"
    for name in (
        "model",
        "attention",
        "__main__",
        "unlisted",
        "data/batches",
        "_private",
        "errors",
    ):
        file = package / f"{name}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    for folder, text in (
        ("data", '"""None."""\n'),
        ("widgets", "def __getattr__(name):\n    pass\n"),
    ):
        (package / folder).mkdir(exist_ok=True)
        (package / folder / "__init__.py").write_text(text)
    (package / "encoder").mkdir()
    (package / "encoder/__init__.py").write_text("class Encoder:\n    pass\n")
    assert reference.modules(package) == [
        "tfmr.errors",
        "tfmr.attention",
        "tfmr.encoder",
        "tfmr.model",
        "tfmr.data.batches",
        "tfmr.unlisted",
    ]


def test_the_pages_are_those_of_the_modules(tmp_path: Path) -> None:
    (tmp_path / "tfmr" / "data").mkdir(parents=True)
    for name in ("model", "errors", "data/batches"):
        (tmp_path / "tfmr" / f"{name}.py").touch()
    (tmp_path / "book" / "api").mkdir(parents=True)
    (tmp_path / "book" / "api" / "gone.md").touch()
    app: Any = SimpleNamespace(srcdir=tmp_path)
    reference.write_pages(app, app)
    pages = {page.stem: page.read_text("utf-8") for page in (tmp_path / "book" / "api").iterdir()}
    assert sorted(pages) == ["data-batches", "errors", "model"]
    assert pages["data-batches"].startswith("# tfmr.data.batches\n")
    assert ".. automodule:: tfmr.data.batches\n" in pages["data-batches"]
