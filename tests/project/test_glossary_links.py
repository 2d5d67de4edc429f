"""A chapter links each term that it uses to the glossary once, where its text first uses it."""

import re
from pathlib import Path

import pytest
from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell, new_notebook

from tools import ROOT
from tools.notebooks import chapters, read
from tools.standalone import LINK

TERMS = re.findall(r"^### (.+)", (ROOT / "book" / "glossary.md").read_text("utf-8"), re.MULTILINE)
# Longer terms come first: "causal mask" is not a use of "mask".
USE = re.compile(
    rf"(?<![\w-])({'|'.join(map(re.escape, sorted(TERMS, key=len, reverse=True)))})(?:s|es)?(?!\w)",
    re.IGNORECASE,
)
OTHER_SENSES = {"bias", "hypothesis", "reference", "score", "value"}
"""Terms that the chapters also use in another sense: an absolute value, the score of a system."""
NOT_PROSE = re.compile(
    r"""
    `{3}.*?`{3} | <details>.*?</details> | \$\$.*?\$\$ | `[^`\n]+` | \$[^$\n]+\$
    | ^\#{1,6}\ .*?$ | ^\|.*?$             # headings and tables
    | ^\*(?!\*)[^\n]*?[.!?]\*(?=\s|$)      # captions
    | ^-\ \[Chapter\ \d+\]\([^)]*\):.*?$   # the list below the map
    | Vision\ Transformer                  # a name that contains a term
    """,
    re.DOTALL | re.MULTILINE | re.VERBOSE,
)


def text_of(notebook: NotebookNode) -> str:
    return "\n\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")


def linked_terms(text: str) -> list[tuple[str, int]]:
    """The anchor in the glossary and the place of each link of ``text`` to the glossary."""
    links = ((link[2].partition("glossary.md#")[2], link.start()) for link in LINK.finditer(text))
    return [(anchor, place) for anchor, place in links if anchor]


def linked_twice(notebook: NotebookNode) -> list[str]:
    anchors = [anchor for anchor, _ in linked_terms(text_of(notebook))]
    return sorted({anchor for anchor in anchors if anchors.count(anchor) > 1})


def first_uses(text: str) -> dict[str, int]:
    """Where the prose of ``text`` first uses each term without a link, by its anchor."""
    for other in (NOT_PROSE, LINK):
        text = other.sub(lambda match: " " * len(match[0]), text)  # keeps all places
    first: dict[str, int] = {}
    for use in USE.finditer(text):
        first.setdefault(use[1].lower().replace(" ", "-"), use.start())
    return first


def linked_late(notebook: NotebookNode) -> list[str]:
    """The terms that the prose of ``notebook`` uses before it links them."""
    text = text_of(notebook)
    first = first_uses(text)
    late = {anchor for anchor, place in linked_terms(text) if first.get(anchor, place) < place}
    return sorted(late - OTHER_SENSES)


def never_linked(notebook: NotebookNode) -> list[str]:
    """The terms that the prose of ``notebook`` uses and that it links nowhere."""
    text = text_of(notebook)
    linked = {anchor for anchor, _ in linked_terms(text)}
    return sorted(first_uses(text).keys() - linked - OTHER_SENSES)


def with_texts(*texts: str) -> NotebookNode:
    return new_notebook(cells=list(map(new_markdown_cell, texts)))


SOFTMAX = "The [softmax](glossary.md#softmax) of the scores."


def test_a_second_link_is_found() -> None:
    assert linked_twice(with_texts(SOFTMAX, "A [mask](glossary.md#mask).")) == []
    assert linked_twice(with_texts(SOFTMAX, "Two [softmaxes](glossary.md#softmax).")) == ["softmax"]


@pytest.mark.parametrize(
    "before", ["A softmax.", "Softmaxes are computed.", "*Two sums.* A softmax.", "- A softmax."]
)
def test_a_use_before_the_link_is_found(before: str) -> None:
    assert linked_late(with_texts(before, SOFTMAX)) == ["softmax"]


@pytest.mark.parametrize(
    "before",
    [
        "# The softmax",
        "`softmax(x)` and $softmax(x)$",
        "$$\nsoftmax(x)\n$$",
        "```python\nsoftmax = 1\n```",
        "| softmax |\n|---|\n| softmax |",
        "*The softmax of a row.*",
        "- [Chapter 10](10-transformer.ipynb): softmax",
        "<details>\n<summary>Hint</summary>\n\nThe softmax.\n\n</details>",
        "The [softmax of a row](04-self-attention.ipynb#masks).",
        "The [online softmax](glossary.md#online-softmax) and another online softmax.",
        "A value.",
        "The Vision Transformer.",
    ],
)
def test_other_texts_before_the_link_are_no_uses(before: str) -> None:
    links = "The [value](glossary.md#value) in the [Transformer](glossary.md#transformer)."
    assert linked_late(with_texts(before, SOFTMAX, links)) == []
    assert never_linked(with_texts(before, links)) == []


@pytest.mark.parametrize("use", ["A mask.", "Masks are boolean.", "Text.\n\n- **Masks**: text."])
def test_a_term_without_a_link_is_found(use: str) -> None:
    assert never_linked(with_texts(SOFTMAX, use)) == ["mask"]


@pytest.mark.parametrize(
    "text", ["A [mask](glossary.md#mask).", "`mask`", "*A [mask](glossary.md#mask).*\n\nA mask."]
)
def test_a_linked_term_is_not_missing(text: str) -> None:
    assert never_linked(with_texts(SOFTMAX, text)) == []


@pytest.mark.parametrize("path", chapters(), ids=lambda path: path.stem)
def test_a_chapter_links_a_term_once_at_its_first_use(path: Path) -> None:
    notebook = read(path)
    found = (linked_twice(notebook), linked_late(notebook), never_linked(notebook))
    assert found == ([], [], [])
