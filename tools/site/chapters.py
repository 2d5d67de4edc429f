"""Chapters: the number in a title, the text of a link, and the list in the sidebar."""

import re
from typing import Any, NamedTuple

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment

NUMBERED = re.compile(r"(?:^|/)(?!00-)(\d\d)-[^/]+$")


def chapter_number(docname: str) -> int | None:
    """The chapter number in the name of a page: 4 for ``04-self-attention``."""
    found = NUMBERED.search(docname)
    return int(found.group(1)) if found else None


def number_title(document: nodes.document, env: BuildEnvironment) -> None:
    """Add the chapter number to the first title unless it starts with one."""
    number = chapter_number(env.docname)
    title = next(document.findall(nodes.title), None)
    if number is None or title is None or re.match(r"\d", title.astext()):
        return
    title.insert(0, nodes.Text(f"{number} "))


def name_chapters(document: nodes.document, env: BuildEnvironment) -> None:
    """Give every link without a text, ``[](04-self-attention.ipynb)``, the text *Chapter 4*."""
    for link in document.findall(addnodes.pending_xref):
        if link.get("refdomain") != "doc" or link["refexplicit"] or link.get("reftargetid"):
            continue
        number = chapter_number(link["reftarget"])
        if number is not None:
            link["refexplicit"] = True
            link[0].clear()
            link[0] += nodes.Text(f"Chapter {number}")


def parts_of(paragraph: nodes.Node) -> list[nodes.Node]:
    """The children of a paragraph, without the empty text that MyST puts before bold text."""
    return [child for child in paragraph.children if child.astext()]


class Part(NamedTuple):
    """A part of the book in the list of chapters."""

    caption: str
    chapters: list[tuple[str, str]]
    """The name of the document, and the title, of each chapter."""


def parts_of_book(env: BuildEnvironment, root: str) -> list[Part]:
    """The parts of the book, from the first page's list of contents."""
    return [
        Part(
            contents["caption"],
            [(name, env.titles[name].astext()) for name in contents["includefiles"]],
        )
        for contents in env.get_doctree(root).findall(addnodes.toctree)
    ]


def list_chapters(
    app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: object
) -> None:
    """Give the template the parts of the book, and the name of the page's chapter."""
    env = app.env
    if "book_parts" not in vars(env):
        vars(env)["book_parts"] = parts_of_book(env, app.config.root_doc)
    context["parts"] = parts = vars(env)["book_parts"]
    above = {page for page, below in env.toctree_includes.items() if pagename in below}
    listed = (name for part in parts for name, _ in part.chapters)
    context["chapter"] = next((name for name in listed if name in {pagename} | above), pagename)
