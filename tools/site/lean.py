"""Finish the pages after Sphinx has written them: light, without inline code, and accessible.

Sphinx, its theme and its extensions bring scripts, style sheets and an icon font of which the book
uses little. This extension replaces them by ``frame.js``, by one style sheet without the rules that
no page uses, and by a few inline icons. It moves the remaining inline scripts and styles to files,
so that a strict Content-Security-Policy holds, and gives pictures their size.
"""

import hashlib
import re
import shutil
import struct
from dataclasses import dataclass, field
from html import escape
from html.parser import HTMLParser
from pathlib import Path
from posixpath import normpath
from urllib.parse import urljoin

from PIL import Image
from sphinx.application import Sphinx

from tfmr.figures.narrow import NARROW as INCHES
from tools import vendor
from tools.site.figures import NARROW
from tools.site.icons import PACKAGE, icon

SCRIPT = Path(__file__).with_suffix(".cjs")
SHEET = "_static/site.css"
FIRST, FRAME = "_static/first.js", "_static/frame.js"

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "font-src 'self'; connect-src 'self'; worker-src 'self'; manifest-src 'self'; "
    "base-uri 'none'; form-action 'self'"
)
"""What a page may load: files of the site, and images that are in the page."""

REPLACED = re.compile(
    r"_static/(?:scripts/.*|vendor/.*|clipboard\.min\.js|copybutton.*|togglebutton\.js"
    r"|design-tabs\.js|doctools\.js|sphinx_highlight\.js|documentation_options\.js)"
)
"""Scripts whose work ``frame.js`` and ``search/open.js`` do, or that no page needs."""

REPLACED_INLINE = re.compile(r"toggleHint|toggleOpen|togglebutton|DOCUMENTATION_OPTIONS\.|\.mode =")

UNUSED_FILES = (
    "basic.css",
    "*.map",
    "_sphinx_javascript_frameworks*",
    "clipboard.min.js",
    "copy-button.svg",
    "design-tabs.js",
    "doctools.js",
    "documentation_options.js",
    "file.png",
    "images",
    "locales",
    "minus.png",
    "plus.png",
    "sbt-webpack-macros.html",
    "scripts",
    "sphinx-thebe.*",
    "sphinx_highlight.js",
    "styles",
    "togglebutton.*",
    "vendor",
    "webpack-macros.html",
)
"""What the theme and the extensions copy to ``_static`` and no page loads."""

DATA = re.compile(r"json|^text/x-")
EMPTY_HEADER = re.compile(r'<th class="head[^"]*">\s*(?:<p>\s*</p>)?\s*</th>')
TABLES = frozenset({"table", "docutils", "indextable"})
NOT_LAZY = 1
"""The first pictures of a page, which are loaded at once."""
PHONE = "screen and (max-width: 640px)"
"""Where the narrow layout of a figure is displayed."""
NARROW_WIDTH = round(96 * INCHES)


def attribute(name: str) -> re.Pattern[str]:
    """Matches the attribute ``name`` in a start tag."""
    return re.compile(rf'\s{re.escape(name)}(?:\s*=\s*("[^"]*"|\'[^\']*\'|[^\s>]+))?(?=[\s/>])')


def without(tag: str, name: str) -> str:
    """A start tag without an attribute."""
    return attribute(name).sub("", tag, count=1)


def having(tag: str, name: str, value: str) -> str:
    """A start tag with an attribute, which replaces its earlier value."""
    tag = without(tag, name)
    end = re.search(r"\s*/?>$", tag)
    assert end is not None
    return f'{tag[: end.start()]} {name}="{escape(value)}"{end.group()}'


def picture_size(file: Path) -> tuple[int, int] | None:
    """Width and height of a PNG or SVG file in pixels, or ``None`` if it does not state them."""
    if file.suffix == ".png":
        width, height = struct.unpack(">II", file.read_bytes()[16:24])
        return width, height
    if file.suffix == ".svg":
        root = file.read_text("utf-8").partition("<svg")[2].partition(">")[0]
        box = re.search(r'viewBox="[\d.-]+ [\d.-]+ ([\d.]+) ([\d.]+)"', root)
        if box:
            return round(float(box.group(1))), round(float(box.group(2)))
    return None


def digest(content: str) -> str:
    """A short hash of a file, by which its address changes when the file does."""
    return hashlib.sha256(content.encode()).hexdigest()[:8]


