"""The table of *Common mistakes* has the numbers that the notebook cells print."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

import tfmr

BOOK = Path(tfmr.__file__).parent.parent / "book"
APPENDIX = "common-mistakes.ipynb"
NUMBER = re.compile(r"\d+(?:,\d{3})*(?:\.\d+)?(?:e[+-]\d+)?")


def cells(name: str) -> list[dict[str, Any]]:
    """The cells of a notebook of the book."""
    found: list[dict[str, Any]] = json.loads((BOOK / name).read_text("utf-8"))["cells"]
    return found


def printed(cell: dict[str, Any]) -> str:
    """What a cell prints; nothing for a cell of text."""
    return "".join("".join(output.get("text", "")) for output in cell.get("outputs", ()))


def numbers(text: str) -> set[float]:
    """The numbers in a text, without their signs."""
    return {float(number.replace(",", "")) for number in NUMBER.findall(text)}


def slug(heading: str) -> str:
    """The anchor of a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def sections() -> dict[str, str]:
    """What the notebook cells of each entry print, by the anchor of the entry."""
    found: dict[str, str] = {}
    anchor = ""
    for cell in cells(APPENDIX):
        text = "".join(cell["source"]) if cell["cell_type"] == "markdown" else ""
        if heading := re.match(r"#{2,3} (.+)", text):
            anchor = slug(heading[1])
        found[anchor] = found.get(anchor, "") + printed(cell)
    return found


def rows() -> list[tuple[str, str, str]]:
    """Anchor, number and chapter of each row of the table."""
    text = "\n".join("".join(cell["source"]) for cell in cells(APPENDIX))
    return re.findall(r"^\| \[.+\]\(#([\w-]+)\) \| (.+) \| (.+) \|$", text, re.MULTILINE)


def chapters(links: str) -> list[str]:
    """The notebooks that a row links to."""
    return re.findall(r"\]\(([\w-]+\.ipynb)\)", links)


def test_every_entry_has_a_row() -> None:
    entries = {anchor for anchor, output in sections().items() if output}
    assert entries <= {anchor for anchor, _, _ in rows()}


@pytest.mark.parametrize(("anchor", "number", "links"), rows())
def test_the_numbers_of_the_table_are_printed(anchor: str, number: str, links: str) -> None:
    where = sections()[anchor]
    if not where:  # a chapter runs it
        found = [cell for name in chapters(links) for cell in cells(name)]
        where = "".join("".join(cell["source"]) + printed(cell) for cell in found)
    assert numbers(number) <= numbers(where)
