"""Print the book as one PDF, ``dist/the-executable-transformer.pdf``.

``python -m tools.pdf`` prints the pages of the site with a browser, one after the other, and joins
them: a cover and a table of contents, a number on every page, an outline, and links that lead to
pages of the PDF. The reference of the package is not printed; links to it lead to the published
site, if the project has one.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from html import escape
from io import BytesIO
from pathlib import Path
from typing import Any, cast
from urllib.parse import urldefrag

import yaml
from playwright.sync_api import Browser, Page, sync_playwright
from pypdf import PdfReader, PdfWriter
from pypdf.generic import ArrayObject, FloatObject, NameObject, NullObject

from tools import ROOT
from tools.browser import FLAGS, browser
from tools.dist import run
from tools.site import LANGUAGE, SITE, published_pages
from tools.site.head import edition
from tools.site.server import server

TARGET = ROOT / "dist" / "the-executable-transformer.pdf"
TITLE = "The Executable Transformer"
UNPRINTED = ("index", "api")
SHEET: dict[str, Any] = {"format": "A4", "print_background": True, "prefer_css_page_size": True}

FACE = "_static/fonts"
STYLE = """
@font-face { font-family: "Source Serif 4"; font-weight: 400;
  src: url("source-serif-4-latin-400-normal.woff2") }
@font-face { font-family: "Source Serif 4"; font-weight: 600;
  src: url("source-serif-4-latin-600-normal.woff2") }
