"""Write the files of the translator's models to the site; a page loads one when its reader asks."""

from pathlib import Path

from sphinx.application import Sphinx

from tfmr.widgets.translator import write_models


def write(app: Sphinx, failure: Exception | None) -> None:
    """Write the files to ``_static/models``."""
    if failure is None and app.builder.format == "html":
        write_models(Path(app.outdir, "_static", "models"))


def setup(app: Sphinx) -> dict[str, bool]:
    """Connect this extension to Sphinx."""
    app.connect("build-finished", write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
