"""Numbered figures with captions.

A notebook has a figure as the output of a cell, with an alternative text. Its caption is the
italic text with which the next paragraph begins; if there is none, the first statement of the
alternative text.
"""

import re
from typing import Any

from docutils import nodes
from sphinx.environment import BuildEnvironment

from tools.site.chapters import chapter_number, parts_of
from tools.site.figures import LIVE, PICTURES, alternative_text, is_mime_bundle

END_OF_SENTENCE = re.compile(r"(?s).*?[.?!](?=\s|$)")
STATEMENT = re.compile(r"(.{25,}?\S)[.;:](?=\s|$)")
BETWEEN = 40


class numbered_figure(nodes.General, nodes.Element):  # type: ignore[misc]  # noqa: N801
    """A figure: its picture and its caption."""


class numbered_caption(nodes.General, nodes.Element):  # type: ignore[misc]  # noqa: N801
    """The caption of a figure, with its number."""


def statement(text: str) -> str:
    """The first statement of an alternative text of at least 25 characters, as a sentence."""
    plain = " ".join(text.split()).removeprefix("Live figure: ")
    plain = plain[:1].upper() + plain[1:]
    found = STATEMENT.match(plain)
    return f"{found.group(1) if found else plain.rstrip('.')}."


def end_of_caption(parts: list[nodes.Node]) -> int:
    """The number of parts of a paragraph that belong to its italic sentences.

    Formulas, and single upright words, may stand between italic parts.
    """
    end = 0
    for i, part in enumerate(parts):
        if isinstance(part, nodes.emphasis):
            end = i + 1
        elif isinstance(part, nodes.Text) and (len(part) >= BETWEEN or "." in part):
            break
    return end


def split_caption(parts: list[nodes.Node]) -> tuple[list[nodes.Node], list[nodes.Node]]:
    """The parts of a paragraph that belong to its italic sentences, and the rest.

    The last italic sentence may end with an upright word or a formula.
    """
    end = end_of_caption(parts)
    caption, rest = parts[:end], parts[end:]
    while rest and not caption[-1].astext().rstrip().endswith((".", "?", "!")):
        part = rest.pop(0)
        found = END_OF_SENTENCE.match(part) if isinstance(part, nodes.Text) else None
        caption.append(nodes.Text(found.group()) if found else part)
        if found:
            rest.insert(0, nodes.Text(part[found.end() :]))
    if rest and isinstance(rest[0], nodes.Text):
        rest[0] = nodes.Text(rest[0].lstrip())
    return caption, [part for part in rest if part.astext()]


def upright(parts: list[nodes.Node]) -> list[nodes.Node]:
    """Italic sentences as plain text, and their exceptions in italics."""
    made: list[nodes.Node] = []
    for part in parts:
        if isinstance(part, nodes.emphasis):
            made.extend(part.children)
        elif isinstance(part, nodes.Text) and part.strip(" ,;().?!"):
            word = part.strip(" ,;().?!")
            before, after = part[: part.index(word)], part[part.index(word) + len(word) :]
            made += [nodes.Text(before), nodes.emphasis("", word), nodes.Text(after)]
        else:
            made.append(part)
    return made


def number_figures(document: nodes.document, env: BuildEnvironment) -> None:
    """Give every picture and every live figure of a page a number and a caption."""
    chapter = chapter_number(env.docname)
    prefix = f"{chapter}." if chapter is not None else ""
    number = 0
    for bundle in list(document.findall(is_mime_bundle)):
        kinds = {part.get("mime_type") for part in bundle}
        if not kinds & {LIVE, *PICTURES}:
            continue
        number += 1
        caption = caption_after(bundle) or [nodes.Text(statement(alternative_text(bundle)))]
        label = nodes.inline("", f"Figure {prefix}{number}", classes=["figure-number"])
        paragraph = nodes.paragraph("", "", label, nodes.Text(" "), *caption)
        figure = numbered_figure(
            live=LIVE in kinds, anchor=f"figure-{prefix.replace('.', '-')}{number}"
        )
        bundle.replace_self(figure)
        figure += [bundle, numbered_caption("", paragraph)]


def caption_after(bundle: nodes.Element) -> list[nodes.Node]:
    """Take the italic text with which the paragraph after the cell of ``bundle`` begins."""
    cell = bundle.parent
    while cell is not None and cell.get("nb_element") != "cell_code":
        cell = cell.parent
    if cell is None or bundle is not list(cell.findall(is_mime_bundle))[-1]:
        return []
    index = cell.parent.index(cell) + 1
    following = cell.parent[index] if index < len(cell.parent) else None
    parts = parts_of(following) if isinstance(following, nodes.paragraph) else []
    if following is None or not (parts and isinstance(parts[0], nodes.emphasis)):
        return []
    caption, body = split_caption(parts)
    following.replace_self(nodes.paragraph("", "", *body) if body else [])
    return upright(caption)


def code_below_figures(document: nodes.document, env: BuildEnvironment) -> None:
    """Put the folded code of a figure below it."""
    for cell in list(document.findall(nodes.container)):
        folded = cell.get("nb_element") == "cell_code" and cell.get("hide_mode") == "input"
        if folded and len(cell) > 1 and next(cell[-1].findall(numbered_figure), None):
            cell.append(cell.pop(0))


def open_figure(writer: Any, node: nodes.Element) -> None:
    """Write the beginning of a figure."""
    kind = "numbered interactive" if node["live"] else "numbered"
    writer.body.append(f'<figure class="{kind}" id="{node["anchor"]}"><div class="figure-body">\n')


def close_figure(writer: Any, node: nodes.Element) -> None:
    """Write the end of a figure."""
    writer.body.append("</figure>\n")


def open_caption(writer: Any, node: nodes.Element) -> None:
    """Write the beginning of a caption, after the picture."""
    writer.body.append("</div>\n<figcaption>\n")


def close_caption(writer: Any, node: nodes.Element) -> None:
    """Write the end of a caption."""
    writer.body.append("</figcaption>\n")
