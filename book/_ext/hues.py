"""Queries, keys and values have the same hues in formulas and code as in the figures.

In a formula these are the letters Q, K and V, and the vectors **q** and **k**; :math:`q_i` and
:math:`k_j` are components of them in a formula that contains both. In code these are the names of
:data:`NAMES`. As ``k`` and ``value`` can mean something else, names are coloured only in a listing
that contains the query beside the key or the value.
"""

import re
from typing import Any

from sphinx.application import Sphinx

ROLES = ("query", "key", "value")
LETTERS = dict(zip("QKV", ROLES, strict=True)) | {"q": "query", "k": "key"}
NAMES = (
    ("q", "k", "v"),
    ("Q", "K", "V"),
    ("w_q", "w_k", "w_v"),
    ("W_q", "W_k", "W_v"),
    ("W_Q", "W_K", "W_V"),
    ("query", "key", "value"),
    ("queries", "keys", "values"),
)

CAPITAL = r"(?<!\\mathcal\{)(?<![A-Za-z\\])[QKV](?![A-Za-z])"
BOLD = r"\\mathbf\s*(?:\{([qk])\}|([qk])(?![A-Za-z]))"
COMPONENT = r"(?<![A-Za-z\\_{])([qk])(?=_\{?[ij])"
SYMBOLS = re.compile(f"{CAPITAL}|{BOLD}")
SYMBOLS_AND_COMPONENTS = re.compile(f"{CAPITAL}|{BOLD}|{COMPONENT}")

LISTING = re.compile(r'(?<=<div class="highlight">)<pre>.*?</pre>', re.DOTALL)
NAME = re.compile(r'<span class="n">(\w+)</span>')


def in_formula(tex: str) -> str:
    """A formula in LaTeX with the classes of its hues."""

    def coloured(found: re.Match[str]) -> str:
        letter = next((group for group in found.groups() if group), found.group())
        return rf"{{\htmlClass{{hue-{LETTERS[letter]}}}{{{found.group()}}}}}"

    both = {found[1] for found in re.finditer(COMPONENT, tex)} == {"q", "k"}
    return (SYMBOLS_AND_COMPONENTS if both else SYMBOLS).sub(coloured, tex)


def in_listing(html: str) -> str:
    """A highlighted listing with the classes of its hues."""
    present = set(NAME.findall(html))
    hues = {
        name: role
        for names in NAMES
        if names[0] in present and present & set(names[1:])
        for name, role in zip(names, ROLES, strict=True)
    }

    def coloured(found: re.Match[str]) -> str:
        role = hues.get(found[1])
        return f'<span class="n hue-{role}">{found[1]}</span>' if role else found.group()

    return NAME.sub(coloured, html) if hues else html


def in_page(
    app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: object
) -> None:
    """Colour the listings of a page."""
    if "body" in context:
        context["body"] = LISTING.sub(lambda found: in_listing(found.group()), context["body"])


def setup(app: Sphinx) -> dict[str, bool]:
    """Connect this extension to Sphinx."""
    app.connect("html-page-context", in_page)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
