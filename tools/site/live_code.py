"""The code of the live figures, and the models that pages load on demand."""

from pathlib import Path

from sphinx.application import Sphinx

from tfmr.widgets.linker import write_scripts
from tfmr.widgets.translator import write_models


def write_live_code(app: Sphinx, failure: Exception | None) -> None:
    """Write the scripts and styles of ``tfmr/widgets``, and the models, to the site."""
    if failure is None:
        write_scripts(Path(app.outdir, "_static", "widgets"))
        write_models(Path(app.outdir, "_static", "models"))
