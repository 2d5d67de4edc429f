"""The faults that axe finds on a page that is open in a browser."""

from typing import Any

from tests.pages.conftest import Visit
from tools.vendor import BOOK

AXE = (BOOK / "node_modules" / "axe-core" / "axe.min.js").read_text("utf-8")
COLOURS = ["color-contrast", "link-in-text-block"]
SIDEBAR = "#pst-primary-sidebar"

RUN = """([rules, without]) => axe.run({ exclude: without }, {
    resultTypes: ["violations"],
    ...(rules && { runOnly: { type: "rule", values: rules } }),
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

TARGETS = """minimum => [...document.querySelectorAll("button, summary, .btn, nav a")]
    .filter(e => e.checkVisibility() && e.getClientRects().length)
    .map(e => [e.getBoundingClientRect(), e])
    .filter(([box]) => box.width > 0 && Math.min(box.width, box.height) < minimum - 0.5)
    .map(([box, e]) => `${box.width}x${box.height} ${e.outerHTML.slice(0, 120)}`)"""


def faults(visit: Visit, *, phone: bool) -> dict[str, Any]:
    """What is wrong, by size and colour theme; the page must be opened again afterwards.

    The colour theme changes colours only. The sidebar is the same on all pages: ``phone`` is for
    the pages on which it is checked, too.
    """
    page = visit.page
    found = {"tab stops in lines": page.evaluate(FOCUS)}
    if not page.url.endswith(WHOLE):
        page.evaluate(SHORTEN)
    page.evaluate(AXE)
    for size, theme, rules in (
        ((1280, 900), "light", None),
        ((1280, 900), "dark", COLOURS),
        *([((390, 844), "dark", None)] if phone else []),
    ):
        page.set_viewport_size({"width": size[0], "height": size[1]})
        visit.set_theme(theme)
        page.wait_for_timeout(250)  # frame.js marks the areas that scroll
        found[f"{size[0]} px, {theme}"] = page.evaluate(RUN, [rules, [] if phone else [SIDEBAR]])
    found["small targets"] = page.evaluate(TARGETS, 24)
    return {check: faults for check, faults in found.items() if faults}
