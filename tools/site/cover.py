"""What the cover shows of the book at work: a live figure, small pictures, and the translator."""

import base64
import json
from html import escape
from io import BytesIO
from pathlib import Path
from typing import Any, ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from PIL import Image
from sphinx.util.docutils import SphinxDirective

from tools.site import heights
from tools.site.captions import statement
from tools.site.figures import LIVE, PNG, live_figure
from tools.site.head import checksum

SMALL = (520, 340)
"""The largest width and height of a small picture; it is displayed at half this size."""
TRANSLATOR = "book/translator"


def outputs(notebook: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    """The outputs of a notebook that have a MIME type ``kind``, in order."""
    found = (
        output.get("data", {}) for cell in notebook["cells"] for output in cell.get("outputs", [])
    )
    return [data for data in found if kind in data]


class ChapterDirective(SphinxDirective):
    """A directive that takes something from the stored outputs of a chapter."""

    required_arguments = 1
    option_spec: ClassVar[Any] = {
        "number": directives.positive_int,
        "class": directives.class_option,
    }

    def read(self, kind: str) -> tuple[dict[str, Any], dict[str, Any]]:
        """The chapter, and its output of the MIME type ``kind`` with the number of the options."""
        path = Path(self.env.srcdir, "book", f"{self.arguments[0]}.ipynb")
        if not path.is_file():
            raise self.error(f"expected the name of a chapter, got {self.arguments[0]!r}")
        self.env.note_dependency(str(path))
        notebook = json.loads(path.read_text(encoding="utf-8"))
        found, number = outputs(notebook, kind), self.options.get("number", 1)
        if number > len(found):
            raise self.error(f"{path.name} has {len(found)} outputs of {kind}; got number {number}")
        return notebook, found[number - 1]


class LiveFigureOf(ChapterDirective):
    """``{live-figure-of} 04-self-attention``: the live figure of a chapter, on this page."""

    def run(self) -> list[nodes.Node]:
        """The figure, and the state of its models."""
        notebook, output = self.read(LIVE)
        text, page = "".join(output["text/plain"]), Path(self.env.docname).name
        figure = live_figure(output[LIVE], text, heights.place(page, 1), notebook)
        return [figure, nodes.raw("", figure["state"], format="html")]


class Thumbnail(ChapterDirective):
    """``{thumbnail} 06-position``: a small copy of a figure of a chapter."""

    def run(self) -> list[nodes.Node]:
        """The picture; its file is written next to the other pictures of the site."""
        _, output = self.read(PNG)
        picture = Image.open(BytesIO(base64.b64decode("".join(output[PNG])))).convert("RGB")
        picture.thumbnail(SMALL)
        name = f"{self.arguments[0]}-{self.options.get('number', 1)}.webp"
        folder = Path(self.env.app.outdir, "_static", "thumbnails")
        folder.mkdir(parents=True, exist_ok=True)
        picture.save(folder / name, quality=82, method=6)
        made = checksum(folder / name)
        width, height = (round(side / 2) for side in picture.size)
        html = (
            f'<div class="thumbnail"><img src="_static/thumbnails/{name}?v={made}" loading="lazy" '
            f'width="{width}" height="{height}" '
            f'alt="{escape(statement("".join(output["text/plain"])))}"></div>'
        )
        return [nodes.raw("", html, format="html")]


class TranslatorLink(SphinxDirective):
    """``{translator-link}``: its content, if the book has the page of the translator."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        """The content as a box, or nothing."""
        if TRANSLATOR not in self.env.found_docs:
            return []
        box = nodes.container(classes=["translator-link"])
        self.state.nested_parse(self.content, self.content_offset, box)
        return [box]
