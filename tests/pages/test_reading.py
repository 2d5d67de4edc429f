"""Reading the site on a desktop, on a phone, on paper, and where the network fails."""

import json
import re
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.pages.conftest import SITE, Visit, page_names, protocol, serve
from tests.pages.live import Stage, press
from tests.widgets.test_gates import gates_figure
from tfmr.widgets import LiveFigure, MergesFigure, PositionsFigure, TranslatorFigure
from tools.site import heights

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
            window.printed = new Promise(done => { window.print = done; });
        }"""
    )
    page.get_by_role("button", name="Download this page").click()
    page.get_by_role("button", name="Print with solutions").click()
    page.evaluate("() => window.printed")
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
    page.get_by_role("button", name="and translate").click()
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


EMPTY = """
window.empty = 0;
const { getElementById } = Document.prototype;
Document.prototype.getElementById = function (name) {
    window.empty += name === "";
    return getElementById.call(this, name);
};
"""


def test_no_element_without_a_name_is_looked_up(fresh: BrowserContext, address: str) -> None:
    """Firefox warns of it on every page."""
    page, errors = fresh.new_page(), list[str]()
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.add_init_script(EMPTY)
    for name in ("index.html", CHAPTER):
        page.goto(f"{address}/{name}", wait_until="networkidle")
        assert page.evaluate("window.empty") == 0, name
    assert errors == []


def test_all_pictures_are_there_before_a_page_is_printed(
    fresh: BrowserContext, address: str
) -> None:
    page = fresh.new_page()
    page.goto(f"{address}/{CHAPTER}", wait_until="networkidle")
    missing = "() => [...document.images].filter(e => !e.complete || !e.naturalWidth).length"
    assert page.evaluate(missing) > 0, "the page has a picture that is loaded when it comes near"
    at_print = f"() => new Promise(done => {{ window.print = () => done(({missing})()); }})"
    page.evaluate(f"() => {{ window.printed = ({at_print})(); }}")
    page.get_by_role("button", name="Download this page").click()
    page.get_by_role("button", name="Print or save as PDF").click()
    assert page.evaluate("() => window.printed") == 0
    page.goto(f"{address}/06-position.html", wait_until="networkidle")
    assert page.evaluate(missing) > 0
    page.evaluate("() => window.dispatchEvent(new Event('beforeprint'))")
    page.wait_for_function(f"() => ({missing})() === 0")


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


def heights_of(page: Page) -> dict[str, int]:
    """The height of the place of each live figure, by its id."""
    found: dict[str, int] = page.locator(".live-figure").evaluate_all(
        "found => Object.fromEntries(found.map(e => [e.id, e.offsetHeight]))"
    )
    return found


def test_the_heights_of_all_figures_are_recorded() -> None:
    places = {
        place
        for name in page_names()
        for place in re.findall(
            r'<div class="live-figure" id="([\w-]+)"', (SITE / name).read_text()
        )
    }
    assert places == set(json.loads(heights.FILE.read_text("utf-8")))


@pytest.mark.parametrize(
    ("name", "width"),
    [
        ("13-inside-a-trained-model.html", 390),
        ("12-decoding.html", 1280),
        ("11-training.html", 390),
    ],
)
def test_the_place_of_a_figure_has_its_height_before_and_in_use(
    visit: Visit, name: str, width: int
) -> None:
    page = visit.page
    page.set_viewport_size({"width": width, "height": 844})
    page.goto(f"{visit.base}/{name}", wait_until="load")
    waiting = heights_of(page)
    page.evaluate("() => window.dispatchEvent(new Event('beforeprint'))")
    for place, height in waiting.items():
        figure = page.locator(f"#{place}")
        figure.locator(".live").wait_for()
        # Other typefaces of the system break some lines elsewhere.
        assert heights_of(page)[place] == pytest.approx(height, rel=0.1), place
        assert figure.evaluate(heights.HEIGHT) == pytest.approx(height, rel=0.1), place
        assert figure.locator(".live").evaluate("e => e.offsetHeight") == heights_of(page)[place]


def test_a_phone_shows_the_numbers_of_the_selected_step(
    phone_stage: Stage,
) -> None:
    live = phone_stage.show(gates_figure(step=4))
    for step in ("0", "3", "7"):
        live.get_by_role("slider", name="Step").fill(step)
        numbers = live.locator(".gates-time .gates-now")
        assert numbers.count() == 7
        for cell in numbers.all():
            expect(cell).to_have_text(re.compile(r"^−?\d\.\d\d$"))
        assert min(numbers.evaluate_all("cells => cells.map(e => e.offsetWidth)")) >= 30


@pytest.mark.parametrize("figure", [TranslatorFigure(), MergesFigure({"low": 5, "lower": 2})])
def test_a_phone_does_not_zoom_in_on_a_field(phone_stage: Stage, figure: LiveFigure) -> None:
    live = phone_stage.show(figure)
    sizes = live.locator("textarea, select, input:not([type=range])").evaluate_all(
        "fields => fields.map(e => parseFloat(getComputedStyle(e).fontSize))"
    )
    assert min(sizes) >= 16


def test_a_swipe_over_a_slider_scrolls_the_page_and_changes_no_value(phone_stage: Stage) -> None:
    live = phone_stage.show(gates_figure(step=4))
    page, slider = live.page, live.get_by_role("slider", name="Step")
    page.evaluate("() => { document.body.style.paddingBlock = '2000px'; scrollTo(0, 1700); }")
    before = slider.input_value(), page.evaluate("scrollY")
    box = slider.bounding_box()
    assert box
    x, y = box["x"] + box["width"] - 8, box["y"] + box["height"] / 2

    def touches(kind: str, *points: dict[str, float]) -> dict[str, object]:
        return {"type": kind, "touchPoints": list(points)}

    with protocol(page) as browser:
        browser.send("Input.dispatchTouchEvent", touches("touchStart", {"x": x, "y": y}))
        for i in range(1, 13):
            moved = touches("touchMove", {"x": x, "y": y - 20 * i})
            browser.send("Input.dispatchTouchEvent", moved)
        browser.send("Input.dispatchTouchEvent", touches("touchEnd"))
    page.wait_for_function("before => scrollY > before", arg=before[1])
    expect(slider).to_have_value(before[0])


def test_reset_stands_beside_the_title(phone_stage: Stage) -> None:
    live = phone_stage.show(gates_figure())
    reset, title = (
        live.locator(".live-reset").bounding_box(),
        live.locator(".live-title").bounding_box(),
    )
    assert reset
    assert title
    assert abs(reset["y"] + reset["height"] / 2 - title["y"] - title["height"] / 2) < 10
    written = live.locator(".live-title").evaluate(
        """title => {
            const range = new Range();
            range.selectNodeContents(title);
            return range.getBoundingClientRect().right;
        }"""
    )
    assert written < reset["x"]


def test_forced_colours_keep_the_hatching_and_the_selected_frame(stage: Stage) -> None:
    live = stage.show(gates_figure(step=4))
    live.page.emulate_media(forced_colors="active")
    look = "e => [getComputedStyle(e).backgroundImage, getComputedStyle(e).outlineStyle]"
    assert "gradient" in live.locator(".live-hidden").first.evaluate(look)[0]
    assert live.locator(".gates-time tr[aria-current] > th").evaluate(look)[1] == "solid"
    live.page.emulate_media(forced_colors="none")


def test_labels_of_a_drawing_are_legible_where_a_dark_system_forces_its_colours(
    stage: Stage,
) -> None:
    live = stage.show(PositionsFigure())
    live.page.emulate_media(forced_colors="active", color_scheme="dark")
    look = "e => [getComputedStyle(e).fill, getComputedStyle(e).color]"
    forced = live.evaluate(look)[1]
    for label in live.locator("svg text:not(.pos-name)").all():
        assert label.evaluate(look)[0] == forced, label.text_content()
    live.page.emulate_media(forced_colors="none", color_scheme="light")


CROSSED = """() => {
    const input = document.activeElement;
    const range = input.closest(".live-range");
    const rings = [input, range].filter(e => getComputedStyle(e).outlineStyle !== "none");
    const texts = [...range.closest(".live-body").querySelectorAll("label, .live-output, legend")];
    const crossed = rings.flatMap(e => {
        const { outlineOffset, outlineWidth } = getComputedStyle(e);
        const box = e.getBoundingClientRect();
        const grown = (by) => [box.left - by, box.top - by, box.right + by, box.bottom + by];
        const inner = grown(parseFloat(outlineOffset));
        const outer = grown(parseFloat(outlineOffset) + parseFloat(outlineWidth));
        return texts.filter(e => e.textContent.trim()).filter(text => {
            const words = new Range();
            words.selectNodeContents(text);
            const { left, top, right, bottom } = words.getBoundingClientRect();
            return (left < inner[0] || top < inner[1] || right > inner[2] || bottom > inner[3])
                && right > outer[0] && bottom > outer[1] && left < outer[2] && top < outer[3];
        });
    });
    return [rings.length, crossed.map(e => e.textContent)];
}"""
"""How many rings the slider with the focus has, and the texts that they cross."""


def test_the_ring_of_a_slider_crosses_no_text(stage: Stage, phone_stage: Stage) -> None:
    for shown in (stage, phone_stage):
        live = shown.show(PositionsFigure(encoding="rotary"))
        live.get_by_label("Base").focus()
        for name in ("Query m", "Key n", "Move both", "Angle φ"):
            press(live.page, "Tab")
            slider = live.get_by_role("slider", name=name)
            expect(slider).to_be_focused()
            assert live.page.evaluate(CROSSED) == [1, []], name


@pytest.fixture
def fresh(chromium: Browser) -> Iterator[BrowserContext]:
    """A browser of a reader who was never here."""
    context = chromium.new_context(color_scheme="light")
    yield context
    context.close()


def test_the_colours_hold_in_a_new_tab(fresh: BrowserContext, address: str) -> None:
    page = fresh.new_page()
    page.goto(f"{address}/notation.html")
    page.locator(".theme-switch-button:visible").click()
    other = fresh.new_page()
    other.goto(f"{address}/bibliography.html")
    assert other.evaluate("document.documentElement.dataset.theme") == "dark"


def test_a_browser_without_a_full_screen_has_no_button_for_it(
    fresh: BrowserContext, address: str
) -> None:
    fresh.add_init_script(
        'Object.defineProperty(Document.prototype, "fullscreenEnabled", { get: () => undefined });'
    )
    page = fresh.new_page()
    page.goto(f"{address}/notation.html")
    expect(page.locator(".btn-fullscreen-button")).to_have_count(0)


def test_entries_of_the_bibliography_stand_apart(visit: Visit) -> None:
    page = visit.open("bibliography.html")
    gaps = page.locator("div.citation p").evaluate_all(
        """found => found.slice(1).map((e, i) =>
            e.getBoundingClientRect().top - found[i].getBoundingClientRect().bottom)"""
    )
    assert min(gaps) >= 10


def test_permanent_links_are_no_stops_of_the_tab_key(visit: Visit) -> None:
    page = visit.open(CHAPTER)
    stops = page.locator(".headerlink").evaluate_all("found => found.map(e => e.tabIndex)")
    assert len(stops) > 20
    assert set(stops) == {-1}


def test_a_figure_without_javascript_says_what_it_is(chromium: Browser, address: str) -> None:
    context = chromium.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(f"{address}/{CHAPTER}")
    note = page.locator(".live-figure__note").first
    expect(note.locator("b")).to_be_visible()
    expect(note.locator("b")).to_have_text("This figure is interactive and needs JavaScript.")
    assert page.locator(".live-figure").first.evaluate("e => e.offsetHeight") < 200
    context.close()


def test_an_address_without_a_page_leads_to_the_book(fresh: BrowserContext) -> None:
    for base in serve(SITE.parent):
        page = fresh.new_page()
        answer = page.goto(f"{base}/en/no/such-page.html")
        assert answer
        assert answer.status == 404
        page.get_by_role("link", name="The Executable Transformer").click()
        expect(page).to_have_title(re.compile("^The Executable Transformer"))


def test_code_has_no_elements_without_a_colour() -> None:
    text = (SITE / "13-inside-a-trained-model.html").read_text("utf-8")
    assert re.findall(r'<span class="(?:n|p|w)">', text) == []
    assert '<span class="k">' in text
    assert len(re.findall(r"<[a-z]", text)) < 8000
