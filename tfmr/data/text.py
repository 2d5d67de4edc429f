"""The text that a tokenizer accepts: one line in its canonical spelling, in the form of a corpus.

Every text passes through :func:`canonical`: training and test sets, references, translations, and
what a person types. So a sentence has one spelling, however it reaches the model.

The corpus of the pocket grammar is in lower case, with spaces between words and punctuation. A
tokenizer that was trained on it converts typed text to this form (:func:`to_form`), and decoded
text to ordinary spelling (:func:`from_form`).
"""

import re
import unicodedata
from typing import Literal

from tfmr.errors import TfmrError

Form = Literal["plain", "pocket"]
"""How the text of a corpus differs from ordinary spelling: not at all, or as in
:mod:`tfmr.data.pocket`."""

_SURROGATE = re.compile("[\ud800-\udfff]")
_REMOVED = re.compile(r"[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\u2060\ufeff]")
# In a str pattern, \s matches the characters at which str.split() separates words.
_SPACE = re.compile(r"[\s\u200b]+")


def canonical(text: str) -> str:
    r"""The canonical spelling of one line of text.

    - Unicode normal form C, in which é is always one code point. Compatibility characters, such as
      the ligature ﬁ, are kept.
    - White space, including line breaks, tabs, no-break and zero-width spaces, becomes one space
      between words and is removed at both ends.
    - Control characters, byte order marks and word joiners are removed.

    >>> canonical(" e\u0301te\u0301\u00a0\t2026\r\n")
    'été 2026'

    Raises:
        TfmrError: if the text has half a surrogate pair, or a byte that is not UTF-8.
    """
    if lone := _SURROGATE.search(text):
        code, position = ord(lone[0]), lone.start() + 1
        is_byte = 0xDC80 <= code <= 0xDCFF  # as Python decodes arguments that are not UTF-8
        what = f"the byte 0x{code - 0xDC00:X}" if is_byte else f"half a character, U+{code:X},"
        raise TfmrError(
            f"expected text in UTF-8, got {what} at character {position}; convert the text to UTF-8"
        )
    words = _SPACE.sub(" ", _REMOVED.sub("", text)).strip(" ")
    return unicodedata.normalize("NFC", words)


def to_form(text: str, form: Form) -> str:
    """Convert ``text`` to the form of the corpus; text in this form stays as it is.

    >>> to_form("The bear  sings.", "pocket")
    'the bear sings .'

    Raises:
        TfmrError: as :func:`canonical`.
    """
    if form == "plain":
        return canonical(text)
    words = canonical(text.lower()).rstrip(". ").split()
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
