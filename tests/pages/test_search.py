"""The search: more than sixty queries with their sections, the index, and the box in use."""

import csv
import gzip
import json
import re
from collections.abc import Iterator
from functools import cache
from typing import Any
from urllib.parse import unquote

import pytest
import yaml
from lxml.html import HtmlElement, document_fromstring
from playwright.sync_api import Browser, Locator, Page, expect

from tests.pages.conftest import SITE, Visit, guarded, protocol
from tools import ROOT
from tools.notebooks import chapters
from tools.site.search_index import CODES, slug
from tools.site.tex_text import plain_math

STATIC = SITE / "_static"
QUERIES = list(csv.DictReader((ROOT / "tests/pages/searches.csv").read_text("utf-8").splitlines()))
WORDS = yaml.safe_load((ROOT / "tools/site/search_words.yml").read_text("utf-8"))
ON_DEMAND = [
    "minisearch/index.js",
    *(f"search/{name}" for name in ("engine.js", "box.js", "search.css", "index.js")),
]
CHAPTER = "04-self-attention.html"
SECTION, TERM, EXERCISE, REFERENCES, API = range(5)
CODE = re.compile(f"[{chr(CODES.start)}-{chr(CODES.stop - 1)}]")
HUE = re.compile(r"\{\\htmlClass\{hue-\w+\}\{((?:[^{}]|\{[^{}]*\})*)\}\}")
"""A coloured symbol in a formula; see hues.py."""


@cache
def index() -> dict[str, Any]:
    text = (STATIC / "search/index.js").read_text("utf-8")
    content: dict[str, Any] = json.loads(text.removeprefix("window.bookIndex = ").strip(";\n"))
    return content


def word(code: re.Match[str]) -> str:
    """The common word that a character of the index stands for."""
    return str(index()["common"][ord(code[0]) - CODES.start])


def entries() -> Iterator[tuple[str, int, str, str, str]]:
    """Page, kind, title, anchor and text of every entry."""
    for page, kind, title, anchor, text, _ in zip(*index()["entries"], strict=True):
        if anchor == "-":
            anchor = slug(title)
        elif anchor.endswith("."):
            anchor += title
        yield index()["pages"][page][0], kind, title, anchor, CODE.sub(word, text)


@cache
def html(name: str) -> HtmlElement:
    """The main part of a page, with its formulas as text."""
    main = document_fromstring((SITE / name).read_text("utf-8")).find(".//main")
    for formula in main.xpath(".//span[@class='katex']"):  # its text would be there twice
        [tex] = formula.xpath(".//annotation/text()")
        marks = "".join(formula.xpath(".//*[contains(@class, 'math-marks')]//text()"))
        text = plain_math(HUE.sub(r"\1", tex)) + marks
        tail = formula.tail or ""
        for child in [*formula]:
            formula.remove(child)
        formula.text, formula.tail = text, tail
    return main


@cache
def places(name: str) -> dict[str, HtmlElement]:
    """The elements of a page that an address can name; the empty name is its title."""
    found = {place.get("id"): place for place in html(name).xpath(".//*[@id]")}
    return found | {"": html(name).find(".//h1")}


def one_line(text: str) -> str:
    return " ".join(text.split())


def ready(page: Page) -> None:
    """Wait until the index is loaded and can be searched."""
    page.locator("#search-results:not([aria-busy])").wait_for(state="attached")


@pytest.fixture(scope="module")
def searching(chromium: Browser, address: str) -> Iterator[Visit]:
    """A browser's page for the tests that need the dialog only."""
    yield from guarded(chromium, address)


@pytest.fixture
def dialog(searching: Visit) -> Locator:
    """The dialog with the index loaded, opened on a short page unless a test left it open."""
    page = searching.page
    opened = page.locator("#search-dialog")
    if not opened.is_visible():
        searching.open("bibliography.html")
        page.keyboard.press("Control+k")
        opened.wait_for()
        ready(page)
    return opened


def type_in(box: Locator, query: str) -> list[str]:
    """Type a query, and return the addresses of the results, below the root of the site."""
    box.get_by_role("combobox").fill(query)
    found = box.get_by_role("option").evaluate_all("all => all.map(one => one.href)")
    return [unquote(address.split("/", 3)[3]) for address in found]


