"""Byte-pair encoding by hand: again and again, the most frequent neighbours become one symbol.

Sennrich, Haddow and Birch (2016), "Neural machine translation of rare words with subword units",
section 3.2 and Algorithm 1. :class:`tfmr.data.tokenizer.Tokenizer` uses a library that does the
same in a thousandth of the time; a test holds the two equal.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import pairwise

Pair = tuple[str, str]


def bpe_merges(words: Mapping[str, int], n: int) -> list[Pair]:
    """Learn at most ``n`` merges from ``words``, a count of each word (Algorithm 1 of the paper).

    Every word starts as its characters. Each round counts the pairs of neighbouring symbols over
    all words and merges the most frequent pair everywhere. The paper leaves ties open; here the
    pair made of the older symbols wins, characters being as old as their order in the alphabet.
    Learning stops early when every word is a single symbol.

    Returns the merges in the order in which they were learnt, which is the order of their use.
    """
    spellings = {word: list(word) for word in words}
    symbols = sorted(set("".join(words)))
    merges: list[Pair] = []
    for _ in range(n):
        pairs: Counter[Pair] = Counter()
        for word, spelling in spellings.items():
            for pair in pairwise(spelling):
                pairs[pair] += words[word]
        if not pairs:
            break
        age = {symbol: rank for rank, symbol in enumerate(symbols)}
        best = min(pairs, key=lambda pair: (-pairs[pair], age[pair[0]], age[pair[1]]))
        spellings = {word: merge(spelling, best) for word, spelling in spellings.items()}
        merges.append(best)
        if "".join(best) not in age:
            symbols.append("".join(best))
    return merges


def merge(spelling: list[str], pair: Pair) -> list[str]:
    """Join every occurrence of ``pair`` in ``spelling``, from left to right, into one symbol."""
    merged: list[str] = []
    at = 0
    while at < len(spelling):
        if tuple(spelling[at : at + 2]) == pair:
            merged.append("".join(pair))
            at += 2
        else:
            merged.append(spelling[at])
            at += 1
    return merged


def bpe_split(word: str, merges: Iterable[Pair]) -> list[str]:
    """Spell ``word`` with the learnt ``merges``, applied in the order in which they were learnt."""
    spelling = list(word)
    for pair in merges:
        spelling = merge(spelling, pair)
    return spelling
