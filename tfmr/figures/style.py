"""The style of all figures: colours, sizes, and a figure with an alternative text.

The colours are those of :mod:`tfmr.figures.palette`. Figures have a white background; dark pages
change their colours with a CSS filter.
"""

from base64 import b64encode
from collections.abc import Callable, Sequence
from functools import wraps
from io import BytesIO
from statistics import mean
from typing import Any, ParamSpec, TypeVar

import numpy as np
from cycler import cycler
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import LinearSegmentedColormap, to_rgb
from matplotlib.figure import Figure as MatplotlibFigure
from PIL import Image

from tfmr.figures.narrow import narrow as narrow_layout

# The figures import the colours from here.
from tfmr.figures.palette import BLUE as BLUE
from tfmr.figures.palette import GREEN as GREEN
from tfmr.figures.palette import GREY as GREY
from tfmr.figures.palette import GRID as GRID
from tfmr.figures.palette import INK as INK
from tfmr.figures.palette import MUTED as MUTED
from tfmr.figures.palette import OLIVE as OLIVE
from tfmr.figures.palette import ORANGE as ORANGE
from tfmr.figures.palette import PURPLE as PURPLE

CYCLE = (BLUE, ORANGE, GREEN, PURPLE, OLIVE, GREY)

HEAT = LinearSegmentedColormap.from_list("tfmr.heat", ["#ffffff", "#9ecae1", BLUE, "#08306b"])
"""For weights from 0 (white) to 1."""
SIGNED = LinearSegmentedColormap.from_list("tfmr.signed", [ORANGE, "#ffffff", BLUE])
"""For signed values: orange is negative, white zero, blue positive."""

WIDTH = 6.2
"""Width in inches, as displayed in the text column."""
CONTRAST = 4.5
"""The smallest contrast of text of normal size that WCAG 2 allows at level AA."""
DPI = 144
"""Dots per inch of a PNG."""
LOWER_DPI = (120, 96)
"""For figures whose PNG would have more than ``PNG_BYTES``; 96 is one pixel per displayed pixel."""
PNG_BYTES = 32_000

RC: Any = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 10,
    "axes.titlesize": 10.5,
    "axes.titleweight": "bold",
    "axes.labelsize": 10,
    "axes.edgecolor": MUTED,
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": False,
    "axes.prop_cycle": cycler(color=CYCLE),
    "grid.color": GRID,
    "xtick.color": INK,
    "ytick.color": INK,
    "xtick.labelsize": 9,
    "ytick.labelsize": 9,
    "legend.frameon": False,
    "legend.fontsize": 9,
    "lines.linewidth": 1.8,
    "text.color": INK,
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
}

P = ParamSpec("P")
R = TypeVar("R")


def styled(draw: Callable[P, R]) -> Callable[P, R]:
    """Decorator: apply the style of the book to everything that ``draw`` draws."""
    return rc_context(RC)(draw)


def also_narrow(draw: Callable[P, "Figure"]) -> Callable[P, "Figure"]:
    """Decorator for a function with an option ``narrow``: its figures have both layouts.

    The function draws the figure for the text column, and again with ``narrow=True`` for phones.
    """

    @wraps(draw)
    def drawn(*args: P.args, **kwargs: P.kwargs) -> "Figure":
        fig = draw(*args, **kwargs)
        if not kwargs.get("narrow"):
            kwargs["narrow"] = True
            fig.narrow = draw(*args, **kwargs)
        return fig

    return drawn


class Figure(MatplotlibFigure):
    """A matplotlib figure that a notebook displays once, as PNG, with an alternative text.

    The metadata of the PNG has a second one, ``narrow``, in Base64, if the figure has a layout for
    phones: one that was drawn (:func:`also_narrow`), or else one that
    :func:`tfmr.figures.narrow.narrow` finds. Only the site uses it.

    ``alt`` describes the figure, including the numbers that it shows. It is the ``repr`` of the
    figure, so nbval compares it with every run, and the page uses it as the alternative text of the
    image.
    """

    alt: str = ""
    narrow: "Figure | None" = None
    """The same figure, drawn for phones."""

    def __repr__(self) -> str:
        return self.alt or super().__repr__()

    def _repr_png_(self) -> tuple[bytes, dict[str, int | str]]:
        png = _png(self)
        # No height: the page would keep it when a narrow screen reduces the width.
        metadata: dict[str, int | str] = {"width": round(self.get_figwidth() * 96)}
        phone = self.narrow or narrow_layout(self)
        if phone is not None:
            metadata["narrow"] = b64encode(_png(phone)).decode()
        return png, metadata


def _png(fig: MatplotlibFigure) -> bytes:
    """A figure as PNG, with as many dots per inch as ``PNG_BYTES`` allows."""
    FigureCanvasAgg(fig)
    for dpi in (DPI, *LOWER_DPI):
        buffer = BytesIO()
        fig.savefig(buffer, format="png", dpi=dpi, metadata={"Software": None})
        png = with_palette(buffer.getvalue())
        if len(png) <= PNG_BYTES:
            break
    return png


