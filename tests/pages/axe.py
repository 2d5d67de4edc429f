"""The faults that axe finds on a page that is open in a browser."""

from typing import Any

from playwright.sync_api import ViewportSize

from tests.pages.conftest import Visit
from tools.vendor import BOOK

AXE = (BOOK / "node_modules" / "axe-core" / "axe.min.js").read_text("utf-8")
SIDEBAR = "#pst-primary-sidebar"
DESKTOP: ViewportSize = {"width": 1280, "height": 900}
PHONE: ViewportSize = {"width": 390, "height": 844}

RUN = """({ include, exclude = [], rules, off = {} }) => include?.length === 0 ? [] : axe.run(
    { ...(include && { include }), exclude },
    { resultTypes: ["violations"], selectors: false, rules: off, ...(rules && { runOnly: rules }) },
).then(found => found.violations.map(fault => ({
    rule: fault.id, places: fault.nodes.map(node => node.html.slice(0, 160)).slice(0, 5),
})))"""
"""The faults in some elements or in the whole document; by some rules or by all."""

# The contrast takes axe most of its time. Of the rules, only these depend on the colour theme.
COLOURS = ["color-contrast", "link-in-text-block"]
CHANGED = """() => {
    const grounds = new Map([[null, ""]]);
    const ground = (element) => {
        if (!grounds.has(element)) {
            const { backgroundColor, backgroundImage, filter, opacity } = getComputedStyle(element);
            const own = [backgroundColor, backgroundImage, filter, opacity].join(" ");
            grounds.set(element, `${ground(element.parentElement)}/${own}`);
        }
        return grounds.get(element);
    };
    const before = window.looks;
    window.looks = new Map();
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
        const element = walker.currentNode.parentElement;
        if (!walker.currentNode.data.trim()) continue;
        if (!element.checkVisibility({ visibilityProperty: true })) continue;
        const { color, fontSize, fontWeight } = getComputedStyle(element);
        const size = parseFloat(fontSize);
        const large = size >= 24 || (size >= 18.66 && fontWeight >= 700);
        window.looks.set(element, `${color} ${large} ${ground(element)}`);
    }
    return [...window.looks.keys()].filter((e) => before?.get(e) !== window.looks.get(e));
}"""
"""The texts that were not visible, or had another colour or ground, when this was last called."""

# Formulas and code are thousands of elements of one kind, which take axe minutes. They are checked
# in some sections of chapter 4; test_every_page.py checks the contrast of all.
WHOLE = "#why-it-is-called-scaled-dot-product-attention, #three-properties-of-attention"
SHORTEN = """whole => {
    const shortened = (selector) =>
        [...document.querySelectorAll(selector)].filter(e => !e.closest(whole));
    for (const formula of shortened(".katex")) formula.replaceChildren("x");
    for (const code of shortened(".highlight pre")) code.textContent = code.textContent;
}"""
# The sidebar is the same on all pages.
WITH_SIDEBAR = ("/index.html", "/04-self-attention.html", "/api/attention.html")

NO_CONTRAST = {"color-contrast": {"enabled": False}}

# Menus that slide would be in between when they are checked.
STILL = """() => {
    const style = new CSSStyleSheet();
    style.replaceSync("* { transition: none !important; }");
    document.adoptedStyleSheets.push(style);
}"""

FOCUS = """() => [...document.querySelectorAll("span.math, span.math *")]
    .filter(e => e.tabIndex >= 0).map(e => e.outerHTML.slice(0, 100))"""

# frame.js does this shortly after the size of the window has changed, and when details are opened.
REACHABLE = """() => [...document.querySelectorAll(
        "pre, .figure-body, div.math, .pst-scrollable-table-container")]
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


def faults(visit: Visit, *, colours: bool) -> dict[str, Any]:
    """What is wrong, by size and colour theme; the page must be opened again afterwards.

    All rules but that of the contrast are checked on a phone. With ``colours``, each theme is
    checked by all rules at one size; at the other, its colours are checked where they differ or
    were not visible.
    """
    page = visit.page
    found = {"tab stops in lines": page.evaluate(FOCUS)}
    page.evaluate(SHORTEN, WHOLE)
    if page.url.endswith("/04-self-attention.html"):
        assert page.locator(".katex *").count() > 200
        assert page.locator(".highlight pre *").count() > 50
    page.evaluate(STILL)
    page.evaluate(AXE)
    exclude = [] if page.url.endswith(WITH_SIDEBAR) else [SIDEBAR]
    sizes = (
        {"light": (DESKTOP, PHONE), "dark": (PHONE, DESKTOP)} if colours else {"light": (PHONE,)}
    )
    for theme, (first, *other) in sizes.items():
        visit.set_theme(theme)
        page.set_viewport_size(first)
        page.wait_for_function(REACHABLE)
        if other:
            page.evaluate(CHANGED)
        arguments: dict[str, Any] = {"exclude": exclude, "off": {} if colours else NO_CONTRAST}
        found[f"{first['width']} px, {theme}"] = page.evaluate(RUN, arguments)
        for size in other:
            page.set_viewport_size(size)
            arguments |= {"include": page.evaluate_handle(CHANGED), "rules": COLOURS}
            found[f"{size['width']} px, {theme}"] = page.evaluate(RUN, arguments)
    found["small targets"] = page.evaluate(TARGETS, 24)
    return {check: faults for check, faults in found.items() if faults}
