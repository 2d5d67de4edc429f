"""Queries, keys, values, encoders and decoders have the same hues in formulas as in the figures.

These are the letters Q, K and V, the vectors **q** and **k**, and the state **s** of a recurrent
decoder. :math:`q_i` and :math:`k_j` are components of **q** and **k** in a formula that contains
both, and **h** is the output of a recurrent encoder in a formula that contains it at position j or
n. This module gives the symbols a class; ``book/_style/1-type.css`` gives the class its hue, which
``tfmr/figures/palette.py`` defines.
"""

import re

ROLES = ("query", "key", "value")
STACKS = ("encoder", "decoder")
LETTERS = dict(zip("QKVqkhs", ROLES + ROLES[:2] + STACKS, strict=True))

CAPITAL = r"(?<!\\mathcal\{)(?<![A-Za-z\\])[QKV](?![A-Za-z])"
BOLD = r"\\mathbf\s*(?:\{([qk])\}|([qk])(?![A-Za-z]))"
COMPONENT = r"(?<![A-Za-z\\_{])([qk])(?=_\{?[ij])"
ENCODER = r"\\mathbf\s*\{(h)\}(?=_)"
ENCODER_OUTPUT = re.compile(r"\\mathbf\s*\{h\}_\{?[jn]")
DECODER = r"\\mathbf\s*\{(s)\}(?=_)"


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
