"""Reading the site on a desktop, on a phone, on paper, and where the network fails."""

import re
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from tests.pages.conftest import SITE, Visit, page_names

CHAPTER = "04-self-attention.html"
LAST = "glossary.html"
"""A page at the end of the list of chapters, which is longer than a desktop is high."""

COVERED = """() => [...document.querySelectorAll("article .copybtn")].filter(button => {
    const { left, right, top, bottom } = button.getBoundingClientRect();
    const pre = button.closest("div.highlight").querySelector("pre");
    const walker = document.createTreeWalker(pre, NodeFilter.SHOW_TEXT), range = new Range();
    while (walker.nextNode()) {
        range.selectNodeContents(walker.currentNode);
        for (const text of range.getClientRects()) // but no space at the end of a line
            if (text.width > 8 && text.right > left + 1 && text.left < right - 1
                && text.bottom > top + 1 && text.top < bottom - 1) return true;
    }
    return false;
}).length"""
"""The number of copy buttons that cover text."""
SCROLLING = """() => [...document.querySelectorAll("article div.highlight pre")]
    .filter(pre => !pre.closest(".cell_output") && pre.checkVisibility())
    .filter(pre => pre.scrollWidth > pre.clientWidth)
    .map(pre => pre.textContent.slice(0, 40))"""
"""The beginnings of listings that scroll sideways."""


@pytest.mark.parametrize("size", [(1280, 900), (1920, 1080)])
def test_a_desktop_shows_the_search_in_the_sidebar_and_in_the_header(
    visit: Visit, size: tuple[int, int]
) -> None:
    page = visit.open(LAST, width=size[0])
    page.set_viewport_size({"width": size[0], "height": size[1]})
    page.reload()
    current = page.locator("#pst-primary-sidebar .current > a").last
    for button in page.locator(".search-button__button").all():
        expect(button).to_be_in_viewport(ratio=1)
        assert button.evaluate(
            """e => {
                const { x, y, width, height } = e.getBoundingClientRect();
                return e.contains(document.elementFromPoint(x + width / 2, y + height / 2));
            }"""
        ), "something covers it"
    expect(current).to_be_in_viewport(ratio=1)


class Outage:
    """Lets the requests for some files fail until the network is back."""

    def __init__(self, page: Page, *patterns: str) -> None:
        self.page, self.patterns = page, [re.compile(pattern) for pattern in patterns]
        for pattern in self.patterns:
            page.route(pattern, lambda route: route.abort())

    def end(self) -> None:
        for pattern in self.patterns:
            self.page.unroute(pattern)


@pytest.mark.parametrize("file", ["shared.js", "attention.css"])
def test_a_figure_that_the_network_failed_can_be_started_again(
    chromium: Browser, address: str, file: str
) -> None:
    page = chromium.new_page()
    outage = Outage(page, rf"/{re.escape(file)}")
    page.goto(f"{address}/{CHAPTER}")
    figure = page.locator(".live-figure").first
    figure.scroll_into_view_if_needed()
    again = figure.get_by_role("button", name="Try again")
    again.click()
    expect(figure.locator(".live-figure__reason")).to_contain_text("could not be loaded")
    expect(again).to_be_focused()
    outage.end()
    again.click()
    figure.locator(".live").wait_for()
    assert figure.locator(".live").count() == 1
    expect(figure.locator(".live-figure__reason")).to_have_count(0)
    page.close()


@pytest.mark.parametrize("file", ["box.js", "search.css", "minisearch/index.js"])
def test_a_search_that_cannot_be_loaded_says_so_and_can_be_opened_again(
    chromium: Browser, address: str, file: str
) -> None:
    page = chromium.new_page()
    outage = Outage(page, rf"/{re.escape(file)}")
    page.goto(f"{address}/{CHAPTER}")
    page.keyboard.press("Control+k")
    message = page.get_by_role("dialog", name="Search")
    expect(message).to_contain_text("The search could not be loaded")
    message.get_by_role("button", name="Close").click()
    outage.end()
    page.keyboard.press("Control+k")
    page.locator("#search-dialog input").fill("softmax")
    page.locator("#search-dialog [role=option]").first.wait_for()
    assert page.get_by_role("dialog").count() == 1
    page.close()


def test_the_page_of_the_search_says_that_it_cannot_be_loaded(
    chromium: Browser, address: str
) -> None:
    page = chromium.new_page()
    Outage(page, "/engine.js")
    page.goto(f"{address}/search.html?q=softmax")
    expect(page.locator("#search-page")).to_contain_text("The search could not be loaded")
    page.close()


def test_an_index_that_the_network_failed_is_loaded_with_the_next_letter(
    chromium: Browser, address: str
) -> None:
    page = chromium.new_page()
    outage = Outage(page, "/search/index.js")
    page.goto(f"{address}/search.html?q=soft")
    expect(page.get_by_role("status")).to_contain_text("The search cannot start")
    outage.end()
    page.locator("#search-page input").press_sequentially("m")
    page.locator("#search-page [role=option]").first.wait_for()
    page.close()


