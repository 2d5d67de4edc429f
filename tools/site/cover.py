"""What the cover shows of the book at work: a translator and small pictures."""

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

from tfmr.widgets import TranslatorFigure
from tools.site import heights
from tools.site.captions import statement
from tools.site.figures import PNG, live_figure
from tools.site.head import checksum

SMALL = (520, 340)
"""The largest width and height of a small picture; it is displayed at half this size."""
MODEL = "pocket-en-fr"
"""The model of the translator; its file has 0.4 MB."""
SENTENCE = "The red boxes are not heavy."
"""Its translation has another order, and two tokens for “not”."""
UNSTORED = ("_esm", "_css", "layout")
"""What the state of a figure on a page does not contain."""


def pictures(notebook: dict[str, Any]) -> list[dict[str, Any]]:
    """The outputs of a notebook that are pictures, in order."""
    found = (
        output.get("data", {}) for cell in notebook["cells"] for output in cell.get("outputs", [])
    )
    return [data for data in found if PNG in data]


class Translator(SphinxDirective):
    """``{translator}``: a small translator, whose model is loaded when the reader uses it."""

    def run(self) -> list[nodes.Node]:
        """The figure, and its state."""
        figure = TranslatorFigure(MODEL, SENTENCE, brief=True)
        state = {key: value for key, value in figure.get_state().items() if key not in UNSTORED}
        name = heights.place(Path(self.env.docname).name, 1)
        made = live_figure({"model_id": name}, repr(figure), name, {name: {"state": state}})
        return [made, nodes.raw("", made["state"], format="html")]


class Thumbnail(SphinxDirective):
    """``{thumbnail} 06-position``: a small copy of a figure of a chapter."""

    required_arguments = 1
    option_spec: ClassVar[Any] = {"number": directives.positive_int}

    def read(self) -> dict[str, list[str]]:
        """The picture of the chapter that has the number of the options, with its text."""
        path = Path(self.env.srcdir, "book", f"{self.arguments[0]}.ipynb")
        if not path.is_file():
            raise self.error(f"expected the name of a chapter, got {self.arguments[0]!r}")
        self.env.note_dependency(str(path))
        notebook = json.loads(path.read_text(encoding="utf-8"))
        found = pictures(notebook)
        number: int = self.options.get("number", 1)
        if number > len(found):
            raise self.error(f"{path.name} has {len(found)} pictures; got number {number}")
        return found[number - 1]

    def run(self) -> list[nodes.Node]:
        """The picture; its file is written next to the other pictures of the site."""
        output = self.read()
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
