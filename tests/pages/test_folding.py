"""Folded listings, and the switch between the idea and the code."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from docutils import nodes
from docutils.utils import new_document
from lxml.html import document_fromstring
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.pages.conftest import SITE, Visit, page_names
from tools.site import captions, folding

CHAPTER, OTHER = "08-encoder.html", "04-self-attention.html"
FOLDED = "article details.folded"
SHOWN = """() => [...document.querySelectorAll("article .cell_input pre")]
    .filter(e => e.checkVisibility({ contentVisibilityAuto: true }))
    .filter(e => e.getBoundingClientRect().height > 0).length"""
"""The number of listings of notebook cells that are visible."""
LINES = "\n".join(["x = 1"] * 20)


def cell(text: str, *, language: str = "ipython3", figure: bool = False) -> nodes.container:
    """A notebook cell with a listing, and with a figure as its output."""
    listing = nodes.literal_block(text, text, language=language)
    made = nodes.container("", listing, nb_element="cell_code")
    if figure:
        made += captions.numbered_figure()
    return made


def page(*parts: nodes.Node, title: str = "A section") -> nodes.document:
    """A page with an opener and a section."""
    document = new_document("page")
    section = nodes.section("", nodes.title("", title), *parts)
    document += [nodes.container(classes=["opener"]), section]
    return document


def folded(document: nodes.document) -> list[str]:
    """The summaries of a page, once its listings are folded."""
    env: Any = None
    folding.fold_listings(document, env)
    html = "".join(raw.astext() for raw in document.findall(nodes.raw))
    assert html.count("<details") == html.count("</details>")
    assert ("<fieldset" in html) == ("<details" in html)
    return re.findall(r"<summary>(.*?)</summary>", html)


@pytest.mark.parametrize(
    ("text", "summary"),
    [
        (LINES, None),
        (f"{LINES}\nx = 2", "Code (21 lines)"),
        (f"class A:\n    def f(self): ...\n\n\ndef g(): ...\n{LINES}", "Code (25 lines): A, g"),
        ("assert x\nassert y\nz = 1", "Code (3 lines): a check"),
        ("assert x\ny = 1", None),
        ("assert x", "Code (1 line): a check"),
        ("%load_ext x\nassert x", None),
    ],
)
def test_long_listings_and_checks_are_folded(text: str, summary: str | None) -> None:
    assert folded(page(cell(text))) == ([summary] if summary else [])


def test_what_else_is_folded_and_what_stays() -> None:
    long = f"{LINES}\nx = 2"
    assert folded(page(cell("draw()", figure=True))) == ["Code (1 line): the figure"]
    assert folded(page(cell(long, language="python"))) == ["Code (21 lines)"]
    assert folded(page(cell(long, language="myst-ansi"))) == [], "printed text"
    assert folded(page(nodes.literal_block(long, long, language="python"))) == [], "no cell"
    assert folded(page(cell(long), title="Solution of exercise 4.1")) == []
    hidden = cell(long)
    hidden["hide_mode"] = "input"
    assert folded(page(hidden)) == []


def test_all_chapters_have_their_long_listings_folded() -> None:
    number = 0
    for name in page_names():
        [article] = document_fromstring((SITE / name).read_text("utf-8")).iter("article")
        for listing in (
            pre for cell in article.find_class("cell_input") for pre in cell.iter("pre")
        ):
            if next(listing.iterancestors("details"), None) is None:
                text = listing.text_content()
                assert len(text.rstrip().splitlines()) <= folding.LONG, (name, text)
        inside = [len([*box.iter("pre")]) for box in article.find_class("folded")]
        assert set(inside) <= {1}, name
        with_opener = bool(inside and article.find_class("opener"))
        assert bool(article.find_class("reading")) == with_opener, name
        number += len(inside)
    assert number > 100


@pytest.fixture
def fresh(chromium: Browser) -> Iterator[BrowserContext]:
    """A browser of a reader who was never here."""
    context = chromium.new_context(viewport={"width": 1280, "height": 900})
    yield context
    context.close()


def is_open(opened: Page) -> set[bool]:
    """Whether the folded listings of a page are open: all, none or some of them."""
    states: list[bool] = opened.locator(FOLDED).evaluate_all("found => found.map(e => e.open)")
    assert len(states) > 5
    return set(states)


def test_the_switch_holds_for_a_visit(fresh: BrowserContext, address: str) -> None:
    opened = fresh.new_page()
    opened.goto(f"{address}/{CHAPTER}")
    idea, code = (opened.get_by_role("radio", name=name) for name in ("the idea", "the code"))
    expect(idea).to_be_checked()
    assert is_open(opened) == {False}
    some = opened.evaluate(SHOWN)
    idea.focus()
    opened.keyboard.press("ArrowRight")
    expect(code).to_be_checked()
    assert is_open(opened) == {True}
    expect(opened.locator(f"{FOLDED} > summary").first).to_be_hidden()
    in_cells = opened.locator("article .cell_input details.folded pre").count()
    assert opened.evaluate(SHOWN) == some + in_cells
    opened.goto(f"{address}/{OTHER}")
    assert is_open(opened) == {True}
    opened.get_by_text("the idea", exact=True).click()
    assert is_open(opened) == {False}
    opened.go_back()
    expect(opened.get_by_role("radio", name="the idea")).to_be_checked()
    assert is_open(opened) == {False}
    opened.get_by_text("the code", exact=True).click()
    another = fresh.new_page()
    another.goto(f"{address}/{CHAPTER}")
    assert is_open(another) == {False}, "another visit"


def test_an_address_leads_to_its_section_when_listings_are_open(
    fresh: BrowserContext, address: str
) -> None:
    fresh.add_init_script("sessionStorage.setItem('reading', 'code')")
    opened = fresh.new_page()
    opened.goto(f"{address}/{CHAPTER}#summary")
    assert is_open(opened) == {True}
    top = "document.getElementById('summary').getBoundingClientRect().top"
    opened.wait_for_function(f"() => Math.abs({top}) < 120")


def test_a_folded_listing_opens_by_itself_and_for_its_words(
    fresh: BrowserContext, address: str
) -> None:
    opened = fresh.new_page()
    opened.goto(f"{address}/{CHAPTER}")
    first, second = (opened.locator(FOLDED).nth(i) for i in (0, 1))
    first.locator("summary").focus()
    opened.keyboard.press("Enter")
    expect(first.locator("pre")).to_be_visible()
    expect(second.locator("pre")).to_be_hidden()
    inner = second.locator("pre span").first
    inner.evaluate("e => { e.id = 'inner'; location.hash = 'inner'; }")
    expect(inner).to_be_in_viewport()


def test_without_javascript_a_folded_listing_opens(chromium: Browser, address: str) -> None:
    context = chromium.new_context(java_script_enabled=False)
    opened = context.new_page()
    opened.goto(f"{address}/{CHAPTER}")
    expect(opened.locator(".reading")).to_be_hidden()
    listing = opened.locator(FOLDED).first
    expect(listing.locator("pre")).to_be_hidden()
    listing.locator("summary").click()
    expect(listing.locator("pre")).to_be_visible()
    context.close()


def test_paper_has_the_folded_listings(visit: Visit) -> None:
    opened = visit.open(CHAPTER)
    opened.emulate_media(media="print")
    for listing in opened.locator(f"{FOLDED} pre").all():
        assert listing.evaluate("e => e.checkVisibility({ contentVisibilityAuto: true })")
        assert listing.evaluate("e => e.getBoundingClientRect().height") > 10
    expect(opened.locator(f"{FOLDED} > summary").first).to_be_hidden()
    expect(opened.locator(".reading")).to_be_hidden()
    opened.emulate_media(media="screen")


def test_outputs_of_folded_listings_are_visible(visit: Visit) -> None:
    opened = visit.open(CHAPTER)
    outputs = opened.locator(".cell:has(> .cell_input details.folded) > .cell_output")
    assert outputs.count() > 3
    for output in outputs.all():
        expect(output).to_be_visible()
