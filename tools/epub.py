"""Write the book as an EPUB, ``dist/the-executable-transformer.epub``.

``python -m tools.epub`` takes the pages of the site that are printed, too (:mod:`tools.pdf`). A
browser reads them as they are without scripts and writes them as XHTML. Formulas are MathML, a live
figure is a picture of its first state, and folded listings are open. Links to pages that are not
part of the EPUB lead to the published site, if the project has one.
"""

import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from io import BytesIO
from pathlib import Path
from uuid import NAMESPACE_URL, uuid5

from PIL import Image
from playwright.sync_api import Browser, Page

from tfmr import __version__
from tools import ROOT
from tools.dist import TIME, run
from tools.pdf import TITLE, serving, with_browser
from tools.site import published_pages
from tools.site.head import edition, last_commit

TARGET = ROOT / "dist" / "the-executable-transformer.epub"
WIDTH = 720
"""The width of the window in which the pictures of live figures are taken, in pixels."""
READ = """async ({ page, pages, site }) => {
    const html = await (await fetch(location.pathname)).text();
    const article = new DOMParser().parseFromString(html, "text/html").querySelector("article");
    const all = (selector) => [...article.querySelectorAll(selector)];
    const unread = ".headerlink, .margin-notes, .pst-js-only, details.hide, annotation";
    all(".live-figure").forEach((figure, i) => {
        const note = figure.querySelector(".live-figure__note");
        note.querySelector("noscript").remove();
        const picture = article.ownerDocument.createElement("img");
        picture.alt = note.textContent.trim();
        picture.src = `${page}-live-${i}.png`;
        figure.replaceWith(picture);
    });
    for (const part of all(unread)) part.remove();
    for (const formula of all(".katex")) {
        const whole = formula.closest(".katex-display") ?? formula;
        const marks = formula.querySelector(".math-marks")?.textContent ?? "";
        whole.replaceWith(formula.querySelector("math"), marks);
    }
    for (const details of all("details.folded")) details.open = true;
    for (const picture of all("picture")) picture.replaceWith(picture.querySelector("img"));
    for (const link of all("a[href]")) {
        const { origin, pathname, hash, href } = new URL(link.getAttribute("href"), location);
        const name = pathname.slice(1).replace(".html", "");
        if (origin !== location.origin) continue;
        else if (pages.includes(name)) link.setAttribute("href", `${name}.xhtml${hash}`);
        else if (site) link.setAttribute("href", href.replace(origin, site));
        else link.replaceWith(...link.childNodes);
    }
    const heading = (e) => e.textContent.replace(/\\s+/g, " ").trim();
    return {
        title: heading(article.querySelector("h1")),
        sections: all("h2").map((e) => [e.closest("section").id, heading(e)]),
        pictures: all("img").map((e) => {
            const address = e.getAttribute("src");
            e.setAttribute("src", `images/${address.split("/").at(-1).replace(".webp", ".png")}`);
            for (const name of ["loading", "decoding"]) e.removeAttribute(name);
            return address;
        }),
        properties: Object.entries({ math: "mathml", svg: "svg" })
            .flatMap(([element, name]) => (article.querySelector(element) ? name : [])),
        xhtml: new XMLSerializer().serializeToString(article),
    };
}"""

START = """() => {
    window.dispatchEvent(new Event("beforeprint")); // all live figures run
    for (const part of document.querySelectorAll(".bd-header-article, .skip-link")) part.remove();
}"""
XHTML = """<?xml version="1.0" encoding="utf-8"?>
<!DOCTYPE html>
<html xmlns="http://www.w3.org/1999/xhtml" xmlns:epub="http://www.idpf.org/2007/ops" lang="en"
xml:lang="en">
<head><title>{title}</title><link rel="stylesheet" href="style.css"/></head>
<body>{body}</body>
</html>
"""
CONTAINER = """<?xml version="1.0"?>
<container version="1.0" xmlns="urn:oasis:names:tc:opendocument:xmlns:container">
<rootfiles>
<rootfile full-path="book/package.opf" media-type="application/oebps-package+xml"/>
</rootfiles>
</container>
"""
PACKAGE = """<?xml version="1.0" encoding="utf-8"?>
<package xmlns="http://www.idpf.org/2007/opf" version="3.0" unique-identifier="id" xml:lang="en">
<metadata xmlns:dc="http://purl.org/dc/elements/1.1/">
<dc:identifier id="id">urn:uuid:{identifier}</dc:identifier>
<dc:title>{title}</dc:title>
<dc:creator>The authors of {title}</dc:creator>
<dc:language>en</dc:language>
<dc:rights>Text: CC BY 4.0. Code: BSD 3-Clause</dc:rights>
<meta property="dcterms:modified">{modified}</meta>
<meta property="schema:accessMode">textual</meta>
<meta property="schema:accessMode">visual</meta>
<meta property="schema:accessModeSufficient">textual</meta>
<meta property="schema:accessibilityFeature">alternativeText</meta>
<meta property="schema:accessibilityFeature">MathML</meta>
<meta property="schema:accessibilityFeature">tableOfContents</meta>
<meta property="schema:accessibilityHazard">none</meta>
</metadata>
<manifest>
{manifest}
</manifest>
<spine>
{spine}
</spine>
</package>
"""
MANIFEST = '<item id="file-{}" href="{}" media-type="{}"{}/>'
STYLE = """body { line-height: 1.5 }
pre { font-size: 0.8em; white-space: pre-wrap; overflow-wrap: anywhere }
pre .k, pre .kn, pre .nb { font-weight: bold }
pre .c1 { font-style: italic }
img, svg { height: auto; max-width: 100% }
figure { margin: 1em 0 }
figcaption, .opener { font-size: 0.9em }
.figure-number, .opener-label { font-weight: bold }
.standfirst { font-size: 1.2em }
table { border-collapse: collapse; font-size: 0.85em }
th, td { border-bottom: 1px solid; padding: 0.2em 0.5em; text-align: start; vertical-align: top }
summary { font-weight: bold }
.exercise { border-inline-start: 3px solid; padding-inline-start: 0.8em }
math[display="block"] { margin: 0.8em 0 }
"""


