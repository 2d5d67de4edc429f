"""Every function that draws a figure of the book: nothing is cut, and phones can read it."""

import json
import re
from base64 import b64decode
from collections.abc import Iterator
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure as MatplotlibFigure
from matplotlib.text import Text
from PIL import Image

import tfmr
from tests.figures.examples import EXAMPLES
from tfmr.figures.narrow import NARROW, _beyond, _overlaps
from tfmr.figures.narrow import narrow as narrow_layout
from tfmr.figures.style import Figure

BOOK = Path(tfmr.__file__).parent.parent / "book"
IMPORT = re.compile(r"from tfmr\.figures\.(?!map\b|style\b)\w+ import (\([^)]*\)|.*)")
BROKEN = {"lens_table": {"embeddings"}}
"""Words that a narrow layout hyphenates, or leaves out of a title."""
NO_FIGURE = {"Candidate", "Scaling", "as", "draw_penalty"}


def notebooks() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    for path in sorted(BOOK.glob("*.ipynb")):
        yield path.stem, json.loads(path.read_text("utf-8"))["cells"]


@cache
def layouts(name: str) -> tuple[Figure, list[MatplotlibFigure]]:
    """The layout of an example for the text column, and the one for phones if it has one.

    The tests of one example follow each other (``scope="module"``), so that it is drawn once.
    """
    fig = EXAMPLES[name]()
    phone = fig.narrow or narrow_layout(fig)
    return fig, [] if phone is None else [phone]


@cache
def texts(fig: MatplotlibFigure) -> list[Text]:
    """The texts that are drawn."""
    fig.draw_without_rendering()
    unseen: set[Text] = set()
    for axes in fig.axes:
        for axis in (axes.xaxis, axes.yaxis):
            unseen.update(_beyond(axis))
            if not axes.axison:
                unseen.update(text for text in axis.findobj(Text) if isinstance(text, Text))
    return [
        text
        for text in fig.findobj(Text)
        if isinstance(text, Text)
        and text not in unseen
        and text.get_visible()
        and text.get_text().strip()
    ]


def cut(fig: MatplotlibFigure) -> set[str]:
    """The texts that reach beyond the edge of a figure."""
    width, height = fig.bbox.size
    found = set()
    for text in texts(fig):
        box = text.get_window_extent()
        if box.x0 < 0 or box.y0 < 0 or box.x1 > width or box.y1 > height:
            found.add(text.get_text())
    return found


def test_there_is_an_example_of_every_function_of_the_book() -> None:
    used = {
        name
        for _, cells in notebooks()
        for cell in cells
        if cell["cell_type"] == "code"
        for names in IMPORT.findall("".join(cell["source"]))
        for name in re.findall(r"\w+", names)
    }
    assert used - NO_FIGURE <= EXAMPLES.keys()
    assert len(used) > 60


@pytest.mark.parametrize("name", EXAMPLES, scope="module")
def test_no_text_is_cut_at_the_edge(name: str) -> None:
    fig, phones = layouts(name)
    for layout in (fig, *phones):
        assert cut(layout) == set(), layout.get_size_inches()


def test_a_text_that_is_cut_is_found() -> None:
    fig = EXAMPLES["change_effects"]()
    axes = fig.axes[0]
    axes.set_xlabel("change of the loss from the block of 2017 (nats per token), and so on and on")
    assert cut(fig) == {axes.get_xlabel()}


@pytest.mark.parametrize("name", EXAMPLES, scope="module")
def test_every_figure_can_be_read_on_a_phone(name: str) -> None:
    fig, phones = layouts(name)
    assert len(phones) == 1 or fig.get_figwidth() <= NARROW
    for phone in phones:
        assert phone.get_figwidth() == NARROW
        assert phone is not fig.narrow or _overlaps(phone) <= _overlaps(fig)
        assert min(text.get_fontsize() for text in texts(phone)) >= 8.5


def words(fig: MatplotlibFigure) -> set[str]:
    """The words of at least three letters in a figure."""
    return set(re.findall(r"[^\W\d_]{3,}", " ".join(text.get_text() for text in texts(fig))))


@pytest.mark.parametrize("name", EXAMPLES, scope="module")
def test_both_layouts_show_the_same(name: str) -> None:
    fig, phones = layouts(name)
    assert repr(fig) == fig.alt != ""
    for phone in phones:
        assert repr(phone) == repr(fig)
        assert words(fig) - words(phone) <= BROKEN.get(name, set())


def test_every_stored_picture_has_a_layout_for_phones() -> None:
    """A label that is too long leaves no room for it, and then the picture scrolls on a phone."""
    pictures = [
        (f"{chapter}, cell {number}", output["metadata"]["image/png"])
        for chapter, cells in notebooks()
        for number, cell in enumerate(cells)
        for output in cell.get("outputs", ())
        if "image/png" in output.get("data", {})
    ]
    assert len(pictures) > 50
    assert [where for where, layouts in pictures if "narrow" not in layouts] == []


def test_no_stored_picture_has_ink_at_its_edge() -> None:
    found = 0
    for chapter, cells in notebooks():
        for number, cell in enumerate(cells):
            for output in cell.get("outputs", ()):
                png = output.get("data", {}).get("image/png")
                for picture in (png, output.get("metadata", {}).get("image/png", {}).get("narrow")):
                    if picture is None:
                        continue
                    found += 1
                    with Image.open(BytesIO(b64decode("".join(picture)))) as opened:
                        pixels = np.asarray(opened.convert("RGB"))
                    edge = [pixels[0], pixels[-1], pixels[:, 0], pixels[:, -1]]
                    assert min(side.min() for side in edge) > 215, f"{chapter}, cell {number}"
    assert found > 100