def with_palette(png: bytes) -> bytes:
    """The same picture with at most 256 colours, in about a third of the bytes.

    Most of the thousands of colours of a figure are shades at the edges of its letters and lines.
    Of the methods of Pillow, this one changes the colours least: in the figures of the book, by at
    most 12 of 255, and white not at all. A picture with transparent pixels is returned unchanged,
    because the method would ignore their opacity.
    """
    with Image.open(BytesIO(png)) as picture:
        if picture.convert("RGBA").getchannel("A").getextrema() != (255, 255):
            return png
        few = picture.convert("RGB").quantize(256, Image.Quantize.MAXCOVERAGE, kmeans=1)
    buffer = BytesIO()
    few.save(buffer, format="png", optimize=True)
    return buffer.getvalue()


@styled
def figure(
    rows: int = 1, columns: int = 1, *, height: float = 2.6, width: float = WIDTH, **grid: Any
) -> tuple[Figure, list[Axes]]:
    """A figure in the style of the book, and its axes, row by row.

    ``height`` and ``width`` are in inches; ``grid`` goes to
    :meth:`matplotlib.figure.Figure.subplots` (``sharex``, ``width_ratios`` and others).
    """
    fig = Figure(figsize=(width, height), layout="constrained")
    axes = fig.subplots(rows, columns, squeeze=False, **grid)
    return fig, list(axes.flat)


def contrast(text: Any, background: Any) -> float:
    """The contrast ratio of two colours, from 1 to 21 (WCAG 2.2, *contrast ratio*)."""
    dark, light = sorted(_luminance(colour) for colour in (text, background))
    return (light + 0.05) / (dark + 0.05)


def _luminance(colour: Any) -> float:
    """The relative luminance of a colour, from 0 to 1 (WCAG 2.2)."""
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(colour)]
    return sum(w * c for w, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def text_colour(background: Any) -> str:
    """The first of three colours for text whose contrast is at least ``CONTRAST``.

    Every background has one: no colour has a contrast below 4.58 with both white and black.
    """
    return next(c for c in (INK, "white", "black") if contrast(c, background) >= CONTRAST)


def _spread(heights: Sequence[float], line: float) -> list[float]:
    """Move ascending ``heights`` as little as possible: ``line`` apart, and none below 0."""

    def centre(group: Sequence[float]) -> float:
        return max(mean(group), line * (len(group) - 1) / 2)

    # Each group is a list of heights that touch; they are placed around the centre of the group.
    groups: list[list[float]] = []
    for height in heights:
        groups.append([height])
        while len(groups) > 1:
            below, above = groups[-2:]
            if centre(above) - centre(below) >= line * (len(below) + len(above)) / 2:
                break
            groups[-2:] = [below + above]
    return [
        centre(group) + line * (i - (len(group) - 1) / 2)
        for group in groups
        for i in range(len(group))
    ]


def label_ends(axes: Axes, ends: Sequence[tuple[str, float, str]]) -> None:
    """Write the names of curves beside their right ends, one line apart where the ends are close.

    Call it when the limits of ``axes`` are final.

    Args:
        axes: the axes of the curves.
        ends: name, last value and colour of each curve.
    """
    fig = axes.get_figure(root=True)
    assert fig is not None
    # Labels, ticks and margins take about a quarter of the height of a figure.
    line = 1.3 * 9 / (72 * 0.75 * fig.get_figheight())
    to_fraction = axes.transData + axes.transAxes.inverted()
    x = axes.get_xlim()[1]
    names = sorted(
        (float(to_fraction.transform((x, value))[1]), name, colour) for name, value, colour in ends
    )
    heights = _spread([height for height, *_ in names], line)
    for height, (_, name, colour) in zip(heights, names, strict=True):
        axes.annotate(
            name, (1, height), xycoords="axes fraction", xytext=(5, 0), textcoords="offset points",
            va="center", color=colour, fontsize=9, annotation_clip=False,
        )  # fmt: skip


def minus(number: str) -> str:
    """The ``number`` with a typographic minus sign, and without a sign if it is zero."""
    return number.replace("-", "−") if float(number) else number.removeprefix("-")


@styled
def heatmap(
    axes: Axes,
    values: Any,
    *,
    row_labels: list[str],
    column_labels: list[str],
    signed: bool = False,
    numbers: bool = True,
    digits: int = 2,
    limit: float | None = None,
) -> None:
    """Draw a ``(row, column)`` matrix as a heat map, with the values if ``numbers``.

    Colours run from 0 to ``limit`` (or from −``limit`` to ``limit`` if ``signed``); ``limit``
    defaults to the largest absolute value.
    """
    grid = [[float(value) for value in row] for row in values]
    largest = max((abs(value) for row in grid for value in row), default=1.0) or 1.0
    top = limit if limit is not None else largest
    image = axes.imshow(
        grid,
        cmap=SIGNED if signed else HEAT,
        vmin=-top if signed else 0.0,
        vmax=top,
        aspect="equal",
    )
    axes.set_xticks(range(len(column_labels)), column_labels)
    axes.set_yticks(range(len(row_labels)), row_labels)
    axes.tick_params(length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)
    if numbers:
        colours = image.to_rgba(np.array(grid))
        for i, row in enumerate(grid):
            for j, value in enumerate(row):
                axes.text(
                    j, i, minus(f"{value:.{digits}f}"), ha="center", va="center", fontsize=9,
                    color=text_colour(colours[i, j]),
                )  # fmt: skip
