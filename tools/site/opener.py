"""The opener of a chapter: its question, and a strip with its needs, abilities and time.

Notebooks have both as plain paragraphs: the first paragraph contains the question, and the
paragraph that begins with **Prerequisites.** has the labels **After this chapter** (in an appendix,
**After this appendix**) and **Time:**.
"""

import re

from docutils import nodes
from sphinx.environment import BuildEnvironment

from tools.site.chapters import parts_of

FIRST = "Prerequisites."
LABELS = (FIRST, "After this chapter", "After this appendix", "Time:")
SENTENCES = re.compile(
    r"(?P<ended>(?:[^?]*[.!](?:\s+|$))?)(?P<last>[^?]*\?(?=\s|$)|[^?]*$)(?P<rest>.*)", re.DOTALL
)
"""A text up to its first question: sentences that end before it, and the question or its start."""


def open_chapter(document: nodes.document, env: BuildEnvironment) -> None:
    """Mark the question and the strip of a chapter, on a page that has the strip."""
    for paragraph in list(document.findall(nodes.paragraph)):
        first = next(iter(parts_of(paragraph)), None)
        if isinstance(first, nodes.strong) and first.astext() == FIRST:
            paragraph.replace_self(strip(paragraph))
            section = next(document.findall(nodes.section))
            mark_question(next(iter(section.findall(nodes.paragraph))))
            return


def strip(paragraph: nodes.paragraph) -> nodes.container:
    """The paragraph with the labels as a container with one paragraph per label."""
    box = nodes.container(classes=["opener"])
    for child in parts_of(paragraph):
        if isinstance(child, nodes.strong) and child.astext() in LABELS:
            label = child.astext().strip(".:")
            box += nodes.paragraph("", "", nodes.inline("", label, classes=["opener-label"]))
        else:
            box[-1] += child
    return box


def mark_question(paragraph: nodes.paragraph) -> None:
    """Make the first question of ``paragraph``, which may contain links, a paragraph of its own."""
    before: list[nodes.Node] = []
    question: list[nodes.Node] = []
    after = list(paragraph.children)
    while after:
        child = after.pop(0)
        found = SENTENCES.match(child) if isinstance(child, nodes.Text) else None
        if found is None:
            question.append(child)
            continue
        if found["ended"]:
            before += [*question, nodes.Text(found["ended"])]
            question = []
        question.append(nodes.Text(found["last"]))
        if found["last"].endswith("?"):
            after.insert(0, nodes.Text(found["rest"].lstrip()))
            break
    else:
        return
    if before:
        before[-1] = nodes.Text(before[-1].astext().rstrip())
    parts = (
        nodes.paragraph("", "", *before),
        nodes.paragraph("", "", *question, classes=["standfirst"]),
        nodes.paragraph("", "", *after),
    )
    paragraph.replace_self([part for part in parts if part.astext().strip()])
