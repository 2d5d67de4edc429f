"""What people need who read with a keyboard, a finger or a narrow window."""

from collections.abc import Iterator
from unittest.mock import ANY

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.pages.axe import AXE, COLOURS, RUN, STILL, TARGETS
from tests.pages.conftest import CONTRAST, SITE, Visit

CHAPTER = "04-self-attention.html"
SEARCH = "#search-dialog"
MENUS = {
    "primary-toggle": "#pst-primary-sidebar-modal",
    "secondary-toggle": "#pst-secondary-sidebar-modal",
    "search-button__button": SEARCH,
    "dropdown-toggle": ".dropdown-menu",
}
"""The buttons of the header and what they open."""


def test_a_wide_formula_scrolls_in_a_box_with_a_name(visit: Visit) -> None:
    page = visit.open("06-position.html", width=320)
    box = page.locator("div.math[tabindex='0']").first
    expect(box).to_have_attribute("aria-label", "Formula, scrolls sideways")
    box.focus()
    page.keyboard.press("ArrowRight")
    page.wait_for_function("box => box.scrollLeft > 0", arg=box.element_handle())
    page.set_viewport_size({"width": 1280, "height": 900})
    expect(page.locator("div.math[tabindex]")).to_have_count(0)


def test_code_fades_where_it_continues_beyond_the_edge(visit: Visit) -> None:
    page = visit.open(CHAPTER, width=390)
    area = page.locator("div.highlight pre[tabindex='0']").first
    assert page.locator("div.highlight pre:not([tabindex]).continues").count() == 0
    faded = "e => e.classList.contains('continues')"
    assert area.evaluate(faded)
    area.evaluate("e => { e.scrollLeft = e.scrollWidth; }")
    page.wait_for_function("() => !document.querySelector('pre[tabindex]').matches('.continues')")
    area.evaluate("e => { e.scrollLeft = 0; }")
    page.wait_for_function("() => document.querySelector('pre[tabindex]').matches('.continues')")


def test_wide_code_becomes_reachable_when_its_details_open(visit: Visit) -> None:
    page = visit.open(CHAPTER, width=390)
    wide = ".cell_output .highlight-myst-ansi pre"  # what a notebook prints does not wrap
    details = page.locator(f"details.solution:has({wide})").first
    code = details.locator(wide).first
    assert code.get_attribute("tabindex") is None
    details.locator("summary").first.click()
    assert code.evaluate("e => e.scrollWidth > e.clientWidth + 1")
    page.wait_for_function("e => e.tabIndex === 0", arg=code.element_handle())
    assert code.get_attribute("aria-label") == "Code, scrolls sideways"


def menus(page: Page, width: int) -> Iterator[str]:
    """Open each menu of the header, one after the other; a wide page shows the sidebars."""
    for button, menu in MENUS.items():
        if width == 1280 and "sidebar" in menu:
            continue
        page.locator(f".{button}:visible").first.click()
        if menu == SEARCH:
            page.locator(f"{SEARCH} input").fill("softmax")
            page.locator(f"{SEARCH} [role=option]").first.wait_for()
        yield menu
        page.keyboard.press("Escape")


def test_a_finger_can_operate_every_control(phone: Visit) -> None:
    for name in ("index.html", "api/attention.html", CHAPTER):
        page = phone.open(name, width=390)
        page.evaluate("() => document.querySelectorAll('details').forEach(e => { e.open = true; })")
        assert page.evaluate(TARGETS, 44) == [], name
    for width in (390, 320):
        page.set_viewport_size({"width": width, "height": 900})
        for menu in menus(page, width):
            assert page.evaluate(TARGETS, 44) == [], menu
            box = page.locator(menu).first.bounding_box()
            assert box
            assert box["x"] >= 0, f"{menu} is wider than the window"
            assert box["x"] + box["width"] <= width, f"{menu} is wider than the window"


@pytest.mark.parametrize("width", [1280, 390])
def test_axe_finds_no_fault_in_an_open_menu(visit: Visit, width: int) -> None:
    page = visit.open("api/attention.html", width=width)
    page.evaluate(STILL)
    page.evaluate(AXE)
    for menu in menus(page, width):
        for theme, rules in (("light", None), ("dark", COLOURS)):
            visit.set_theme(theme)
            assert page.evaluate(RUN, {"include": [menu], "rules": rules}) == [], (menu, theme)


