"""The icons of the pages: inline SVG from Bootstrap Icons."""

import re
from functools import cache

from tools import vendor

PACKAGE = vendor.BOOK / "node_modules" / "bootstrap-icons"


@cache
def icon(name: str, kind: str = "", mode: str = "") -> str:
    """The icon ``name`` as SVG, with a class and a mode if they are given.

    It is decorative, so screen readers skip it.
    """
    svg = (PACKAGE / "icons" / f"{name}.svg").read_text("utf-8")
    drawing = re.sub(r"\s*\n\s*", "", svg[svg.index(">") + 1 : svg.rindex("</svg>")])
    shown = f' data-mode="{mode}"' if mode else ""
    return (
        f'<svg class="{f"icon {kind}".strip()}"{shown} viewBox="0 0 16 16" width="1em" '
        f'height="1em" fill="currentColor" aria-hidden="true">{drawing}</svg>'
    )
