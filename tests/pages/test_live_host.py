"""The host of the live figures in a page: when it loads their code, where it works, how it fails.

The pages of the stage forbid inline scripts, ``eval`` and other hosts by a Content-Security-Policy.
"""

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from tests.pages.conftest import SITE, page_names
from tests.pages.live import Stage, status, write_page
from tests.pages.test_attention_figure import figure
from tfmr.widgets import linker

WITH_FIGURES = [
    name for name in page_names() if 'class="live-figure"' in (SITE / name).read_text("utf-8")
]


def requests(page: Page) -> list[str]:
    """The names of the files that the page requested, from now on."""
    made: list[str] = []
    page.on("request", lambda request: made.append(request.url.rpartition("/")[2]))
    return made


def test_every_figure_is_on_a_page_and_runs_from_a_disk(chromium: Browser) -> None:
    page = chromium.new_page()
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    seen = set()
    for name in WITH_FIGURES:
        page.goto((SITE / name).as_uri())
        page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
        for place in page.locator(".live-figure").all():
            place.locator(".live").wait_for()
            expect(place.locator(".live-figure__note")).to_be_hidden()
        sources = page.locator("script[src*='_static/widgets/']").evaluate_all(
            "all => all.map(script => new URL(script.src).pathname.split('/').pop())"
        )
        seen |= set(sources)
    page.close()
    assert errors == []
    assert {f"{name}.js" for name in linker.figures()} <= seen


def test_code_is_loaded_when_the_figure_comes_near(stage: Stage, chromium: Browser) -> None:
    write_page(stage.folder, figure(), before='<div class="far">text</div>')
    page = chromium.new_page(viewport={"width": 1280, "height": 900})
    made = requests(page)
    page.goto(f"{stage.visit.base}/stage.html", wait_until="networkidle")
    assert "host.js" in made
    assert not {"shared.js", "attention.js", "shared.css"} & set(made)
    expect(page.locator(".live-figure__note")).to_be_visible()
    page.mouse.wheel(0, 3000)
    page.locator(".live").wait_for()
    for name in ("shared.js", "shared.css", "attention.js", "attention.css"):
        assert made.count(name) == 1
    page.close()


def failed(stage: Stage, chromium: Browser, block: str = "", **changes: object) -> Page:
    """A page on which the figure cannot run."""
    write_page(stage.folder, figure(), **changes)
    page = chromium.new_page()
    if block:
        page.route(f"**/{block}", lambda route: route.abort())
    page.goto(f"{stage.visit.base}/stage.html")
    return page


@pytest.mark.parametrize(
    ("block", "changes", "reason"),
    [
        ("attention.js", {}, "attention.js could not be loaded"),
        ("shared.js", {}, "shared.js could not be loaded"),
        ("shared.css", {}, "shared.css could not be loaded"),
        ("", {"q": None}, "Cannot read"),
        ("", {"_anywidget_id": ""}, "the page has no state of the figure"),
    ],
)
def test_a_figure_that_cannot_run_shows_its_text_and_the_reason(
    stage: Stage, chromium: Browser, block: str, changes: dict[str, object], reason: str
) -> None:
    page = failed(stage, chromium, block, **changes)
    expect(page.locator(".live-figure__reason")).to_contain_text(reason)
    expect(page.locator(".live-figure__note")).to_be_visible()
    expect(page.locator(".live-figure__note")).to_have_text(repr(figure()))
    page.close()


def test_a_figure_that_stops_later_says_so(stage: Stage, chromium: Browser) -> None:
    def broken(route: Route) -> None:
        text = (stage.folder / "_static" / "widgets" / "attention.js").read_text("utf-8")
        fault = text.replace("masked[at] === -Infinity;", "masked.none.none;")
        assert fault != text
        route.fulfill(body=fault, content_type="text/javascript")

    write_page(stage.folder, figure())
    page = chromium.new_page()
    page.route("**/attention.js", broken)
    page.goto(f"{stage.visit.base}/stage.html")
    page.locator(".att-steps [role=gridcell]").nth(2).click()
    expect(page.get_by_role("alert")).to_contain_text("This live figure stopped: ")
    expect(page.locator(".live-figure__note")).to_be_visible()
    page.close()


def test_a_print_has_the_drawing_without_controls(stage: Stage) -> None:
    live = stage.show(figure())
    expect(live.locator(".live-shows p")).to_be_hidden()
    live.page.emulate_media(media="print")
    for hidden in (".live-controls", ".live-task"):
        expect(live.locator(hidden)).to_be_hidden()
    for shown in (".live-title", ".att-steps", ".live-status", ".live-shows p"):
        expect(live.locator(shown)).to_be_visible()
    live.page.emulate_media(media="screen")


def test_a_change_is_announced_once_and_no_change_each_time(stage: Stage) -> None:
    live = stage.show(figure())
    live.evaluate(
        """e => {
            window.announced = [];
            const line = e.querySelector("[role=status]");
            new MutationObserver(() => window.announced.push(line.innerText))
                .observe(line, { childList: true, subtree: true, characterData: true });
        }"""
    )
    text = status(live)
    live.get_by_label("causal mask").check()
    for n, choice in enumerate(("dot products", "query of “I”"), start=1):
        live.page.wait_for_function("n => window.announced.length === n", arg=n)
        live.get_by_label("Change").select_option(choice)
    live.page.wait_for_function("() => window.announced.length === 3")
    announced = live.page.evaluate("window.announced")
    assert [line.startswith("As before: ") for line in announced] == [False, True, True]
    assert text not in announced[0]
