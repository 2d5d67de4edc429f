"""What must hold on every page of the built site, in a browser that can reach no other host."""

import re
from pathlib import Path

import pytest

from tests.pages.axe import WITH_SIDEBAR, faults
from tests.pages.conftest import CONTRAST, NAMELESS, OVERFLOW, SITE, Visit, page_names
from tools.notebooks import chapters

PAGES = page_names()
BOOK_PAGES = [name for name in PAGES if not name.startswith("_modules/")]
READING = [
    name for name in BOOK_PAGES if name not in ("genindex.html", "py-modindex.html", "search.html")
]

SOURCES = [name for name in PAGES if name.startswith("_modules/")]
"""The pages with the source code of a module; all have the same elements around the code."""

COLOURED = (*WITH_SIDEBAR, "/06-position.html", "/translator.html", "/glossary.html")
"""The pages whose contrast axe checks, too, which takes it most of its time. They have all kinds of
elements, and what is around the text. The texts of all pages are checked by CONTRAST."""

LAST = max(name for name in PAGES if name.startswith("api/"))
"""The last page of the reference, which is the end of the book."""

RAW_MATH = r"\$[^$\n]{1,80}\$|\\\(|\\\[|\\frac|\\sqrt|\\mathbf|\\text\{"

VISIBLE_TEXT = """() => {
    const copy = document.querySelector("article").cloneNode(true);
    const unread = "pre, code, script, style, .katex, .tooltip";
    for (const part of copy.querySelectorAll(unread)) part.remove();
    return copy.textContent;
}"""

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
    """A page to read; opened once for all that is asked of it."""
    visit.open(request.param)
    return visit


@pytest.fixture(scope="module", params=[name for name in PAGES if name not in READING])
def other(request: pytest.FixtureRequest, visit: Visit) -> Visit:
    """An index, the search, or the source of a module."""
    visit.open(request.param)
    return visit


def stands_by_itself(visit: Visit) -> None:
    page = visit.page
    assert visit.foreign == [], "the page asks another host"
    assert visit.missing == []
    assert visit.errors == []
    assert page.title().count("The Executable Transformer") == 1
    description = page.locator("meta[name=description]")
    assert description.count() == 1
    assert 10 < len(description.get_attribute("content") or "") <= 220
    assert page.locator("h1").count() >= 1
    icon = page.locator("link[rel~=icon]").first.get_attribute("href")
    assert (icon or "").endswith("favicon.svg")
    assert page.evaluate("document.documentElement.lang") == "en"
    assert page.locator("#pst-primary-sidebar nav a.reference.internal").count() > 10


def fits_a_phone(visit: Visit) -> None:
    visit.page.set_viewport_size({"width": 390, "height": 844})
    assert visit.page.evaluate(OVERFLOW) == []


def test_page_stands_by_itself(chapter: Visit) -> None:
    stands_by_itself(chapter)


def test_math_is_set(chapter: Visit) -> None:
    page = chapter.page
    assert re.findall(RAW_MATH, page.evaluate(VISIBLE_TEXT)) == [], "math was left as it was typed"
    assert page.locator(".math:not(:has(> .katex math, > .katex-display math))").count() == 0
    assert page.locator(".katex-error, merror, .math[tabindex]:not(div)").count() == 0


def test_pictures_are_described(chapter: Visit) -> None:
    for picture in chapter.page.evaluate(PICTURES):
        assert picture["drawn"]
        assert len(picture["alt"]) > 20, picture
        assert not picture["alt"].startswith("<")


def test_page_can_be_used(chapter: Visit) -> None:
    page = chapter.page
    code = page.locator("article div.highlight pre")
    assert page.locator("article button.copybtn").count() == code.count()
    assert page.locator("#pst-secondary-sidebar nav a").count() >= 1, "no table of contents"
    neighbours = page.locator("head link:is([rel=prev], [rel=next])").count()
    ends = page.url.endswith(("/index.html", f"/{LAST}"))
    assert page.locator(".prev-next-area a").count() == neighbours == (1 if ends else 2)
    assert page.evaluate(NAMELESS) == []


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_text_is_legible(chapter: Visit, theme: str) -> None:
    chapter.set_theme(theme)
    assert chapter.page.evaluate(CONTRAST) == []


def test_nothing_is_wider_than_a_phone(chapter: Visit) -> None:
    fits_a_phone(chapter)


# The last of the tests that share an open page, since it shortens the page.
def test_axe_finds_no_fault(chapter: Visit) -> None:
    assert faults(chapter, contrast=chapter.page.url.endswith(COLOURED)) == {}


def test_other_page_stands_by_itself(other: Visit) -> None:
    stands_by_itself(other)
    fits_a_phone(other)
    # axe sees the code as one text, so a few of these pages show it all there is.
    if not other.page.url.endswith(tuple(SOURCES)) or other.page.url.endswith(tuple(SOURCES[::20])):
        assert faults(other) == {}


def test_code_can_be_copied(visit: Visit) -> None:
    page = visit.open("index.html")
    page.locator("button.copybtn").first.click(force=True)
    page.wait_for_function(
        "async () => (await navigator.clipboard.readText()).startsWith('make lab')"
    )


@pytest.mark.parametrize("path", chapters(), ids=lambda path: path.stem)
def test_the_download_button_gives_the_portable_notebook(path: Path) -> None:
    text = (SITE / f"{path.stem}.html").read_text(encoding="utf-8")
    [link] = set(re.findall(r'href="(_sources/[^"]+\.ipynb)"', text))
    assert (SITE / link).read_bytes() == path.read_bytes()


def test_front_door() -> None:
    text = (SITE.parent / "index.html").read_text(encoding="utf-8")
    assert 'url=en/index.html"' in text
    assert '<a href="en/index.html">' in text
