"""The design of the site: type, code, figures, openers, the cover, dark pages and paper."""

import re
from base64 import b64encode
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from docutils import nodes
from docutils.utils import new_document
from PIL import Image
from playwright.sync_api import Page

from tests.pages.conftest import SITE, Visit
from tests.pages.test_every_page import CHAPTERS, CUT
from tfmr.figures import palette
from tfmr.figures.narrow import NARROW
from tools.site import captions, card, figures, head, launch, opener

FONTS = SITE / "_static" / "fonts"

HEIGHTS = "all => all.map(e => e.getBoundingClientRect().height)"
# Mean characters on the full lines of the paragraphs: all lines but the last.
LINES = """() => {
    const counts = [];
    for (const p of document.querySelectorAll("article section > p, article .noted > p")) {
        const range = document.createRange();
        range.selectNodeContents(p);
        const high = parseFloat(getComputedStyle(p).lineHeight);
        const lines = Math.round(p.getBoundingClientRect().height / high);
        if (lines < 4 || p.querySelector(".math, code") || p.matches(".standfirst")) continue;
        counts.push(p.innerText.length / (lines - 0.5));
    }
    return counts.reduce((a, b) => a + b, 0) / counts.length;
}"""


def test_fonts_are_few_small_and_free() -> None:
    files = list(FONTS.glob("*.woff2"))
    assert 0 < len(files) <= 3
    assert sum(path.stat().st_size for path in files) <= 90_000
    assert "SIL Open Font License" in (FONTS / "LICENSE").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["04-self-attention.html", "11-training.html"])
def test_type_is_set_for_long_reading(visit: Visit, name: str) -> None:
    page = visit.open(name)
    assert page.evaluate("document.fonts.check('18px \"Source Serif 4\"')")
    text = page.locator("article section > p, article .noted > p").nth(2)
    assert 17 <= float(text.evaluate("e => parseFloat(getComputedStyle(e).fontSize)")) <= 18
    assert 60 <= page.evaluate(LINES) <= 75


def test_a_term_of_the_glossary_is_underlined_by_dots(visit: Visit) -> None:
    page = visit.open("04-self-attention.html")
    look = """e => (({ color, textDecorationStyle }) => [color, textDecorationStyle])(
        getComputedStyle(e))"""
    paragraph = page.locator("article p:has(> a[href^='glossary.html#'])").first
    [ink, _] = paragraph.evaluate(look)
    assert paragraph.locator("a").first.evaluate(look) == [ink, "dotted"]


def test_a_long_option_does_not_make_the_page_wider_in_webkit(visit: Visit) -> None:
    lists = visit.open("translator.html").locator(".live select")
    contained = lists.evaluate_all("all => all.map(e => getComputedStyle(e).contain)")
    assert len(contained) > 2
    assert set(contained) == {"paint"}


def test_every_line_below_text_is_drawn_in_webkit() -> None:
    """There, ``text-decoration`` takes a line only; with a variable, nothing would be drawn."""
    static = SITE / "_static"
    for sheet in (static / "site.css", *(static / "widgets").glob("*.css")):
        values = re.findall(r"text-decoration:([^;}]*)", sheet.read_text("utf-8"))
        assert [value for value in values if "var(" in value] == [], sheet.name


def test_every_font_face_swaps_and_exists() -> None:
    css = (SITE / "_static" / "site.css").read_text(encoding="utf-8")
    faces = re.findall(r"@font-face\s*\{[^}]*\}", css)
    bundled = [face for face in faces if "url(fonts/source-serif" in face.replace('"', "")]
    assert len(bundled) == len(list(FONTS.glob("*.woff2")))
    for face in bundled:
        [name] = re.findall(r"url\(\"?([^\")]+)", face)
        assert (SITE / "_static" / name).is_file()
        assert re.search(r"font-display:\s*swap", face)
    fallbacks = [face for face in faces if "local(" in face]
    assert len(fallbacks) >= 3
    assert all("size-adjust" in face and "ascent-override" in face for face in fallbacks)


