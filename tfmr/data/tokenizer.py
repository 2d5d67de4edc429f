"""From text to ids and back: byte pairs for real corpora, whole words for the pocket grammar.

Byte-pair encoding is that of Sennrich et al. (2016), learnt jointly on both languages, over UTF-8
bytes instead of characters (Radford et al., 2019, section 2.2): 256 symbols spell every language,
so no text is ever unknown. The work is done by the ``tokenizers`` library;
:mod:`tfmr.data.bpe` shows by hand what it learns.
"""

import hashlib
import json
import os
import unicodedata
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal

import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers

from tfmr.errors import TfmrError, require
from tfmr.special_tokens import BOS, EOS, PAD, SPECIAL, UNK

__all__ = ["BOS", "EOS", "PAD", "UNK", "Tokenizer"]

FORMAT = "tfmr tokenizer 1"
_BYTES = sorted(pre_tokenizers.ByteLevel.alphabet())


class Tokenizer:
    """A vocabulary and the rule that cuts a text into its entries.

    Make one with :meth:`train_bpe` or :meth:`words`, or read one with :meth:`load`. Ids 0 to 3 are
    PAD, BOS, EOS and UNK; :meth:`encode` never emits the first three, a batch adds them, and
    their spellings in a text are read as text.
    """

    def __init__(
        self,
        kind: Literal["bpe", "words"],
        vocabulary: Sequence[str],
        merges: Sequence[tuple[str, str]] = (),
    ) -> None:
        """Assemble a tokenizer from its ``vocabulary``, the entries of ids 4, 5, 6 and so on."""
        self.kind = kind
        self.vocabulary = list(vocabulary)
        self.merges = [(left, right) for left, right in merges]
        ids = {entry: id for id, entry in enumerate(self.vocabulary, start=len(SPECIAL))}
        self._library = _bpe(ids, self.merges) if kind == "bpe" else _whole_words(ids)

    @classmethod
    def train_bpe(cls, texts: Iterable[str], vocab_size: int) -> "Tokenizer":
        """Learn a byte-pair encoding of at most ``vocab_size`` ids from ``texts`` of all languages.

        Deterministic: the same texts give the same merges, ties going to the older symbols.
        The vocabulary stays smaller when there is nothing left to merge. The texts may be a stream
        of any length: only the counts of its words are held.

        Raises :class:`TfmrError` if ``vocab_size`` has no room for the four special ids and the
        256 bytes.
        """
        least = len(SPECIAL) + len(_BYTES)
        require(
            vocab_size >= least,
            f"a byte-pair vocabulary needs at least {least} ids ({len(SPECIAL)} special, "
            f"{len(_BYTES)} bytes), got vocab_size={vocab_size}; 5000 suits a small corpus",
        )
        learner = _bpe({}, [])
        trainer = trainers.BpeTrainer(
            vocab_size=vocab_size - len(SPECIAL), initial_alphabet=_BYTES, show_progress=False
        )
        learner.train_from_iterator(map(_canonical, texts), trainer)
        learnt = json.loads(learner.to_str())["model"]
        vocabulary = sorted(learnt["vocab"], key=learnt["vocab"].__getitem__)
        return cls("bpe", vocabulary, [tuple(pair) for pair in learnt["merges"]])

    @classmethod
    def words(cls, texts: Iterable[str]) -> "Tokenizer":
        """Make every word between white space of ``texts`` an entry, in sorted order."""
        found = {word for text in texts for word in _canonical(text).split()}
        return cls("words", sorted(found - {SPECIAL[UNK]}))

    @property
    def vocab_size(self) -> int:
        """The number of ids, the special ones included: the ``vocab`` axis of a model."""
        return len(SPECIAL) + len(self.vocabulary)

    @property
    def fingerprint(self) -> str:
        """Twelve digits of the SHA-256 of :meth:`to_json`, to tell two vocabularies apart."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()[:12]

    def encode(self, text: str) -> list[int]:
        """Turn ``text`` into ids, without BOS and EOS. Unknown words become UNK; bytes never do."""
        ids: list[int] = self._library.encode(_canonical(text)).ids
        return ids

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Encode many texts at once: equal to :meth:`encode` of each, on all cores."""
        encodings = self._library.encode_batch([_canonical(text) for text in texts])
        return [encoding.ids for encoding in encodings]

    def decode(self, ids: Iterable[int]) -> str:
        """Turn ``ids`` back into text, leaving out PAD, BOS and EOS.

        With a byte-pair encoding ``decode(encode(text))`` is ``text`` in Unicode normal form C,
        exactly; with whole words, the words of it between single spaces, "<unk>" for unknown ones.

        Raises :class:`TfmrError` for an id outside the vocabulary.
        """
        entries = [self._entry(id) for id in ids if id not in (PAD, BOS, EOS)]
        if self.kind == "words":
            return " ".join(entries)
        return decoders.ByteLevel().decode(entries).removeprefix(" ")

    def tokens(self, ids: Iterable[int]) -> list[str]:
        """Show each id on its own, for a figure or a table.

        A piece that begins a word shows its space as "▁"; a piece that is only part of a character
        shows its bytes in hexadecimal, as "<ed95>".
        """
        shown = []
        for id in ids:
            entry = self._entry(id)
            if self.kind == "bpe" and id >= len(SPECIAL):
                entry = _readable(entry)
            shown.append(entry)
        return shown

    def to_json(self) -> str:
        """Write the tokenizer as one line of canonical JSON, for a file or a checkpoint."""
        content = {
            "format": FORMAT,
            "kind": self.kind,
            "merges": self.merges,
            "vocabulary": self.vocabulary,
        }
        return json.dumps(content, ensure_ascii=False, sort_keys=True, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str, where: str = "the text") -> "Tokenizer":
        """Read what :meth:`to_json` wrote; ``where`` names its origin in an error.

        Raises :class:`TfmrError` if ``text`` is anything else.
        """
        try:
            content: Any = json.loads(text)
        except ValueError as error:
            raise TfmrError(f"expected a tokenizer in JSON, but {where} is none: {error}") from None
        came = content.get("format") if isinstance(content, dict) else type(content).__name__
        require(
            came == FORMAT,
            f"expected {where} to have the format {FORMAT!r}, it has {came!r}; "
            "a tokenizer is written by Tokenizer.save",
        )
        try:
            _check(content)
            merges = [(left, right) for left, right in content["merges"]]
            return cls(content["kind"], content["vocabulary"], merges)
        except Exception as error:  # the library raises nothing more specific
            why = " ".join(str(error).split())
            raise TfmrError(f"{where} holds a damaged tokenizer ({why}); save it again") from None

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the tokenizer to ``path``."""
        Path(path).write_text(self.to_json() + "\n", encoding="utf-8")

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Tokenizer":
        """Read the tokenizer that :meth:`save` wrote to ``path``.

        Raises :class:`TfmrError` if the file is missing, unreadable or not a tokenizer.
        """
        try:
            text = Path(path).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise TfmrError(f"expected a tokenizer in {path}, cannot read it: {error}") from None
        return cls.from_json(text, where=str(path))

    def _entry(self, id: int) -> str:
        """The vocabulary entry of ``id``."""
        require(
            0 <= id < self.vocab_size,
            f"this tokenizer has ids 0 to {self.vocab_size - 1}, got {id}; "
            "was the model trained with another vocabulary?",
        )
        return SPECIAL[id] if id < len(SPECIAL) else self.vocabulary[id - len(SPECIAL)]


def _bpe(ids: dict[str, int], merges: list[tuple[str, str]]) -> tokenizers.Tokenizer:
    """The library's byte-pair encoder. The space put in front makes a first word like any other."""
    library = tokenizers.Tokenizer(models.BPE(vocab=ids, merges=merges))
    library.normalizer = normalizers.Prepend(" ")
    library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    return library


