"""Chapter numbers: in the title of a chapter, and as the text of a link to it."""

import re

from docutils import nodes
from sphinx import addnodes
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
