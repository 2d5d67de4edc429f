"""A browser, a server of the built site, and a record of what a page requests from other hosts.

The browser reaches this machine only. To intercept the requests would add half to the processor
time of a page, since it also switches off the browser's cache.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, CDPSession, Page, Request, expect, sync_playwright

from tools import ROOT
from tools.browser import FLAGS, browser
from tools.notebooks import chapters
from tools.site.moved import moves
from tools.site.server import server

if TYPE_CHECKING:
    from tests.pages.live import Stage

SITE = ROOT / "site" / "en"
PATIENCE = 60_000
"""Milliseconds after which what does not appear is a failure, also on a busy machine."""
expect.set_options(timeout=PATIENCE)
PHONE = {"has_touch": True, "is_mobile": True}

CONTRAST = """() => {
    const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
    const colours = new Map(), grounds = new Map([[null, [255, 255, 255]]]);
    const rgba = (colour) => {
        if (!colours.has(colour)) {
            canvas.clearRect(0, 0, 1, 1);
            canvas.fillStyle = colour;
            canvas.fillRect(0, 0, 1, 1);
            colours.set(colour, [...canvas.getImageData(0, 0, 1, 1).data]);
        }
        return colours.get(colour);
    };
    const light = ([r, g, b]) => {
        const part = (c) => (c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
        return 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b);
    };
    const behind = (element) => {
        if (!grounds.has(element)) {
            const [r, g, b, a] = rgba(getComputedStyle(element).backgroundColor);
            const under = a === 255 ? [0, 0, 0] : behind(element.parentElement);
            grounds.set(element, [r, g, b].map((c, i) => (c * a + under[i] * (255 - a)) / 255));
        }
        return grounds.get(element);
    };
    const seen = new Map();
    const walker = document.createTreeWalker(document.querySelector("main"), NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
        const element = walker.currentNode.parentElement;
        if (!walker.currentNode.textContent.trim()) continue;
        if (!element.checkVisibility({ opacityProperty: true })) continue;
        if (element.closest("script, style, .katex-mathml, svg, .copybtn, option")) continue;
        const style = getComputedStyle(element);
        const [a, b] = [light(rgba(style.color)), light(behind(element))].sort((x, y) => y - x);
        const ratio = (a + 0.05) / (b + 0.05);
        const size = parseFloat(style.fontSize);
        const enough = size >= 24 || (size >= 18.66 && style.fontWeight >= 700) ? 3 : 4.5;
        if (ratio < enough) {
            const key = `${element.tagName}.${element.className}`;
            const words = walker.currentNode.textContent.trim().slice(0, 30);
            seen.set(key, `${key} ${ratio.toFixed(2)}: ${words}`);
        }
    }
    return [...seen.values()];
}"""
"""Texts with too little contrast, by WCAG 2.1, level AA."""

NAMELESS = """() => [...document.querySelectorAll("button, a.btn, input, select")]
    .filter(e => e.checkVisibility())
    .filter(e => ![e.ariaLabel, e.title, e.innerText, e.labels?.[0]?.innerText].join("").trim())
    .map(e => e.outerHTML.slice(0, 200))"""
"""Controls without an accessible name."""

OVERFLOW = """() => {
    const wide = document.documentElement.scrollWidth;
    if (wide <= innerWidth) return [];
    const own = (e) => ["auto", "scroll", "hidden"].includes(getComputedStyle(e).overflowX);
    const scrolls = (e) => e && (own(e) || scrolls(e.parentElement));
    return [...document.querySelectorAll("main *")]
        .filter(e => e.getBoundingClientRect().right > innerWidth + 1)
        .filter(e => !scrolls(e.parentElement))
        .map(e => `${e.tagName}.${e.className}: ${e.textContent.trim().slice(0, 40)}`)
        .concat(`page: ${wide}`);
}"""
"""What is wider than the window."""


def page_names() -> list[str]:
    """Every page of the built site to which pages may lead, as a path below it."""
    found = sorted(path.relative_to(SITE).as_posix() for path in SITE.rglob("*.html"))
    gone = {f"{page}.html" for page in moves(ROOT)} - {f"{path.stem}.html" for path in chapters()}
    other = ("_static/", "embed/")
    return [name for name in found if not name.startswith(other) and name not in gone]


@dataclass
class Visit:
    """A browser's page, with what went wrong on it."""

    page: Page
    base: str
    foreign: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def note(self, request: Request) -> None:
        local = urlsplit(request.url).scheme in ("data", "blob")
        if not local and not request.url.startswith(self.base):
            self.foreign.append(request.url)

    def open(self, name: str, *, theme: str = "light", width: int = 1280) -> Page:
        """Go to a page in a colour theme and at a width, and wait until figures stand."""
        for record in (self.foreign, self.missing, self.errors):
            record.clear()
        self.page.set_viewport_size({"width": width, "height": 900})
        if urlsplit(self.page.url).netloc:
            self.set_theme(theme)
        self.page.goto(f"{self.base}/{name}", wait_until="load")
        self.page.locator("html:not(.waits)").wait_for(state="attached")
        self.set_theme(theme)
        # A figure runs when it comes near the window; before printing all of them run.
        self.page.evaluate("() => window.dispatchEvent(new Event('beforeprint'))")
        figures = self.page.locator(".live-figure")
        for i in range(figures.count()):
            figures.nth(i).locator(".live").wait_for(timeout=PATIENCE)
        return self.page

    def set_theme(self, theme: str) -> None:
        self.page.evaluate(
            """theme => {
                localStorage.setItem("mode", theme);
                document.documentElement.dataset.theme = theme;
                document.documentElement.dataset.mode = theme;
            }""",
            theme,
        )


