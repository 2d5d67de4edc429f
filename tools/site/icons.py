"""The icons of the pages: inline SVG from Bootstrap Icons, instead of a font and a script."""

import re
from collections.abc import Iterable

from sphinx.errors import ExtensionError

from tools import vendor

PACKAGE = vendor.BOOK / "node_modules" / "bootstrap-icons"
ICONS = {
    "angle-left": "chevron-left",
    "angle-right": "chevron-right",
    "arrow-up": "arrow-up",
    "bars": "list",
    "circle-half-stroke": "circle-half",
    "download": "download",
    "expand": "fullscreen",
    "file": "file-earmark-code",
    "file-pdf": "printer",
    "github": "github",
    "list": "list-nested",
    "magnifying-glass": "search",
    "moon": "moon-stars",
    "pencil-alt": "pencil",
    "rocket": "rocket-takeoff",
    "sun": "sun",
}
"""The theme's names of the icons (those of Font Awesome) and their names in Bootstrap Icons."""


def icon(name: str, classes: Iterable[str] = (), attributes: str = "") -> str:
    """The icon ``name`` of the theme as SVG. It is decorative, so screen readers skip it."""
    if name not in ICONS:
        raise ExtensionError(
            f"expected an icon of {', '.join(ICONS)}, got {name!r}; add it to ICONS in icons.py"
        )
    svg = (PACKAGE / "icons" / f"{ICONS[name]}.svg").read_text("utf-8")
    drawing = re.sub(r"\s*\n\s*", "", svg[svg.index(">") + 1 : svg.rindex("</svg>")])
    return (
        f'<svg class="{" ".join(["icon", *classes])}"{attributes} viewBox="0 0 16 16" width="1em"'
        f' height="1em" fill="currentColor" aria-hidden="true">{drawing}</svg>'
    )
