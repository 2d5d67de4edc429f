"""The script of a text, such as Latin or Cyrillic, by the Unicode names of its letters."""

import unicodedata
from collections import Counter
from functools import cache

_WIDTHS = ("FULLWIDTH", "HALFWIDTH")
_EAST_ASIAN = ("CJK", "HIRAGANA", "KATAKANA", "KATAKANA-HIRAGANA", "BOPOMOFO")


@cache
def _script_of_letter(letter: str) -> str:
    """The script of one character; empty if it is no letter."""
    if unicodedata.category(letter) not in ("Lu", "Ll", "Lt", "Lo"):
        return ""
    words = unicodedata.name(letter, "UNKNOWN").split()
    first = words[1] if words[0] in _WIDTHS else words[0]
    return "Han and kana" if first in _EAST_ASIAN else first.capitalize()


def main_script(text: str) -> str:
    """The script of most letters of ``text``; empty if it has none.

    Chinese characters and both kana are one script here, because Japanese mixes them.

    >>> main_script("Wo ist der Берлинale-Palast?"), main_script("3, 14"), main_script("東京タワー")
    ('Latin', '', 'Han and kana')
    """
    if text.isascii():
        return "Latin" if any(map(str.isalpha, text)) else ""
    counts: Counter[str] = Counter()
    for character, count in Counter(text).items():
        counts[_script_of_letter(character)] += count
    del counts[""]
    return max(counts, key=lambda script: (counts[script], script), default="")