def test_figures_on_a_dark_page_have_the_colours_of_the_palette(visit: Visit) -> None:
    hues = [palette.PAGE, palette.INK, *palette.HUES.values()]
    picture = BytesIO()
    strip = Image.new("RGB", (40 * len(hues), 40))
    for i, hue in enumerate(hues):
        strip.paste(hue, (40 * i, 0, 40 * i + 40, 40))
    strip.save(picture, "PNG")
    page = visit.open("04-self-attention.html", theme="dark")
    image = page.locator("figure.numbered img").first
    image.evaluate(
        """(image, content) => {
            image.src = `data:image/png;base64,${content}`;
            image.style.width = "auto";
            return image.decode();
        }""",
        b64encode(picture.getvalue()).decode(),
    )
    seen = Image.open(BytesIO(image.screenshot())).convert("RGB")
    for i, hue in enumerate(hues):
        wanted = [round(255 * part) for part in palette.rgb(palette.dark(hue))]
        found = seen.getpixel((40 * i + 20, 20))
        assert max(abs(a - b) for a, b in zip(found, wanted, strict=True)) <= 4, hue


def test_a_figure_that_scrolls_belongs_to_the_dark_page(visit: Visit) -> None:
    """On a page of 320 pixels, also the narrow layouts are wider than the page."""
    page = visit.open("04-self-attention.html", theme="dark", width=320)
    body = page.locator("figure.numbered .figure-body.continues:has(img)").first
    body.locator("img").evaluate("e => { e.scrollIntoView(); return e.decode(); }")
    seen = Image.open(BytesIO(body.screenshot())).convert("RGB")
    wanted = [round(255 * part) for part in palette.rgb(palette.DARK_PAGE)]
    _, most = max(seen.getcolors(seen.width * seen.height))
    assert max(abs(a - b) for a, b in zip(most, wanted, strict=True)) <= 4


def test_a_phone_shows_most_figures_without_scrolling(visit: Visit) -> None:
    page = visit.open("06-position.html", width=390)
    bodies = page.locator("figure.numbered:not(.interactive) .figure-body:has(picture)")
    assert bodies.count() == 6
    for body in bodies.all():
        image = body.locator("img")
        image.scroll_into_view_if_needed()
        assert image.evaluate("e => e.decode().then(() => e.currentSrc)").count("/narrow/") == 1
        assert body.evaluate("e => e.scrollWidth <= e.clientWidth")
        assert image.evaluate("e => e.width") == round(96 * NARROW)
        alone = body.locator("a.image-reference")
        assert "/narrow/" not in str(alone.get_attribute("href"))
    wide = visit.open("06-position.html").locator("figure picture img").first
    assert "/narrow/" not in wide.evaluate("e => e.decode().then(() => e.currentSrc)")


def test_rules_are_found_by_their_class() -> None:
    css = (SITE / "_static" / "site.css").read_text(encoding="utf-8")
    slow = re.findall(r"[{},]:is\([^)]*#[^)]*\)\{", css)
    assert slow == [], "every element of a page is tested for these rules; write .name:not(#s)"


def test_the_cover_shows_the_book_at_work(visit: Visit) -> None:
    page = visit.open("index.html")
    buttons = page.locator("a.button")
    assert buttons.all_inner_texts() == ["Start with the primer", "I know RNNs → Chapter 4"]
    assert [link.get_attribute("href") for link in buttons.all()] == [
        "00-primer.html",
        "04-self-attention.html",
    ]
    page.locator(".cover-live .live").wait_for(timeout=5000)
    assert page.locator(".cover-way").count() == 3
    parts = page.locator(".cover-part")
    assert parts.count() == 7
    assert parts.locator("img").count() == 7
    text = page.locator("article").inner_text()
    assert text.index("The parts of the book") < text.index("How it is verified")
    assert visit.missing == []
    linked = set(re.findall(r'href="([\w-]+\.html)', page.locator(".cover-parts").inner_html()))
    assert set(CHAPTERS) <= linked
    assert page.locator("article a[href='translator.html']").count()


@pytest.fixture
def paper(visit: Visit) -> Iterator[Page]:
    """A page that shows what is printed."""
    visit.page.emulate_media(media="print")
    yield visit.page
    visit.page.emulate_media(media="screen")


