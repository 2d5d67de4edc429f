"""Formulas as plain text, and the entries that the search index makes of a page."""

from html import escape

import pytest
from docutils import nodes
from docutils.utils import new_document

from tools.site import search_index as search
from tools.site.tex_text import LEFT_OUT, html_scripts, marked_math, plain_math


@pytest.mark.parametrize(
    ("tex", "text"),
    [
        (r"\sqrt{d_k}", "√d_k"),
        (r"\sqrt{d_{\text{model}}}", "√d_model"),
        (r"\sqrt{2L}", "√(2L)"),
        (r"e^{4/\sqrt 2} \approx 17", "e^(4/√2) ≈ 17"),
        (r"\tfrac{1}{18}", "1/18"),
        (r"\frac{a + b}{2}", "(a + b)/2"),
        (r"\partial L / \partial S", "∂L / ∂S"),
        (r"(\lvert V \rvert, d_{\text{ff}})", "(|V|, d_ff)"),
        (r"\mathbf{q} = \mathbf{x} W^Q", "q = x W^Q"),
        (r"QK^\top", "QKᵀ"),
        (r"16d^2", "16d²"),
        (r"-\log p(y)", "−log p(y)"),
        (r"98{,}816", "98,816"),
        (r"d_{i + 1}", "d_(i + 1)"),
        (r"\operatorname{softmax}(\mathbf s)", "softmax(s)"),
        (r"\lVert \mathbf u \rVert", "‖u‖"),
        (r"\begin{pmatrix} 1 \\ 2 \end{pmatrix}", LEFT_OUT),
        (r"\unknown{x}", LEFT_OUT),
        (r"\sqrt{", LEFT_OUT),
        ("x^", LEFT_OUT),
        ("a + " * 20 + "a", LEFT_OUT),
    ],
)
def test_formulas_become_text(tex: str, text: str) -> None:
    assert plain_math(tex) == text


@pytest.mark.parametrize(
    ("tex", "html"),
    [
        ("x W_1", "x W<sub>1</sub>"),
        (r"d_{\text{in}} < 2", "d<sub>in</sub> &lt; 2"),
        (r"\sqrt{d_k}", "√d<sub>k</sub>"),
        (r"e^{-a_i} + x^2", "e<sup>−a<sub>i</sub></sup> + x²"),
        ("x^", LEFT_OUT),
    ],
)
def test_indices_become_html(tex: str, html: str) -> None:
    assert html_scripts(escape(marked_math(tex))) == html


@pytest.mark.parametrize(
    ("title", "anchor", "stored"),
    [
        ("Mask.apply", "tfmr.mask.Mask.apply", "tfmr.mask."),
        ("What the mask hides, and why", "what-the-mask-hides-and-why", "-"),
        ("Why divide by √d_k", "why-divide-by-sqrt-d-k", "why-divide-by-sqrt-d-k"),
        ("Self-attention", "", ""),
    ],
)
def test_what_an_anchor_repeats_of_its_title_is_left_out(
    title: str, anchor: str, stored: str
) -> None:
    entry = search.Entry(search.SECTION, title, anchor, "", "")
    assert search.shortened(entry) == entry._replace(anchor=stored)


def test_common_words_become_codes_and_only_those() -> None:
    texts = ["the mask hides the key, and the other mask", "≈ 3 the", "Maske 마스크"]
    common, coded = search.with_codes(texts)
    assert common[0] == " the"
    assert "the" in common
    restored = [
        "".join(common[ord(c) - search.CODES.start] if ord(c) in search.CODES else c for c in text)
        for text in coded
    ]
    assert restored == texts
    assert not any("mask" in text for text in coded)
    with pytest.raises(AssertionError, match="Hebrew"):
        search.with_codes(["א"])


def section(title: str, *children: nodes.Node) -> nodes.section:
    made = nodes.section("", nodes.title("", title), *children)
    made["ids"].append(nodes.make_id(title))
    return made


def test_a_section_becomes_an_entry() -> None:
    # KeepMarks has moved the comma to the formula.
    text = nodes.paragraph("", "", nodes.Text("By "), nodes.math("", r"\sqrt{d_k}", marks=","))
    text += nodes.Text(" then ")
    text += nodes.literal("", "softmax")
    cell = nodes.container(nb_element="cell_code_source")
    cell += nodes.literal_block("", "my_name = x.masked_fill(m, 0)\nF.dropout(y)")
    output = nodes.literal_block("", "def printed_source(): ...")
    solution = [
        nodes.raw("", '<details class="solution" id="s"><summary>S</summary>', format="html"),
        nodes.paragraph("", "The answer."),
        nodes.raw("", "</details>", format="html"),
    ]
    exercise = section("Exercise 4.1: two", nodes.paragraph("", "Do it."), *solution)
    references = section("References", nodes.paragraph("", "A paper."))
    empty = section("Exercises", exercise)
    page = section("4 Attention", section("Scaling", text, cell, output), empty, references)
    assert list(search.section_entries("book/04-x", page, top=True)) == [
        (search.SECTION, "4 Attention", "", "", ""),
        (
            search.SECTION,
            "Scaling",
            "scaling",
            "By √d_k, then softmax",
            "masked_fill dropout",
        ),
        (search.EXERCISE, "Exercise 4.1: two", "exercise-4-1-two", "Do it.", ""),
        (search.REFERENCES, "References", "references", "A paper.", ""),
    ]


def test_tables_that_notebook_cells_display_and_the_opener_are_left_out() -> None:
    def table(text: str) -> nodes.table:
        return nodes.table("", nodes.paragraph("", text))

    output = nodes.container("", table("0.25"), nb_element="cell_code_output")
    opener = nodes.container("", nodes.paragraph("", "Chapter 4."), classes=["opener"])
    page = section("Costs", opener, table("shape of a query"), output)
    assert [entry.text for entry in search.section_entries("book/14-x", page, top=True)] == [
        "shape of a query"
    ]


def test_terms_of_the_glossary_are_entries() -> None:
    term = section("softmax", nodes.paragraph("", "A function."))
    page = section("Glossary", nodes.paragraph("", "Terms."), section("S", term))
    document = new_document("page")
    document += page
    kinds = [(kind, title) for kind, title, *_ in search.entries("book/glossary", document)]
    assert kinds == [(search.SECTION, "Glossary"), (search.TERM, "softmax")]


def test_the_overview_of_the_package_does_not_repeat_its_lists() -> None:
    names = nodes.bullet_list("", nodes.list_item("", nodes.paragraph("", "a_name: A sentence.")))
    page = section("The package", section("Modules", nodes.paragraph("", "In order."), names))
    texts = {
        docname: [text for *_, text, _ in search.section_entries(docname, page, top=True)]
        for docname in ("book/api", "book/notation")
    }
    assert texts == {
        "book/api": ["", "In order."],
        "book/notation": ["", "In order. a_name: A sentence."],
    }