@dataclass
class Site:
    """What the pages share."""

    out: Path
    sheets: dict[str, None] = field(default_factory=dict)
    """The style sheets of all pages, in their order."""
    inline: dict[str, None] = field(default_factory=dict)
    """The content of ``<style>`` elements."""
    styles: dict[str, str] = field(default_factory=dict)
    """Style attributes and the class that replaces each."""
    words: set[str] = field(default_factory=set)
    """Every name in a page or script that a selector could match."""
    scripts: dict[str, str] = field(default_factory=dict)
    """Inline scripts, by the files they are moved to."""
    compressed: set[Path] = field(default_factory=set)
    """The pictures that a smaller file replaces."""

    def compress(self, path: str) -> str:
        """Store a PNG as a lossless WebP beside it, a third of its size; return the new path."""
        file = self.out / path
        smaller = file.with_suffix(".webp")
        if not smaller.exists():
            with Image.open(file) as picture:
                picture.save(smaller, lossless=True, quality=100, method=4)
        self.compressed.add(file)
        return path.removesuffix(".png") + ".webp"

    def style(self, value: str) -> str:
        """The class for a style attribute."""
        return self.styles.setdefault(value.strip().rstrip(";"), f"style-{len(self.styles)}")

    def read(self, sheet: str) -> str:
        """A style sheet and what it imports, with the addresses in it relative to :data:`SHEET`."""
        folder = f"/{sheet}"
        text = (self.out / sheet).read_text("utf-8")
        text = re.sub(r"@charset[^;]*;", "", text)
        text = re.sub(r"@font-face\s*\{[^}]*Font ?Awesome[^}]*\}", "", text)

        def move(found: re.Match[str]) -> str:
            path = normpath(urljoin(folder, found.group(1))).removeprefix("/_static/")
            return f"url({path})"

        def insert(found: re.Match[str]) -> str:
            return self.read(normpath(urljoin(folder, found.group(1))).lstrip("/"))

        text = re.sub(r"url\(['\"]?(?!data:|#)([^)'\"]+)['\"]?\)", move, text)
        return re.sub(r"@import\s+(?:url\()?['\"]?([^)'\";]+)['\"]?\)?\s*;", insert, text)

    def css(self) -> str:
        """The style sheet of the site."""
        # The id gives these classes the precedence that the attributes had. In :is(), a browser
        # would not find the rule by its class, and would test every element of a page for it.
        rules = [f".{name}:not(#s){{{style}}}" for style, name in self.styles.items()]
        css = "\n".join([*map(self.read, self.sheets), *self.inline, *rules])
        made: dict[str, str] = vendor.run_node(SCRIPT, {"css": css, "words": sorted(self.words)})
        return made["css"]


