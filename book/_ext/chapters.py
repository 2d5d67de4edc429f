"""What every page of the book gets: its number, a description, and words for its pictures."""

import re
from html import escape
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.transforms import SphinxTransform
from sphinx.transforms.post_transforms import SphinxPostTransform

NUMBERED = re.compile(r"(?:^|/)(\d\d)-[^/]+$")
DESCRIPTION_LENGTH = 200
PLAIN_PAGES = {
    "search": "Search the book.",
    "genindex": "Every name that the book's package defines, in alphabetical order.",
    "py-modindex": "The modules of the book's package.",
    "_modules/index": "The source of the modules of the book's package.",
}


def chapter_number(docname: str) -> int | None:
    """The book's own number of a page, read from its file name: 4 for ``04-self-attention``."""
    found = NUMBERED.search(docname)
    return int(found.group(1)) if found else None


class NumberTitle(SphinxTransform):
    """Put the chapter's number before its title, in the page and in the sidebar."""

    default_priority = 850

    def apply(self, **kwargs: Any) -> None:
        """Change the first title, unless it has a number."""
        number = chapter_number(self.env.docname)
        title = next(self.document.findall(nodes.title), None)
        if number is None or title is None or re.match(r"\d", title.astext()):
            return
        title.insert(0, nodes.Text(f"{number} "))


class NameChapters(SphinxPostTransform):
    """Let a link without words, ``[](04-self-attention.ipynb)``, read *Chapter 4*."""

    default_priority = 5

    def run(self, **kwargs: Any) -> None:
        """Give the words to every such link to a chapter as a whole."""
        for link in self.document.findall(addnodes.pending_xref):
            if link.get("refdomain") != "doc" or link["refexplicit"] or link.get("reftargetid"):
                continue
            number = chapter_number(link["reftarget"])
            if number is not None:
                link["refexplicit"] = True
                link[0].clear()
                link[0] += nodes.Text(f"Chapter {number}")


class DescribePictures(SphinxTransform):
    """Give a computed picture its text in the notebook as its alternative text."""

    default_priority = 851

    def apply(self, **kwargs: Any) -> None:
        """Take the words from the output that has the picture."""
        for bundle in self.document.findall(is_mime_bundle):
            words = next(
                (part.astext() for part in bundle if part.get("mime_type") == "text/plain"), ""
            ).strip()
            for image in bundle.findall(nodes.image):
                if words and not words.startswith("<"):
                    image["alt"] = words


def is_mime_bundle(node: nodes.Node) -> bool:
    """Whether ``node`` is one output of a cell, in all its forms."""
    return isinstance(node, nodes.container) and node.get("nb_element") == "mime_bundle"


def number_exercises(app: Sphinx, env: BuildEnvironment) -> list[str]:
    """Count exercises within a chapter: the second of chapter 4 is 4.2, whatever comes before."""
    for docname, numbers in env.toc_fignumbers.items():
        chapter = chapter_number(docname)
        exercises = numbers.get("exercise", {})
        if chapter is not None:
            for place, name in enumerate(exercises, start=1):
                exercises[name] = (chapter, place)
    return []


def description(doctree: nodes.document) -> str:
    """The first paragraph of a page as plain text, cut after a whole word."""
    section = next(doctree.findall(nodes.section), doctree)
    paragraph = next((child for child in section if isinstance(child, nodes.paragraph)), None)
    if paragraph is None:
        paragraph = next(section.findall(nodes.paragraph), None)
    words = " ".join(paragraph.astext().split()) if paragraph is not None else ""
    words = re.sub(r"\\(?:mathrm|text|operatorname|sqrt)\b|[\\{}]", "", words)
    if len(words) <= DESCRIPTION_LENGTH:
        return words
    return words[:DESCRIPTION_LENGTH].rsplit(" ", 1)[0].rstrip(",;:") + " …"


def describe_page(
    app: Sphinx,
    pagename: str,
    templatename: str,
    context: dict[str, Any],
    doctree: nodes.document | None,
) -> None:
    """Add the description and the title that a search engine or a messenger shows."""
    words = description(doctree) if doctree is not None else PLAIN_PAGES.get(pagename, "")
    if not words:
        words = f"Source code of {pagename.removeprefix('_modules/').replace('/', '.')}."
    title = re.sub(r"<[^>]*>", "", context.get("title", "")) or app.config.project
    if pagename == app.config.root_doc:
        context["docstitle"] = ""
    context["metatags"] = context.get("metatags", "") + (
        f'<meta name="description" content="{escape(words)}">\n'
        f'<meta property="og:title" content="{escape(title)}">\n'
        f'<meta property="og:description" content="{escape(words)}">\n'
    )


def setup(app: Sphinx) -> dict[str, bool]:
    """Connect this extension to Sphinx."""
    app.add_transform(NumberTitle)
    app.add_transform(DescribePictures)
    app.add_post_transform(NameChapters)
    app.connect("env-get-updated", number_exercises, priority=900)
    app.connect("html-page-context", describe_page)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
