"""The style sheet of the site: the colours of :mod:`tfmr.figures.palette` and ``book/_style``."""

from pathlib import Path

from sphinx.application import Sphinx

from tfmr.figures import palette

PARTS = "book/_style"
SHEET = "style.css"


def style_sheet(parts: Path) -> str:
    """The colours, and the files of a folder in the order of their names, as one style sheet."""
    files = sorted(parts.glob("*.css"))
    if not files:
        raise FileNotFoundError(f"expected the parts of the style sheet in {parts}, found none")
    return "\n".join([palette.css(), *(file.read_text(encoding="utf-8") for file in files)])


def write_style_sheet(app: Sphinx) -> None:
    """Write the style sheet before the pages, which refer to its checksum."""
    target = Path(app.outdir, "_static", SHEET)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(style_sheet(Path(app.srcdir, PARTS)), encoding="utf-8")
