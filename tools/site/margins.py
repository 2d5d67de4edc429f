"""On a wide page, definitions and citations stand in the margin beside the text.

The first link of a page to a term of the glossary or to a paper puts a note beside its paragraph:
the first sentence of the definition, or the title of the paper. The style sheet shows the notes
that have room beside the paragraph. Where there is no margin, a link to the glossary opens its note
below the paragraph (see ``book/_assets/frame.js``); paper shows no notes.
"""

import re
from html import escape

from docutils import nodes
from pybtex.richtext import Text
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment

from tools import citations
from tools.site.tex_text import html_scripts, marked_math

GLOSSARY = "book/glossary"
LINK = re.compile(r"(glossary|bibliography)\.html#(.+)")
SENTENCE = re.compile(r".*?[.!?](?= [A-Z]|$)")


def plain(node: nodes.Node) -> str:
    """The text of a node, with its formulas as text whose indices and exponents are marked."""
    if isinstance(node, nodes.math):
        return marked_math(node.astext())
    if isinstance(node, nodes.Text):
        return str(node)
    return "".join(map(plain, node.children))


def definitions(glossary: nodes.document) -> dict[str, str]:
    """The term and the first sentence of each entry of the glossary, as HTML, by its anchor."""
    found: dict[str, str] = {}
    for section in glossary.findall(nodes.section):
        entry = [child for child in section.children if isinstance(child, nodes.paragraph)]
        if entry:
            text = " ".join(plain(entry[0]).split())
            sentence = SENTENCE.match(text)
            term = escape(section[0].astext())
            meaning = html_scripts(escape(sentence.group() if sentence else text))
            html = f"<b>{term}</b> {meaning}"
            found |= dict.fromkeys([*section["ids"], section.get("slug", "")], html)
    return found


def papers() -> dict[str, str]:
    """The label and the title of each paper, as HTML, by its anchor in the bibliography."""
    return {
        nodes.make_id(key): f"<b>{escape(citations.label(key))}</b> "
        f"<i>{escape(str(Text.from_latex(entry.fields['title'])))}</i>"
        for key, entry in citations.entries().items()
    }


def collect(app: Sphinx, env: BuildEnvironment) -> None:
    """Keep the texts of all notes for the pages, which are written later."""
    env.margin_notes = {  # type: ignore[attr-defined]
        "glossary": definitions(env.get_doctree(GLOSSARY)),
        "bibliography": papers(),
    }


def add_notes(document: nodes.document, env: BuildEnvironment) -> None:
    """Add notes beside the paragraphs of a chapter, but not of its exercises."""
    if not env.docname.startswith("book/") or env.docname == GLOSSARY:
        return
    texts: dict[str, dict[str, str]] = env.margin_notes  # type: ignore[attr-defined]
    noted: set[str] = set()
    for paragraph in list(document.findall(nodes.paragraph)):
        section = paragraph.parent
        if not isinstance(section, nodes.section) or "exercise" in section["classes"]:
            continue
        if "standfirst" in paragraph["classes"]:  # too short for a note beside it
            continue
        links = (
            found
            for link in paragraph.findall(nodes.reference)
            if (found := LINK.search(link.get("refuri", "")))
        )
        notes = {texts[page].get(anchor, ""): anchor for page, anchor in map(groups, links)}
        new = {note: anchor for note, anchor in notes.items() if note and note not in noted}
        if new:
            noted.update(new)
            html = "".join(f'<p data-of="{anchor}">{note}</p>' for note, anchor in new.items())
            box = nodes.container(classes=["noted"])
            paragraph.replace_self(box)
            box += paragraph
            box += nodes.raw(
                "", f'<div class="margin-notes" role="note">{html}</div>', format="html"
            )


def groups(found: re.Match[str]) -> tuple[str, str]:
    """The page and the anchor of a link."""
    return found[1], found[2]
