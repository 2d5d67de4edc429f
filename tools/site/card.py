"""The card: the picture that messengers display beside a link to the book."""

import math
from pathlib import Path

from matplotlib.backends.backend_agg import FigureCanvasAgg
from sphinx.application import Sphinx

from tfmr.figures import palette
from tfmr.figures.style import figure

CARD = "_static/card.png"
CARD_SIZE = (1200, 630)


def write_card(app: Sphinx) -> None:
    """Draw the card, and write it to the site."""
    target = Path(app.outdir, CARD)
    target.parent.mkdir(parents=True, exist_ok=True)
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
    axes.text(0.4, 4.45, app.config.project, color=palette.INK, fontsize=38, weight="bold")
    FigureCanvasAgg(fig)
    fig.savefig(target, dpi=100, metadata={"Software": None})
