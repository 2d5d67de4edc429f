"""What must hold on every page of the built site, in a browser that can reach no other host."""

import re
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest
from playwright.sync_api import Browser, Error, Page

from tests.pages.axe import WITH_SIDEBAR, faults
from tests.pages.conftest import (
    CONTRAST,
    NAMELESS,
    OVERFLOW,
    SITE,
    Visit,
    guarded,
    page_names,
)
from tests.pages.reference import ALIKE, OPENED, TO_READ
from tools import ROOT
from tools.notebooks import chapters

PAGES = page_names()
READING = [name for name in TO_READ if name not in ALIKE]
CHAPTERS = [f"{path.stem}.html" for path in chapters() if path.stem != "translator"]

COLOURED = (*WITH_SIDEBAR, "/translator.html", "/glossary.html")
"""The pages that axe also checks on a desktop, and for their contrast, which takes it most of its
time. They have all kinds of elements, and what is around the text. The texts of all pages are
checked by CONTRAST."""

RAW_MATH = r"\$[^$\n]{1,80}\$|\\\(|\\\[|\\frac|\\sqrt|\\mathbf|\\text\{"

VISIBLE_TEXT = """() => {
    const copy = document.querySelector("article").cloneNode(true);
    const unread = "pre, code, script, style, .katex, .tooltip";
    for (const part of copy.querySelectorAll(unread)) part.remove();
    return copy.textContent;
}"""

CUT = """() => [...document.querySelectorAll("article pre")]
    .filter(pre => pre.checkVisibility())
    .filter(pre => pre.scrollWidth > pre.clientWidth)
    .map(pre => pre.innerText.split("\\n").reduce((a, b) => a.length > b.length ? a : b))"""
OPEN = """open => document.querySelectorAll("article details").forEach(e => { e.open = open; })"""
WITHOUT_CAPTION = """() => [...document.querySelectorAll(
        "article .cell_output img, article .tfmr-map, article .live-figure")]
    .filter(e => !e.closest(".cover-live"))
    .filter(e => {
        const caption = e.closest("figure")?.querySelector("figcaption p");
        return !caption?.checkVisibility() || !caption.innerText.trim();
    })
    .map(e => e.outerHTML.slice(0, 100))"""
SHOW = """html => document.querySelector("main").replaceWith(
    new DOMParser().parseFromString(html, "text/html").querySelector("main"))"""
"""Show the main part of another page, in the styles of the open page and without its scripts."""

PICTURES = """() => Promise.all([...document.querySelectorAll("article img")].map(async image => {
    image.loading = "eager";
    await image.decode().catch(() => {});
    return { alt: image.alt, drawn: image.complete && image.naturalWidth > 0 };
}))"""


def test_the_site_was_built() -> None:
    assert {"index.html", "notation.html", "glossary.html", "api.html"} <= set(PAGES), (
        "build the site first: make book"
    )
    for chapter in chapters():
        assert f"{chapter.stem}.html" in PAGES


@pytest.fixture(scope="module", params=READING)
def chapter(request: pytest.FixtureRequest, visit: Visit) -> Visit:
    """A page to read, at 1280 pixels less those of a scrollbar; opened once for all tests of it."""
    visit.open(request.param, width=1265)
    return visit


def stands_by_itself(visit: Visit) -> None:
    assert visit.foreign == [], "the page asks another host"
    assert visit.missing == []
    assert visit.errors == []


def has_set_math(page: Page, name: str) -> None:
    assert re.findall(RAW_MATH, page.evaluate(VISIBLE_TEXT)) == [], f"{name} shows TeX"
    unset = ".math:not(:has(> .katex math, > .katex-display math))"
    wrong = page.locator(f"{unset}, .katex-error, merror, .math[tabindex]:not(div)")
    assert wrong.count() == 0, name


def fits_a_phone(page: Page) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    assert page.evaluate(OVERFLOW) == []


def test_page_stands_by_itself(chapter: Visit) -> None:
    stands_by_itself(chapter)


def test_math_is_set(chapter: Visit) -> None:
    has_set_math(chapter.page, chapter.page.url)


def test_pictures_are_described(chapter: Visit) -> None:
    for picture in chapter.page.evaluate(PICTURES):
        assert picture["drawn"]
        assert len(picture["alt"]) > 20, picture
        assert not picture["alt"].startswith("<")


def test_page_can_be_used(chapter: Visit) -> None:
    page = chapter.page
    code = page.locator("article div.highlight pre")
    printed = page.locator(".cell_output :is(.highlight-myst-ansi, .highlight-default) pre")
    assert page.locator("article button.copybtn").count() == code.count() - printed.count()
    assert page.evaluate(NAMELESS) == []


