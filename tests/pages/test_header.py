"""The header of a page where the list of chapters is not beside the text."""

from playwright.sync_api import Locator, Page, expect

from tests.pages.conftest import Visit

CHAPTER = "08-encoder.html"
SCROLL = "y => scrollTo({ top: y, behavior: 'instant' })"
READ = "e => e.getBoundingClientRect().width / innerWidth"


def title(page: Page) -> Locator:
    return page.locator(".bd-header-article").get_by_role("link", name="8 The encoder")


def test_a_phone_shows_the_title_once_the_reader_is_beyond_it(phone: Visit) -> None:
    page = phone.open(CHAPTER, width=390)
    link, header = title(page), page.locator(".bd-header-article")
    colours = header.locator(".theme-switch-button")
    expect(link).to_have_count(0)
    expect(colours).to_be_visible()
    height = header.evaluate("e => e.offsetHeight")
    page.evaluate(SCROLL, 2000)
    expect(link).to_be_visible()
    expect(colours).to_be_hidden()
    for button in (".primary-toggle", ".search-button__button", ".secondary-toggle"):
        expect(header.locator(button)).to_be_in_viewport(ratio=1)
    assert header.evaluate("e => e.offsetHeight") == height
    page.set_viewport_size({"width": 320, "height": 640})
    assert page.evaluate("document.documentElement.scrollWidth") == 320
    link.click()
    expect(page.locator("article h1")).to_be_in_viewport(ratio=1)
    expect(link).to_have_count(0)
    expect(colours).to_be_visible()


def test_the_title_does_not_hide_what_has_the_focus(phone: Visit) -> None:
    page = phone.open(CHAPTER, width=390)
    colours = page.locator(".bd-header-article .theme-switch-button")
    colours.focus()
    page.evaluate(SCROLL, 2000)
    expect(title(page)).to_be_visible()
    expect(colours).to_be_visible()
    colours.evaluate("e => e.blur()")
    expect(colours).to_be_hidden()


def test_a_line_is_as_long_as_what_was_read(phone: Visit) -> None:
    page = phone.open(CHAPTER, width=390)
    line = page.locator(".header-progress")
    assert line.get_attribute("aria-hidden") == "true"
    length = page.evaluate("document.documentElement.scrollHeight - innerHeight")
    for part in (0, 0.25, 0.5, 1):
        page.evaluate(SCROLL, part * length)
        page.wait_for_function(
            f"([e, part]) => Math.abs(({READ})(e) - part) < 0.02", arg=[line.element_handle(), part]
        )


def test_a_desktop_has_the_title_in_the_page_only(visit: Visit) -> None:
    page = visit.open(CHAPTER)
    page.evaluate(SCROLL, 2000)
    expect(page.locator(".header-title:not([hidden])")).to_have_count(1)
    expect(page.locator(".header-title")).to_be_hidden()
    expect(page.locator(".header-progress")).to_be_hidden()
    expect(page.locator(".bd-header-article .theme-switch-button")).to_be_visible()
