"""The type of a corpus, and how sentence pairs are split into training, validation and test set."""

import hashlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tfmr.data.text import Form
from tfmr.errors import require

# Source text and target text.
SentencePair = tuple[str, str]
PairSource = Collection[SentencePair]
"""Sentence pairs with a known count that can be iterated any number of times: a list, or
:class:`StreamedPairs`."""
SHOWN_PLACES = 5
"""Maximum number of lines that the text of a :class:`Finding` lists."""


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
class Finding:
    """Sentence pairs of one set that have a property which a user should know."""

    split: str
    """The set: train, valid or test."""
    kind: str
    """The property in one or two words, such as "empty"."""
    explanation: str
    """What the property is, and the setting that it depends on."""
    count: int
    """Number of pairs."""
    places: tuple[str, ...]
    """File and line of each pair; of many training pairs, of the first ones."""
    dropped: bool
    """Whether the pairs are not used."""

    def __str__(self) -> str:
        """One line with the first places.

        >>> print(Finding("test", "empty", "a sentence is missing", 2, ("a.de:3", "a.en:7"), True))
        test: 2 not used, empty: a sentence is missing (a.de:3, a.en:7)
        """
        shown = ", ".join(self.places[:SHOWN_PLACES])
        more = ", …" if self.count > SHOWN_PLACES else ""
        used = "not used" if self.dropped else "used"
        where = f" ({shown}{more})" if shown else ""
        return f"{self.split}: {self.count:,} {used}, {self.kind}: {self.explanation}{where}"


@dataclass(frozen=True)
class Provenance:
    """Where the pairs of a user's own files come from, and what was found in them."""

    files: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The files of each set; a set that was held out of the training files has none."""
    read: Mapping[str, int] = field(default_factory=dict)
    """Number of pairs in the files of each set."""
    places: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """File and line of each pair of the validation and the test set."""
    scripts: tuple[str, str] = ("", "")
    """The script of most source sentences, and of most target sentences, such as "Latin"."""
    findings: tuple[Finding, ...] = ()


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
    provenance: Provenance = Provenance()
    """Of a user's own files: where the pairs come from."""

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
    ranked = sorted({key(pair) for pair in pairs}, key=digest)
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


def digest(text: str) -> bytes:
    """The SHA-256 of a key, by which keys are assigned to sets."""
    return hashlib.sha256(text.encode()).digest()