def printed(page: Page, details: str) -> list[bool]:
    """Which of the details have content on paper."""
    page.emulate_media(media="print")
    heights: list[bool] = page.locator(f"{details} p").evaluate_all(
        "found => found.map(e => e.checkVisibility({ contentVisibilityAuto: true }))"
    )
    page.emulate_media(media="screen")
    return heights


def test_paper_has_the_hints_and_solutions_that_the_reader_asks_for(visit: Visit) -> None:
    page = visit.open(CHAPTER)
    solution, hint = "details.solution", ".exercise > details:not(.solution)"
    for details in (solution, hint):
        assert True not in printed(page, details)
    page.locator(solution).first.locator("summary").click()
    assert True in printed(page, solution), "an open solution is printed"
    page.reload()
    page.evaluate(
        """() => {
            window.print = () => {};
        }"""
    )
    page.get_by_role("button", name="Download this page").click()
    page.get_by_role("button", name="Print with solutions").click()
    for details in (solution, hint):
        assert False not in printed(page, details)
    page.evaluate("() => window.dispatchEvent(new Event('afterprint'))")
    for details in (solution, hint):
        assert True not in printed(page, details)


def test_an_address_opens_the_solution_that_it_names(visit: Visit) -> None:
    name = "#solution-of-exercise-4-1"
    page = visit.open(CHAPTER + name)
    expect(page.locator(f"{name}[open]")).to_be_in_viewport()
    for other in ("#solution-of-exercise-4-2", name):
        page.locator(other).evaluate("e => { e.open = false; }")
        page.evaluate("address => { location.hash = address; }", other)
        expect(page.locator(f"{other}[open]")).to_be_in_viewport()
    inner = page.locator("details.solution:not([open]) p").first
    inner.evaluate("e => { e.id = 'inner'; location.hash = 'inner'; }")
    expect(page.locator("#inner")).to_be_in_viewport()


def test_the_address_of_every_file_changes_with_its_content(visit: Visit) -> None:
    asked: list[str] = []
    visit.page.on("request", lambda request: asked.append(request.url))
    page = visit.open("index.html")
    page = visit.open("translator.html")
    page.get_by_role("button", name="Load the model").click()
    page.get_by_role("button", name="Translate", exact=True).wait_for()
    page.keyboard.press("Control+k")
    page.locator("#search-dialog input").fill("softmax")
    page.locator("#search-dialog [role=option]").first.wait_for()
    page.keyboard.press("Escape")
    files = [url for url in asked if "/_static/" in url and not url.endswith(".woff2")]
    named = re.compile(r"\?v=\w{8}$|/narrow/\w{64}\.webp$")
    assert [url for url in files if not named.search(url)] == []
    kinds = {urlsplit(url).path.split("/_static/")[1].split("/")[0] for url in files}
    assert kinds >= {"models", "widgets", "search", "minisearch", "thumbnails", "favicon.svg"}


def test_no_page_is_fetched_before_it_is_opened() -> None:
    """Firefox fetches rel=next and rel=prefetch in the head, which the policy of a page forbids."""
    for name in page_names():
        head, _, body = (SITE / name).read_text("utf-8").partition("</head>")
        assert not re.search(r'<link[^>]* rel="(?:next|prefetch)"', head), name
        assert body.count('rel="next"') == body.count('class="right-next"'), name


@pytest.mark.parametrize("name", [CHAPTER, "api/attention.html"])
def test_listings_fit_a_phone_and_buttons_cover_no_text(phone: Visit, name: str) -> None:
    page = phone.open(name, width=390)
    page.evaluate("() => document.querySelectorAll('details').forEach(e => { e.open = true; })")
    assert page.evaluate(SCROLLING) == []
    assert page.evaluate(COVERED) == 0


def test_code_can_be_copied_where_the_browser_gives_no_clipboard(
    chromium: Browser, address: str
) -> None:
    context = chromium.new_context(permissions=["clipboard-read", "clipboard-write"])
    page = context.new_page()
    page.add_init_script(
        """window.real = navigator.clipboard;
        Object.defineProperty(Navigator.prototype, "clipboard", { get: () => undefined });"""
    )
    page.goto(f"{address}/index.html")
    button = page.locator("button.copybtn").first
    button.click(force=True)
    expect(button).to_have_attribute("aria-label", "Copied")
    expect(button).to_be_focused()
    assert page.evaluate("window.real.readText()").startswith("make lab")
    page.reload()
    page.evaluate("() => { document.execCommand = () => false; }")
    button.click(force=True)
    expect(button).to_have_attribute("aria-label", "Press Ctrl+C to copy the selected code")
    assert page.evaluate("String(getSelection())").startswith("make lab")
    context.close()