def state(box: Locator) -> str:
    return box.get_by_role("status").inner_text()


@pytest.mark.parametrize(
    ("who", "least", "misses"), [("student", 20, 2), ("authors", 20, 2), ("short", 19, 0)]
)
def test_the_right_section_is_among_the_first_three(
    dialog: Locator, who: str, least: int, misses: int
) -> None:
    """Of questions; of abbreviations, symbols and errors, none may be missed."""
    asked = [row for row in QUERIES if row["asked by"] == who]
    assert len(asked) >= least
    missed = {
        row["query"]: found
        for row in asked
        if not set(found := type_in(dialog, row["query"])[:3]) & set(row["sections"].split())
    }
    assert len(missed) <= misses, missed


@pytest.mark.parametrize(
    ("who", "least", "misses"), [("symptom", 22, 0), ("forum", 40, 4), ("korean", 12, 0)]
)
def test_the_right_section_is_first(dialog: Locator, who: str, least: int, misses: int) -> None:
    """For symptoms, for questions of forums and interviews, and for Korean terms."""
    asked = [row for row in QUERIES if row["asked by"] == who]
    assert len(asked) >= least
    missed = {
        row["query"]: found
        for row in asked
        if not set(found := type_in(dialog, row["query"])[:1]) & set(row["sections"].split())
    }
    assert len(missed) <= misses, missed


LATIN = {"bf16", "chrF", "GELU", "GRU", "LSTM", "RMSNorm", "SwiGLU"}
"""Terms that Korean texts write in Latin letters only."""


def test_every_term_of_the_glossary_has_one_or_more_korean_names() -> None:
    terms = re.findall(r"^### (.+)", (ROOT / "book/glossary.md").read_text("utf-8"), re.MULTILINE)
    assert set(WORDS["korean"]) == set(terms) - LATIN
    names = [name.replace(" ", "") for names in WORDS["korean"].values() for name in names]
    assert len(names) == len(set(names)), "a name of two terms leads to one of them only"
    assert all(re.fullmatch("[가-힣]+", name) for name in names)


def test_a_search_without_results_suggests(dialog: Locator) -> None:
    starts = ["common-mistakes.html", "glossary.html", "index.html"]
    assert type_in(dialog, "注意力机制") == starts
    assert state(dialog).startswith("No section matches.")
    assert dialog.get_by_role("combobox").get_attribute("aria-activedescendant") is None
    similar = type_in(dialog, "sofmtaks")
    assert similar[0] == "00-primer.html#softmax"
    assert similar[-3:] == starts
    dialog.page.keyboard.press("ArrowDown")
    dialog.page.keyboard.press("Enter")
    dialog.page.wait_for_url("**/00-primer.html#softmax")


def test_prose_comes_before_the_api(dialog: Locator) -> None:
    for query in ("attention", "encoder", "mask", "learning rate", "position"):
        found = type_in(dialog, query)[:6]
        assert len(found) == 6
        assert not [one for one in found if one.startswith("api")], query


def test_a_name_of_the_package_finds_its_entry(dialog: Locator) -> None:
    found = type_in(dialog, "fused_attention")[:3]
    assert "api/attention.html#tfmr.attention.fused_attention" in found


def test_every_meaning_is_in_the_words_of_the_book(dialog: Locator) -> None:
    unknown = dialog.page.evaluate(
        """([meanings, texts]) => {
            const { tokenize } = bookSearch;
            const known = new Set(texts.flatMap(tokenize));
            return Object.entries(meanings).filter(([, meaning]) =>
                tokenize(meaning).some(term => !known.has(term)));
        }""",
        [
            WORDS["meanings"],
            [f"{title} {text}" for _, kind, title, _, text in entries() if kind < 3],
        ],
    )
    assert unknown == [], "these lead to words that no section contains"