@pytest.mark.parametrize(
    ("name", "theme"),
    [("04-self-attention.html", "light"), ("13-inside-a-trained-model.html", "dark")],
)
def test_paper_cuts_nothing_and_has_no_controls(
    visit: Visit, paper: Page, name: str, theme: str
) -> None:
    page = visit.open(name, theme=theme, width=560)  # narrower than A4, so that code must wrap
    assert page.evaluate(CUT) == []
    controls = ".copybtn, .bd-header-article button, .live-figure button, a.button"
    for selector in (controls, "#pst-primary-sidebar", ".prev-next-area"):
        shown = page.locator(selector).evaluate_all("all => all.map(e => e.checkVisibility())")
        assert shown
        assert not any(shown), selector
    assert page.evaluate("document.documentElement.scrollWidth") <= 560
    background = page.locator("article").evaluate("e => getComputedStyle(e).backgroundColor")
    assert background == "rgb(255, 255, 255)"
    ink = page.locator("article p").first.evaluate("e => getComputedStyle(e).color")
    assert ink == "rgb(31, 41, 51)"


@pytest.mark.parametrize("name", ["02-gates.html", "13-inside-a-trained-model.html"])
def test_a_live_figure_fits_a_sheet(visit: Visit, paper: Page, name: str) -> None:
    page = visit.open(name, width=665)  # A4 without its margins: 176 mm by 259 mm
    heights = page.locator("figure.interactive").evaluate_all(HEIGHTS)
    assert 0 < max(heights) <= 979


def test_addresses_pictures_and_buttons_only_for_a_published_book(tmp_path: Path) -> None:
    class Builder:
        format = "html"

        def get_target_uri(self, name: str) -> str:
            return f"{name}.html"

    class App:
        srcdir = str(tmp_path)
        builder = Builder()
        config = SimpleNamespace(root_doc="book/index", project="The book")

    app: Any = App()

    def metatags(urls: str) -> str:
        (tmp_path / "pyproject.toml").write_text(f"[project.urls]\n{urls}\n", "utf-8")
        context: dict[str, object] = {"pathto": lambda name, resource: name}
        head.describe_page(app, "02-gates", "page.html", context, None)
        return str(context["metatags"])

    assert not re.search("canonical|og:image", metatags(""))
    assert head.published_tags("index.html", tmp_path) == ""
    context: dict[str, Any] = {}
    launch.add_buttons(app, "", "", context, None)
    assert context == {}
    tags = metatags('Documentation = "https://example.org/book/"')
    assert '<link rel="canonical" href="https://example.org/book/en/02-gates.html">' in tags
    assert 'content="https://example.org/book/en/_static/card.png"' in tags


def test_the_card_has_the_size_that_messengers_expect() -> None:
    with Image.open(SITE / card.CARD) as picture:
        assert picture.size == card.CARD_SIZE


@pytest.mark.parametrize(
    ("alt", "caption"),
    [
        ("Two curves: a and b.", "Two curves: a and b."),
        ("The norm against the distance: 1 and 2. More.", "The norm against the distance."),
        ("The loss is 0.5 after 3 steps; it falls.", "The loss is 0.5 after 3 steps."),
        ("The words of “not gris . <eos>”; darker.", "The words of “not gris . <eos>”."),
        ("Live figure: attention of “I am a student”; by step.", "Attention of “I am a student”."),
    ],
)
def test_a_caption_is_the_first_statement(alt: str, caption: str) -> None:
    assert captions.statement(alt) == caption


def inline(text: str) -> list[nodes.Node]:
    """Text with *italic* parts, $formulas$ and [links] as nodes."""
    kinds = {"*": nodes.emphasis, "$": nodes.math, "[": nodes.reference}
    pieces = re.split(r"(\*[^*]+\*|\$[^$]+\$|\[[^]]+\])", text)
    return [
        kinds[each[0]]("", each[1:-1]) if each[0] in kinds else nodes.Text(each)
        for each in pieces
        if each
    ]


def marked(parts: list[nodes.Node]) -> str:
    """The text of nodes, in the notation of :func:`inline`."""
    marks = {nodes.emphasis: "*{}*", nodes.math: "${}$", nodes.reference: "[{}]"}
    return "".join(marks.get(type(part), "{}").format(part.astext()) for part in parts)


