"""The book as a PDF."""

import pytest
from playwright.sync_api import Browser
from pypdf import PdfReader

from tests.pages.conftest import SITE
from tools import ROOT, pdf
from tools.site import head

PAGES = [("02-gates", "Before the Transformer"), ("glossary", "Appendices")]


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory, chromium: Browser) -> PdfReader:
    target = tmp_path_factory.mktemp("pdf") / "book.pdf"
    number = pdf.make(SITE, target, PAGES, chromium)
    reader = PdfReader(target)
    assert len(reader.pages) == number > 4
    return reader


def test_pages_to_print_are_those_of_the_book() -> None:
    names = [name for name, _ in pdf.printed_pages()]
    assert names[0] == "00-primer"
    assert "glossary" in names
    assert "api" not in names


def test_pdf_has_a_cover_contents_and_numbers(printed: PdfReader) -> None:
    cover = " ".join(printed.pages[0].extract_text().split())
    assert "The Executable" in cover
    assert head.edition(ROOT) in cover
    contents = printed.pages[1].extract_text()
    assert "Contents" in contents
    assert "2 Gates" in contents
    first = printed.pages[2].extract_text().split()
    assert first[-1] == "1"
    last = printed.pages[-1].extract_text().split()
    assert last[-1] == str(len(printed.pages) - 2)
    titles = [item.title for item in printed.outline if not isinstance(item, list)]
    assert titles == ["Before the Transformer", "Appendices"]


def test_pdf_links_lead_to_its_own_sheets(printed: PdfReader) -> None:
    inner = 0
    for sheet in printed.pages:
        for reference in sheet.get("/Annots", []):
            annotation = reference.get_object()
            assert "127.0.0.1" not in str(annotation.get("/A", ""))
            if "/Dest" in annotation:
                inner += 1
                assert printed.get_page_number(annotation["/Dest"][0].get_object()) is not None
    assert inner > 10


def test_pdf_has_every_line_of_code(printed: PdfReader, chromium: Browser) -> None:
    page = chromium.new_page()
    page.goto((SITE / "02-gates.html").as_uri())
    shown = "article .cell_input:not(details .cell_input) pre"
    lines = "\n".join(page.locator(shown).all_text_contents())
    page.close()
    text = "".join("".join(sheet.extract_text().split()) for sheet in printed.pages)
    for line in lines.splitlines():
        assert "".join(line.split())[:30] in text
