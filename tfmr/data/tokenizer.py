"""From text to token ids and back: byte-pair encoding for real corpora, words for the grammar.

Byte-pair encoding follows Sennrich et al. (2016), with one vocabulary for both languages, over
UTF-8 bytes instead of characters (Radford et al., 2019, section 2.2): 256 symbols spell any text,
so there are no unknown words. The ``tokenizers`` library implements it; :mod:`tfmr.data.bpe` shows
the algorithm.
"""

import hashlib
import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal, get_args

import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers

from tfmr.data.text import Form, from_form, to_form
from tfmr.errors import TfmrError, require
from tfmr.special_tokens import BOS, EOS, PAD, SPECIAL, UNK

__all__ = ["BOS", "EOS", "PAD", "UNK", "Tokenizer"]

FORMAT = "tfmr tokenizer 1"
_BYTES = sorted(pre_tokenizers.ByteLevel.alphabet())
_SPECIAL_IDS = range(len(SPECIAL))


class Tokenizer:
    """A vocabulary and the rule that splits a text into its tokens.

    Made by :meth:`train_bpe` or :meth:`words`, or read by :meth:`load`. Ids 0 to 3 are PAD, BOS,
    EOS and UNK. :meth:`encode` never returns the first three, which are added by batching and
    decoding; their spellings in a text are encoded like any other text.

    The ``form`` of the corpus is part of the tokenizer, so that a text is encoded in the same way
    wherever it comes from: "The bear sings." and "the bear sings ." have the same ids in the form
    ``"pocket"``. See :mod:`tfmr.data.text`.
    """

    def __init__(
        self,
        kind: Literal["bpe", "words"],
        vocabulary: Sequence[str],
        merges: Sequence[tuple[str, str]] = (),
        form: Form = "plain",
    ) -> None:
        """Make a tokenizer with the tokens ``vocabulary``, whose ids are 4, 5, 6 and so on."""
        self.kind = kind
        self.vocabulary = list(vocabulary)
        self.merges = [(left, right) for left, right in merges]
        self.form: Form = form
        ids = {entry: id for id, entry in enumerate(self.vocabulary, start=len(SPECIAL))}
        self._library = _bpe(ids, self.merges) if kind == "bpe" else _whole_words(ids)

    @classmethod
    def train_bpe(cls, texts: Iterable[str], vocab_size: int, form: Form = "plain") -> "Tokenizer":
        """Learn a byte-pair encoding with at most ``vocab_size`` ids from ``texts``.

        Deterministic: the same texts give the same merges, and older symbols win ties. The
        vocabulary is smaller than ``vocab_size`` if no pairs are left to merge. ``texts`` may be a
        stream of any length: only the counts of its words are held in memory.

        Raises :class:`TfmrError` if ``vocab_size`` is too small for the four special tokens and
        the 256 bytes.
        """
        least = len(SPECIAL) + len(_BYTES)
        require(
            vocab_size >= least,
            f"expected a vocab_size of at least {least} ({len(SPECIAL)} special tokens, "
            f"{len(_BYTES)} bytes), got {vocab_size}; 5000 suits a small corpus",
        )
        library = _bpe({}, [])
        trainer = trainers.BpeTrainer(
            vocab_size=vocab_size - len(SPECIAL), initial_alphabet=_BYTES, show_progress=False
        )
        library.train_from_iterator((to_form(text, form) for text in texts), trainer)
        trained = json.loads(library.to_str())["model"]
        vocabulary = sorted(trained["vocab"], key=trained["vocab"].__getitem__)
        return cls("bpe", vocabulary, [tuple(pair) for pair in trained["merges"]], form)

    @classmethod
    def words(cls, texts: Iterable[str], form: Form = "plain") -> "Tokenizer":
        """Make a vocabulary of all white-space separated words of ``texts``, in sorted order."""
        found = {word for text in texts for word in to_form(text, form).split()}
        return cls("words", sorted(found - {SPECIAL[UNK]}), form=form)

    @property
    def vocab_size(self) -> int:
        """The number of ids including the special tokens: the ``vocab`` axis of a model."""
        return len(SPECIAL) + len(self.vocabulary)

    @property
    def fingerprint(self) -> str:
        """The first twelve digits of the SHA-256 of the vocabulary, which defines each id.

        The form does not change the ids, so the hash is that of :meth:`to_json` without the form.
        """
        return hashlib.sha256(_compact(self._content()).encode()).hexdigest()[:12]

    def encode(self, text: str) -> list[int]:
        """Encode ``text`` as ids without BOS and EOS; UNK for words outside the vocabulary.

        Raises :class:`TfmrError` as :func:`tfmr.data.text.canonical` does.
        """
        ids: list[int] = self._library.encode(to_form(text, self.form)).ids
        return ids

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Encode each of ``texts`` as :meth:`encode` does, on all cores."""
        encodings = self._library.encode_batch([to_form(text, self.form) for text in texts])
        return [encoding.ids for encoding in encodings]

    def decode(self, ids: Iterable[int]) -> str:
        """Decode ``ids`` to text in the form of the corpus; PAD, BOS and EOS are skipped.

        For a byte-pair encoding, ``decode(encode(text))`` is exactly ``text`` in this form and its
        canonical spelling (:func:`tfmr.data.text.canonical`). For a word vocabulary, unknown words
        are "<unk>". :meth:`detokenise` converts the result to ordinary spelling. The texts of
        single ids do not join to the text of all ids; to decode ids one by one, use
        :class:`tfmr.decode.streaming.StreamDecoder`.

        Raises :class:`TfmrError` for an id outside the vocabulary.
        """
        entries = [self._entry(id) for id in ids if id not in (PAD, BOS, EOS)]
        if self.kind == "words":
            return " ".join(entries)
        return decoders.ByteLevel().decode(entries).removeprefix(" ")

    def detokenise(self, text: str) -> str:
        """Convert decoded ``text`` from the form of the corpus to ordinary spelling."""
        return from_form(text, self.form)

    def tokens(self, ids: Iterable[int]) -> list[str]:
        """A readable string for each id, for figures and tables.

        The space before a word is shown as "▁"; an incomplete character is shown as its bytes in
        hexadecimal, such as "<ed95>".
        """
        readable = _readable if self.kind == "bpe" else str
        return [self._entry(id) if id in _SPECIAL_IDS else readable(self._entry(id)) for id in ids]

    def learned_characters(self) -> set[str]:
        """The characters that occur in a token of more than one byte, or in a word.

        A character that is frequent in the training set is in such a token. All others are encoded
        byte by byte.
        """
        if self.kind == "words":
            return set().union(*self.vocabulary)
        learned = (entry for entry in self.vocabulary if len(entry) > 1)
        return {
            character
            for entry in learned
            for character in b"".join(_RAW[c] for c in entry).decode("utf-8", "ignore")
        }

    def to_json(self) -> str:
        """The tokenizer as one line of canonical JSON, for a file or a checkpoint.

        The form is left out if it is ``"plain"``.
        """
        form = {} if self.form == "plain" else {"form": self.form}
        return _compact(self._content() | form)

    @classmethod
    def from_json(cls, text: str, where: str = "the text") -> "Tokenizer":
        """The inverse of :meth:`to_json`; ``where`` is the origin of ``text`` in error messages.

        Raises :class:`TfmrError` if ``text`` does not describe a tokenizer.
        """
        try:
            content: Any = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise TfmrError(f"expected {where} to be a tokenizer in JSON: {error}") from None
        found = content.get("format") if isinstance(content, dict) else type(content).__name__
        require(
            found == FORMAT,
            f"expected {where} to have the format {FORMAT!r}, got {found!r}; "
            "write a tokenizer with Tokenizer.save",
        )
        try:
            _check(content)
            merges = [(left, right) for left, right in content["merges"]]
            form = content.get("form", "plain")
            return cls(content["kind"], content["vocabulary"], merges, form)
        except Exception as error:  # the library raises nothing more specific
            reason = " ".join(str(error).split())
            raise TfmrError(
                f"expected a valid tokenizer in {where}, got a damaged one ({reason}); "
                "save it again"
            ) from None

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the tokenizer to ``path``."""
        Path(path).write_text(self.to_json() + "\n", encoding="utf-8")

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Tokenizer":
        """Read a tokenizer that :meth:`save` wrote to ``path``.

        Raises :class:`TfmrError` if the file is missing, unreadable or not a tokenizer.
        """
        try:
            text = Path(path).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise TfmrError(
                f"expected a tokenizer in {path}, but cannot read it: {error}"
            ) from None
        return cls.from_json(text, where=str(path))

    def _content(self) -> dict[str, Any]:
        """The vocabulary as JSON values."""
        return {
            "format": FORMAT,
            "kind": self.kind,
            "merges": self.merges,
            "vocabulary": self.vocabulary,
        }

    def _entry(self, id: int) -> str:
        """The token with the id ``id``."""
        if not 0 <= id < self.vocab_size:
            raise TfmrError(
                f"expected ids from 0 to {self.vocab_size - 1}, got {id}; "
                "was the model trained with another vocabulary?"
            )
        return SPECIAL[id] if id < len(SPECIAL) else self.vocabulary[id - len(SPECIAL)]


