"""Sphinx's HTML builder and writer, as the book needs them.

The pages have addresses without the folder (``book/02-gates`` is published as ``02-gates.html``),
the site gets only the book's own static files, and the HTML is valid and keeps to the content
security policy of the pages (``book/_templates/layout.html``).
"""

import re
from collections.abc import Iterator
from html import escape
from pathlib import Path
from posixpath import join
from typing import Any
from urllib.parse import quote

from docutils import nodes
from pygments.formatters import HtmlFormatter
from pygments.token import Name, Punctuation, Text, Whitespace
from sphinx.builders.html import StandaloneHTMLBuilder
from sphinx.util.fileutil import copy_asset
from sphinx.writers.html5 import HTML5Translator

from tools.site.figures import NARROW, NARROW_WIDTH

FOLDER = "book/"
ASSETS = "book/_assets"
STATIC = (ASSETS, "book/vendor")
COMMENT = re.compile(r"^[ \t]*(?://.*|/\*\*.*\*/)\n", re.MULTILINE)
SOURCES = ("katex/katex.css", "versions.sha256")
"""Files that the style sheet and the check of the libraries read, but that no page loads."""
PHONE = "screen and (max-width: 640px)"
"""Where the narrow layout of a figure is displayed."""
UNCOLOURED = (Name, Punctuation, Whitespace)
"""Tokens for which the styles of the book have the colour of the text."""
NOT_LAZY = 1
"""The number of pictures at the top of a page that are loaded at once."""


class BookTranslator(HTML5Translator):
    """Writes the HTML of a page."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.pictures = 0
        self.signature = 0

    def starttag(self, node: Any, tagname: str, *arguments: Any, **attributes: Any) -> str:
        """A start tag, without a role that ARIA 1.2 deprecates."""
        if attributes.get("role") == "doc-biblioentry":
            attributes["role"] = "listitem"
        return str(super().starttag(node, tagname, *arguments, **attributes))

    def visit_image(self, node: Any) -> None:
        """Write a picture with its size, and its layout for phones if it has one."""
        address = node["uri"]
        if address in self.builder.images:
            address = join(self.builder.imgpath, quote(self.builder.images[address]))
        size = "".join(f' {side}="{node[side]}"' for side in ("width", "height") if side in node)
        self.pictures += 1
        lazy = ' loading="lazy" decoding="async"' if self.pictures > NOT_LAZY else ""
        html = f'<img alt="{escape(node.get("alt", ""))}" src="{address}"{size}{lazy}>'
        if "narrow" in node:
            root = self.builder.imgpath.removesuffix("_images")
            source = f"{root}{NARROW}/{Path(address).name}"
            html = (
                f'<picture><source media="{PHONE}" srcset="{source}" width="{NARROW_WIDTH}" '
                f'height="{node["narrow"]}">{html}</picture>'
            )
        self.body.append(html)

    def depart_image(self, node: Any) -> None:
        """A picture has no end tag."""

    def visit_entry(self, node: Any) -> None:
        """Write a cell of a table; an empty corner is no header."""
        super().visit_entry(node)
        if isinstance(node.parent.parent, nodes.thead) and not node.astext():
            self.body[-1] = "<td>"
            self.context[-1] = "</td>\n"

    def visit_desc_signature(self, node: Any) -> None:
        """Remember where a signature begins."""
        super().visit_desc_signature(node)
        self.signature = len(self.body)

    def depart_desc_signature(self, node: Any) -> None:
        """Write parameters on lines of their own as spans: a list in a term is not valid HTML."""
        lines = "".join(self.body[self.signature :])
        for tag, name in (("dl", "sig-parameters"), ("dd", "sig-parameter")):
            lines = lines.replace(f"<{tag}>", f'<span class="{name}">').replace(
                f"</{tag}>", "</span>"
            )
        self.body[self.signature :] = [lines]
        super().depart_desc_signature(node)


class BookFormatter(HtmlFormatter):  # type: ignore[misc]
    """Writes code without elements for what has the colour of the text, a third of all elements."""

    def format_unencoded(self, tokensource: Iterator[tuple[Any, str]], outfile: Any) -> None:
        """Write the tokens of a listing."""
        tokens = ((Text if kind in UNCOLOURED else kind, text) for kind, text in tokensource)
        super().format_unencoded(tokens, outfile)


class BookBuilder(StandaloneHTMLBuilder):
    """Builds the pages."""

    default_translator_class = BookTranslator  # type: ignore[assignment]

    def init_highlighter(self) -> None:
        """Highlight code with few elements."""
        super().init_highlighter()
        self.highlighter.formatter = BookFormatter

    def get_target_uri(self, docname: str, typ: str | None = None) -> str:
        """The address of a page below the root of the site."""
        return super().get_target_uri(docname.removeprefix(FOLDER), typ)

    def get_outfilename(self, pagename: str) -> Any:
        """The file of a page."""
        return super().get_outfilename(pagename.removeprefix(FOLDER))

    def copy_static_files(self) -> None:
        """Copy the book's files, and nothing of the theme and the extensions.

        Lines of the book's scripts that contain only a comment stay behind.
        """
        target = Path(self.outdir, "_static")
        for folder in STATIC:
            copy_asset(
                str(Path(self.srcdir, folder)), str(target), excluded=lambda path: path in SOURCES
            )
        scripts = Path(self.srcdir, ASSETS)
        for script in scripts.rglob("*.js"):
            text = COMMENT.sub("", script.read_text("utf-8"))
            (target / script.relative_to(scripts)).write_text(text, "utf-8")
