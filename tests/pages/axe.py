"""The faults that axe finds on a page that is open in a browser."""

from typing import Any

from tests.pages.conftest import Visit
from tools.vendor import BOOK

AXE = (BOOK / "node_modules" / "axe-core" / "axe.min.js").read_text("utf-8")
SIDEBAR = "#pst-primary-sidebar"

RUN = """without => axe.run({ exclude: without }, {
    resultTypes: ["violations"],
}).then(found => found.violations.map(fault => ({
    rule: fault.id, places: fault.nodes.map(node => node.html.slice(0, 160)).slice(0, 5),
})))"""

# Formulas and code are thousands of elements of one kind, which take axe minutes. They are checked
# on one page; test_every_page.py checks their contrast on all.
SHORTEN = """() => {
    for (const formula of document.querySelectorAll(".katex")) formula.replaceChildren("x");
    for (const code of document.querySelectorAll(".highlight pre")) {
        code.textContent = code.textContent;
    }
}"""
WHOLE = "notation.html"

FOCUS = """() => [...document.querySelectorAll("span.math, span.math *")]
    .filter(e => e.tabIndex >= 0).map(e => e.outerHTML.slice(0, 100))"""

# frame.js does this shortly after the size of the window has changed, and when details are opened.
REACHABLE = """() => [...document.querySelectorAll("pre, .figure-body, div.math, .wide-table")]
    .filter(area => !area.closest("details:not([open])"))
    .every(area => area.tabIndex >= 0 || area.scrollWidth <= area.clientWidth + 1
        || !/auto|scroll/.test(getComputedStyle(area).overflowX))"""

TARGETS = """minimum => [...document.querySelectorAll(
        "button, summary, .btn, .button, nav a, .prev-next-area a, input, select, textarea")]
    .map(e => e.type === "checkbox" || e.type === "radio" ? e.closest("label") : e)
    .filter(e => e.checkVisibility() && e.getClientRects().length)
    .map(e => [e.getBoundingClientRect(), e])
    .filter(([box]) => box.width > 0 && Math.min(box.width, box.height) < minimum - 0.5)
    .map(([box, e]) => `${box.width}x${box.height} ${e.outerHTML.slice(0, 120)}`)"""
"""Controls smaller than a minimum in pixels; a checkbox or radio button includes its label."""


def faults(visit: Visit, *, sidebar: bool) -> dict[str, Any]:
    """What is wrong, by size and colour theme; the page must be opened again afterwards.

    The size changes what is visible and the theme changes the colours, so two combinations show
    all. The sidebar is the same on all pages; without it, axe takes half the time.
    """
    page = visit.page
    found = {"tab stops in lines": page.evaluate(FOCUS)}
    if not page.url.endswith(WHOLE):
        page.evaluate(SHORTEN)
    page.evaluate(AXE)
    for (width, height), theme in (((1280, 900), "light"), ((390, 844), "dark")):
        page.set_viewport_size({"width": width, "height": height})
        visit.set_theme(theme)
        page.wait_for_function(REACHABLE)
        found[f"{width} px, {theme}"] = page.evaluate(RUN, [] if sidebar else [SIDEBAR])
    found["small targets"] = page.evaluate(TARGETS, 24)
    return {check: faults for check, faults in found.items() if faults}