@pytest.mark.parametrize(
    ("paragraph", "caption", "rest"),
    [
        ("*All of it.*", "All of it.", ""),
        ("*All of it.* The rest. More.", "All of it.", "The rest. More."),
        ("*What is it?* The rest. More.", "What is it?", "The rest. More."),
        ("*It attends to* dog.", "It attends to *dog*.", ""),
        ("*It attends to* dog. The vectors.", "It attends to *dog*.", "The vectors."),
        ("*It attends to* $W_h$. The rest.", "It attends to $W_h$.", "The rest."),
        ("*It attends to* 0.5. The rest.", "It attends to *0.5*.", "The rest."),
        ("*Pronouns* it *attend to* $n$ *nouns.* It is more. It is *really* long.",
         "Pronouns *it* attend to $n$ nouns.", "It is more. It is *really* long."),
        ("*One.* And, with few words, *two.* More.", "One. *And, with few words*, two.", "More."),
        ("*One.* With so many words that it ends before *two.*", "One.",
         "With so many words that it ends before *two.*"),
        ("*One* it. Then *two.*", "One *it*.", "Then *two.*"),
    ],
)  # fmt: skip
def test_italic_sentences_become_an_upright_caption(
    paragraph: str, caption: str, rest: str
) -> None:
    taken, remaining = captions.split_caption(inline(paragraph))
    assert (marked(captions.upright(taken)), marked(remaining)) == (caption, rest)


def numbered(docname: str, *cells: nodes.Node) -> tuple[list[str], list[str]]:
    """The captions of a page with these cells, and the text that remains below each of them."""
    page = new_document("page")
    env: Any = SimpleNamespace(docname=docname)
    page += nodes.section("", *cells)
    captions.number_figures(page, env)
    found = [made.astext() for made in page.findall(captions.numbered_caption)]
    return found, [text.astext() for text in page[0] if isinstance(text, nodes.paragraph)]


def cell(*kinds: str, text: str = "A picture of two long curves; more.") -> nodes.container:
    """A cell of a notebook with one output of each of these kinds."""
    made = nodes.container(nb_element="cell_code")
    for kind in kinds:
        plain = nodes.container("", nodes.Text(text), mime_type="text/plain")
        made += nodes.container(
            "", nodes.container(mime_type=kind), plain, nb_element="mime_bundle"
        )
    return made


def test_figures_are_numbered_and_take_their_captions_from_the_text() -> None:
    below = nodes.paragraph("", "", nodes.emphasis("", "A caption."), nodes.Text(" The text."))
    alone = nodes.paragraph("", "", nodes.emphasis("", "Another."))
    upright = nodes.paragraph("", "", nodes.Text("Text."), nodes.emphasis("", " Not a caption."))
    found, texts = numbered(
        "book/04-self-attention",
        cell("text/html"),
        *(cell("image/png"), below),
        *(cell("image/png", "image/svg+xml"), alone),
        *(cell(figures.LIVE), upright),
    )
    assert found == [
        "Figure 4.1 A caption.",
        "Figure 4.2 A picture of two long curves.",
        "Figure 4.3 Another.",
        "Figure 4.4 A picture of two long curves.",
    ]
    assert texts == ["The text.", "Text. Not a caption."]
    assert numbered("book/00-primer", cell("image/png"))[0][0].startswith("Figure 1 ")


@pytest.mark.parametrize(
    ("paragraph", "parts"),
    [
        ("One. How? Two. Why? Three.", ["One.", "How?", "Two. Why? Three."]),
        ("One. What do [heads] cost, and *why*? Two. [heads]",
         ["One.", "What do [heads] cost, and *why*?", "Two. [heads]"]),
        ("One. The [head]. Three. A [mask]. How?", ["One. The [head]. Three. A [mask].", "How?"]),
        ("No question. At all.", ["No question. At all."]),
    ],
)  # fmt: skip
def test_the_first_question_is_marked(paragraph: str, parts: list[str]) -> None:
    section = nodes.section("", nodes.paragraph("", "", *inline(paragraph)))
    opener.mark_question(section[0])
    assert [marked(child.children) for child in section] == parts
    questions = [i for i, child in enumerate(section) if child["classes"] == ["standfirst"]]
    assert questions == ([1] if len(parts) > 1 else [])
