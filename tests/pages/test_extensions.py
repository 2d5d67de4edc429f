"""The extensions that the book adds to Sphinx, one by one and without a build."""

import sys
from pathlib import Path

import pytest
from docutils import nodes
from docutils.utils import new_document
from sphinx.errors import ExtensionError
from sphinx.ext.napoleon import Config, GoogleDocstring

from tools import ROOT

sys.path.insert(0, str(ROOT / "book" / "_ext"))

import api
import chapters
import launch


@pytest.mark.parametrize(
    "given",
    [
        "https://github.com/owner/name",
        "https://github.com/owner/name/",
        "https://github.com/owner/name.git",
    ],
)
def test_launch_buttons_need_the_repository(given: str) -> None:
    options = launch.launch_options(given)
    assert options["repository_url"] == "https://github.com/owner/name"
    assert options["launch_buttons"]["colab_url"]
    assert options["launch_buttons"]["binderhub_url"]


def test_no_repository_no_button() -> None:
    assert launch.launch_options("") == {"repository_url": "", "launch_buttons": {}}


@pytest.mark.parametrize(
    "given", ["owner/name", "https://example.org/a/b", "git@github.com:owner/name"]
)
def test_a_wrong_repository_is_named(given: str) -> None:
    with pytest.raises(ExtensionError, match="TFMR_REPOSITORY should be the address"):
        launch.launch_options(given)


@pytest.mark.parametrize(
    ("docname", "number"),
    [
        ("book/04-self-attention", 4),
        ("book/11-training", 11),
        ("book/index", None),
        ("book/api", None),
    ],
)
def test_chapters_have_their_own_numbers(docname: str, number: int | None) -> None:
    assert chapters.chapter_number(docname) == number


def test_a_description_is_the_first_paragraph_and_no_longer_than_it_should_be() -> None:
    section = nodes.section("", nodes.title("", "A title"), nodes.paragraph("", "One. " * 100))
    page = new_document("page")
    page += section
    words = chapters.description(page)
    assert words.startswith("One. One.")
    assert words.endswith("One. …")
    assert len(words) <= chapters.DESCRIPTION_LENGTH + 2


@pytest.mark.parametrize("what", ["attribute", "data", "property"])
def test_what_is_said_of_a_value_is_not_split_at_a_colon(what: str) -> None:
    lines = ["How it is told: in words.", "And more."]
    split = GoogleDocstring(lines, Config(), what=what, name="x").lines()
    assert ":type: How it is told" in split
    api.keep_whole(None, what, "x", None, None, lines)
    whole = GoogleDocstring(lines, Config(), what=what, name="x").lines()
    assert [line for line in whole if line] == ["..", "How it is told: in words.", "And more."]
    assert whole[1] == "", "or the words would be a part of the comment"
    lines = ["How it is done.", "", "Args:", "    x: a number."]
    api.keep_whole(None, "function", "f", None, None, lines)
    assert lines[0] == "How it is done."


def test_modules_come_in_the_order_of_the_book(tmp_path: Path) -> None:
    package = tmp_path / "tfmr"
    for name in ("model", "attention", "__main__", "later", "data/batches", "_private", "errors"):
        file = package / f"{name}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    (package / "data/__init__.py").write_text('"""Says what is in it."""\n')
    (package / "encoder").mkdir()
    (package / "encoder/__init__.py").write_text("class Encoder:\n    pass\n")
    assert api.modules(package) == [
        "tfmr.errors",
        "tfmr.attention",
        "tfmr.encoder",
        "tfmr.model",
        "tfmr.data.batches",
        "tfmr.later",
    ]