def _bpe(ids: dict[str, int], merges: list[tuple[str, str]]) -> tokenizers.Tokenizer:
    """The library's byte-pair encoder, with a space prepended so that all words have one."""
    library = tokenizers.Tokenizer(models.BPE(vocab=ids, merges=merges))
    library.normalizer = normalizers.Prepend(" ")
    library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    return library


def _whole_words(ids: dict[str, int]) -> tokenizers.Tokenizer:
    """The library's word lookup. UNK is the only special token that a text can be encoded to."""
    library = tokenizers.Tokenizer(models.WordLevel(ids | {SPECIAL[UNK]: UNK}, SPECIAL[UNK]))
    library.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return library


def _compact(content: dict[str, Any]) -> str:
    """JSON that depends on nothing but its content."""
    return json.dumps(content, ensure_ascii=False, sort_keys=True, separators=(",", ":"))


def _readable(entry: str) -> str:
    """The text of ``entry``, which is spelled in the library's byte alphabet."""
    text = decoders.ByteLevel().decode([entry])
    if "\N{REPLACEMENT CHARACTER}" in text:
        return f"<{b''.join(_RAW[symbol] for symbol in entry).hex()}>"
    return text.replace(" ", "▁")


def _raw_bytes() -> dict[str, bytes]:
    """Map each of the 256 symbols of the library's alphabet to its byte.

    A printable Latin-1 character represents its own byte; the remaining bytes are represented, in
    order, by the characters from U+0100 on.
    """
    printable = [byte for byte in range(256) if chr(byte) in _BYTES]
    others = [byte for byte in range(256) if chr(byte) not in _BYTES]
    table = {chr(byte): bytes([byte]) for byte in printable}
    return table | {chr(256 + rank): bytes([byte]) for rank, byte in enumerate(others)}


def _check(content: dict[str, Any]) -> None:
    """Raise :class:`TfmrError` if the JSON ``content`` does not describe a tokenizer."""
    kind, vocabulary = content.get("kind"), content.get("vocabulary", [])
    require(kind in ("bpe", "words"), f"expected kind 'bpe' or 'words', got {kind!r}")
    form = content.get("form", "plain")
    require(form in get_args(Form), f"expected form {' or '.join(get_args(Form))}, got {form!r}")
    require(
        isinstance(vocabulary, list) and all(isinstance(entry, str) for entry in vocabulary),
        "expected 'vocabulary' to be a list of strings",
    )
    repeated = len(vocabulary) - len(set(vocabulary))
    require(repeated == 0, f"expected different vocabulary entries, got {repeated} duplicates")


_RAW = _raw_bytes()
