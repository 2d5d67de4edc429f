from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from tfmr.data.bpe import bpe_merges, bpe_split, merge
from tfmr.data.tokenizer import Tokenizer

PAPER = {"low": 5, "lower": 2, "newest": 6, "widest": 3}
"""The dictionary of Algorithm 1 in Sennrich et al. (2016), without its end-of-word symbol."""


def test_merges_of_the_example_in_the_paper():
    # e-s, s-t: 9 each, e is older; es-t: 9; l-o, o-w: 7 each, l is older; lo-w: 7;
    # n-e, e-w, w-est: 6 each, e is the oldest; then n-ew: 6; new-est: 6.
    assert bpe_merges(PAPER, 7) == [
        ("e", "s"),
        ("es", "t"),
        ("l", "o"),
        ("lo", "w"),
        ("e", "w"),
        ("n", "ew"),
        ("new", "est"),
    ]


def test_an_unseen_word_is_split_by_the_learned_merges():
    merges = bpe_merges(PAPER, 4)
    assert bpe_split("lowest", merges) == ["low", "est"]
    assert bpe_split("xyz", merges) == ["x", "y", "z"]


def test_merge_applies_from_left_to_right():
    assert merge(list("aaab"), ("a", "a")) == ["aa", "a", "b"]


def test_learning_stops_when_no_pairs_are_left():
    assert bpe_merges({"ab": 1}, 100) == [("a", "b")]
    assert bpe_merges({}, 3) == []


def library_merges(words: Counter[str], n: int) -> list[tuple[str, str]]:
    """The merges that the library learns from a text of these words; "Ġ" stands for a space."""
    text = [" ".join([word] * count) for word, count in words.items()]
    return Tokenizer.train_bpe(text, vocab_size=260 + n).merges


def test_the_library_learns_the_same_merges():
    text = (
        "the wolf and the owl follow the other wolves over the lower hollow "
        "while the old fowl howl and the slow flow of the water swallows the willow"
    )
    words = Counter(text.split())
    with_space = {f"Ġ{word}": count for word, count in words.items()}
    merges = bpe_merges(with_space, 50)
    assert len(merges) == 50
    assert library_merges(words, 50) == merges


@settings(max_examples=60)
@given(st.dictionaries(st.text("abcd", min_size=1, max_size=6), st.integers(1, 9), min_size=1))
def test_the_library_learns_the_same_merges_from_random_words(counts):
    with_space = {f"Ġ{word}": count for word, count in counts.items()}
    assert library_merges(Counter(counts), 12) == bpe_merges(with_space, 12)


def test_the_library_splits_words_identically():
    tokenizer = Tokenizer.train_bpe(["low low lower newest newest widest"], 275)
    for word in ("low", "lowest", "wider", "slower"):
        pieces = [piece.replace("▁", "Ġ") for piece in tokenizer.tokens(tokenizer.encode(word))]
        assert pieces == bpe_split(f"Ġ{word}", tokenizer.merges)
