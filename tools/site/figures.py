"""Figures: the pictures, drawings and live figures that a notebook stores as outputs.

Most pictures have a second, narrow layout in the metadata of their output. It is written to
``_static/narrow`` with the name of the picture, and phones display it (see ``lean``).
"""

import base64
import hashlib
import json
import re
from collections.abc import Iterator
from html import escape
from io import BytesIO
from pathlib import Path
from typing import Any

from docutils import nodes
from PIL import Image
from sphinx.environment import BuildEnvironment

PNG = "image/png"
SVG = "image/svg+xml"
PICTURES = (PNG, SVG)
LIVE = "application/vnd.jupyter.widget-view+json"
STATE = "application/vnd.jupyter.widget-state+json"
NARROW = "_static/narrow"
"""The folder of the layouts for phones."""


def is_mime_bundle(node: nodes.Node) -> bool:
    """Whether ``node`` has one output of a notebook cell, in all its MIME types."""
    return isinstance(node, nodes.container) and node.get("nb_element") == "mime_bundle"


def alternative_text(bundle: nodes.Element) -> str:
    """The text of an output, which describes its picture or live figure."""
    texts = (part.astext() for part in bundle if part.get("mime_type") == "text/plain")
    return next(texts, "").strip()


def describe_pictures(document: nodes.document, env: BuildEnvironment) -> None:
    """Give every picture of a notebook its alternative text."""
    for bundle in document.findall(is_mime_bundle):
        text = alternative_text(bundle)
        for image in bundle.findall(nodes.image):
            if text and not text.startswith("<"):
                image["alt"] = text


def script(kind: str, content: object) -> str:
    """A script element with data that ``book/_assets/live/host.js`` reads."""
    text = json.dumps(content, ensure_ascii=False).replace("</", "<\\/")
    return f'<script type="{kind}">{text}</script>'


def live_figure(view: str, text: str) -> nodes.raw:
    """The place of a live figure: its ``view``, and the text that is shown until it runs."""
    html = f'<div class="live-figure">{view}<p class="live-figure__note">{escape(text)}</p></div>'
    return nodes.raw("", html, format="html")


def place_live_figures(document: nodes.document, env: BuildEnvironment) -> None:
    """Give every widget of a notebook its place."""
    for bundle in document.findall(is_mime_bundle):
        for part in bundle:
            if part.get("mime_type") == LIVE:
                view = next(part.findall(nodes.raw)).astext()
                part.clear()
                part += live_figure(view, alternative_text(bundle))


def inline_drawings(document: nodes.document, env: BuildEnvironment) -> None:
    """Put SVG outputs into the page, where their links to notebooks lead to pages."""
    for bundle in list(document.findall(is_mime_bundle)):
        for part in bundle:
            if part.get("mime_type") == SVG:
                image = next(part.findall(nodes.image))
                svg = Path(env.srcdir, image["uri"].lstrip("/")).read_text("utf-8")
                svg = re.sub(r'href="([\w-]+)\.ipynb', r'href="\1.html', svg)
                part.children = [nodes.raw("", svg, format="html")]


def write_narrow_layouts(document: nodes.document, env: BuildEnvironment) -> None:
    """Write the layout for phones of every picture that has one."""
    source = Path(env.doc2path(env.docname))
    if source.suffix != ".ipynb":
        return
    folder = Path(env.app.outdir, NARROW)
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
