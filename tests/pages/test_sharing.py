"""A live figure is shared in its state, presented on a whole screen, and embedded elsewhere."""

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.pages.axe import faults
from tests.pages.conftest import CONTRAST, NAMELESS, OVERFLOW, SITE, Visit, serve
from tests.pages.live import RULES, Stage, cells, choose, operate, press, status
from tests.pages.test_attention_figure import agree, figure
from tests.pages.test_merges_figure import MergesFigure

EMBEDDED = sorted(f"embed/{path.name}" for path in (SITE / "embed").glob("*.html"))
CHAPTER = "12-decoding"
WITHOUT_CLIPBOARD = "Object.defineProperty(navigator, 'clipboard', { value: undefined });"


def tool(live: Locator, name: str) -> Locator:
    """A button of the frame of a figure."""
    return live.locator(".live-tools").get_by_role("button", name=name, exact=True)


def copied(live: Locator, name: str = "Copy link") -> str:
    """Open what shares a figure, and copy its link, or the line that embeds it."""
    tool(live, "Share").click()
    tool(live, name).click()
    expect(live.locator(".live-panel").get_by_role("status")).to_have_text(
        f"{name.removeprefix('Copy ')} copied", ignore_case=True
    )
    expect(tool(live, name)).to_be_focused()
    press(live.page, "Escape")
    expect(live.locator(".live-panel")).to_have_count(0)
    return str(live.page.evaluate("navigator.clipboard.readText()"))


def opened(page: Page, address: str) -> Locator:
    """The figure of a page, after a visit of another page, with which its state has ended."""
    page.goto("about:blank")
    page.goto(address)
    live = page.locator(".live").first
    live.wait_for()
    return live


def test_a_link_has_what_the_reader_changed_and_shows_it_again(stage: Stage) -> None:
    live = stage.show(figure())
    page, address = live.page, live.page.url
    steps = page.evaluate("history.length")
    assert copied(live) == f"{address}#live-stage-1"
    choose(live, "Query", "good")
    live.get_by_label("causal mask").check()  # masks nothing for the last token
    expect(live.get_by_role("status")).to_contain_text("As before: ")
    stated = status(live)
    link = copied(live)
    assert status(live) == stated
    assert link == f"{address}#live-stage-1&causal=true&selected=2"
    assert page.url == address
    assert page.evaluate("history.length") == steps
    live = opened(page, link)
    agree(live, figure(causal=True, selected=2))
    tool(live, "Reset").click()
    agree(live, figure())


def test_a_link_opens_by_keyboard_and_changes_the_figure_of_an_open_page(stage: Stage) -> None:
    live = stage.show(figure())
    live.get_by_label("Change").select_option("dot products")
    live.get_by_role("slider", name="“am”").fill("4.5")
    products = cells(live.locator(".att-steps"))
    tool(live, "Share").focus()
    press(live.page, "Enter", "Tab")
    field = live.get_by_label("This figure in this state")
    expect(field).to_be_focused()
    assert live.page.evaluate("getSelection().toString()") == field.input_value()
    press(live.page, "Tab", "Enter")
    link = live.page.evaluate("navigator.clipboard.readText()")
    tool(live, "Reset").click()
    expect(live.locator(".live-panel")).to_have_count(0)
    live.page.evaluate("link => { window.same = true; location.href = link; }", link)
    expect(live.get_by_role("slider", name="“am”")).to_have_value("4.5")
    assert cells(live.locator(".att-steps")) == products
    assert live.page.evaluate("window.same && document.querySelectorAll('.live').length") == 1


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        ("&selected=3", "“selected” must be a whole number from 0 to 2, but is “3”"),
        ("&selected=1.5", "“selected” must be a whole number"),
        ("&selected=two", "“selected” must be a whole number"),
        ("&selected=", "“selected” must be a whole number"),
        ("&causal=1", "“causal” must be one of true, false, but is “1”"),
        ("&causal=true&selected=3", "“selected” must be"),
        ("&q=[[1,2]]", "“q” must be a list of 3 items"),
        ("&q=[[1,2],[1,0],[1,1e9]]", "“q” must be a list of 3 items"),
        ("&q=null", "“q” must be a list of 3 items"),
        ("&selected=%E0%A4%A", "“selected” must be"),
        ("&selected=1&selected=1", "it sets “selected” twice"),
        ("&tokens=[]", "this figure has no “tokens” that can be set"),
        ("&__proto__=1", "this figure has no “__proto__” that can be set"),
        ("&", "this figure has no “” that can be set"),
        ("&<b>x</b>=1", "this figure has no “<b>x</b>” that can be set"),
        ("&selected=" + 4000 * "1", "it has 4010 characters; at most 4000 are allowed"),
    ],
)
def test_a_state_that_cannot_be_used_is_not_used_and_said(
    stage: Stage, state: str, reason: str
) -> None:
    stage.show(figure())
    live = opened(stage.visit.page, f"{stage.visit.base}/stage.html#live-stage-1{state}")
    agree(live, figure())
    stated = status(live)
    assert unquote(stated).startswith(f"The state in the address was not used: {reason}")
    assert stated.endswith("The 3 weights sum to 1.")
    live.get_by_label("causal mask").check()
    expect(live.get_by_role("status")).not_to_contain_text("not used")
    assert stage.visit.errors == []


