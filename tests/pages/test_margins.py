"""Definitions and citations in the margin of a wide page."""

import re
from types import SimpleNamespace
from typing import Any

from docutils import nodes
from docutils.utils import new_document
from playwright.sync_api import Browser, expect

from tests.pages.conftest import Visit
from tools.notebooks import chapters
from tools.site import margins

NOTES = '[...document.querySelectorAll(".margin-notes")].filter(e => !e.closest("details"))'
# The notes that have room: the others stand in further columns of their box, which are cut off.
FITTING = f"""{NOTES}.filter(e => e.checkVisibility()).flatMap(box => [...box.children].filter(
    note => note.getBoundingClientRect().left < box.getBoundingClientRect().right - 1))"""
SHOWN = f"() => {FITTING}.length"
# Notes that are not beside their paragraph, or that are cut off, or that touch something else.
MISPLACED = f"""() => {{
    const others = "article .noted > p, article .margin-notes > p, article .cell, article h2";
    const around = [...document.querySelectorAll(others)].filter(other => other.checkVisibility())
        .map(other => [other, other.getBoundingClientRect()]);
    return {FITTING}.filter(note => {{
        const box = note.getBoundingClientRect();
        const frame = note.parentElement.getBoundingClientRect();
        const text = note.parentElement.previousElementSibling.getBoundingClientRect();
        const column = note.closest("article").getBoundingClientRect();
        const crossed = around.some(([other, r]) => other !== note
            && r.left < box.right - 1 && box.left < r.right - 1
            && r.top < box.bottom - 1 && box.top < r.bottom - 1);
        return crossed || box.bottom > frame.bottom + 1 || box.top < text.top
            || box.left < text.right || box.right > column.right + 1 || box.width < 150;
    }}).map(note => note.innerText.slice(0, 60));
}}"""


def glossary(*paragraphs: nodes.Node) -> nodes.document:
    document = new_document("glossary")
    section = nodes.section("", nodes.title("", "a term"), *paragraphs, ids=["a-term"])
    document += nodes.section("", nodes.title("", "Glossary"), section, ids=["glossary"])
    return document


def test_a_definition_is_the_first_sentence_of_the_entry() -> None:
    formula = nodes.math("", r"\sqrt{d_k} < W_{\text{in}}")
    entry = nodes.paragraph("", "", nodes.Text("Not a_b, "), formula, nodes.Text(" >. The rest."))
    found = margins.definitions(glossary(entry, nodes.paragraph("", "More.")))
    meaning = "Not a_b, √d<sub>k</sub> &lt; W<sub>in</sub> &gt;."
    assert found["a-term"] == f"<b>a term</b> {meaning}"
    assert "glossary" not in found


def test_a_paper_has_its_label_and_its_title() -> None:
    note = margins.papers()["vaswani2017attention"]
    assert note == "<b>Vaswani et al. (2017)</b> <i>Attention Is All You Need</i>"
    assert not [note for note in margins.papers().values() if "{" in note or "\\" in note]


def test_an_entry_is_found_by_its_anchors() -> None:
    entry = nodes.paragraph("", "A function: 0.5 of 1. More.")
    page = glossary(entry, nodes.paragraph("", "Else."))
    section = page[0][1]
    section["ids"], section["slug"] = ["softmax", "id1"], "the-softmax"
    found = margins.definitions(page)
    assert {"softmax", "id1", "the-softmax"} <= found.keys()
    assert found["id1"] == "<b>a term</b> A function: 0.5 of 1."


def notes(docname: str, *sections: nodes.Node) -> list[str]:
    """The notes that a page with these sections gets, each as HTML."""
    document = new_document("page")
    env: Any = SimpleNamespace(
        docname=docname,
        margin_notes={
            "glossary": {f"t{i}": f"<b>t{i}</b>" for i in range(6)},
            "bibliography": {"a-paper": "<b>a paper</b>"},
        },
    )
    document += list(sections)
    margins.add_notes(document, env)
    for note in document.findall(nodes.raw):
        [text, same] = note.parent.children
        assert isinstance(text, nodes.paragraph)
        assert same is note
    return [note.astext() for note in document.findall(nodes.raw)]


def linked(*targets: str) -> nodes.paragraph:
    links = [nodes.reference("", "a link", refuri=target) for target in targets]
    return nodes.paragraph("", "", *links)