def test_every_entry_leads_to_its_place() -> None:
    wrong = []
    for name, _, title, anchor, _ in entries():
        place = places(name).get(anchor)
        headings = [] if place is None else [*place.iter(*(f"h{i}" for i in range(1, 7))), place]
        shown = one_line(headings[0].text_content()) if headings else ""
        short = re.sub(r"√.*|\W", "", title.rpartition(".")[2])
        if short not in re.sub(r"\W", "", shown):
            wrong.append((name, anchor, title, shown))
    assert wrong == []


OVERVIEW = "api.html"
"""The index leaves out the lists of this page, which repeat entries of other pages."""

READ = """.//article//section/p | .//article//section/*[contains(@class, 'noted')]/p
    | .//article//section/ul/li/p"""


def test_the_text_of_every_section_is_in_the_index() -> None:
    texts: dict[tuple[str, str], str] = {}
    for name, _, _, anchor, text in entries():
        texts[name, anchor] = text
    missing = []
    for name, _ in index()["pages"]:
        for paragraph in html(name).xpath(READ):
            text = one_line(paragraph.text_content())
            if paragraph.xpath("ancestor::*[contains(@class, 'solution')] | .//img"):
                continue
            if name == OVERVIEW and paragraph.xpath("ancestor::li"):
                continue
            *outer, section = paragraph.xpath("ancestor::section/@id")
            if text not in texts.get((name, section if outer else ""), ""):
                missing.append((name, section, text[:60]))
    assert missing == []


def test_the_names_in_the_overview_have_entries_of_their_own() -> None:
    found = {f"{name}#{anchor}" if anchor else name for name, _, _, anchor, _ in entries()}
    links = html(OVERVIEW).xpath(".//article//li/p/*[1][self::a]/@href")
    assert len(links) > 100
    missing = {link.partition("#module-")[0] for link in links} - found
    without = re.compile("api/(commands|exercises|figures|widgets)-")
    assert [link for link in missing if not without.match(link)] == []


HIDDEN = """.//*[contains(@class, 'solution')]//p
    | .//summary[contains(., 'Hint')]/following-sibling::p"""


def test_hints_and_solutions_are_not_given_away() -> None:
    everything = "\n".join(text for _, _, _, _, text in entries())
    told = [
        text
        for name, _ in index()["pages"]
        for paragraph in html(name).xpath(HIDDEN)
        if len(text := one_line(paragraph.text_content())) > 60 and text in everything
    ]
    assert told == []


def test_no_entry_shows_tex() -> None:
    # A docstring of the API may write an index as h_{t-1}, which its page shows in the same way.
    raw = re.compile(r"\$[^$\n]{1,80}\$|\\[(\[]|\\[a-z]{3,}|\\frac")
    assert [found.group() for *_, text in entries() for found in raw.finditer(text)] == []
    prose = (text for _, kind, _, _, text in entries() if kind != API)
    assert [text for text in prose if re.search(r"[_^]\{", text)] == []


def test_nothing_is_loaded_before_the_first_search(visit: Visit) -> None:
    asked: list[str] = []
    visit.page.on("request", lambda request: asked.append(request.url))
    visit.open(CHAPTER)
    assert [url for url in asked if "search" in url and "/open.js" not in url] == []
    assert gzip.compress((STATIC / "search" / "open.js").read_bytes()).__len__() <= 3_000
    asked.clear()
    visit.page.keyboard.press("Control+k")
    ready(visit.page)
    names = (url.partition("/_static/")[2].partition("?")[0] for url in asked)
    assert sorted(names) == sorted(ON_DEMAND)


def test_the_index_is_light() -> None:
    sizes = {name: len(gzip.compress((STATIC / name).read_bytes(), 6)) for name in ON_DEMAND}
    # It has the text of every section, so it grows with the book; only a search loads it.
    assert sizes.pop("search/index.js") <= 10_000 * len(chapters())
    assert sum(sizes.values()) <= 30_000, sizes


def test_the_search_of_sphinx_and_of_the_theme_is_gone() -> None:
    names = ["searchindex.js", "searchtools.js", "language_data.js"]
    assert [path.name for path in SITE.rglob("*.js") if path.name in names] == []
    for path in SITE.rglob("*.html"):
        text = path.read_text("utf-8")
        assert not re.search("|".join([*names, "pst-search-dialog", "bd-search"]), text), path


