"""Live figures: their code, their container, and their text where they cannot run."""

import json
from html import escape
from pathlib import Path
from typing import Any

from chapters import is_mime_bundle
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform
from sphinx.util.docutils import SphinxDirective

from tfmr.widgets.linker import write_scripts

VIEW = "application/vnd.jupyter.widget-view+json"
STATE = "application/vnd.jupyter.widget-state+json"
HOST = "live/host.js"


def script(kind: str, content: object) -> str:
    """A script element with data that the host reads."""
    text = json.dumps(content, ensure_ascii=False).replace("</", "<\\/")
    return f'<script type="{kind}">{text}</script>'


def container(view: str, text: str) -> nodes.raw:
    """A ``div`` for a figure, with a text that is shown until its code runs."""
    html = (
        f'<div class="live-figure">{view}'
        f'<p class="live-figure__note">{escape(text.strip())}</p></div>'
    )
    return nodes.raw("", html, format="html")


class PlaceFigures(SphinxTransform):
    """Wrap every widget of a notebook."""

    default_priority = 852

    def apply(self, **kwargs: Any) -> None:
        """Wrap every widget on the page."""
        for bundle in self.document.findall(is_mime_bundle):
            text = next((p.astext() for p in bundle if p.get("mime_type") == "text/plain"), "")
            for part in bundle:
                if part.get("mime_type") == VIEW:
                    view = next(part.findall(nodes.raw)).astext()
                    part.clear()
                    part += container(view, text)


class LiveFigureOf(SphinxDirective):
    """``{live-figure} CHAPTER``: the first live figure of a chapter, on a page without a notebook.

    The state is the one that the chapter's notebook stores.
    """

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """The figure, and the state of its model."""
        file = Path(self.env.srcdir, "book", f"{self.arguments[0]}.ipynb")
        if not file.is_file():
            raise self.warning(f"expected the name of a chapter, found no {file.name}")
        self.env.note_dependency(str(file))
        notebook = json.loads(file.read_text("utf-8"))
        outputs = [out for cell in notebook["cells"] for out in cell.get("outputs", ())]
        found = next((out["data"] for out in outputs if VIEW in out.get("data", {})), None)
        if found is None:
            raise self.warning(f"expected a live figure in {file.name}, found none")
        state = notebook["metadata"]["widgets"][STATE]["state"]
        model = found[VIEW]["model_id"]
        self.env.metadata[self.env.docname]["live"] = "yes"
        figure = container(script(VIEW, found[VIEW]), "".join(found["text/plain"]))
        data = script(STATE, {"state": {model: state[model]}})
        return [figure, nodes.raw("", data, format="html")]


def add_host(app: Sphinx, page: str, template: str, context: object, doctree: object) -> None:
    """Load the host on pages with the directive; myst-nb loads it on the pages of notebooks."""
    if "live" in app.env.metadata.get(page, {}):
        app.add_js_file(HOST, defer="defer")


def write_code(app: Sphinx, failure: Exception | None) -> None:
    """Write the scripts and styles of ``tfmr/widgets`` to the site."""
    if failure is None and app.builder.format == "html":
        write_scripts(Path(app.outdir, "_static", "widgets"))


def setup(app: Sphinx) -> dict[str, bool]:
    """Connect this extension to Sphinx."""
    app.add_transform(PlaceFigures)
    app.add_directive("live-figure", LiveFigureOf)
    app.connect("html-page-context", add_host)
    app.connect("build-finished", write_code)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
