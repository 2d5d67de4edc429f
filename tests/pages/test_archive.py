"""The archive of ``make dist`` as its reader gets it: unpacked and opened from ``file://``."""

import re
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.pages.conftest import SITE
from tools import dist

EXAMPLE, TRANSLATION = "Zwei Hunde spielen im Schnee.", "Two dogs are playing in the snow."
POLICY = 'meta[http-equiv="Content-Security-Policy"]'


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that unpacking the archive of the site creates."""
    target = tmp_path_factory.mktemp("archive")
    dist.pack(SITE.parent, target / "archive.zip")
    with zipfile.ZipFile(target / "archive.zip") as archive:
        archive.extractall(target)
    return target / dist.FOLDER


@pytest.fixture
def page(chromium: Browser) -> Iterator[Page]:
    """A page that reports every error and every warning when the test ends."""
    opened = chromium.new_page(viewport={"width": 1280, "height": 900})
    found: list[str] = []
    opened.on("pageerror", lambda error: found.append(str(error)))
    opened.on(
        "console",
        lambda message: (
            found.append(message.text) if message.type in ("error", "warning") else None
        ),
    )
    yield opened
    opened.close()
    assert found == []


def open_page(page: Page, file: Path) -> None:
    """Open a page with its own policy, and wait for its fonts."""
    page.goto(file.as_uri(), wait_until="load")
    expect(page.locator(POLICY)).to_have_count(1)
    assert page.evaluate("document.fonts.load('18px \"Source Serif 4\"').then(f => f.length)") == 1


def test_the_cover_works(folder: Path, page: Page) -> None:
    page.goto((folder / "index.html").as_uri())
    page.wait_for_url("**/en/index.html")
    expect(page.locator(POLICY)).to_have_count(1)
    figure = page.locator(".live-figure").first
    figure.scroll_into_view_if_needed()
    figure.locator(".live").wait_for(timeout=10_000)
    page.get_by_role("link", name=re.compile("^Start")).first.click()
    page.wait_for_url("**/en/0*.html")


def test_the_translator_translates(folder: Path, page: Page) -> None:
    open_page(page, folder / "en" / "translator.html")
    live = page.locator(".live")
    live.get_by_label("Sentence in").fill(EXAMPLE)
    live.get_by_role("button", name="ranslate").click()
    expect(live.locator(".tra-translation")).to_have_text(TRANSLATION, timeout=60_000)


def test_a_live_figure_works(folder: Path, page: Page) -> None:
    open_page(page, folder / "en" / "04-self-attention.html")
    place = page.locator(".live-figure").first
    place.scroll_into_view_if_needed()
    box = place.get_by_label("causal mask")
    before = place.locator(".live-status").inner_text()
    box.check()
    expect(place.locator(".live-status")).not_to_have_text(before)


def test_the_search_works(folder: Path, page: Page) -> None:
    page.goto((folder / "en" / "search.html").as_uri() + "?q=kv+cache")
    expect(page.locator("#search-page [role=option]").first).to_be_visible()
