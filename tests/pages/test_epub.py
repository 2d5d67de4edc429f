"""The book as an EPUB; epubcheck, which needs Java, finds the same faults and more."""

import re
import zipfile
from collections.abc import Iterator
from io import BytesIO
from posixpath import dirname, join, normpath
from urllib.parse import unquote, urldefrag
from xml.etree import ElementTree

import pytest
from bs4 import BeautifulSoup, Tag
from PIL import Image
from playwright.sync_api import Browser

from tests.pages.conftest import SITE
from tools import ROOT, epub
from tools.site import head

PAGES = [("02-gates", "Before the Transformer"), ("glossary", "Appendices & more")]
XHTML, OPF = "{http://www.w3.org/1999/xhtml}", "{http://www.idpf.org/2007/opf}"
MATHML = "{http://www.w3.org/1998/Math/MathML}"
PACKAGE = "book/package.opf"


@pytest.fixture(scope="module")
def book(tmp_path_factory: pytest.TempPathFactory, chromium: Browser) -> Iterator[zipfile.ZipFile]:
    target = tmp_path_factory.mktemp("epub") / "book.epub"
    assert epub.make(SITE, target, PAGES, chromium) == 2
    with zipfile.ZipFile(target) as archive:
        yield archive


@pytest.fixture(scope="module")
def texts(book: zipfile.ZipFile) -> dict[str, ElementTree.Element]:
    """The documents of the EPUB by the name of their file."""
    names = (name for name in book.namelist() if name.endswith(".xhtml"))
    return {name: ElementTree.fromstring(book.read(name)) for name in names}


def test_the_type_comes_first_and_the_package_lists_every_file(book: zipfile.ZipFile) -> None:
    first = book.infolist()[0]
    assert (first.filename, first.compress_type) == ("mimetype", zipfile.ZIP_STORED)
    assert book.read(first) == b"application/epub+zip"
    [root] = ElementTree.fromstring(book.read("META-INF/container.xml")).iter(
        "{urn:oasis:names:tc:opendocument:xmlns:container}rootfile"
    )
    assert root.get("full-path") == PACKAGE
    package = ElementTree.fromstring(book.read(PACKAGE))
    items = {item.get("id"): item for item in package.iter(f"{OPF}item")}
    files = {f"book/{item.get('href')}" for item in items.values()}
    assert files == set(book.namelist()) - {"mimetype", "META-INF/container.xml", PACKAGE}
    spine = [items[item.get("idref")].get("href") for item in package.iter(f"{OPF}itemref")]
    assert spine == ["title.xhtml", "nav.xhtml", "02-gates.xhtml", "glossary.xhtml"]
    modified = re.findall(r"modified\">(.*?)<", book.read(PACKAGE).decode())
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", *modified)


def test_documents_have_no_scripts_and_declare_what_they_contain(
    book: zipfile.ZipFile, texts: dict[str, ElementTree.Element]
) -> None:
    package = ElementTree.fromstring(book.read(PACKAGE))
    properties = {
        f"book/{item.get('href')}": set(item.get("properties", "").split())
        for item in package.iter(f"{OPF}item")
    }
    for name, text in texts.items():
        names = {element.tag for element in text.iter()}
        assert not names & {f"{XHTML}{tag}" for tag in ("script", "noscript", "style", "button")}
        assert (f"{MATHML}math" in names) == ("mathml" in properties[name]), name
        assert (XHTML + "nav" in names) == ("nav" in properties[name]), name
        attributes = [key for element in text.iter() for key in element.attrib]
        assert not [key for key in attributes if key.startswith("on") or key == "style"]
        assert b"katex" not in book.read(name)
    assert "mathml" in properties["book/02-gates.xhtml"]


def test_the_punctuation_after_a_formula_stays(texts: dict[str, ElementTree.Element]) -> None:
    page = BeautifulSoup((SITE / "02-gates.html").read_text("utf-8"), "lxml")
    marks = [mark.text for mark in page.select("article .math-marks") if not in_margin(mark)]
    tails = (formula.tail for formula in texts["book/02-gates.xhtml"].iter(f"{MATHML}math"))
    assert [tail for tail in tails if tail and tail.strip()] == marks
    assert len(marks) > 20


def in_margin(mark: Tag) -> bool:
    return mark.find_parent(class_="margin-notes") is not None


def test_links_and_entries_lead_to_places_of_the_book(
    texts: dict[str, ElementTree.Element],
) -> None:
    places = {
        name: [element.get("id") for element in text.iter() if element.get("id")]
        for name, text in texts.items()
    }
    number = 0
    for name, text in texts.items():
        assert len(places[name]) == len(set(places[name])), name
        for link in text.iter(f"{XHTML}a"):
            address, target = urldefrag(link.get("href", ""))
            assert "127.0.0.1" not in address
            if ":" in address:
                continue
            number += 1
            file = normpath(join(dirname(name), address)) if address else name
            assert file in texts, address
            assert not target or unquote(target) in places[file], link.get("href")
    assert number > 100
    entries = [" ".join(link.itertext()) for link in texts["book/nav.xhtml"].iter(f"{XHTML}a")]
    assert entries[0] == "2 Gates: LSTM and GRU"
    assert "Exercises" in entries


def test_every_picture_is_there_and_has_a_text(
    book: zipfile.ZipFile, texts: dict[str, ElementTree.Element]
) -> None:
    shown = [each for text in texts.values() for each in text.iter(f"{XHTML}img")]
    live = [each for each in shown if "-live-" in each.get("src", "")]
    assert len(live) == (SITE / "02-gates.html").read_text("utf-8").count('class="live-figure"')
    for picture in shown:
        assert len(picture.get("alt", "")) > 20
        with Image.open(BytesIO(book.read(f"book/{picture.get('src')}"))) as drawn:
            assert drawn.format == "PNG"
            assert drawn.width > 200


def test_the_first_page_has_the_edition(texts: dict[str, ElementTree.Element]) -> None:
    assert head.edition(ROOT) in " ".join(texts["book/title.xhtml"].itertext())
