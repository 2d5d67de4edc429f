"""The style sheet of the site: the colours of :mod:`tfmr.figures.palette` and ``book/_style``."""

import math
from pathlib import Path
from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from sphinx.application import Sphinx

from tfmr.figures import palette
from tfmr.figures.style import figure
from tools.site import CARD, published_tags

PARTS = "book/_style"
SHEET = "style.css"
CARD_SIZE = (1200, 630)
FACES = ("400-normal", "400-italic", "600-normal")
"""The faces of the text, which the first lines of a page need; italics only if the page has any."""


def style_sheet(parts: Path) -> str:
    """The colours, and the files of a folder in the order of their names, as one style sheet."""
    files = sorted(parts.glob("*.css"))
    if not files:
        raise FileNotFoundError(f"expected the parts of the style sheet in {parts}, found none")
    return "\n".join([palette.css(), *(file.read_text(encoding="utf-8") for file in files)])


def write_style_sheet(app: Sphinx) -> None:
    """Write the style sheet before the pages, which refer to its checksum, and the card."""
    if app.builder.format == "html":
        target = Path(app.outdir, "_static", SHEET)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(style_sheet(Path(app.srcdir, PARTS)), encoding="utf-8")
        write_card(Path(app.outdir, CARD), app.config.project)


def write_card(target: Path, title: str) -> None:
    """Draw the picture that messengers display beside a link to the book."""
    width, height = (side / 100 for side in CARD_SIZE)
    fig = figure(width=width, height=height)[0]
    (axes,) = fig.axes
    axes.axis("off")
    axes.set(xlim=(0, 10), ylim=(0, 5))
    widths = {"dog": 9.0, "food": 2.2, "hungry": 2.2}
    for i, word in enumerate(("A", "dog", "ate", "the", "food", "because", "it", "was", "hungry")):
        x = 0.8 + 1.05 * i
        colour = palette.QUERY if word == "it" else palette.INK
        axes.text(x, 0.6, word, ha="center", color=colour, fontsize=19)
        if word != "it":
            radius = (7.1 - x) / 2
            angles = [math.pi * step / 60 for step in range(61)]
            axes.plot(
                [x + radius + radius * math.cos(angle) for angle in angles],
                [1.0 + 0.85 * abs(radius) * math.sin(angle) for angle in angles],
                color=palette.KEY, linewidth=widths.get(word, 0.8),
            )  # fmt: skip
    axes.text(0.4, 4.45, title, color=palette.INK, fontsize=38, weight="bold")
    FigureCanvasAgg(fig)
    fig.savefig(target, dpi=100, metadata={"Software": None})


def add_to_head(
    app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: Any
) -> None:
    """Load the fonts early, and state the page's address if the project is published."""
    if app.builder.format != "html":
        return
    fonts = (
        context["pathto"](f"_static/fonts/source-serif-4-latin-{face}.woff2", 1)
        for face in FACES
        if "italic" not in face or "<em" in context.get("body", "")
    )
    preloads = (
        f'<link rel="preload" href="{font}" as="font" type="font/woff2" crossorigin>\n'
        for font in fonts
    )
    tags = published_tags(app.builder.get_target_uri(pagename), Path(app.srcdir))
    context["metatags"] = "".join([context.get("metatags", ""), *preloads, tags])


def setup(app: Sphinx) -> dict[str, bool]:
    """Connect this extension to Sphinx."""
    app.add_css_file(SHEET)
    app.connect("builder-inited", write_style_sheet)
    app.connect("html-page-context", add_to_head)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
