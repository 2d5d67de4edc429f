"""The page of ``export --page``: one file, opened from a disk, that translates as Python does."""

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, Request, expect

from tests.pages.conftest import CONTRAST, NAMELESS, OVERFLOW
from tests.pages.live import choose
from tfmr import checkpoint
from tfmr.checkpoint import Checkpoint
from tfmr.decode import translate
from tfmr.records import record_path
from tfmr.widgets.page_model import rounded
from tfmr.widgets.translator_page import translator_page

EXAMPLES = ["Zwei Hunde spielen im Schnee.", "</script><b>Ein & Mann</b>"]
OWN = "Eine Frau liest ein Buch am Strand."


@pytest.fixture(scope="module")
def model() -> Checkpoint:
    return checkpoint.load(record_path("multi30k-de-en") / "model.safetensors")


@pytest.fixture
def page(chromium: Browser) -> Iterator[Page]:
    """A page that requests no other file, and reports no error when the test ends."""
    opened = chromium.new_page(viewport={"width": 390, "height": 900}, color_scheme="dark")
    found: list[str] = []

    def note(request: Request) -> None:
        if not request.url.startswith(("file:", "data:")):
            found.append(request.url)

    opened.on("request", note)
    opened.on("pageerror", lambda error: found.append(str(error)))
    opened.on("console", lambda message: found.append(message.text))
    yield opened
    opened.close()
    assert found == []


def run(page: Page, text: str) -> None:
    live = page.locator(".live")
    live.get_by_label("Sentence in").fill(text)
    live.get_by_role("button", name="ranslate").click()
    expect(live.get_by_role("button", name="Cancel")).to_have_count(0)


@pytest.mark.parametrize("beam", [1, 4])
def test_it_translates_as_python_does(
    page: Page, tmp_path: Path, model: Checkpoint, beam: int
) -> None:
    file = tmp_path / "mine.html"
    file.write_text(translator_page(model, "mine", EXAMPLES), encoding="utf-8")
    page.goto(file.as_uri())
    live = page.locator(".live")
    options = live.get_by_label("Example").locator("option")
    expect(options).to_have_text(["your own sentence", *EXAMPLES])
    choose(live, "Search", "greedy" if beam == 1 else "beam of 4")
    for text in (EXAMPLES[1], OWN):
        run(page, text)
        [expected] = translate(rounded(model).model(), model.tokenizer, [text], beam=beam)
        expect(live.locator(".tra-translation")).to_have_text(expected)
    for fault in (CONTRAST, NAMELESS, OVERFLOW):
        assert page.evaluate(fault) == []


@pytest.mark.parametrize(
    ("direction", "label"),
    [
        ("de-en", "Sentence in German"),
        ("source-target", "Sentence in the source language"),
        ("x_y-en", "Sentence in x_y"),
    ],
)
def test_the_languages_are_named(
    page: Page, tmp_path: Path, model: Checkpoint, direction: str, label: str
) -> None:
    saved = dataclasses.replace(model, metadata={"direction": direction})
    file = tmp_path / "mine.html"
    file.write_text(translator_page(saved, "mine"), encoding="utf-8")
    page.goto(file.as_uri())
    expect(page.get_by_label(label, exact=True)).to_have_value("")
