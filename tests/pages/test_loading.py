"""What happens while a page loads: what is in view does not move, and little is transferred.

On a slow connection, fonts and figures arrive late. The weight of a page is what a reader loads to
see all of it: bytes on the wire, with gzip, and requests.
"""

import gzip
import os
import socket
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, CDPSession, Page, Route

from tests.pages.conftest import PATIENCE, SITE, Visit, page_names, serve
from tests.pages.reference import ALIKE, OPENED
from tools import ROOT

KB = 1000
TEXT_PAGE, LIVE_PAGE = 300 * KB, 500 * KB
REQUESTS = 40
WORDS = 100 * KB
"""The limit of a generated page without the fonts and the files that it loads."""
SLOW = {"offline": False, "latency": 100, "downloadThroughput": 3e5, "uploadThroughput": 1e5}
"""Milliseconds, and bytes per second."""
OBSERVE = """
window.shifts = [];
new PerformanceObserver((list) => {
    for (const { value, sources } of list.getEntries()) {
        window.shifts.push([value, sources.map(({ node }) => node?.className || node?.nodeName)]);
    }
}).observe({ type: "layout-shift", buffered: true });"""
HELD = """
window.seconds = [];
const set = window.setTimeout;
window.setTimeout = (run, delay, ...rest) =>
    delay === 1000 ? window.seconds.push(run) : set(run, delay, ...rest);
"""
"""Keeps what is to run after one second, so that a slow machine does not run it too early."""
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
    [...document.images].filter(e => e.checkVisibility()).every(e => e.complete && e.naturalWidth)
    && [...document.querySelectorAll(".live-figure")].every(e => e.querySelector(".live"))"""
"""Whether every picture, and every live figure, of the page is there."""


class Load:
    """A page of the browser without a cache, and what it receives."""

    def __init__(self, chromium: Browser, base: str) -> None:
        self.base = base
        self.page = chromium.new_context().new_page()
        self.page.add_init_script(OBSERVE + HELD)
        self.network: CDPSession = self.page.context.new_cdp_session(self.page)
        self.network.send("Network.enable")
        self.network.send("Network.setCacheDisabled", {"cacheDisabled": True})
        self.network.send("Network.emulateNetworkConditions", SLOW)
        self.sizes: list[int] = []
        self.pending: set[str] = set()
        self.network.on(
            "Network.requestWillBeSent", lambda sent: self.pending.add(sent["requestId"])
        )
        self.network.on("Network.loadingFailed", self.end)
        self.network.on("Network.loadingFinished", self.end)

    def end(self, event: dict[str, Any]) -> None:
        self.sizes.append(event.get("encodedDataLength", 0))
        self.pending.discard(event["requestId"])

    def open(self, name: str, width: int) -> None:
        """Open a page; nothing that is in view may move before all of it is there."""
        # The page before may still load pictures; what it receives is not part of this page.
        self.page.goto("about:blank")
        self.sizes.clear()
        self.pending.clear()
        self.page.set_viewport_size({"width": width, "height": 844})
        self.page.goto(f"{self.base}/{name}", wait_until="networkidle")
        self.page.evaluate("() => document.fonts.ready")
        self.page.evaluate(
            "() => new Promise(done => requestAnimationFrame(() => setTimeout(done, 100)))"
        )
        shifts = self.page.evaluate("window.shifts")
        # The Core Web Vitals allow 0.1; a paragraph with one more line adds about 0.05.
        assert sum(value for value, _ in shifts) < 0.02, shifts

    def read(self) -> tuple[int, int]:
        """The bytes and the number of requests of the page, when a reader has seen all of it."""
        # A high window shows all of the page in a few steps, each of which takes processor time.
        self.page.set_viewport_size({"width": self.page.evaluate("innerWidth"), "height": 3400})
        self.page.evaluate(SCROLL)
        self.page.wait_for_function(COMPLETE)
        for _ in range(PATIENCE // 20):
            if not self.pending:
                break
            self.page.wait_for_timeout(20)
        assert not self.pending, "a request did not end"
        assert self.page.workers == [], "the loads of a worker would not be counted"
        return int(sum(self.sizes)), len(self.sizes)


@pytest.fixture(scope="module")
def load(chromium: Browser, address: str) -> Iterator[Load]:
    made = Load(chromium, address)
    yield made
    made.page.context.close()


def compressed(name: str) -> int:
    return len(gzip.compress((SITE / name).read_bytes()))


def test_scripts_are_loaded_without_their_comments() -> None:
    scripts = ROOT / "book" / "_assets"
    for script in scripts.rglob("*.js"):
        written = script.read_text("utf-8").splitlines()
        loaded = (SITE / "_static" / script.relative_to(scripts)).read_text("utf-8").splitlines()
        left_out = [line.strip() for line in written if line not in loaded]
        assert left_out, script
        assert all(line.startswith(("//", "/**")) for line in left_out)
        assert not any(line.strip().startswith(("//", "/**")) for line in loaded)


@pytest.mark.parametrize("name", [name for name in page_names() if name not in ALIKE])
def test_a_page_is_light_and_steady(load: Load, name: str) -> None:
    load.open(name, 390)
    size, requests = load.read()
    live = "live-figure" in (SITE / name).read_text("utf-8")
    assert size <= (LIVE_PAGE if live else TEXT_PAGE)
    assert requests <= REQUESTS
    if name in OPENED:
        assert size - compressed(name) < TEXT_PAGE - WORDS, "what all pages of this kind load"
    else:
        load.open(name, 1280)


def test_every_generated_page_is_light() -> None:
    for name in ALIKE:
        assert compressed(name) < WORDS, name


def test_the_text_does_not_move_when_the_contents_beside_it_arrive(visit: Visit) -> None:
    """They are behind the text of a long page."""
    page = visit.open("12-decoding.html")
    place = "() => document.querySelector('article').getBoundingClientRect().toJSON()"
    before = page.evaluate(place)
    page.evaluate("() => document.querySelector('#pst-secondary-sidebar').remove()")
    assert page.evaluate(place) == before


def held(page: Page, address: str) -> list[Route]:
    """Open a chapter whose lines break elsewhere in another typeface, and hold its typefaces."""
    requests: list[Route] = []
    page.add_init_script(OBSERVE + HELD)
    page.route("**/source-serif-4-*", lambda route: requests.append(route))
    page.goto(f"{address}/06-position.html", wait_until="domcontentloaded")
    while len(requests) < 3:
        page.wait_for_timeout(20)
    assert not page.locator("article h1").is_visible()
    return requests


def test_the_text_waits_for_its_typefaces(chromium: Browser, address: str) -> None:
    page = chromium.new_page(viewport={"width": 390, "height": 844})
    for request in held(page, address):
        request.continue_()
    page.locator("article h1").wait_for()
    page.wait_for_load_state("networkidle")
    assert sum(value for value, _ in page.evaluate("window.shifts")) < 0.02
    page.close()


def test_a_typeface_that_fails_is_not_waited_for(chromium: Browser, address: str) -> None:
    page = chromium.new_page()
    for request in held(page, address):
        request.abort()
    page.locator("article h1").wait_for()
    page.close()


def test_the_text_waits_for_a_second_at_most(chromium: Browser, address: str) -> None:
    page = chromium.new_page()
    held(page, address)
    page.evaluate("() => window.seconds.forEach(run => run())")
    page.locator("article h1").wait_for()
    page.close()


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


def test_a_browser_keeps_what_has_another_address_when_it_changes(address: str) -> None:
    def kept(path: str) -> bool:
        try:
            answer = urllib.request.urlopen(f"{address}/{path}")
        except urllib.error.HTTPError as missing:
            answer = missing
        with answer:
            return "immutable" in answer.headers.get("Cache-Control", "")

    assert kept("_static/site.css?v=1")
    assert kept("_static/card.png?v=1")
    for path in ("_static/site.css", "index.html", "_static/none.css?v=1"):
        assert not kept(path), path


def test_a_request_that_cannot_be_parsed_is_answered(address: str) -> None:
    host, port = address.removeprefix("http://").split("/")[0].split(":")
    with socket.create_connection((host, int(port)), timeout=PATIENCE / 1000) as connection:
        connection.sendall(b"BAD\r\n\r\n")
        assert b"400" in connection.makefile("rb").read()