def test_only_the_first_link_of_a_page_has_a_note() -> None:
    found = notes(
        "book/04-self-attention",
        nodes.section("", linked("glossary.html#t1", "glossary.html#t1"), linked("x.html#t2")),
        nodes.section("", linked("glossary.html#t1"), linked("bibliography.html#a-paper")),
        nodes.section("", linked("glossary.html#unknown"), linked("glossary.html#t2")),
    )
    shown = [
        f'<p data-of="{anchor}"><b>{name}</b></p>'
        for anchor, name in (("t1", "t1"), ("a-paper", "a paper"), ("t2", "t2"))
    ]
    assert [re.sub("</?div[^>]*>", "", note) for note in found] == shown
    assert all('role="note"' in note for note in found)


def test_exercises_lists_and_other_pages_have_no_notes() -> None:
    paragraph = linked("glossary.html#t1")
    item = nodes.bullet_list("", nodes.list_item("", paragraph.deepcopy()))
    exercise = nodes.section("", paragraph.deepcopy(), classes=["exercise"])
    assert notes("book/x", nodes.section("", item), exercise) == []
    for docname in (margins.GLOSSARY, "index"):
        assert notes(docname, nodes.section("", paragraph.deepcopy())) == []


def test_a_note_is_beside_its_paragraph_whole_and_at_the_first_link_or_not_shown(
    chromium: Browser, address: str
) -> None:
    context = chromium.new_context(java_script_enabled=False)  # the notes need no script
    page = context.new_page()
    for chapter in chapters():
        page.goto(f"{address}/{chapter.stem}.html", wait_until="load")
        page.evaluate("() => document.fonts.ready")
        for width in (1280, 1600):
            page.set_viewport_size({"width": width, "height": 900})
            assert page.evaluate(MISPLACED) == [], chapter.stem
            assert page.evaluate(SHOWN) >= 4 or chapter.stem == "translator"
        texts = page.locator(".margin-notes p").all_text_contents()
        assert len(texts) == len(set(texts)), chapter.stem
    context.close()


def test_a_note_without_room_is_not_shown(visit: Visit) -> None:
    page = visit.open("04-self-attention.html")
    note = page.locator(".margin-notes p").first
    shown = page.evaluate(SHOWN)
    note.evaluate("e => { e.textContent = 'word '.repeat(200); }")
    assert page.evaluate(SHOWN) == shown - len(note.locator("xpath=../p").all())
    assert page.evaluate(MISPLACED) == []


def test_every_note_of_a_paragraph_is_about_a_link_in_it(visit: Visit) -> None:
    page = visit.open("04-self-attention.html")
    paragraph = page.locator(".noted", has_text="Its key describes the properties by which")
    terms = paragraph.locator(".margin-notes b").all_text_contents()
    assert terms == ["query", "key", "value"]


def test_a_term_opens_its_note_where_there_is_no_margin(phone: Visit) -> None:
    page = phone.open("04-self-attention.html", width=390)
    box = page.locator(".noted", has=page.locator("[data-of=query]"))
    link = box.locator("p a[href$='glossary.html#query']").first
    note = box.locator("[data-of=query]")
    address = page.url
    expect(link).to_have_attribute("aria-expanded", "false")
    link.tap()
    expect(note).to_be_visible()
    expect(link).to_have_attribute("aria-expanded", "true")
    expect(box.locator(".margin-notes p:visible")).to_have_count(1)
    below = (note.bounding_box() or {"y": 0})["y"], (link.bounding_box() or {"y": 0})["y"]
    assert below[0] > below[1]
    link.tap()
    expect(note).to_be_hidden()
    assert page.url == address
    link.tap()
    note.get_by_role("link", name="Glossary").tap()
    page.wait_for_url("**/glossary.html#query")


def test_a_term_beside_its_note_leads_to_the_glossary(visit: Visit) -> None:
    page = visit.open("04-self-attention.html")
    link = page.locator(".noted > p a[href$='glossary.html#query']").first
    assert link.get_attribute("aria-expanded") is None
    link.click()
    page.wait_for_url("**/glossary.html#query")


def test_narrow_pages_and_paper_have_no_notes(visit: Visit) -> None:
    page = visit.open("04-self-attention.html", width=1100)
    assert page.evaluate(SHOWN) == 0
    page.set_viewport_size({"width": 1280, "height": 900})
    assert page.evaluate(SHOWN) > 0
    try:
        page.emulate_media(media="print")
        assert page.evaluate(SHOWN) == 0
    finally:
        page.emulate_media(media="screen")
