"""What a reader loads to see all of a page: bytes on the wire, with gzip, and requests."""

import gzip
import os
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, CDPSession

from tests.pages.conftest import SITE, page_names, serve
from tests.pages.reference import ALIKE, OPENED

KB = 1000
TEXT_PAGE, LIVE_PAGE = 300 * KB, 500 * KB
REQUESTS = 40
WORDS = 100 * KB
"""The limit of a generated page without the fonts and the files that it loads."""

SCROLL = """async () => {
    const { documentElement } = document;
    const frame = () => new Promise(requestAnimationFrame);
    for (let y = 0; y < documentElement.scrollHeight; y += innerHeight) {
        scrollTo({ top: y, behavior: "instant" });
        await frame();
        await frame();
    }
}"""
COMPLETE = """() =>
    [...document.images].filter(e => e.checkVisibility()).every(e => e.naturalWidth)
    && [...document.querySelectorAll(".live-figure")].every(e => e.querySelector(".live"))"""
"""Whether every picture, and every live figure, of the page is there."""


class Load:
    """A page of the browser without a cache, and what it receives."""

    def __init__(self, chromium: Browser, base: str) -> None:
        self.base = base
        self.page = chromium.new_context(viewport={"width": 390, "height": 844}).new_page()
        self.network: CDPSession = self.page.context.new_cdp_session(self.page)
        self.network.send("Network.enable")
        self.network.send("Network.setCacheDisabled", {"cacheDisabled": True})
        self.sizes: list[int] = []
        self.network.on(
            "Network.loadingFinished", lambda event: self.sizes.append(event["encodedDataLength"])
        )

    def read(self, name: str) -> tuple[int, int]:
        """The bytes and the number of requests of a page, when a reader has seen all of it."""
        # The page before may still load pictures; what it receives is not part of this page.
        self.page.goto("about:blank")
        self.sizes.clear()
        self.page.goto(f"{self.base}/{name}", wait_until="load")
        self.page.evaluate("() => document.fonts.ready")
        self.page.evaluate(SCROLL)
        self.page.wait_for_function(COMPLETE)
        self.page.wait_for_load_state("networkidle")
        assert self.page.workers == [], "the loads of a worker would not be counted"
        return int(sum(self.sizes)), len(self.sizes)


@pytest.fixture(scope="module")
def load(chromium: Browser, address: str) -> Iterator[Load]:
    made = Load(chromium, address)
    yield made
    made.page.context.close()


def compressed(name: str) -> int:
    return len(gzip.compress((SITE / name).read_bytes()))


@pytest.mark.parametrize("name", [name for name in page_names() if name not in ALIKE])
def test_a_page_is_light(load: Load, name: str) -> None:
    live = "live-figure" in (SITE / name).read_text("utf-8")
    size, requests = load.read(name)
    assert size <= (LIVE_PAGE if live else TEXT_PAGE)
    assert requests <= REQUESTS
    if name in OPENED:
        assert size - compressed(name) < TEXT_PAGE - WORDS, "what all pages of this kind load"


def test_every_generated_page_is_light() -> None:
    for name in ALIKE:
        assert compressed(name) < WORDS, name


def test_the_server_compresses_a_changed_file_again(tmp_path: Path) -> None:
    page = tmp_path / "index.html"
    page.touch()
    for base in serve(tmp_path):
        for seconds, text in enumerate(("before", "after")):
            page.write_text(text, "utf-8")
            os.utime(page, (seconds, seconds))
            request = urllib.request.Request(f"{base}/", headers={"Accept-Encoding": "gzip"})
            with urllib.request.urlopen(request) as answer:
                assert gzip.decompress(answer.read()).decode() == text


def test_the_server_compresses_text_only(address: str) -> None:
    def encoding(path: str, accepted: str) -> str | None:
        request = urllib.request.Request(f"{address}/{path}", headers={"Accept-Encoding": accepted})
        with urllib.request.urlopen(request) as answer:
            body = answer.read()
            assert len(body) == int(answer.headers["Content-Length"])
            given: str | None = answer.headers["Content-Encoding"]
            assert (answer.headers["Vary"] == "Accept-Encoding") == bool(given)
            assert answer.headers["Content-Type"]
        plain = (SITE / (path.partition("?")[0] or "index.html")).read_bytes()
        assert (gzip.decompress(body) if given else body) == plain
        return given

    assert encoding("", "gzip, br") == "gzip"
    assert encoding("?v=1", "gzip") == "gzip"
    for name in ("site.css", "first.js", "favicon.svg"):
        assert encoding(f"_static/{name}", "gzip") == "gzip"
    assert encoding("index.html", "identity") is None
    font = "_static/katex/fonts/KaTeX_Main-Regular.woff2"
    assert encoding(font, "gzip") is None
