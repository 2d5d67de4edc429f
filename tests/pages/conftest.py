"""A browser, a server of the built site, and a guard on every request that a page makes."""

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Page, Route, sync_playwright

from tools import ROOT
from tools.browser import FLAGS, browser
from tools.site import server

SITE = ROOT / "site" / "en"


def page_names() -> list[str]:
    """Every page of the built site, as a path below it."""
    found = sorted(path.relative_to(SITE).as_posix() for path in SITE.rglob("*.html"))
    return [name for name in found if not name.startswith("_static/")]


@dataclass
class Visit:
    """A browser's page, with what went wrong on it."""

    page: Page
    base: str
    foreign: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def guard(self, route: Route) -> None:
        address = route.request.url
        if urlsplit(address).scheme in ("data", "blob") or address.startswith(self.base):
            route.continue_()
        else:
            self.foreign.append(address)
            route.abort()

    def open(self, name: str, *, theme: str = "light", width: int = 1280) -> Page:
        """Go to a page in a colour theme and at a width, and wait until figures stand."""
        for record in (self.foreign, self.missing, self.errors):
            record.clear()
        self.page.set_viewport_size({"width": width, "height": 900})
        if urlsplit(self.page.url).netloc:
            self.set_theme(theme)
        self.page.goto(f"{self.base}/{name}", wait_until="load")
        self.set_theme(theme)
        figures = self.page.locator(".live-figure")
        for i in range(figures.count()):
            figures.nth(i).locator("[role=group]").wait_for(timeout=5000)
        return self.page

    def set_theme(self, theme: str) -> None:
        self.page.evaluate(
            """theme => {
                localStorage.setItem("mode", theme);
                localStorage.setItem("theme", theme);
                document.documentElement.dataset.theme = theme;
                document.documentElement.dataset.mode = theme;
            }""",
            theme,
        )


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


@pytest.fixture(scope="session")
def visit(chromium: Browser, address: str) -> Iterator[Visit]:
    context = chromium.new_context(
        reduced_motion="reduce", permissions=["clipboard-read", "clipboard-write"]
    )
    page = context.new_page()
    made = Visit(page, address)
    context.route("**/*", made.guard)
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