def _whole_words(ids: dict[str, int]) -> tokenizers.Tokenizer:
    """The library's lookup of whole words. Of the special ids, text can reach UNK alone."""
    library = tokenizers.Tokenizer(models.WordLevel(ids | {SPECIAL[UNK]: UNK}, SPECIAL[UNK]))
    library.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return library


def _canonical(text: str) -> str:
    """Normal form C: one spelling for each letter, so that é is never e and an accent."""
    return unicodedata.normalize("NFC", text)


def _readable(entry: str) -> str:
    """Show the bytes that ``entry`` spells in the library's byte alphabet."""
    text = decoders.ByteLevel().decode([entry])
    if "\N{REPLACEMENT CHARACTER}" in text:
        return f"<{b''.join(_RAW[symbol] for symbol in entry).hex()}>"
    return text.replace(" ", "▁")


def _raw_bytes() -> dict[str, bytes]:
    """Map each of the 256 symbols of the library's alphabet to its byte.

    Printable Latin-1 bytes stand for themselves, the others follow in order from U+0100 on.
    """
    kept = [byte for byte in range(256) if chr(byte) in _BYTES]
    moved = [byte for byte in range(256) if chr(byte) not in _BYTES]
    table = {chr(byte): bytes([byte]) for byte in kept}
    return table | {chr(256 + rank): bytes([byte]) for rank, byte in enumerate(moved)}


def _check(content: dict[str, Any]) -> None:
    """Refuse what JSON allows and a tokenizer does not."""
    kind, vocabulary = content.get("kind"), content.get("vocabulary", [])
    require(kind in ("bpe", "words"), f"expected kind 'bpe' or 'words', got {kind!r}")
    require(
        isinstance(vocabulary, list) and all(isinstance(entry, str) for entry in vocabulary),
        "expected 'vocabulary' to be a list of strings",
    )
    repeated = len(vocabulary) - len(set(vocabulary))
    require(repeated == 0, f"{repeated} vocabulary entries are there twice")


_RAW = _raw_bytes()
