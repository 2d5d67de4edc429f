"""The style sheet of the site: the colours of :mod:`tfmr.figures.palette` and ``book/_style``."""

from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

from tfmr.figures import palette
from tools import published

PARTS = "book/_style"
SHEET = "style.css"
FONT = "_static/fonts/source-serif-4-latin-400-normal.woff2"


def style_sheet(parts: Path) -> str:
    """The colours, and the files of a folder in the order of their names, as one style sheet."""
    files = sorted(parts.glob("*.css"))
    if not files:
        raise FileNotFoundError(f"expected the parts of the style sheet in {parts}, found none")
    return "\n".join([palette.css(), *(file.read_text(encoding="utf-8") for file in files)])


def write_style_sheet(app: Sphinx) -> None:
    """Write the style sheet before the pages, which refer to it by its checksum."""
    if app.builder.format == "html":
        target = Path(app.outdir, "_static", SHEET)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(style_sheet(Path(app.srcdir, PARTS)), encoding="utf-8")


def add_to_head(
    app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: Any
) -> None:
    """Load the text face early, and state the page's address if the project is published."""
    if app.builder.format != "html":
        return
    font = context["pathto"](FONT, 1)
    tags = f'<link rel="preload" href="{font}" as="font" type="font/woff2" crossorigin>\n'
    address = published("Documentation", Path(app.srcdir))
    if address:
        page = app.builder.get_target_uri(pagename)
        tags += f'<link rel="canonical" href="{address.rstrip("/")}/en/{page}">\n'
    context["metatags"] = context.get("metatags", "") + tags


def setup(app: Sphinx) -> dict[str, bool]:
    """Connect this extension to Sphinx."""
    app.add_css_file(SHEET)
    app.connect("builder-inited", write_style_sheet)
    app.connect("html-page-context", add_to_head)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
