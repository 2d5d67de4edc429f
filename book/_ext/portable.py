"""What portable notebooks write as plain Markdown, in the form of the site.

A link to a paper leads to the bibliography, a solution is folded, exercises have a frame, and the
links in a drawing work.
"""

import re
from pathlib import Path
from typing import Any

from chapters import is_mime_bundle
from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.transforms import SphinxTransform
from sphinx.transforms.post_transforms import SphinxPostTransform

from tools import citations

BIBLIOGRAPHY = "book/bibliography"
EXERCISE = re.compile(r"Exercise \d+\.\d+")
SOLUTION = re.compile(r"Solution of exercise \d+\.\d+")


class LinkCitations(SphinxTransform):
    """Make a link to a paper of the bibliography a link to its entry there."""

    default_priority = 853

    def apply(self, **kwargs: Any) -> None:
        """Replace every such link outside the bibliography."""
        keys = {address: key for key, address in citations.addresses().items()}
        for link in list(self.document.findall(nodes.reference)):
            key = keys.get(link.get("refuri", ""))
            if key and self.env.docname != BIBLIOGRAPHY:
                reference = addnodes.pending_xref(
                    refdoc=self.env.docname,
                    refdomain="doc",
                    reftype="myst",
                    reftarget=BIBLIOGRAPHY,
                    reftargetid=nodes.make_id(key),
                    refexplicit=True,
                )
                reference += nodes.inline("", "", *link.children, classes=["citation"])
                link.replace_self(reference)


class InlineDrawings(SphinxTransform):
    """Put SVG outputs into the page, where their links work, instead of showing them as images."""

    default_priority = 854

    def apply(self, **kwargs: Any) -> None:
        """Replace every SVG output; its links to notebooks become links to pages."""
        for bundle in list(self.document.findall(is_mime_bundle)):
            for part in bundle:
                if part.get("mime_type") == "image/svg+xml":
                    image = next(part.findall(nodes.image))
                    file = Path(self.env.srcdir, image["uri"].lstrip("/"))
                    svg = file.read_text("utf-8")
                    svg = re.sub(r'href="([\w-]+)\.ipynb', r'href="\1.html', svg)
                    part.children = [nodes.raw("", svg, format="html")]


class FrameExercises(SphinxPostTransform):
    """Give the sections of exercises a class, and fold the sections of solutions."""

    default_priority = 900

    def run(self, **kwargs: Any) -> None:
        """Mark every section whose title is that of an exercise or of a solution."""
        for section in list(self.document.findall(nodes.section)):
            title = section[0].astext() if section.children else ""
            if EXERCISE.match(title):
                section["classes"].append("exercise")
            elif SOLUTION.fullmatch(title):
                anchor = f' id="{section["ids"][0]}"' if section["ids"] else ""
                opening = f'<details class="solution"{anchor}><summary>{title}</summary>'
                section.replace_self(
                    [
                        nodes.raw("", opening, format="html"),
                        *section.children[1:],
                        nodes.raw("", "</details>", format="html"),
                    ]
                )


def add_anchors(app: Sphinx, env: BuildEnvironment) -> list[str]:
    """Let links lead to the entries of the bibliography."""
    if BIBLIOGRAPHY in env.all_docs:
        slugs = env.metadata[BIBLIOGRAPHY].setdefault("myst_slugs", {})
        for key in citations.addresses():
            name = nodes.make_id(key)
            slugs[name] = (1, name, key)
    return []


def setup(app: Sphinx) -> dict[str, bool]:
    """Connect this extension to Sphinx."""
    app.add_transform(LinkCitations)
    app.add_transform(InlineDrawings)
    app.add_post_transform(FrameExercises)
    app.connect("env-updated", add_anchors)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
