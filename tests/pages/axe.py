"""No page has a fault that axe finds: in light and dark, on a desktop and on a phone.

Run by hand, ``python -m pytest tests/pages/axe.py``: it takes more than five minutes, and some
pages still have faults.
"""

from typing import Any

import pytest

from tests.pages.conftest import Visit, page_names
from tools.vendor import BOOK

AXE = (BOOK / "node_modules" / "axe-core" / "axe.min.js").read_text("utf-8")
COLOURS = ["color-contrast", "link-in-text-block"]

RUN = """rules => axe.run(document, {
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

SIZES = {"desktop": (1280, 900), "phone": (390, 844)}

FOCUS = """() => [...document.querySelectorAll("span.math, span.math *")]
    .filter(e => e.tabIndex >= 0).map(e => e.outerHTML.slice(0, 100))"""

TARGETS = """minimum => [...document.querySelectorAll("button, summary, .btn, nav a")]
    .filter(e => e.checkVisibility() && e.getClientRects().length)
    .map(e => [e.getBoundingClientRect(), e])
    .filter(([box]) => box.width > 0 && Math.min(box.width, box.height) < minimum - 0.5)
    .map(([box, e]) => `${box.width}x${box.height} ${e.outerHTML.slice(0, 120)}`)"""


def faults(visit: Visit, rules: list[str] | None) -> Any:
    return visit.page.evaluate(RUN, rules)


@pytest.mark.parametrize("name", page_names())
def test_axe_finds_no_fault(visit: Visit, name: str) -> None:
    page = visit.open(name)
    assert page.evaluate(FOCUS) == [], "a formula within a line is a tab stop"
    if name != WHOLE:
        page.evaluate(SHORTEN)
    page.evaluate(AXE)
    # The pages of modules and of their sources have the same parts on both sizes.
    sizes = {"desktop": SIZES["desktop"]} if "/" in name else SIZES
    for size, (width, height) in sizes.items():
        page.set_viewport_size({"width": width, "height": height})
        page.wait_for_timeout(250)  # frame.js marks the areas that scroll
        # The colour theme changes colours only.
        for theme, rules in (("light", None), ("dark", COLOURS)):
            visit.set_theme(theme)
            assert faults(visit, rules) == [], f"{size}, {theme}"
    assert page.evaluate(TARGETS, 24) == []


def test_a_wide_formula_scrolls_in_a_box_with_a_name(visit: Visit) -> None:
    page = visit.open("06-position.html", width=320)
    page.wait_for_timeout(300)
    box = page.locator("div.math[tabindex='0']").first
    assert box.get_attribute("aria-label") == "Formula, scrolls sideways"
    box.focus()
    page.keyboard.press("ArrowRight")
    page.wait_for_timeout(200)
    assert box.evaluate("box => box.scrollLeft") > 0
    page.set_viewport_size({"width": 1280, "height": 900})
    page.wait_for_timeout(300)
    assert page.locator("div.math[tabindex]").count() == 0


def test_main_controls_can_be_touched(visit: Visit) -> None:
    page = visit.open("04-self-attention.html", width=390)
    for control in page.locator(".bd-header-article button:visible, .prev-next-area a").all():
        box = control.bounding_box()
        assert box is not None
        assert min(box["width"], box["height"]) >= 44, control.evaluate("e => e.outerHTML")


def test_the_contents_follow_the_reader(visit: Visit) -> None:
    page = visit.open("07-add-norm-feed-forward.html")
    current = page.locator("#pst-page-toc-nav a[aria-current]")
    links = page.locator("#pst-page-toc-nav a")
    for i in (1, links.count() // 2, links.count() - 1):
        target = links.nth(i).get_attribute("href") or ""
        page.evaluate("id => document.getElementById(id).scrollIntoView()", target[1:])
        page.wait_for_timeout(150)
        assert current.count() == 1
        if i < links.count() - 1 and not target.startswith("#solution"):
            assert current.get_attribute("href") == target
        assert current.evaluate(
            "link => { const box = link.getBoundingClientRect();"
            " return box.top >= 0 && box.bottom <= innerHeight; }"
        )
