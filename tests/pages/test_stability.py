"""On a slow connection, fonts and figures arrive late; the text that is in view does not move."""

import pytest
from playwright.sync_api import Browser

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
    page.add_init_script(OBSERVE)
    page.goto(f"{address}/{name}")
    page.wait_for_load_state("networkidle")
    page.evaluate("() => document.fonts.ready")
    page.evaluate("() => new Promise(done => requestAnimationFrame(() => setTimeout(done, 100)))")
    shifts = page.evaluate("window.shifts")
    context.close()
    # The Core Web Vitals allow 0.1; a paragraph with one more line adds about 0.05.
    assert sum(value for value, _ in shifts) < 0.02, shifts
