"""The text that a tokenizer accepts: its canonical spelling, and the form of a corpus.

The corpus of the pocket grammar is in lower case, with spaces between words and punctuation. A
tokenizer that was trained on it converts what a person types to this form (:func:`to_form`), and
what it has decoded to ordinary spelling (:func:`from_form`).
"""

import unicodedata
from typing import Literal

Form = Literal["plain", "pocket"]
"""How the text of a corpus differs from ordinary spelling: not at all, or as in
:mod:`tfmr.data.pocket`."""


def canonical(text: str) -> str:
    """Unicode normal form C, in which é is always one code point."""
    return unicodedata.normalize("NFC", text)


def to_form(text: str, form: Form) -> str:
    """Convert ``text`` to the form of the corpus; text in this form stays as it is.

    >>> to_form("The bear  sings.", "pocket")
    'the bear sings .'
    """
    if form == "plain":
        return canonical(text)
    words = canonical(text.lower()).rstrip(". \t\r\n").split()
    return " ".join([*words, "."]) if words else ""


def from_form(text: str, form: Form) -> str:
    """Convert ``text`` from the form of the corpus to ordinary spelling.

    In the pocket grammar, a word that ends in an apostrophe is joined to the next word, and a
    Korean particle with a leading hyphen to the previous word.

    >>> from_form("l' ours dort .", "pocket")
    "l'ours dort."
    """
    if form == "plain":
        return text
    return text.replace("' ", "'").replace(" -", "").replace(" .", ".")
