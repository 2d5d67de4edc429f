"""Live figures: their code, their container, and their text where they cannot run."""

from html import escape
from pathlib import Path
from typing import Any

from chapters import is_mime_bundle
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform

from tfmr.widgets.linker import write_scripts

VIEW = "application/vnd.jupyter.widget-view+json"


class PlaceFigures(SphinxTransform):
    """Wrap the output of a widget in a ``div`` with a text that is shown until its code runs."""

    default_priority = 852

    def apply(self, **kwargs: Any) -> None:
        """Wrap every widget on the page."""
        for bundle in self.document.findall(is_mime_bundle):
            text = next((p.astext() for p in bundle if p.get("mime_type") == "text/plain"), "")
            for part in bundle:
                if part.get("mime_type") == VIEW:
                    script = next(part.findall(nodes.raw)).astext()
                    part.clear()
                    html = (
                        f'<div class="live-figure">{script}'
                        f'<p class="live-figure__note">{escape(text.strip())}</p></div>'
                    )
                    part += nodes.raw("", html, format="html")


def write_code(app: Sphinx, failure: Exception | None) -> None:
    """Write the scripts and styles of ``tfmr/widgets`` to the site."""
    if failure is None and app.builder.format == "html":
        write_scripts(Path(app.outdir, "_static", "widgets"))


def setup(app: Sphinx) -> dict[str, bool]:
    """Connect this extension to Sphinx."""
    app.add_transform(PlaceFigures)
    app.connect("build-finished", write_code)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