@page { size: A4; margin: 0 }
body { font-family: "Source Serif 4", serif; margin: 0; color: #1f2933 }
a { color: inherit; text-decoration: none }
"""
COVER = """
.cover { box-sizing: border-box; height: 297mm; padding: 75mm 25mm 0; page-break-after: always }
h1, h2 { font-weight: 600 }
h1 { font-size: 44pt; line-height: 1.1; margin: 0 0 10mm; border-bottom: 3pt solid #004ca1;
  padding-bottom: 8mm }
.cover p { font-size: 16pt; line-height: 1.4 }
.contents { padding: 22mm 25mm }
h2 { font-size: 22pt } h3 { font: 600 9pt sans-serif; letter-spacing: .06em; margin: 6mm 0 1mm;
  text-transform: uppercase; color: #59626f }
.contents a { display: flex; font-size: 12pt; line-height: 1.7 }
.contents a::after { content: attr(data-page); margin-inline-start: auto }
"""
NUMBERS = """
.sheet { box-sizing: border-box; font: 8pt sans-serif; color: #59626f; height: 297mm;
  padding: 283mm 17mm 0; display: flex; justify-content: space-between; page-break-after: always }
.sheet:last-child { page-break-after: auto }
"""

# Chromium writes a destination only for what a link on the same page leads to.
ADD_TARGETS = """(names) => {
    const box = document.createElement("div");
    for (const name of names) {
        if (!document.getElementById(name)) continue;
        const link = Object.assign(document.createElement("a"), { textContent: "\\u00a0" });
        link.href = `#${name}`;
        link.style.textDecoration = "none";
        box.append(link);
    }
    box.style.cssText = "position: absolute; top: 0; font-size: 1px; color: transparent";
    document.querySelector("article").append(box);
}"""
LINKS = """() => [...document.querySelectorAll("article a[href]")]
    .map(link => new URL(link.getAttribute("href"), location).href)"""
LOADED = """async () => {
    window.dispatchEvent(new Event("beforeprint"));
    document.documentElement.classList.add("print-solutions");
    await document.fonts.ready;
    await Promise.all([...document.images].map(image => image.decode().catch(() => {})));
}"""


@dataclass
class Part:
    """A printed page of the site: its name, its title, its caption in the contents, its sheets."""

    name: str
    title: str
    caption: str
    sheets: PdfReader
    start: int = 0

    def top_of(self, target: str) -> tuple[int, float | None]:
        """The sheet of the PDF and the height on it of the element with the id ``target``."""
        found = self.sheets.named_destinations.get(f"/{target}")
        found = found or self.sheets.named_destinations.get(target)
        number = self.sheets.get_destination_page_number(found) if found else None
        if found is None or number is None:
            return self.start, None
        return self.start + number, float(found.top) if found.top is not None else None


def printed_pages(toc: Path = ROOT / "_toc.yml") -> list[tuple[str, str]]:
    """The names of the pages to print, in the order of the book, with the captions of the parts."""
    parts = yaml.safe_load(toc.read_text(encoding="utf-8"))["parts"]
    pages = [
        (Path(page["file"]).name, part["caption"]) for part in parts for page in part["chapters"]
    ]
    return [page for page in pages if page[0] not in UNPRINTED]


def print_html(page: Page, base: str, html: str, style: str) -> PdfReader:
    """Print a document that is not part of the site, in the text face of the site."""
    text = f"<!DOCTYPE html><style>{STYLE}{style}</style>{html}"
    address = f"{base}/{FACE}/printed.html"  # the fonts stand beside it
    page.route(
        address, lambda route: route.fulfill(body=text, content_type="text/html; charset=utf-8")
    )
    page.goto(address)
    page.unroute(address)
    page.evaluate("() => document.fonts.ready")
    return PdfReader(BytesIO(page.pdf(**SHEET)))


def print_site(page: Page, base: str, names: Sequence[tuple[str, str]]) -> list[Part]:
    """Print pages of the site."""
    targets: dict[str, set[str]] = {name: set() for name, _ in names}
    for name in targets:
        page.goto(f"{base}/{name}.html", wait_until="domcontentloaded")
        for link in page.evaluate(LINKS):
            address, target = urldefrag(link)
            to = address.removeprefix(f"{base}/").removesuffix(".html")
            if target and to in targets and to != name:
                targets[to].add(target)
    parts = []
    for name, caption in names:
        page.goto(f"{base}/{name}.html", wait_until="load")
        page.evaluate(LOADED)
        for figure in page.locator(".live-figure").all():
            figure.locator("[role=group]").first.wait_for(timeout=10_000)
        page.evaluate(ADD_TARGETS, sorted(targets[name]))
        title = page.locator("article h1").first.inner_text().removesuffix("#").strip()
        sheets = PdfReader(BytesIO(page.pdf(**SHEET)))
        parts.append(Part(name, " ".join(title.split()), caption, sheets))
    return parts


def contents(base: str, parts: Sequence[Part], front: int) -> str:
    """The cover and the table of contents; ``front`` is the number of their sheets."""
    rows, caption = [], ""
    for part in parts:
        if part.caption != caption:
            caption = part.caption
            rows.append(f"<h3>{escape(caption)}</h3>")
        number = part.start - front + 1
        rows.append(
            f'<a href="{base}/{part.name}.html" data-page="{number}">{escape(part.title)}</a>'
        )
    return (
        f'<div class="cover"><h1>{TITLE}</h1><p>From a first recurrent network to a model that '
        f"translates, with executed code in every chapter.</p><p>{edition(ROOT)}</p></div>"
        f'<div class="contents"><h2>Contents</h2>{"".join(rows)}</div>'
    )


def link(annotation: Any, sheet: Any, top: float | None) -> None:
    """Let a link lead to a height on a sheet of the PDF."""
    for key in ("/A", "/Dest"):
        annotation.pop(key, None)
    annotation[NameObject("/Dest")] = ArrayObject(
        [
            sheet.indirect_reference,
            NameObject("/XYZ"),
            NullObject(),
            FloatObject(top) if top is not None else NullObject(),
            NullObject(),
        ]
    )


def join(page: Page, base: str, parts: Sequence[Part]) -> PdfWriter:
    """Join the parts behind a cover and contents, number the sheets, and connect the links."""
    front = len(print_html(page, base, contents(base, parts, 0), COVER).pages)
    start = front
    for part in parts:
        part.start = start
        start += len(part.sheets.pages)
    opening = Part("", TITLE, "", print_html(page, base, contents(base, parts, front), COVER))
    writer = PdfWriter()
    owners: list[Part] = []
    for part in (opening, *parts):
        writer.append(part.sheets, import_outline=False)
        owners += [part] * len(part.sheets.pages)
    numbers = "".join(
        f'<div class="sheet"><span>{escape(part.title)}</span><span>{number}</span></div>'
        for number, part in enumerate(owners[front:], 1)
    )
    for sheet, overlay in zip(
        writer.pages[front:], print_html(page, base, numbers, NUMBERS).pages, strict=True
    ):
        sheet.merge_page(overlay)
    connect(writer, base, owners, {part.name: part for part in parts})
    caption, group = "", None
    for part in parts:
        if part.caption != caption:
            caption, group = (
                part.caption,
                writer.add_outline_item(title=part.caption, page_number=part.start),
            )
        writer.add_outline_item(title=part.title, page_number=part.start, parent=group)
    writer.add_metadata({"/Title": TITLE, "/Author": f"The authors of {TITLE}"})
    return writer


def connect(writer: PdfWriter, base: str, owners: Sequence[Part], parts: dict[str, Part]) -> None:
    """Let the links of every sheet lead to a sheet, or to the published site, or to nothing."""
    site = published_pages()
    for sheet, owner in zip(writer.pages, owners, strict=True):
        kept = ArrayObject()
        for reference in cast(ArrayObject, sheet.get("/Annots", ArrayObject())):
            kept.append(reference)
            annotation = reference.get_object()
            if "/Dest" in annotation:
                number, top = owner.top_of(str(annotation["/Dest"]).removeprefix("/"))
                link(annotation, writer.pages[number], top)
                continue
            address = str(annotation.get("/A", {}).get("/URI", ""))
            if not address.startswith(base):
                continue
            name, target = urldefrag(address.removeprefix(f"{base}/"))
            part = parts.get(name.removesuffix(".html"))
            if part is not None:
                number, top = part.top_of(target) if target else (part.start, None)
                link(annotation, writer.pages[number], top)
            elif site:
                annotation["/A"][NameObject("/URI")] = type(annotation["/A"]["/URI"])(
                    address.replace(base, site)
                )
            else:
                kept.pop()
        sheet[NameObject("/Annots")] = kept


@contextmanager
def serving(site: Path) -> Iterator[str]:
    """The address of the site, served on this machine."""
    running = server(site, 0)
    threading.Thread(target=running.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{running.server_port}"
    finally:
        running.shutdown()
        running.server_close()


def make(site: Path, target: Path, names: Sequence[tuple[str, str]], program: Browser) -> int:
    """Print the pages ``names`` of ``site`` to ``target``; return the number of sheets."""
    with serving(site) as base:
        page = program.new_page(reduced_motion="reduce", color_scheme="light")
        writer = join(page, base, print_site(page, base, names))
        page.close()
    for sheet in writer.pages:
        sheet.compress_content_streams()
    writer.compress_identical_objects()
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.open("wb") as file:
        writer.write(file)
    return len(writer.pages)


def with_browser(
    make: Callable[[Path, Path, Sequence[tuple[str, str]], Browser], int], target: Path
) -> int:
    """The result of ``make`` for the built site and the pages to print, with a browser."""
    with (
        sync_playwright() as playwright,
        playwright.chromium.launch(executable_path=browser(), args=list(FLAGS)) as program,
    ):
        return make(SITE / LANGUAGE, target, printed_pages(), program)


def main() -> int:
    """Print the book; the exit status is 2 on failure."""
    return run("pdf", __doc__, lambda: with_browser(make, TARGET), TARGET, "pages")


if __name__ == "__main__":
    raise SystemExit(main())