def test_a_key_takes_less_than_50_ms(dialog: Locator) -> None:
    """Processor time of the page per key, which does not depend on the load of the machine."""

    typing = """async queries => {
        const field = document.querySelector("#search-dialog input");
        const typed = queries.flatMap(query => [...query].map((_, i) => query.slice(0, i + 1)))
            .filter((_, i) => i % 4 === 0);
        for (field.value of typed) {
            field.dispatchEvent(new Event("input"));
            field.getBoundingClientRect();
            await new Promise(resolve => setTimeout(resolve));
        }
        return typed.length;
    }"""
    with protocol(dialog.page) as metrics:
        metrics.send("Performance.enable", {"timeDomain": "threadTicks"})

        def seconds() -> float:
            found = metrics.send("Performance.getMetrics")["metrics"]
            return next(float(one["value"]) for one in found if one["name"] == "TaskDuration")

        start = seconds()
        keys = dialog.page.evaluate(typing, [row["query"] for row in QUERIES])
        used = 1000 * (seconds() - start) / keys
    assert 0.1 < used <= 50


def test_keyboard(visit: Visit) -> None:
    page = visit.open(CHAPTER)
    button = page.locator(".search-button__button").locator("visible=true").first
    button.click()
    box = page.locator("#search-dialog")
    ready(page)
    field = box.get_by_role("combobox")
    expect(field).to_be_focused()
    expect(field).to_have_attribute("aria-expanded", "false")
    page.keyboard.type("kv cache")
    expect(box.get_by_role("option").first).to_be_visible()
    expect(field).to_have_attribute("aria-expanded", "true")
    expect(field).to_have_attribute("aria-controls", "search-results")

    def chosen() -> int:
        here = box.locator("[aria-selected=true]")
        expect(here).to_have_count(1)
        expect(field).to_have_attribute("aria-activedescendant", here.get_attribute("id") or "")
        return int((here.get_attribute("id") or "").rpartition("-")[2])

    count = box.get_by_role("option").count()
    assert state(box) == (f"{count} results" if count < 12 else "The first 12 results")
    assert chosen() == 0
    page.keyboard.press("ArrowDown")
    assert chosen() == 1
    for _ in range(2):
        page.keyboard.press("ArrowUp")
    assert chosen() == count - 1
    page.keyboard.press("Escape")
    expect(box).to_be_hidden()
    expect(button).to_be_focused()
    page.keyboard.press("Control+k")
    expect(box).to_be_visible()
    page.keyboard.press("Control+k")
    expect(box).to_be_hidden()
    expect(button).to_be_focused()
    page.keyboard.press("Control+k")
    address = type_in(box, "gradient clipping")[0]
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/{address}")
    assert visit.errors == []


def test_a_result_on_the_same_page(visit: Visit) -> None:
    page = visit.open(CHAPTER)
    page.keyboard.press("Control+k")
    dialog = page.locator("#search-dialog")
    ready(page)
    assert type_in(dialog, "why sqrt dk")[0] == f"{CHAPTER}#why-divide-by-sqrt-d-k"
    dialog.get_by_role("option").first.click()
    expect(dialog).to_be_hidden()
    place = page.locator("#why-divide-by-sqrt-d-k")
    expect(place).to_be_in_viewport()


def test_snippets_mark_the_words_and_no_similar_ones(dialog: Locator) -> None:
    type_in(dialog, "layer norm")
    marks = {text.lower() for text in dialog.locator("mark").all_inner_texts()}
    assert "later" not in marks
    assert marks & {"layer", "layers"}
    type_in(dialog, "vanishing gradients")
    first = dialog.get_by_role("option").first
    marks = [text.lower() for text in first.locator("mark").all_inner_texts()]
    assert {"vanishing", "gradient"} <= {mark.rstrip("s") for mark in marks}
    assert "1 Sequences and recurrence" in first.inner_text()
    assert 60 < len(first.locator(".search-snippet").inner_text()) < 190


