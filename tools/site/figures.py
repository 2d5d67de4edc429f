"""Figures: the pictures, drawings and live figures that a notebook stores as outputs.

Most pictures have a second, narrow layout in the metadata of their output, which phones display.
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

from tfmr.figures.narrow import NARROW as INCHES
from tools.site import heights

PNG = "image/png"
SVG = "image/svg+xml"
PICTURES = (PNG, SVG)
LIVE = "application/vnd.jupyter.widget-view+json"
STATE = "application/vnd.jupyter.widget-state+json"
NARROW = "_static/narrow"
"""The folder of the layouts for phones; a layout has the name of its picture."""
STYLE = re.compile(r'<style>.*?</style>| style="[^"]*"', re.DOTALL)
TAG = re.compile(r"</?script[^>]*>")
NARROW_WIDTH = round(96 * INCHES)


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


def is_live_figure(node: nodes.Node) -> bool:
    """Whether ``node`` is the place of a live figure; it has ``name``, ``summary``, ``state``."""
    return isinstance(node, nodes.raw) and "state" in node


def reachable(model: str, states: dict[str, Any]) -> dict[str, Any]:
    """The states of a widget's ``model`` and of the models that it refers to."""
    wanted, kept = [model], {}
    while wanted:
        name = wanted.pop()
        if name in kept or name not in states:
            continue
        kept[name] = states[name]
        values = states[name]["state"].values()
        wanted += [v.removeprefix("IPY_MODEL_") for v in values if "IPY_MODEL_" in str(v)]
    return kept


def live_figure(view: dict[str, Any], text: str, name: str, states: dict[str, Any]) -> nodes.raw:
    """The place of a live figure: its view, the text shown until it runs, and its states."""
    html = (
        f'<div class="live-figure" id="{name}">{script(LIVE, view)}'
        '<p class="live-figure__note"><noscript>'
        "<b>This figure is interactive and needs JavaScript.</b> Its first state:</noscript> "
        f"{escape(text)}</p></div>"
    )
    state = script(STATE, {"state": reachable(view["model_id"], states)})
    return nodes.raw("", html, format="html", name=name, summary=text, state=state)


def place_live_figures(document: nodes.document, env: BuildEnvironment) -> None:
    """Give every widget of a notebook its place."""
    parts = [
        (part, alternative_text(bundle))
        for bundle in document.findall(is_mime_bundle)
        for part in bundle
        if part.get("mime_type") == LIVE
    ]
    if not parts:
        return
    source = Path(env.doc2path(env.docname))
    notebook = json.loads(source.read_text(encoding="utf-8"))
    states = notebook["metadata"]["widgets"][STATE]["state"]
    for number, (part, text) in enumerate(parts, 1):
        view = json.loads(TAG.sub("", next(part.findall(nodes.raw)).astext()))
        part.clear()
        part += live_figure(view, text, heights.place(source.stem, number), states)


def inline_drawings(document: nodes.document, env: BuildEnvironment) -> None:
    """Put SVG outputs into the page, where their links to notebooks lead to pages."""
    for bundle in list(document.findall(is_mime_bundle)):
        for part in bundle:
            if part.get("mime_type") == SVG:
                image = next(part.findall(nodes.image))
                svg = Path(env.srcdir, image["uri"].lstrip("/")).read_text("utf-8")
                svg = re.sub(r'href="([\w-]+)\.ipynb', r'href="\1.html', svg[svg.index("<svg") :])
                # Its style is in the style sheet of the site. The role img would hide its links.
                svg = STYLE.sub("", svg).replace('role="img"', 'role="group"', 1)
                part.children = [nodes.raw("", svg, format="html")]


def compress_pictures(document: nodes.document, env: BuildEnvironment) -> None:
    """Store pictures as lossless WebP, a third the size of PNG; add size and layout for phones."""
    source = Path(env.doc2path(env.docname))
    if source.suffix != ".ipynb":
        return
    layouts = dict(narrow_layouts(json.loads(source.read_text(encoding="utf-8"))))
    for image in document.findall(nodes.image):
        file = Path(env.srcdir, image["uri"].lstrip("/"))
        if file.suffix != ".png":
            continue
        with Image.open(file) as picture:
            width = float(image.get("width", picture.width))
            image["width"] = str(round(width))
            image["height"] = str(round(width * picture.height / picture.width))
            write_webp(picture, file.with_suffix(".webp"))
        image["uri"] = image["uri"].removesuffix("png") + "webp"
        if file.stem in layouts:
            layout = layouts[file.stem]
            image["narrow"] = str(round(NARROW_WIDTH * layout.height / layout.width))
            write_webp(layout, Path(env.app.outdir, NARROW, f"{file.stem}.webp"))


def write_webp(picture: Image.Image, file: Path) -> None:
    """Write a picture without loss."""
    file.parent.mkdir(parents=True, exist_ok=True)
    picture.save(file, lossless=True, quality=100, method=4)


def narrow_layouts(notebook: dict[str, Any]) -> Iterator[tuple[str, Image.Image]]:
    """The layouts for phones in a notebook, with the names that MyST-NB gives the pictures."""
    for cell in notebook["cells"]:
        for output in cell.get("outputs", ()):
            layout = output.get("metadata", {}).get(PNG, {}).get("narrow")
            if layout:
                picture = base64.b64decode("".join(output["data"][PNG]))
                name = hashlib.sha256(picture).hexdigest()
                yield name, Image.open(BytesIO(base64.b64decode(layout)))