def test_with_a_mouse_lists_stay_close(visit: Visit) -> None:
    page = visit.open(CHAPTER)
    links = page.locator(".bd-links li > a, .page-toc a").all()
    heights = [link.evaluate("e => e.getBoundingClientRect().height") for link in links]
    assert min(heights) < 36


def test_the_contents_follow_the_reader(visit: Visit) -> None:
    page = visit.open("07-add-norm-feed-forward.html")
    current = page.locator("#pst-page-toc-nav :is([aria-current], .active)")
    page.wait_for_timeout(150)
    assert current.count() == 0, "the opener belongs to no section"
    links = page.locator("#pst-page-toc-nav a")
    for i in (1, links.count() // 2, links.count() - 1):
        target = links.nth(i).get_attribute("href") or ""
        page.evaluate("id => document.getElementById(id).scrollIntoView()", target[1:])
        current = page.locator("#pst-page-toc-nav a[aria-current]")
        if i < links.count() - 1 and not target.startswith("#solution"):
            expect(current).to_have_attribute("href", target)
        else:
            page.wait_for_timeout(150)
        expect(current).to_have_count(1)
        assert current.evaluate(
            "link => { const box = link.getBoundingClientRect();"
            " return box.top >= 0 && box.bottom <= innerHeight; }"
        )


# The theme of a page when its text begins, which is before anything is drawn.
FIRST_THEME = """new MutationObserver((_, observer) => {
    if (!document.body) return;
    window.firstTheme = document.documentElement.dataset.theme;
    observer.disconnect();
}).observe(document, { childList: true, subtree: true })"""
THEME = "document.documentElement.dataset.theme"


def test_the_choice_of_colours_holds_for_a_visit(chromium: Browser, address: str) -> None:
    context = chromium.new_context(color_scheme="light")
    context.add_init_script(FIRST_THEME)
    page = context.new_page()
    page.goto(f"{address}/{CHAPTER}")
    assert page.evaluate(THEME) == "light"
    page.locator(".theme-switch-button:visible").first.click()
    assert page.evaluate(THEME) == "dark"
    page.goto(f"{address}/05-multi-head-attention.html")
    assert page.evaluate("firstTheme") == page.evaluate(THEME) == "dark"
    page.evaluate(
        """() => { // as after a choice on a page from which the reader goes back to this one
            localStorage.setItem("mode", "light");
            dispatchEvent(new PageTransitionEvent("pageshow", { persisted: true }));
        }"""
    )
    assert page.evaluate(THEME) == "light"
    assert page.evaluate("[Object.keys(localStorage), sessionStorage.length]") == [["mode"], 0]
    assert context.cookies() == []
    page.locator(".theme-switch-button:visible").first.click()
    other = context.new_page()
    other.goto(f"{address}/{CHAPTER}")
    assert other.evaluate("firstTheme") == other.evaluate(THEME) == "light"
    context.close()


@pytest.mark.parametrize(
    ("colour", "legible"), [("#767676", True), ("#777", False), ("#fff", False)]
)
def test_a_text_with_too_little_contrast_is_found(
    chromium: Browser, colour: str, legible: bool
) -> None:
    """On white, through two grounds that are transparent in part."""
    page = chromium.new_page()
    page.set_content(
        "<body style='background: #000'><main style='background: #fff'>"
        "<div style='background: rgb(255 255 255 / 50%)'><p style='background: #fff0'>"
        f"<span style='color: {colour}'>text</span> <b style='color: #000'>text</b>"
    )
    assert page.evaluate(CONTRAST) == ([] if legible else [ANY])
    page.close()


@pytest.mark.parametrize(
    ("store", "names"),
    [
        ("localStorage", {"first.js", "frame.js", "answers.js", "marking.js", "place.js"}),
        ("indexedDB", set()),
        ("document.cookie", set()),
    ],
)
def test_no_script_stores_anything_about_the_reader(store: str, names: set[str]) -> None:
    """Except for the colours and, if the reader asks for it, answers and the last place."""
    scripts = list(SITE.rglob("*.js"))
    assert len(scripts) > 10
    assert {path.name for path in scripts if store in path.read_text("utf-8")} == names