@dataclass
class Chapter:
    """A page of the site as a document of the EPUB."""

    name: str
    caption: str
    title: str
    sections: list[tuple[str, str]]
    properties: list[str]
    xhtml: str

    def entry(self) -> str:
        """Its entry in the table of contents, with its sections."""
        address = f"{self.name}.xhtml"
        inner = "".join(item(f"{address}#{target}", title) for target, title in self.sections)
        return item(address, self.title, f"<ol>{inner}</ol>" if inner else "")


def item(address: str, title: str, inner: str = "") -> str:
    """An entry of the table of contents."""
    return f'<li><a href="{address}">{escape(title)}</a>{inner}</li>'


def png(picture: bytes) -> bytes:
    """A picture in a format that every reader shows."""
    buffer = BytesIO()
    Image.open(BytesIO(picture)).save(buffer, "PNG", optimize=True)
    return buffer.getvalue()


def read(
    page: Page, site: Path, base: str, names: Sequence[tuple[str, str]]
) -> tuple[list[Chapter], dict[str, bytes]]:
    """The pages of the site as documents, and their pictures by name."""
    chapters, pictures = [], {}
    known = {"pages": [name for name, _ in names], "site": published_pages()}
    for name, caption in names:
        page.goto(f"{base}/{name}.html", wait_until="load")
        found = page.evaluate(READ, known | {"page": name})
        for address in found.pop("pictures"):
            if (site / address).is_file():
                pictures[f"{Path(address).stem}.png"] = png((site / address).read_bytes())
        page.evaluate(START)
        for i, figure in enumerate(page.locator(".live-figure").all()):
            figure.locator(".live").wait_for()
            pictures[f"{name}-live-{i}.png"] = figure.screenshot()
        chapters.append(Chapter(name, caption, **found))
    return chapters, pictures


def contents(chapters: Sequence[Chapter]) -> str:
    """The table of contents: the parts of the book, their chapters, and the sections of these."""
    parts: dict[str, list[str]] = {}
    for chapter in chapters:
        parts.setdefault(chapter.caption, []).append(chapter.entry())
    inner = "".join(
        f"<li><span>{escape(caption)}</span><ol>{''.join(entries)}</ol></li>"
        for caption, entries in parts.items()
    )
    return f'<nav epub:type="toc"><h1>Contents</h1><ol>{inner}</ol></nav>'


def documents(chapters: Sequence[Chapter], pictures: dict[str, bytes]) -> dict[str, bytes]:
    """All files of the EPUB but the first, by name."""
    title = f"<h1>{TITLE}</h1><p>{edition(ROOT)}</p>"
    pages = {"title": (TITLE, title, ""), "nav": ("Contents", contents(chapters), "nav")}
    for chapter in chapters:
        properties = " ".join(chapter.properties)
        pages[chapter.name] = chapter.title, chapter.xhtml, properties
    items = [("style", "style.css", "text/css", "")]
    for name, (_, _, properties) in pages.items():
        extra = f' properties="{properties}"' if properties else ""
        items.append((name, f"{name}.xhtml", "application/xhtml+xml", extra))
    items += [(name, f"images/{name}", "image/png", "") for name in pictures]
    commit = last_commit(ROOT)
    package = PACKAGE.format(
        identifier=uuid5(NAMESPACE_URL, f"{TITLE} {__version__}"),
        title=TITLE,
        modified=commit.time if commit else "1980-01-01T00:00:00Z",
        manifest="\n".join(MANIFEST.format(*values) for values in items),
        spine="\n".join(f'<itemref idref="file-{name}"/>' for name in pages),
    )
    texts = {"META-INF/container.xml": CONTAINER, "book/package.opf": package}
    texts["book/style.css"] = STYLE
    for name, (heading, body, _) in pages.items():
        texts[f"book/{name}.xhtml"] = XHTML.format(title=escape(heading), body=body)
    files = {name: text.encode() for name, text in texts.items()}
    return files | {f"book/images/{name}": picture for name, picture in pictures.items()}


def make(site: Path, target: Path, names: Sequence[tuple[str, str]], program: Browser) -> int:
    """Write the pages ``names`` of ``site`` to ``target``; return their number."""
    with serving(site) as base:
        page = program.new_page(
            viewport={"width": WIDTH, "height": 900},
            device_scale_factor=2,
            reduced_motion="reduce",
            color_scheme="light",
        )
        chapters, pictures = read(page, site, base, names)
        page.close()
    write_epub(target, documents(chapters, pictures))
    return len(chapters)


def write_epub(target: Path, files: dict[str, bytes]) -> None:
    """Write an EPUB: an archive whose first file, which is not compressed, names its type."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(zipfile.ZipInfo("mimetype", TIME), "application/epub+zip")
        for name, content in files.items():
            entry = zipfile.ZipInfo(name, TIME)
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, content)


def main() -> int:
    """Write the EPUB; the exit status is 2 on failure."""
    return run("epub", __doc__, lambda: with_browser(make, TARGET), TARGET, "pages")


if __name__ == "__main__":
    raise SystemExit(main())