def test_a_link_to_a_figure_that_the_page_lacks_is_said(stage: Stage) -> None:
    stage.show(figure())
    live = opened(stage.visit.page, f"{stage.visit.base}/stage.html#live-stage-7&selected=1")
    agree(live, figure())
    expect(live.get_by_role("status")).to_contain_text("this page has no figure live-stage-7.")


def test_a_state_that_is_too_long_has_no_link(stage: Stage) -> None:
    live = stage.show(MergesFigure({"sing": 5}))
    live.get_by_label("Split a new word").fill("é" * 700)
    tool(live, "Share").click()
    expect(live.locator(".live-panel")).to_contain_text("too long for an address")
    expect(live.locator(".live-panel input")).to_have_count(0)
    press(live.page, "Escape")
    live.get_by_label("Split a new word").fill("né & 50 % (a=b)~#<")
    live = opened(live.page, copied(live))
    expect(live.get_by_label("Split a new word")).to_have_value("né & 50 % (a=b)~#<")


def test_without_a_clipboard_the_selected_address_is_copied_or_can_be(
    stage: Stage, chromium: Browser
) -> None:
    stage.show(figure())
    page = chromium.new_page()
    page.add_init_script(WITHOUT_CLIPBOARD)
    live = opened(page, f"{stage.visit.base}/stage.html")
    tool(live, "Share").click()
    tool(live, "Copy link").click()
    panel = live.locator(".live-panel")
    expect(panel.get_by_role("status")).to_have_text("Link copied")
    page.evaluate("document.execCommand = () => false")
    tool(live, "Copy HTML").click()
    expect(panel.get_by_role("status")).to_have_text("Not copied: copy the selected text yourself.")
    expect(live.get_by_label("HTML that embeds it")).to_be_focused()
    assert page.evaluate("getSelection().toString()").startswith("<iframe src=")
    live.locator(".live-title").click()
    expect(panel).to_have_count(0)
    page.close()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_what_shares_a_figure_fits_a_phone(phone_stage: Stage, theme: str) -> None:
    live = phone_stage.show(figure())
    phone_stage.visit.set_theme(theme)
    expect(tool(live, "Present")).to_be_hidden()  # it stands upright
    tool(live, "Share").tap()
    expect(live.get_by_label("This figure in this state")).to_be_visible()
    found = [fault for rule in (*RULES, CONTRAST) for fault in live.page.evaluate(rule)]
    assert found == []
    panel = live.locator(".live-panel").bounding_box()
    assert panel
    assert panel["x"] > 0


@pytest.fixture(params=["light", "dark"])
def presented(stage: Stage, request: pytest.FixtureRequest) -> Iterator[Locator]:
    """A figure on the whole screen."""
    live = stage.show(figure())
    stage.visit.set_theme(request.param)
    before = live.page.viewport_size
    assert before
    # Not later: Chromium's headless shell does not change the size of a presentation.
    live.page.set_viewport_size({"width": 1920, "height": 1080})
    tool(live, "Present").focus()
    press(live.page, "Enter")
    expect(tool(live, "Exit")).to_be_focused()
    yield live
    live.page.evaluate("document.fullscreenElement && document.exitFullscreen()")
    live.page.set_viewport_size(before)


def test_a_presented_figure_is_large_and_complete(presented: Locator) -> None:
    page = presented.page
    page.wait_for_function("() => parseFloat(document.querySelector('.live').style.zoom) > 1.8")
    size = "e => parseFloat(getComputedStyle(e).fontSize) * e.currentCSSZoom"
    for part in (".live-status", ".att-steps td", ".live-output"):
        assert presented.locator(part).first.evaluate(size) >= 1080 / 45, part
    box = presented.bounding_box()
    assert box == {"x": 0, "y": 0, "width": 1920, "height": 1080}
    for part in (".live-status", ".live-controls", ".att-steps"):
        shown = presented.locator(part).first.bounding_box()
        assert shown
        assert shown["y"] >= 0
        assert shown["y"] + shown["height"] <= 1080, part
    assert [fault for rule in (CONTRAST, NAMELESS, OVERFLOW) for fault in page.evaluate(rule)] == []
    presented.get_by_label("causal mask").check()
    tool(presented, "Reset").click()  # replaces the figure, which remains on the screen
    expect(tool(presented, "Exit")).to_be_visible()
    assert presented.bounding_box() == box
    agree(presented, figure())


