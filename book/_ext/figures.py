"""Numbered figures with captions.

A notebook has a figure as the output of a cell, with an alternative text. Its caption is the
italic text with which the next paragraph begins; if there is none, the first statement of the
alternative text.

Most figures have a second, narrow layout in the metadata of their output. It is written to
``_static/narrow`` with the name of the picture, and phones display it (see ``lean``).
"""

import base64
import hashlib
import json
import re
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

from chapters import chapter_number, is_mime_bundle, parts_of
from docutils import nodes
from PIL import Image
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform
from sphinx.transforms.post_transforms import SphinxPostTransform

PNG = "image/png"
PICTURES = (PNG, "image/svg+xml")
LIVE = "application/vnd.jupyter.widget-view+json"
END_OF_SENTENCE = re.compile(r"(?s).*?[.?!](?=\s|$)")
STATEMENT = re.compile(r"(.{25,}?\S)[.;:](?=\s|$)")
BETWEEN = 40


NARROW = "_static/narrow"
"""The folder of the layouts for phones."""


class numbered_figure(nodes.General, nodes.Element):  # noqa: N801
    """A figure: its picture and its caption."""


class numbered_caption(nodes.General, nodes.Element):  # noqa: N801
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


class NumberFigures(SphinxTransform):
    """Give every figure of a page a number and a caption."""

    default_priority = 856

    def apply(self, **kwargs: Any) -> None:
        """Wrap every picture and every live figure."""
        chapter = chapter_number(self.env.docname)
        prefix = f"{chapter}." if chapter is not None else ""
        number = 0
        for bundle in list(self.document.findall(is_mime_bundle)):
            kinds = {part.get("mime_type") for part in bundle}
            if not kinds & {LIVE, *PICTURES}:
                continue
            number += 1
            texts = (part for part in bundle if part.get("mime_type") == "text/plain")
            alt = next((part.astext() for part in texts), "")
            caption = self.caption_after(bundle) or [nodes.Text(statement(alt))]
            label = nodes.inline("", f"Figure {prefix}{number}", classes=["figure-number"])
            paragraph = nodes.paragraph("", "", label, nodes.Text(" "), *caption)
            figure = numbered_figure(
                live=LIVE in kinds, anchor=f"figure-{prefix.replace('.', '-')}{number}"
            )
            bundle.replace_self(figure)
            figure += [bundle, numbered_caption("", paragraph)]

    def caption_after(self, bundle: nodes.Node) -> list[nodes.Node]:
        """Take the italic text with which the paragraph after the cell of ``bundle`` begins."""
        cell = bundle.parent
        while cell is not None and cell.get("nb_element") != "cell_code":
            cell = cell.parent
        if cell is None or bundle is not list(cell.findall(is_mime_bundle))[-1]:
            return []
        index = cell.parent.index(cell) + 1
        following = cell.parent[index] if index < len(cell.parent) else None
        parts = parts_of(following) if isinstance(following, nodes.paragraph) else []
        if not (parts and isinstance(parts[0], nodes.emphasis)):
            return []
        caption, body = split_caption(parts)
        following.replace_self(nodes.paragraph("", "", *body) if body else [])
        return upright(caption)


class WriteNarrowFigures(SphinxTransform):
    """Write the layouts of figures for phones."""

    default_priority = 857

    def apply(self, **kwargs: Any) -> None:
        """Write a file for every picture with such a layout."""
        source = Path(self.env.doc2path(self.env.docname))
        if source.suffix != ".ipynb":
            return
        folder = Path(self.app.outdir, NARROW)
        folder.mkdir(parents=True, exist_ok=True)
        for name, picture in narrow_layouts(json.loads(source.read_text(encoding="utf-8"))):
            picture.save(folder / f"{name}.webp", lossless=True, quality=100, method=4)


def narrow_layouts(notebook: dict[str, Any]) -> Iterator[tuple[str, Image.Image]]:
    """The layouts for phones in a notebook, with the names that MyST-NB gives the pictures."""
    for cell in notebook["cells"]:
        for output in cell.get("outputs", ()):
            layout = output.get("metadata", {}).get(PNG, {}).get("narrow")
            if layout:
                picture = base64.b64decode("".join(output["data"][PNG]))
                name = hashlib.sha256(picture).hexdigest()
                yield name, Image.open(BytesIO(base64.b64decode(layout)))


class CodeBelowFigures(SphinxPostTransform):
    """Put the folded code of a figure below it."""

    default_priority = 901
    formats = ("html",)

    def run(self, **kwargs: Any) -> None:
        """Swap the folded code and the output of every such cell."""
        for cell in list(self.document.findall(nodes.container)):
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


def setup(app: Sphinx) -> dict[str, bool]:
    """Connect this extension to Sphinx."""
    app.add_node(numbered_figure, html=(open_figure, close_figure))
    app.add_node(numbered_caption, html=(open_caption, close_caption))
    app.add_transform(NumberFigures)
    app.add_transform(WriteNarrowFigures)
    app.add_post_transform(CodeBelowFigures)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
