"""Byte-pair encoding in plain Python: repeatedly merge the most frequent pair of adjacent symbols.

Sennrich, Haddow and Birch (2016), "Neural machine translation of rare words with subword units",
section 3.2 and Algorithm 1. :class:`tfmr.data.tokenizer.Tokenizer` uses a library that runs the
same algorithm about a thousand times faster; a test checks that both learn the same merges.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import pairwise

# Two adjacent symbols of a word.
SymbolPair = tuple[str, str]


def bpe_merges(words: Mapping[str, int], n: int) -> list[SymbolPair]:
    """Learn at most ``n`` merges from ``words``, which maps words to counts (Algorithm 1).

    Every word starts as a sequence of characters. Each iteration counts the pairs of adjacent
    symbols over all words and merges the most frequent pair everywhere. The paper does not define
    ties; here the pair with the older symbols wins, where characters are ordered alphabetically.
    Learning stops early when every word is a single symbol.

    Returns the merges in the order in which they were learned, which is the order of application.
    """
    spellings = {word: list(word) for word in words}
    symbols = sorted(set("".join(words)))
    merges: list[SymbolPair] = []
    for _ in range(n):
        counts: Counter[SymbolPair] = Counter()
        for word, spelling in spellings.items():
            for pair in pairwise(spelling):
                counts[pair] += words[word]
        if not counts:
            break
        age = {symbol: rank for rank, symbol in enumerate(symbols)}
        best = min(counts, key=lambda pair: (-counts[pair], age[pair[0]], age[pair[1]]))
        spellings = {word: merge(spelling, best) for word, spelling in spellings.items()}
        merges.append(best)
        if "".join(best) not in age:
            symbols.append("".join(best))
    return merges


def merge(spelling: list[str], pair: SymbolPair) -> list[str]:
    """Replace every occurrence of ``pair`` in ``spelling``, left to right, by one symbol."""
    merged: list[str] = []
    i = 0
    while i < len(spelling):
        if tuple(spelling[i : i + 2]) == pair:
            merged.append("".join(pair))
            i += 2
        else:
            merged.append(spelling[i])
            i += 1
    return merged


def bpe_split(word: str, merges: Iterable[SymbolPair]) -> list[str]:
    """Split ``word`` into symbols by applying ``merges`` in the order of learning."""
    spelling = list(word)
    for pair in merges:
        spelling = merge(spelling, pair)
    return spelling