def test_every_figure_has_a_number_and_a_caption(chapter: Visit) -> None:
    page = chapter.page
    assert page.evaluate(WITHOUT_CAPTION) == []
    labels = page.locator("figure.numbered .figure-number").all_inner_texts()
    number = re.search(r"/(\d+)-", page.url)
    prefix = f"{int(number[1])}." if number and number[1] != "00" else ""
    assert labels == [f"Figure {prefix}{i}" for i in range(1, len(labels) + 1)]


def test_the_opener_has_the_question_and_all_words_of_the_notebook(chapter: Visit) -> None:
    page = chapter.page
    name = page.url.rpartition("/")[2]
    if name not in CHAPTERS:
        assert page.locator("p.standfirst, .opener").count() == 0
        return
    question = page.locator("p.standfirst")
    assert question.count() == 1
    assert re.fullmatch(r"[A-Z].{15,}\?", question.inner_text(), re.DOTALL)
    labels = page.locator(".opener .opener-label").all_text_contents()
    appendices = ("common-mistakes.html", "your-own-data.html")
    kind = "appendix" if name in appendices else "chapter"
    assert labels == ["Prerequisites", f"After this {kind}", "Time"]
    first = (
        nbformat.read(ROOT / "book" / name.replace(".html", ".ipynb"), 4)
        .cells[0]
        .source.split("\n\n")[1]
    )
    words = re.findall(r"[A-Za-z]{3,}", re.sub(r"\]\([^)]*\)|\$[^$]*\$", "", first))
    shown = re.findall(r"[A-Za-z]{3,}", page.locator("article").inner_text())
    assert " ".join(words) in " ".join(shown)
    for paragraph in page.locator("article p:not(.standfirst)").all_inner_texts()[:3]:
        assert not re.search(r"[a-z][.!?][A-Z]", paragraph), paragraph


def test_code_does_not_scroll_at_1280(chapter: Visit) -> None:
    chapter.page.evaluate(OPEN, True)
    assert chapter.page.evaluate(CUT) == []
    chapter.page.evaluate(OPEN, False)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_text_is_legible(chapter: Visit, theme: str) -> None:
    chapter.set_theme(theme)
    assert chapter.page.evaluate(CONTRAST) == []


def test_nothing_is_wider_than_a_phone(chapter: Visit) -> None:
    fits_a_phone(chapter.page)


# The last of the tests that share an open page, since it shortens the page.
def test_axe_finds_no_fault(chapter: Visit) -> None:
    assert faults(chapter, colours=chapter.page.url.endswith(COLOURED)) == {}


@pytest.mark.parametrize("name", [name for name in PAGES if name not in [*READING, *ALIKE]])
def test_an_index_or_a_source_stands_by_itself(visit: Visit, name: str) -> None:
    page = visit.open(name)
    stands_by_itself(visit)
    for theme in ("light", "dark"):
        visit.set_theme(theme)
        assert page.evaluate(CONTRAST) == []
    fits_a_phone(page)
    assert faults(visit, colours=False) == {}


def shown(page: Page, folder: str) -> Iterator[str]:
    """Show the generated pages of a folder that are not opened, one after the other."""
    for name in ALIKE:
        if name.startswith(folder):
            page.evaluate(SHOW, (SITE / name).read_text("utf-8"))
            yield name


def test_math_and_text_of_the_reference_are_legible(visit: Visit) -> None:
    page = visit.open(OPENED[0], width=1265)
    for name in shown(page, "api/"):
        has_set_math(page, name)
        assert page.evaluate(CUT) == [], name
        for theme in ("light", "dark"):
            visit.set_theme(theme)
            assert page.evaluate(CONTRAST) == [], name


@pytest.mark.parametrize("folder", ["api/", "_modules/"])
def test_no_word_is_wider_than_a_phone(visit: Visit, folder: str) -> None:
    page = visit.open(OPENED[0], width=390)
    for name in shown(page, folder):
        assert page.evaluate(OVERFLOW) == [], name


def test_code_can_be_copied(visit: Visit) -> None:
    page = visit.open("index.html")
    page.locator("button.copybtn").first.click(force=True)
    page.wait_for_function(
        "async () => (await navigator.clipboard.readText()).startsWith('make lab')"
    )


@pytest.mark.parametrize("path", chapters(), ids=lambda path: path.stem)
def test_the_download_button_gives_the_standalone_notebook(path: Path) -> None:
    text = (SITE / f"{path.stem}.html").read_text(encoding="utf-8")
    [link] = set(re.findall(r'href="(_sources/[^"]+\.ipynb)"', text))
    assert (SITE / link).read_bytes() == path.read_bytes()


def test_the_browser_reaches_no_other_name(chromium: Browser, address: str) -> None:
    # Without the rule of tools.browser, Chromium resolves such a name to this machine.
    elsewhere = address.replace("127.0.0.1", "elsewhere.localhost") + "/index.html"
    for made in guarded(chromium, address):
        with pytest.raises(Error, match="ERR_NAME_NOT_RESOLVED"):
            made.page.goto(elsewhere)
        assert made.foreign[0] == elsewhere
