"""The colours of the book, for figures, pages and live figures.

Every colour is stated once, for a light page. On a dark page, figures are displayed with the CSS
filter ``invert(1) hue-rotate(180deg)`` and blended with the page by ``screen``; :func:`dark`
computes the same change, so that text, live figures and figures have the same colours there, too.
The hues are distinguishable with the common forms of colour blindness, and each is dark enough for
text (WCAG 2.2, a contrast of at least 4.5).
"""

from collections.abc import Sequence

PAGE = "#ffffff"
SURFACE = "#f4f5f7"
GRID = "#e2e5ea"
LINE = "#cdd2da"
MUTED = "#59626f"
INK = "#1f2933"

BLUE = "#004ca1"
ORANGE = "#c93a0c"
GREEN = "#007458"
PURPLE = "#87336e"
OLIVE = "#626f00"
GREY = "#7b8494"
# For areas, never for text.
YELLOW = "#e69f00"
SKY = "#56b4e9"

QUERY = ORANGE
KEY = BLUE
VALUE = GREEN
ENCODER = OLIVE
DECODER = PURPLE

DARK_PAGE = "#14181d"
"""The background of a dark page."""

NEUTRAL = {
    "page": PAGE,
    "surface": SURFACE,
    "grid": GRID,
    "line": LINE,
    "muted": MUTED,
    "ink": INK,
}
HUES = {"blue": BLUE, "orange": ORANGE, "green": GREEN, "purple": PURPLE, "olive": OLIVE}
ROLES = {"query": QUERY, "key": KEY, "value": VALUE, "encoder": ENCODER, "decoder": DECODER}

# The matrix of hue-rotate(180deg) in the Filter Effects Module, level 1.
HALF_TURN = ((-0.574, 1.430, 0.144), (0.426, 0.430, 0.144), (0.426, 1.430, -0.856))
LIGHT_PAGES = ":root"
DARK_PAGES = 'html[data-theme="dark"], body[data-jp-theme-light="false"]'


def rgb(colour: str) -> tuple[float, float, float]:
    """Red, green and blue of ``#rrggbb``, from 0 to 1."""
    red, green, blue = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
    return red, green, blue


def _hexadecimal(parts: Sequence[float]) -> str:
    return "#" + "".join(f"{round(255 * part):02x}" for part in parts)


def dark(colour: str) -> str:
    """The counterpart of a ``colour`` on a dark page, as the filter and the blending give it."""
    inverted = [1 - part for part in rgb(colour)]
    turned = (sum(a * b for a, b in zip(row, inverted, strict=True)) for row in HALF_TURN)
    filtered = [min(1.0, max(0.0, part)) for part in turned]
    return _hexadecimal(
        [part + page - part * page for part, page in zip(filtered, rgb(DARK_PAGE), strict=True)]
    )


def css() -> str:
    """The colours as custom properties, ``--tfmr-blue`` and so on, for light and dark pages.

    Paper is light, whatever the page on the screen is.
    """
    names = NEUTRAL | HUES | ROLES
    light = "".join(f"  --tfmr-{name}: {colour};\n" for name, colour in names.items())
    night = "".join(f"  --tfmr-{name}: {dark(colour)};\n" for name, colour in names.items())
    return f"{LIGHT_PAGES} {{\n{light}}}\n@media screen {{\n{DARK_PAGES} {{\n{night}}}\n}}\n"
