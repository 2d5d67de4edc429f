"""On a slow connection, fonts and figures arrive late; the text that is in view does not move."""

import pytest
from playwright.sync_api import Browser, Page, Route

from tests.pages.conftest import page_names

WIDTHS = (1280, 390)
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


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", [name for name in page_names() if "/" not in name])
def test_nothing_moves_while_a_page_loads(
    chromium: Browser, address: str, name: str, width: int
) -> None:
    context = chromium.new_context(viewport={"width": width, "height": 844})
    page = context.new_page()
    network = context.new_cdp_session(page)
    network.send("Network.enable")
    network.send("Network.emulateNetworkConditions", SLOW)
    page.add_init_script(OBSERVE + HELD)
    page.goto(f"{address}/{name}")
    page.wait_for_load_state("networkidle")
    page.evaluate("() => document.fonts.ready")
    page.evaluate("() => new Promise(done => requestAnimationFrame(() => setTimeout(done, 100)))")
    shifts = page.evaluate("window.shifts")
    context.close()
    # The Core Web Vitals allow 0.1; a paragraph with one more line adds about 0.05.
    assert sum(value for value, _ in shifts) < 0.02, shifts


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
