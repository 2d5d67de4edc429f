"""Queries, keys, values, encoders and decoders have the same hues on a page as in the figures.

In a formula these are the letters Q, K and V, the vectors **q** and **k**, and the state **s** of a
recurrent decoder. :math:`q_i` and :math:`k_j` are components of **q** and **k** in a formula that
contains both, and **h** is the output of a recurrent encoder in a formula that contains it at
position j or n. In code these are the names of :data:`NAMES`. As ``k`` and ``value`` can mean
something else, names are coloured only in a listing that contains the first name of a group beside
another one.
"""

import re
from typing import Any

from sphinx.application import Sphinx

ROLES = ("query", "key", "value")
STACKS = ("encoder", "decoder")
LETTERS = dict(zip("QKVqkhs", ROLES + ROLES[:2] + STACKS, strict=True))
NAMES = {
    ("q", "k", "v"): ROLES,
    ("Q", "K", "V"): ROLES,
    ("w_q", "w_k", "w_v"): ROLES,
    ("W_q", "W_k", "W_v"): ROLES,
    ("W_Q", "W_K", "W_V"): ROLES,
    ("query", "key", "value"): ROLES,
    ("queries", "keys", "values"): ROLES,
    ("encoder", "decoder"): STACKS,
    ("n_encoder", "n_decoder"): STACKS,
}

CAPITAL = r"(?<!\\mathcal\{)(?<![A-Za-z\\])[QKV](?![A-Za-z])"
BOLD = r"\\mathbf\s*(?:\{([qk])\}|([qk])(?![A-Za-z]))"
COMPONENT = r"(?<![A-Za-z\\_{])([qk])(?=_\{?[ij])"
ENCODER = r"\\mathbf\s*\{(h)\}(?=_)"
ENCODER_OUTPUT = re.compile(r"\\mathbf\s*\{h\}_\{?[jn]")
DECODER = r"\\mathbf\s*\{(s)\}(?=_)"

LISTING = re.compile(r'(?<=<div class="highlight">)<pre>.*?</pre>', re.DOTALL)
NAME = re.compile(r'<span class="n">(\w+)</span>')


def in_formula(tex: str) -> str:
    """A formula in LaTeX with the classes of its hues."""

    def coloured(found: re.Match[str]) -> str:
        letter = next((group for group in found.groups() if group), found.group())
        return rf"{{\htmlClass{{hue-{LETTERS[letter]}}}{{{found.group()}}}}}"

    symbols = [CAPITAL, BOLD, DECODER]
    if {found[1] for found in re.finditer(COMPONENT, tex)} == {"q", "k"}:
        symbols.append(COMPONENT)
    if ENCODER_OUTPUT.search(tex):
        symbols.append(ENCODER)
    return re.sub("|".join(symbols), coloured, tex)


def in_listing(html: str) -> str:
    """A highlighted listing with the classes of its hues."""
    present = set(NAME.findall(html))
    hues = {
        name: role
        for names, roles in NAMES.items()
        if names[0] in present and present & set(names[1:])
        for name, role in zip(names, roles, strict=True)
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
