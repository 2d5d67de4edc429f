"""Chapter numbers, page descriptions, and alternative texts of pictures."""

import re
from html import escape
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform
from sphinx.transforms.post_transforms import SphinxPostTransform

NUMBERED = re.compile(r"(?:^|/)(?!00-)(\d\d)-[^/]+$")
DESCRIPTION_LENGTH = 200
PLAIN_PAGES = {
    "search": "Search the book.",
    "genindex": "All names in the book's package, in alphabetical order.",
    "py-modindex": "The modules of the book's package.",
    "_modules/index": "The source code of the book's package.",
}


def chapter_number(docname: str) -> int | None:
    """The chapter number in the name of a page: 4 for ``04-self-attention``."""
    found = NUMBERED.search(docname)
    return int(found.group(1)) if found else None


class NumberTitle(SphinxTransform):
    """Add the chapter number to the title, on the page and in the sidebar."""

    default_priority = 850

    def apply(self, **kwargs: Any) -> None:
        """Add the number to the first title unless it starts with one."""
        number = chapter_number(self.env.docname)
        title = next(self.document.findall(nodes.title), None)
        if number is None or title is None or re.match(r"\d", title.astext()):
            return
        title.insert(0, nodes.Text(f"{number} "))


class NameChapters(SphinxPostTransform):
    """Give a link without a text, ``[](04-self-attention.ipynb)``, the text *Chapter 4*."""

    default_priority = 5

    def run(self, **kwargs: Any) -> None:
        """Set the text of every such link to a chapter."""
        for link in self.document.findall(addnodes.pending_xref):
            if link.get("refdomain") != "doc" or link["refexplicit"] or link.get("reftargetid"):
                continue
            number = chapter_number(link["reftarget"])
            if number is not None:
                link["refexplicit"] = True
                link[0].clear()
                link[0] += nodes.Text(f"Chapter {number}")


class DescribePictures(SphinxTransform):
    """Use the text output of a picture in a notebook as its alternative text."""

    default_priority = 851

    def apply(self, **kwargs: Any) -> None:
        """Set the alternative text of every picture."""
        for bundle in self.document.findall(is_mime_bundle):
            text = next(
                (part.astext() for part in bundle if part.get("mime_type") == "text/plain"), ""
            ).strip()
            for image in bundle.findall(nodes.image):
                if text and not text.startswith("<"):
                    image["alt"] = text


def is_mime_bundle(node: nodes.Node) -> bool:
    """Whether ``node`` has one output of a notebook cell, in all its MIME types."""
    return isinstance(node, nodes.container) and node.get("nb_element") == "mime_bundle"


def parts_of(paragraph: nodes.Node) -> list[nodes.Node]:
    """The children of a paragraph, without the empty text that MyST puts before bold text."""
    return [child for child in paragraph.children if child.astext()]


def description(doctree: nodes.document) -> str:
    """The first paragraph of a page as plain text, shortened at a word boundary."""
    section = next(doctree.findall(nodes.section), doctree)
    paragraph = next((child for child in section if isinstance(child, nodes.paragraph)), None)
    if paragraph is None:
        paragraph = next(section.findall(nodes.paragraph), None)
    text = " ".join(paragraph.astext().split()) if paragraph is not None else ""
    text = re.sub(r"\\(?:mathrm|text|operatorname|sqrt)\b|[\\{}]", "", text)
    if len(text) <= DESCRIPTION_LENGTH:
        return text
    return text[:DESCRIPTION_LENGTH].rsplit(" ", 1)[0].rstrip(",;:") + " …"


def describe_page(
    app: Sphinx,
    pagename: str,
    templatename: str,
    context: dict[str, Any],
    doctree: nodes.document | None,
) -> None:
    """Add the description and the title that search engines and messengers display."""
    text = description(doctree) if doctree is not None else PLAIN_PAGES.get(pagename, "")
    if not text:
        text = f"Source code of {pagename.removeprefix('_modules/').replace('/', '.')}."
    title = re.sub(r"<[^>]*>", "", context.get("title", "")) or app.config.project
    if pagename == app.config.root_doc:
        context["docstitle"] = ""
    context["metatags"] = context.get("metatags", "") + (
        f'<meta name="description" content="{escape(text)}">\n'
        f'<meta property="og:title" content="{escape(title)}">\n'
        f'<meta property="og:description" content="{escape(text)}">\n'
    )


def setup(app: Sphinx) -> dict[str, bool]:
    """Connect this extension to Sphinx."""
    app.add_transform(NumberTitle)
    app.add_transform(DescribePictures)
    app.add_post_transform(NameChapters)
    app.connect("html-page-context", describe_page)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