ANNOUNCED = [
    ("", "Type a term or a question"),
    ("   ", "Type a term or a question"),
    ("?!…", "No section matches"),
    ("xqzwvk", "No section matches"),
    ("주의 집중", "results"),
    ("한국어", "No section matches"),
    ("注意力机制", "No section matches"),
    ("внимание", "No section matches"),
    ("🤖🔍", "No section matches"),
    ("constructor __proto__ hasOwnProperty", ""),
    ("<img src=x onerror=alert(1)>", ""),
    ("mask " * 2000, "results"),
    ("x" * 10_000, "No section matches"),
    ("why", "results"),
]


def test_any_text_gets_an_answer(searching: Visit, dialog: Locator) -> None:
    for query, announced in ANNOUNCED:
        found = type_in(dialog, query)
        assert announced in state(dialog), query[:80]
        assert found or not query.strip(), query[:80]
        assert dialog.locator("img").count() == 0
        assert searching.errors == []


@pytest.mark.parametrize("width", [390, 1280])
def test_the_dialog_fits(visit: Visit, width: int) -> None:
    page = visit.open(CHAPTER, width=width)
    button = page.locator(".search-button__button").locator("visible=true").first
    button.click()
    box = page.locator("#search-dialog")
    ready(page)
    type_in(box, "attention")
    wide = page.evaluate("document.documentElement.scrollWidth")
    frame = box.bounding_box()
    assert frame
    assert wide <= width
    assert frame["x"] >= 0
    assert frame["x"] + frame["width"] <= width
    assert frame["y"] + frame["height"] <= 900
    assert all(
        (control.bounding_box() or {"height": 0})["height"] >= 44
        for control in [*box.get_by_role("option").all(), *box.locator("input, button").all()]
    )
    box.get_by_role("button", name="Close").click()
    expect(button).to_be_focused()


def test_the_page_with_a_query(visit: Visit) -> None:
    page = visit.open("search.html?q=beam+search%20length")
    box = page.locator("#search-page")
    ready(page)
    expect(box.get_by_role("option").first).to_be_visible()
    expect(box.get_by_role("combobox")).to_have_value("beam search length")
    assert "12-decoding.html#the-length-penalty" in type_in(box, "beam search length penalty")[:3]
    assert page.url.endswith("search.html?q=beam%20search%20length%20penalty")
    page.locator("h1").click()
    page.keyboard.press("Control+k")
    expect(box.get_by_role("combobox")).to_be_focused()
    assert page.locator("dialog#search-dialog").count() == 0
    assert (visit.foreign, visit.missing, visit.errors) == ([], [], [])


def test_a_page_below_another_folder_leads_to_the_root(visit: Visit) -> None:
    page = visit.open("_modules/tfmr/attention.html")
    page.keyboard.press("Control+k")
    ready(page)
    assert type_in(page.locator("#search-dialog"), "logit lens")[0].startswith("13-")


def test_without_javascript(chromium: Browser, address: str) -> None:
    context = chromium.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(f"{address}/search.html?q=mask")
    article = page.locator("article")
    assert "The search needs JavaScript" in article.inner_text()
    for link in article.locator("p a").all():
        assert (SITE / (link.get_attribute("href") or "").partition("#")[0]).is_file()
    context.close()


def test_opened_from_a_file(chromium: Browser) -> None:
    context = chromium.new_context()
    page = context.new_page()
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto((SITE / "search.html").as_uri() + "?q=kv+cache")
    ready(page)
    expect(page.locator("#search-page [role=option]").first).to_be_visible()
    page.goto((SITE / CHAPTER).as_uri())
    page.keyboard.press("Control+k")
    ready(page)
    page.locator("#search-dialog input").fill("logit lens")
    page.keyboard.press("Enter")
    page.wait_for_url("**/13-inside-a-trained-model.html#logit-lens")
    assert [error for error in errors if "earch" in error] == []
    context.close()


def test_an_index_that_cannot_be_loaded_is_reported(visit: Visit) -> None:
    page = visit.open(CHAPTER)
    page.route("**/search/index.js*", lambda route: route.abort())
    page.keyboard.press("Control+k")
    status = page.locator("#search-dialog").get_by_role("status")
    expect(status).to_contain_text("The search cannot start")
    expect(status).to_contain_text("tried again when you type")
    page.unroute("**/search/index.js*")
