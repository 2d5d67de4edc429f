"""The type of a corpus, and how sentence pairs are split into training, validation and test set."""

import hashlib
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from tfmr.data.text import Form
from tfmr.errors import require

# Source text and target text.
SentencePair = tuple[str, str]
PairSource = Collection[SentencePair]
"""Sentence pairs with a known count that can be iterated any number of times: a list, or
:class:`StreamedPairs`."""


@dataclass(frozen=True)
class StreamedPairs(Collection[SentencePair]):
    """Sentence pairs that are read again for every iteration, for corpora larger than memory."""

    read: Callable[[], Iterator[SentencePair]]
    """Starts a new iteration."""
    count: int
    """Number of pairs."""

    def __iter__(self) -> Iterator[SentencePair]:
        return self.read()

    def __len__(self) -> int:
        return self.count

    def __contains__(self, pair: object) -> bool:
        return any(pair == other for other in self)


@dataclass(frozen=True)
class Corpus:
    """Sentence pairs for one translation direction, in three sets."""

    name: str
    source: str
    """Source language, such as "en"."""
    target: str
    """Target language."""
    train: PairSource
    """Training set; the only set that may be streamed."""
    valid: list[SentencePair]
    """Validation set."""
    test: list[SentencePair]
    """Test set."""
    licence: str
    """One line that states how the sentences may be used."""
    form: Form = "plain"
    """The form of the sentences; a tokenizer of the corpus converts other text to it."""

    @property
    def is_streamed(self) -> bool:
        """Whether every iteration over ``train`` reads the corpus files again."""
        return isinstance(self.train, StreamedPairs)


def split_pairs(
    pairs: Sequence[SentencePair],
    key: Callable[[SentencePair], str],
    name: str,
    valid: float,
    test: float,
) -> tuple[list[SentencePair], list[SentencePair], list[SentencePair]]:
    """Split ``pairs`` into training, validation and test set; pairs with equal keys stay together.

    ``valid`` and ``test`` are fractions of the distinct keys. The set of a key depends on its
    SHA-256, so the split is the same on every machine and independent of the order of the file.

    Raises :class:`TfmrError` if there are fewer than three distinct keys; ``name`` is the corpus
    in the message.
    """
    ranked = sorted({key(pair) for pair in pairs}, key=_digest)
    require(
        len(ranked) >= 3,
        f"expected at least 3 different sentences in {name}, got {len(ranked)}; the training, "
        "validation and test sets need one each",
    )
    n_valid = max(1, round(valid * len(ranked)))
    n_test = max(1, round(test * len(ranked)))
    valid_keys = set(ranked[:n_valid])
    test_keys = set(ranked[n_valid : n_valid + n_test])
    held_out = valid_keys | test_keys
    return (
        [pair for pair in pairs if key(pair) not in held_out],
        [pair for pair in pairs if key(pair) in valid_keys],
        [pair for pair in pairs if key(pair) in test_keys],
    )


def assign_split(key: str, valid: float, test: float) -> Literal["train", "valid", "test"]:
    """The set that the pairs with this ``key`` belong to, computed from the key alone.

    The counterpart of :func:`split_pairs` for a stream with an unknown number of keys. ``valid``
    and ``test`` are the probabilities of the two sets, so their sizes are approximate.
    """
    position = int.from_bytes(_digest(key)[:8], "big") / 2**64
    return "valid" if position < valid else "test" if position < valid + test else "train"


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()
