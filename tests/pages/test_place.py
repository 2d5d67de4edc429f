"""The last place in the book is remembered only if the reader asks for it, and can be removed."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.pages.axe import AXE, RUN, STILL
from tests.pages.conftest import CONTRAST, NAMELESS, PHONE, SITE, Visit, guarded

COVER, CHAPTER = "index.html", "15-family.html"
STORED = "localStorage.getItem('tfmr-place')"
SECTION = "one-model-three-tasks"
CONTINUE = "Continue: Chapter 15, One model, three tasks"
HIDE = """() => {
    Object.defineProperty(document, "hidden", { value: true });
    document.dispatchEvent(new Event("visibilitychange"));
}"""
BLOCKED = "Object.defineProperty(window, 'localStorage', { get() { throw new Error(); } });"


@pytest.fixture
def fresh(chromium: Browser, address: str) -> Iterator[Visit]:
    """A browser's page that remembers nothing of other tests."""
    yield from guarded(chromium, address)


def remember(page: Page) -> Locator:
    return page.get_by_role("checkbox", name="Remember where I stopped")


def told(page: Page) -> Locator:
    return page.locator(".place").get_by_role("status")


def read(page: Page, section: str = SECTION) -> None:
    """Scroll to a section, as a reader does."""
    page.evaluate(
        "id => document.getElementById(id).scrollIntoView({ behavior: 'instant' })", section
    )
    expect(page.locator("#pst-page-toc-nav [aria-current]")).to_have_attribute(
        "href", f"#{section}"
    )


def test_nothing_is_stored_unless_the_reader_asks_for_it(fresh: Visit) -> None:
    page = fresh.open(CHAPTER)
    expect(remember(page)).not_to_be_checked()
    read(page)
    page = fresh.open(COVER)
    expect(page.locator(".place-link")).to_have_count(0)
    assert page.evaluate("[Object.keys(localStorage), sessionStorage.length]") == [["mode"], 0]
    assert page.locator("script[src*='place.js']").count() == 0


def test_the_cover_continues_where_the_reader_stopped(fresh: Visit) -> None:
    page = fresh.open(CHAPTER)
    remember(page).focus()
    page.keyboard.press("Space")
    expect(told(page)).to_contain_text("offers a link")
    expect(told(page)).to_be_in_viewport(ratio=0.9)
    read(page)
    page.evaluate(HIDE)  # as a phone does before it closes a page
    assert SECTION in page.evaluate(STORED)
    page = fresh.open("glossary.html")  # not a chapter
    expect(remember(page)).to_be_checked()
    page = fresh.open(COVER)
    link = page.get_by_role("link", name=CONTINUE, exact=True)
    expect(link).to_have_attribute("href", f"{CHAPTER}#{SECTION}")
    link.click()
    page.wait_for_url(f"**/{CHAPTER}#{SECTION}")
    expect(page.locator(f"#{SECTION} > h3")).to_be_in_viewport()
    page.evaluate("scrollTo({ top: 0, behavior: 'instant' })")
    expect(page.locator("#pst-page-toc-nav [aria-current]")).to_have_count(0)
    page.go_back()
    expect(page.get_by_role("link", name="Continue: Chapter 15", exact=True)).to_be_visible()
    assert fresh.errors == fresh.missing == fresh.foreign == []


def test_switching_it_off_deletes_the_place(fresh: Visit) -> None:
    page = fresh.open(CHAPTER)
    remember(page).check()
    expect(told(page)).to_contain_text("offers a link")
    page = fresh.open(COVER)
    expect(page.locator(".place-link")).to_be_visible()
    remember(page).uncheck()
    expect(told(page)).to_have_text("The stored place has been removed.")
    expect(page.locator(".place-link")).to_have_count(0)
    assert page.evaluate(STORED) is None
    fresh.open(CHAPTER)
    fresh.open(COVER)
    assert page.evaluate(STORED) is None
    assert fresh.errors == []


def test_a_page_stores_nothing_after_another_page_switched_it_off(fresh: Visit) -> None:
    page = fresh.open(CHAPTER)
    remember(page).check()
    expect(told(page)).to_contain_text("offers a link")
    page.evaluate("localStorage.removeItem('tfmr-place')")
    page.evaluate("dispatchEvent(new PageTransitionEvent('pagehide'))")
    expect(remember(page)).not_to_be_checked()
    assert page.evaluate(STORED) is None


@pytest.mark.parametrize(
    "text", ["", "{", "5", "null", '{"page": 5}', '{"page": "https://example.org/"}']
)
def test_stored_text_that_no_page_writes_is_ignored(fresh: Visit, text: str) -> None:
    page = fresh.open(COVER)
    page.evaluate("text => localStorage.setItem('tfmr-place', text)", text)
    fresh.open(COVER)
    expect(told(page)).to_have_count(1)
    expect(remember(page)).to_be_checked()
    expect(page.locator(".place-link")).to_have_count(0)
    assert fresh.errors == []


def test_where_storage_is_blocked_the_reader_is_told(fresh: Visit) -> None:
    fresh.page.add_init_script(BLOCKED)
    fresh.page.goto(f"{fresh.base}/{CHAPTER}")
    remember(fresh.page).click()
    expect(told(fresh.page)).to_contain_text("does not let this page store data")
    expect(remember(fresh.page)).not_to_be_checked()
    assert fresh.errors == []


def test_a_script_that_cannot_be_loaded_leaves_the_box_empty(fresh: Visit) -> None:
    page = fresh.open(CHAPTER)
    page.route("**/place.js*", lambda route: route.abort())
    with page.expect_event("requestfailed"):
        remember(page).click()
    expect(remember(page)).not_to_be_checked()
    page.unroute("**/place.js*")
    remember(page).check()
    expect(told(page)).to_contain_text("offers a link")


def test_it_works_without_a_server(chromium: Browser) -> None:
    page = chromium.new_page()
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto((SITE / CHAPTER).as_uri())
    remember(page).check()
    expect(told(page)).to_contain_text("offers a link")
    read(page)
    page.goto((SITE / COVER).as_uri())
    page.get_by_role("link", name=CONTINUE).click()
    page.wait_for_url(f"**/{CHAPTER}#{SECTION}")
    assert errors == []
    page.close()


@pytest.mark.parametrize("settings", [{}, PHONE])
def test_the_control_and_the_link_can_be_used(
    chromium: Browser, address: str, settings: dict[str, bool]
) -> None:
    width = 390 if settings else 1280
    for fresh in guarded(chromium, address, **settings):
        page = fresh.open(CHAPTER, width=width)
        if settings:
            page.locator(".primary-toggle").tap()
        assert remember(page).locator("..").evaluate("e => e.offsetHeight") >= 44
        remember(page).check()
        expect(told(page)).to_contain_text("offers a link")
        page.evaluate(STILL)
        page.evaluate(AXE)
        for theme in ("light", "dark"):
            fresh.set_theme(theme)
            assert page.evaluate(RUN, {"include": [".place"]}) == []
        page = fresh.open(COVER, width=width)
        link = page.locator(".place-link")
        expect(link).to_be_visible()
        assert link.evaluate("e => e.offsetHeight") >= 44
        assert page.evaluate("document.documentElement.scrollWidth") == width
        for theme in ("light", "dark"):
            fresh.set_theme(theme)
            assert page.evaluate(CONTRAST) == page.evaluate(NAMELESS) == []