class Page(HTMLParser):
    """Rewrites one page. What is not named here is copied as it is."""

    def __init__(self, site: Site, name: str) -> None:
        super().__init__(convert_charrefs=False)
        self.site, self.name = site, name
        self.root = "../" * name.count("/")
        self.parts: list[str] = []
        self.kept: list[str] | None = None
        self.tables: list[str] = []
        self.ignored = ""
        self.spelling: dict[str, str] = {}
        self.in_body = False
        self.in_signature = False
        self.pictures = 0

    def rewrite(self, text: str) -> str:
        """The finished page."""
        self.feed(text)
        self.close()
        return EMPTY_HEADER.sub("<td></td>", "".join(self.parts))

    def write(self, text: str) -> None:
        """Copy to the page, or keep the text of a script or style."""
        if self.kept is not None:
            self.kept.append(text)
        elif not self.ignored:
            self.parts.append(text)

    def path(self, address: str) -> str:
        """The path below the root of the site of a file that the page names."""
        return normpath(urljoin(f"/{self.name}", address.partition("?")[0])).lstrip("/")

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Rewrite a start tag."""
        raw = self.get_starttag_text() or ""
        values = {name: value or "" for name, value in attrs}
        if self.ignored or values.get("class") == "toggler":  # doctools.js folds with it
            return
        if tag == "body":
            self.in_body = True
        classes = values.get("class", "")
        if (tag == "noscript" and not self.in_body) or (
            tag in ("i", "span") and self.is_icon(classes)
        ):
            self.ignored = tag
        elif tag == "script":
            self.start_script(raw, values)
        elif tag == "style":
            self.kept = []
        elif tag == "link" and "stylesheet" in values.get("rel", ""):
            self.site.sheets.setdefault(self.path(values["href"]))
        elif (tag == "link" and values.get("as") == "script") or (
            tag == "meta" and values.get("name") in ("viewport", "docsearch:version")
        ):
            pass
        elif tag == "meta" and "charset" in values:
            self.write(raw + self.head())
        else:
            self.plain(tag, raw, values)

    handle_startendtag = handle_starttag

    def plain(self, tag: str, raw: str, values: dict[str, str]) -> None:
        """Rewrite the attributes of a tag that stays in the page."""
        self.spelling[tag] = raw[1 : len(tag) + 1]
        classes = values.get("class", "").split()
        if tag == "img":
            raw = self.picture(raw, values)
        elif tag == "a" and "image-reference" in classes:  # opens the picture alone, for zooming
            raw = having(raw, "href", self.smaller(values["href"]))
        if "style" in values:
            raw = without(raw, "style")
            classes.append(self.site.style(values["style"]))
            raw = having(raw, "class", " ".join(classes))
        for name in values:
            if name.startswith("on"):  # frame.js finds the button by its class
                raw = without(raw, name)
        if tag == "summary" and "aria-label" in values:  # not the text that it shows
            raw = without(raw, "aria-label")
        if values.get("id") == "pst-primary-sidebar":
            raw = having(having(raw, "role", "complementary"), "aria-label", "The book")
        if "tfmr-map" in classes:  # an image hides the links in it from screen readers
            raw = having(raw, "role", "group")
        if values.get("role") == "doc-biblioentry":  # ARIA 1.2 deprecates the role
            raw = having(raw, "role", "listitem")
        if tag in ("dt", "dl", "dd"):
            raw = self.signature(tag, raw, classes)
        if tag == "table":
            frame = bool(TABLES & set(classes)) and "pst-scrollable" not in "".join(self.parts[-3:])
            raw = f'<div class="wide-table">{raw}' if frame else raw
            self.tables.append("</table></div>" if frame else "</table>")
        self.site.words.update((tag, self.spelling[tag]))
        self.site.words.update(classes, values, values.get("id", "").split())
        page, mark, _ = values.get("href", "").partition("#")
        self.site.words.add(page + mark)  # for rules about links to the glossary
        self.write(raw)

    def handle_endtag(self, tag: str) -> None:
        """Rewrite an end tag."""
        if self.ignored:
            if tag == self.ignored:
                self.ignored = ""
        elif tag in ("script", "style") and self.kept is not None:
            text, self.kept = "".join(self.kept), None
            self.end_code(tag, text)
        elif tag in ("dl", "dd") and self.in_signature:
            self.write("</span>")
        elif tag == "table" and self.tables:
            self.write(self.tables.pop())
        else:
            self.in_signature = self.in_signature and tag != "dt"
            self.write(f"</{self.spelling.get(tag, tag)}>")

    def handle_data(self, data: str) -> None:
        """Copy text."""
        self.write(data)

    def handle_entityref(self, name: str) -> None:
        """Copy a named character reference."""
        self.write(f"&{name};")

    def handle_charref(self, name: str) -> None:
        """Copy a numeric character reference."""
        self.write(f"&#{name};")

    def handle_decl(self, decl: str) -> None:
        """Copy the document type, but not that of a drawing in the page."""
        if decl.lower() == "doctype html":
            self.write(f"<!{decl}>")

    def handle_comment(self, data: str) -> None:
        """Leave comments out."""

    def head(self) -> str:
        """What every page starts with."""
        return (
            f'\n<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
            '\n<meta name="viewport" content="width=device-width, initial-scale=1">'
            f'\n<script src="{self.root}{FIRST}"></script>'
            f'\n<link rel="stylesheet" href="{self.root}{SHEET}">'
            f'\n<script defer src="{self.root}{FRAME}"></script>'
        )

    def is_icon(self, classes: str) -> bool:
        """Replace an icon of the theme; return whether it was one."""
        names = classes.split()
        found = [name for name in names if name.startswith("fa-")]
        shapes = [name.removeprefix("fa-") for name in found if name not in ("fa-solid", "fa-lg")]
        if not shapes:
            return False
        values = dict(re.findall(r'\s([\w-]+)="([^"]*)"', self.get_starttag_text() or ""))
        mode = f' data-mode="{values["data-mode"]}"' if "data-mode" in values else ""
        others = [name for name in names if not name.startswith("fa")]
        self.site.words.update(("icon", "svg", *others))
        self.write(icon(shapes[0], others, mode))
        return True

    def start_script(self, raw: str, values: dict[str, str]) -> None:
        """Drop a script that is replaced, defer other files, keep the code of inline scripts."""
        if "src" not in values:
            if DATA.search(values.get("type", "")):
                self.write(raw)
            else:
                self.kept = []
            return
        path = self.path(values["src"])
        if REPLACED.fullmatch(path):
            self.ignored = "script"
        elif "defer" in values or values.get("type") == "module":
            self.write(raw)
        else:
            self.write(having(raw, "defer", "defer"))

    def end_code(self, tag: str, code: str) -> None:
        """Move the code of an inline script or style to a file."""
        if tag == "style":
            self.site.inline.setdefault(code)
        elif not REPLACED_INLINE.search(code):
            file = f"_static/inline-{digest(code)}.js"
            self.site.scripts[file] = code
            self.write(f'<script src="{self.root}{file}"></script>')

    def signature(self, tag: str, raw: str, classes: list[str]) -> str:
        """The tag in a signature, where Sphinx lists parameters without terms (invalid HTML)."""
        if tag == "dt":
            self.in_signature = "sig" in classes
        elif self.in_signature:
            name = {"dl": "sig-parameters", "dd": "sig-parameter"}[tag]
            self.site.words.add(name)
            return f'<span class="{name}">'
        return raw

    def smaller(self, address: str) -> str:
        """The address of a picture of the book, or of the WebP that replaces it."""
        path = self.path(address)
        if path.startswith("_images/") and path.endswith(".png"):
            return self.root + self.site.compress(path)
        return address

    def picture(self, raw: str, values: dict[str, str]) -> str:
        """The tag of a picture with its size; pictures further down load when they come near."""
        size = picture_size(self.site.out / self.path(values["src"]))
        raw = having(raw, "src", self.smaller(values["src"]))
        if size:
            width = re.fullmatch(r"\s*width:\s*([\d.]+)px;?\s*", values.get("style", ""))
            if width:
                del values["style"]
                raw = without(raw, "style")
            shown = float(width.group(1)) if width else float(values.get("width") or size[0])
            raw = having(raw, "width", str(round(shown)))
            raw = having(raw, "height", str(round(shown * size[1] / size[0])))
        if "logo__image" not in values.get("class", ""):
            self.pictures += 1
            if self.pictures > NOT_LAZY:
                raw = having(having(raw, "loading", "lazy"), "decoding", "async")
        return self.narrow(Path(values["src"]).stem, raw)

    def narrow(self, name: str, raw: str) -> str:
        """The tag of a picture, with its layout for phones if it has one."""
        path = f"{NARROW}/{name}.webp"
        if not (self.site.out / path).is_file():
            return raw
        with Image.open(self.site.out / path) as picture:
            height = round(NARROW_WIDTH * picture.height / picture.width)
        return (
            f'<picture><source media="{PHONE}" srcset="{self.root}{path}" '
            f'width="{NARROW_WIDTH}" height="{height}" />{raw}</picture>'
        )


def finish(app: Sphinx, failure: Exception | None) -> None:
    """Finish every page of the site, and remove the files that no page uses."""
    if failure is not None or app.builder.format != "html":
        return
    out = Path(app.outdir)
    static = out / "_static"
    site = Site(out)
    pages = {
        file: Page(site, file.relative_to(out).as_posix()).rewrite(file.read_text("utf-8"))
        for file in sorted(out.rglob("*.html"))
        if static not in file.parents
    }
    for file in sorted(static.rglob("*.js")):
        if not REPLACED.fullmatch(file.relative_to(out).as_posix()):
            site.words.update(re.findall(r"[\w-]+", file.read_text("utf-8")))
    for name, code in site.scripts.items():
        (out / name).write_text(code, "utf-8")
    css = site.css()
    (out / SHEET).write_text(css, "utf-8")
    versions = {SHEET: digest(css)}
    for name in (FIRST, FRAME):
        versions[name] = digest((out / name).read_text("utf-8"))
    for page, text in pages.items():
        for name, version in versions.items():
            text = text.replace(f'{name}"', f'{name}?v={version}"', 1)
        page.write_text(text, "utf-8")
    shutil.copyfile(PACKAGE / "LICENSE", static / "icons-LICENSE")
    for file in site.compressed:
        file.unlink()
    for sheet in site.sheets:
        (out / sheet).unlink()
    for pattern in UNUSED_FILES:
        for file in static.glob(pattern):
            shutil.rmtree(file) if file.is_dir() else file.unlink()
