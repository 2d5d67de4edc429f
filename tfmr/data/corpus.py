"""What a corpus is: sentence pairs in three parts, and how pairs are dealt out to the parts."""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from tfmr.errors import require

Pair = tuple[str, str]


@dataclass(frozen=True)
class Streamed:
    """Sentence pairs that are read anew each time they are asked for, and never held together."""

    read: Callable[[], Iterator[Pair]]
    """Begins to read them."""
    count: int
    """How many they are."""

    def __iter__(self) -> Iterator[Pair]:
        return self.read()

    def __len__(self) -> int:
        return self.count


@dataclass(frozen=True)
class Corpus:
    """Sentence pairs for one direction of translation.

    ``source`` and ``target`` are the languages ("en", "fr", ...); ``train``, ``valid`` and
    ``test`` are lists of (source text, target text), of which the first is streamed where it is
    too large for memory; ``licence`` is one line that says what may be done with the sentences.
    """

    name: str
    source: str
    target: str
    train: list[Pair] | Streamed
    valid: list[Pair]
    test: list[Pair]
    licence: str

    @property
    def is_streamed(self) -> bool:
        """Whether the training set is read from disk on every iteration."""
        return isinstance(self.train, Streamed)


def divide(
    pairs: Sequence[Pair], key: Callable[[Pair], str], name: str, valid: float, test: float
) -> tuple[list[Pair], list[Pair], list[Pair]]:
    """Deal ``pairs`` into training, validation and test parts, those of one ``key`` together.

    ``valid`` and ``test`` are shares of the distinct keys. A key's part depends on the SHA-256 of
    the key, so that the division is the same everywhere and does not follow the order of the file.

    Raises :class:`TfmrError` if there are fewer than three distinct keys; ``name`` says of what.
    """
    ranked = sorted({key(pair) for pair in pairs}, key=_digest)
    require(
        len(ranked) >= 3,
        f"{name} has {len(ranked)} different sentences, expected at least 3: "
        "one each to train, to validate and to test",
    )
    n_valid = max(1, round(valid * len(ranked)))
    n_test = max(1, round(test * len(ranked)))
    validating = set(ranked[:n_valid])
    testing = set(ranked[n_valid : n_valid + n_test])
    held_out = validating | testing
    return (
        [pair for pair in pairs if key(pair) not in held_out],
        [pair for pair in pairs if key(pair) in validating],
        [pair for pair in pairs if key(pair) in testing],
    )


def part_of(key: str, valid: float, test: float) -> Literal["train", "valid", "test"]:
    """The part of a corpus that the pairs of ``key`` belong to, told from the key alone.

    The rule of :func:`divide` for a stream, of which nobody knows yet how many keys it has. Here
    ``valid`` and ``test`` are the chances of a key to come into that part, so that the shares are
    met only nearly, the more nearly the more keys there are.
    """
    place = int.from_bytes(_digest(key)[:8], "big") / 2**64
    return "valid" if place < valid else "test" if place < valid + test else "train"


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()
