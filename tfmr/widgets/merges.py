"""Byte-pair encoding, merge by merge, of a few words that a reader can change."""

import re
import unicodedata
from collections import Counter
from collections.abc import Mapping

import traitlets

from tfmr.data.bpe import SymbolPair, bpe_merges, bpe_split
from tfmr.errors import require
from tfmr.widgets.figure import LiveFigure

MAX_WORDS = 20
MAX_CHARACTERS = 24
MAX_MERGES = 60
MAX_COUNT = 9999
WITH_COUNT = re.compile(r"(.+)[*×]([1-9][0-9]{0,3})")


def read_words(text: str) -> dict[str, int]:
    """The white-space separated words of ``text`` with their counts; ``sing*5`` counts five times.

    The text is read in Unicode normal form C. Only the first :data:`MAX_WORDS` different words of
    at most :data:`MAX_CHARACTERS` characters are used.

    >>> read_words("sing*5 ring sing")
    {'sing': 6, 'ring': 1}
    """
    counts: Counter[str] = Counter()
    for part in unicodedata.normalize("NFC", text).split():
        found = WITH_COUNT.fullmatch(part)
        word, count = (found[1], int(found[2])) if found else (part, 1)
        if len(word) <= MAX_CHARACTERS and (word in counts or len(counts) < MAX_WORDS):
            counts[word] += count
    return dict(counts)


class MergesFigure(LiveFigure):
    """The merges of a byte-pair encoding: words as symbols, counts of pairs, vocabulary.

    A reader can change the words, step through the merges, and split another word with the merges
    so far. The traits ``text``, ``step`` and ``word`` are synchronised with Python. Sennrich et al.
    (2016), Algorithm 1, with the order of ties of :func:`tfmr.data.bpe.bpe_merges`.

    Args:
        words: words with their counts.
        word: the word to split.
        step: how many merges have been made.

    Raises:
        TfmrError: if there are no words or too many, a word is too long or contains white space, a
            count is not a whole number from 1 to 9999, or ``step`` is out of range.
    """

    text = traitlets.Unicode().tag(sync=True)
    """The words; ``sing*5`` stands for a word that occurs five times."""
    word = traitlets.Unicode().tag(sync=True)
    step = traitlets.Int().tag(sync=True)

    def __init__(self, words: Mapping[str, int], *, word: str = "", step: int = 0) -> None:
        text = " ".join(f"{each}*{count}" for each, count in words.items())
        require(
            len(words) > 0 and read_words(text) == dict(words),
            f"words must be 1 to {MAX_WORDS} words of at most {MAX_CHARACTERS} characters, without "
            f"white space, in Unicode normal form C, with counts from 1 to {MAX_COUNT}: got "
            f"{dict(words)}",
        )
        super().__init__(text=text, word=word, step=step)
        n = len(self.merges())
        require(0 <= step <= n, f"step must be a number of merges, 0 to {n}: got {step}")

    def merges(self) -> list[SymbolPair]:
        """All merges of the current words, at most :data:`MAX_MERGES`."""
        return bpe_merges(read_words(self.text), MAX_MERGES)

    def spellings(self) -> dict[str, list[str]]:
        """The symbols of each word after ``step`` merges."""
        merges = self.merges()[: self.step]
        return {word: bpe_split(word, merges) for word in read_words(self.text)}

    def split(self) -> list[str]:
        """The symbols of ``word`` after ``step`` merges; only its first part, cut to its limit."""
        words = unicodedata.normalize("NFC", self.word).split()[:1]
        return bpe_split("".join(words)[:MAX_CHARACTERS], self.merges()[: self.step])

    def summary(self) -> str:
        """The sentence that it shows."""
        words = read_words(self.text)
        counts = ", ".join(f"{word} {count}" for word, count in words.items())
        first = ", ".join(f"“{''.join(pair)}”" for pair in self.merges()[:4])
        return f"byte-pair encoding of {counts}, merge by merge; the first merges form {first}."