@contextmanager
def protocol(page: Page) -> Iterator[CDPSession]:
    """A session of Chromium's own protocol, for what Playwright cannot do.

    It ends with the block: a session that stays makes the page forget at its next address that
    it shows what is printed.
    """
    session = page.context.new_cdp_session(page)
    try:
        yield session
    finally:
        session.detach()


def serve(folder: Path) -> Iterator[str]:
    running = server(folder, 0)
    threading.Thread(target=running.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{running.server_port}"
    running.shutdown()
    running.server_close()


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=browser(), args=list(FLAGS))
        yield started
        started.close()


@pytest.fixture(scope="session")
def address() -> Iterator[str]:
    yield from serve(SITE)


def guarded(chromium: Browser, address: str, **settings: Any) -> Iterator[Visit]:
    """A browser's page that records requests for other addresses than ``address``."""
    context = chromium.new_context(
        permissions=["clipboard-read", "clipboard-write"],
        **{"reduced_motion": "reduce", **settings},
    )
    page = context.new_page()
    made = Visit(page, address)
    context.on("request", made.note)
    page.on("pageerror", lambda error: made.errors.append(str(error)))
    page.on(
        "console",
        lambda message: (
            made.errors.append(message.text) if message.type in ("error", "warning") else None
        ),
    )
    page.on(
        "response",
        lambda got: made.missing.append(got.url) if got.status >= 400 else None,
    )
    yield made
    context.close()


@pytest.fixture(scope="session")
def visit(chromium: Browser, address: str) -> Iterator[Visit]:
    yield from guarded(chromium, address)


@pytest.fixture(scope="session")
def phone(chromium: Browser, address: str) -> Iterator[Visit]:
    """A page of a browser on a phone: it is operated by touch, and has no pointer that hovers."""
    yield from guarded(chromium, address, **PHONE)


@pytest.fixture(scope="session")
def stage_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from tests.pages.live import write_stage

    folder = tmp_path_factory.mktemp("stage")
    write_stage(folder)
    return folder


@pytest.fixture(scope="session")
def stage_address(stage_folder: Path) -> Iterator[str]:
    yield from serve(stage_folder)


def staged(
    chromium: Browser, base: str, folder: Path, look: dict[str, Any], **settings: Any
) -> Iterator["Stage"]:
    from tests.pages.live import Stage

    for visit in guarded(chromium, base, **settings):
        visit.page.set_default_timeout(PATIENCE)
        yield Stage(visit, folder, **look)


@pytest.fixture(scope="session")
def stage(chromium: Browser, stage_address: str, stage_folder: Path) -> Iterator["Stage"]:
    """Shows live figures on a desktop, in light colours, to a reader who asks for less motion."""
    yield from staged(chromium, stage_address, stage_folder, {})


@pytest.fixture(scope="session")
def phone_stage(chromium: Browser, stage_address: str, stage_folder: Path) -> Iterator["Stage"]:
    """Shows live figures on a phone, in dark colours."""
    look = {"theme": "dark", "width": 390}
    yield from staged(chromium, stage_address, stage_folder, look, **PHONE)


@pytest.fixture(scope="session")
def moving_stage(chromium: Browser, stage_address: str, stage_folder: Path) -> Iterator["Stage"]:
    """Shows live figures with motion."""
    motion = {"reduced_motion": "no-preference"}
    yield from staged(chromium, stage_address, stage_folder, {}, **motion)