@pytest.mark.parametrize("way", ["button", "Escape"])
def test_a_presentation_ends_where_it_began(presented: Locator, way: str) -> None:
    if way == "button":
        tool(presented, "Exit").click()
    else:
        tool(presented, "Share").focus()
        presented.page.evaluate("document.exitFullscreen()")  # as Escape does in a window
    expect(tool(presented, "Present")).to_be_focused()
    assert presented.page.evaluate("document.fullscreenElement") is None
    assert presented.evaluate("e => e.style.zoom") == ""


def test_a_browser_that_cannot_present_has_no_button_for_it(
    stage: Stage, chromium: Browser
) -> None:
    stage.show(figure())
    page = chromium.new_page()
    page.add_init_script(
        'Object.defineProperty(Document.prototype, "fullscreenEnabled", { get: () => undefined });'
    )
    live = opened(page, f"{stage.visit.base}/stage.html")
    expect(tool(live, "Share")).to_be_visible()
    expect(tool(live, "Present")).to_have_count(0)
    page.close()


def test_a_link_leads_to_the_figure_of_a_chapter(visit: Visit) -> None:
    visit.open("index.html")
    page = visit.page
    page.goto(f"{visit.base}/{CHAPTER}.html#live-{CHAPTER}-2&temperature=0.5&top_k=3")
    live = page.locator(f"#live-{CHAPTER}-2 .live")
    expect(live.get_by_role("status")).to_contain_text("3 of 4,998 tokens remain")
    expect(live.get_by_role("slider", name="Temperature")).to_have_value("0.5")
    page.wait_for_function("id => Math.abs(document.getElementById(id).getBoundingClientRect().top"
                           ") < innerHeight / 3", arg=f"live-{CHAPTER}-2")  # fmt: skip
    assert visit.errors == visit.missing == []


@pytest.mark.parametrize("name", EMBEDDED)
def test_every_state_that_a_reader_can_make_has_a_link(visit: Visit, name: str) -> None:
    live = visit.open(name).locator(".live")
    operate(live)
    link = copied(live)
    assert "&" in link
    assert link.startswith(visit.base)
    place = link.partition("#")[2]
    live = opened(visit.page, f"{visit.base}/{name}#{place}")
    expect(live.get_by_role("status")).not_to_contain_text("not used")
    assert copied(live) == link
    assert visit.errors == visit.missing == visit.foreign == []


def test_every_figure_has_a_page_to_embed(visit: Visit) -> None:
    places = {
        place.split('"')[0]
        for page in SITE.glob("*.html")
        for place in page.read_text("utf-8").split('class="live-figure" id="live-')[1:]
    }
    assert {Path(name).stem for name in EMBEDDED} == places


@pytest.mark.parametrize("name", EMBEDDED[3:5])
def test_an_embedded_page_has_the_figure_and_its_source_only(visit: Visit, name: str) -> None:
    page = visit.open(name)
    expect(page.locator("nav, header, .bd-sidebar, .bd-header-article")).to_have_count(0)
    expect(page.get_by_role("heading", level=1)).to_have_count(1)
    expect(page.locator(".live-shows")).to_be_visible()
    link = page.locator(".embedded-source a")
    stem = Path(name).stem
    assert link.evaluate("a => a.href") == (
        f"{visit.base}/{stem.rpartition('-')[0]}.html#live-{stem}"
    )
    assert faults(visit, colours=True) == {}
    visit.open(name, width=390)
    assert visit.page.evaluate(OVERFLOW) == []


@pytest.fixture
def course(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    """The folder and the address of another site."""
    (tmp_path / "index.html").write_text("<title>Course</title>", "utf-8")
    for address in serve(tmp_path):
        yield tmp_path, address


def test_the_copied_line_shows_the_figure_in_another_page(
    visit: Visit, chromium: Browser, course: tuple[Path, str]
) -> None:
    live = visit.open(f"{CHAPTER}.html").locator(f"#live-{CHAPTER}-2 .live")
    live.get_by_role("slider", name="Temperature").fill("0.5")
    line = copied(live, "Copy HTML")
    folder, address = course
    head = '<!DOCTYPE html><title>Lesson</title><link rel="icon" href="data:,">'
    (folder / "lesson.html").write_text(head + line, "utf-8")
    page = chromium.new_page()
    errors: list[object] = []
    page.on("pageerror", lambda error: errors.append(error))
    page.on("console", lambda message: errors.append(message.text))
    page.goto(f"{address}/lesson.html")
    frame = page.frame_locator('iframe[title="Sampling a token"]')
    expect(frame.get_by_role("slider", name="Temperature")).to_have_value("0.5")
    expect(frame.get_by_role("button", name="Present")).to_be_visible()
    frame.get_by_role("button", name="Present").click()
    expect(frame.get_by_role("button", name="Exit")).to_be_visible()
    with page.context.expect_page() as chapter:
        page.keyboard.press("Escape")
        frame.get_by_role("button", name="Exit").click()
        frame.get_by_role("link", name="12 Decoding").click()
    assert f"{CHAPTER}.html" in chapter.value.url
    assert errors == []
    page.close()
