"""Token files: a corpus turned into ids once, kept on disk, and read from there without loading it.

A list of ids costs Python some 36 bytes a token, so the 4.5 million sentence pairs on which
Vaswani et al. (2017, section 5.1) trained would fill the memory of most machines. In a token file
a token takes two bytes; the operating system fetches the pages that are read, and drops them again
when memory is short.

The file is a safetensors file, which other programs know and which runs no code when it is read.
``ids`` holds all sentences one after another, source and target by turns; ``offsets`` says where
each of them begins, and where the last one ends. So the source of pair i is
``ids[offsets[2 * i] : offsets[2 * i + 1]]``, and its target is what follows up to
``offsets[2 * i + 2]``.
"""

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from itertools import chain, islice
from pathlib import Path
from types import TracebackType
from typing import Any, overload

import numpy as np
from jaxtyping import Integer
from safetensors import SafetensorError, safe_open

from tfmr.data.corpus import Pair
from tfmr.data.tokenizer import Tokenizer
from tfmr.errors import TfmrError, require

Ids = Sequence[int] | Integer[np.ndarray, " _"]
"""A sentence: a list of ids, or a piece of a token file."""
IdPair = tuple[Ids, Ids]

FORMAT = "tfmr tokens 1"
HEADER = 1024
"""Bytes kept free in front for the header, whose numbers are known only when all is written."""
CHUNK = 2048
"""Sentence pairs that are encoded together."""
NUMBERS: dict[str, np.dtype[Any]] = {
    "U16": np.dtype("<u2"),
    "U32": np.dtype("<u4"),
    "I64": np.dtype("<i8"),
}
"""The kinds of numbers in the file, by the names that safetensors gives them."""


class TokenFile(Sequence[IdPair]):
    """The sentence pairs of a token file, by their number, as (source ids, target ids).

    Opening one reads the header alone, however large the file is. The ids are views of the file:
    unsigned, and read-only.

    Args:
        path: what :func:`write_token_file` or a :class:`TokenWriter` wrote.
        vocabulary: the fingerprint of the tokenizer that the ids must come from; ``None`` if any
            will do.

    Raises:
        TfmrError: if there is no such file, it is not whole, it is something else, or its ids
            belong to another vocabulary.
    """

    def __init__(self, path: str | os.PathLike[str], vocabulary: str | None = None) -> None:
        self.path = Path(path)
        require(
            self.path.is_file(),
            f"no token file at {path}: write one with tfmr.data.tokenfile.write_token_file, "
            "or name another",
        )
        try:
            with safe_open(self.path, framework="np") as file:
                facts = file.metadata() or {}
        except (SafetensorError, OSError) as error:
            raise TfmrError(
                f"{path} is not a whole safetensors file ({error}), as a token file is: it was cut "
                "off or changed after it was written; write it anew"
            ) from error
        require(
            facts.get("format") == FORMAT,
            f"expected {path} to have the format {FORMAT!r}, it has {facts.get('format')!r}; "
            "a token file is written by tfmr.data.tokenfile.write_token_file",
        )
        require(
            vocabulary in (None, facts["vocabulary"]),
            f"the ids of {path} are those of the vocabulary {facts['vocabulary']}, expected "
            f"{vocabulary}; encode the corpus anew with this vocabulary",
        )
        self.vocabulary = facts["vocabulary"]
        """The fingerprint of the tokenizer."""
        self.fingerprint = facts["fingerprint"]
        """Twelve digits of the SHA-256 of all ids and lengths, to tell two corpora apart."""
        self.tokens = int(facts["source_tokens"]), int(facts["target_tokens"])
        """How many ids all sources have, and how many all targets."""
        self._ids, self._offsets = _map(self.path)

    def __len__(self) -> int:
        return len(self._offsets) // 2

    @overload
    def __getitem__(self, index: int) -> IdPair: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[IdPair]: ...
    def __getitem__(self, index: int | slice) -> IdPair | Sequence[IdPair]:
        if isinstance(index, slice):
            return [self[row] for row in range(*index.indices(len(self)))]
        if not -len(self) <= index < len(self):
            raise IndexError(f"{self.path} holds {len(self)} pairs, asked for number {index}")
        first = 2 * (index % len(self))
        begin, middle, end = self._offsets[first : first + 3].tolist()
        return self._ids[begin:middle], self._ids[middle:end]

    def lengths(self) -> Integer[np.ndarray, "pairs 2"]:
        """How many ids the source and the target of every pair have, from the offsets alone."""
        lengths = np.empty(2 * len(self), np.int32)
        np.subtract(self._offsets[1:], self._offsets[:-1], out=lengths, casting="unsafe")
        return lengths.reshape(-1, 2)


class TokenWriter:
    """Writes a token file piece by piece, in a ``with`` block: memory holds one piece at a time.

    The pieces go into a folder beside ``path``. At the end of the block they become one file, which
    is flushed to the disk and only then moved to ``path``; so what stands there is whole. If the
    block fails, nothing is left of them, and what a killed process left, the next writer removes.

    Args:
        path: where the file goes; its folder is made if needed.
        vocabulary: the fingerprint of the tokenizer that the ids come from.
        vocab_size: the number of its ids. Up to 65 536 of them take two bytes each, more take four.

    Raises:
        TfmrError: if the file cannot be written, or nothing was added to it.
    """

    def __init__(self, path: str | os.PathLike[str], vocabulary: str, vocab_size: int) -> None:
        self.path = Path(path)
        self.vocabulary = vocabulary
        self.vocab_size = vocab_size
        self.pairs = 0
        self.tokens = np.zeros(2, np.int64)
        self._kind = "U16" if vocab_size <= 2**16 else "U32"
        self._hashes = hashlib.sha256(), hashlib.sha256()

    def __enter__(self) -> "TokenWriter":
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            for left in self.path.parent.iterdir():
                if left.name.startswith(f".{self.path.name}.") and left.suffix == ".writing":
                    shutil.rmtree(left)
            beside = tempfile.mkdtemp(".writing", f".{self.path.name}.", self.path.parent)
            self._folder = Path(beside)
            self._ids = (self._folder / "ids").open("wb")
            self._offsets = (self._folder / "offsets").open("w+b")
            self._ids.write(bytes(HEADER))
            self._offsets.write(bytes(8))
        except OSError as error:
            raise self._failed(error) from error
        return self

    def add(
        self, ids: Integer[np.ndarray, " tokens"], lengths: Integer[np.ndarray, "pairs 2"]
    ) -> None:
        """Append pairs: the ids of all their sentences in a row, and the lengths of the sentences.

        Raises:
            TfmrError: if a sentence is empty, the lengths are not those of ``ids``, an id is
                outside the vocabulary, or the disk is full.
        """
        refuse_empty(lengths, before=self.pairs)
        total = int(lengths.sum())
        require(
            total == len(ids),
            f"the lengths of the sentences add up to {total}, but {len(ids)} ids came",
        )
        foreign = ids[(ids < 0) | (ids >= self.vocab_size)].tolist()
        require(
            not foreign,
            f"expected ids from 0 to {self.vocab_size - 1}, got {foreign[:1]}; "
            "were they made with another vocabulary?",
        )
        ends = self.tokens.sum() + np.cumsum(lengths, dtype=NUMBERS["I64"])
        for number, (file, piece) in enumerate(
            [(self._ids, ids.astype(NUMBERS[self._kind])), (self._offsets, ends)]
        ):
            self._hashes[number].update(piece.tobytes())
            try:
                file.write(piece.tobytes())
            except OSError as error:
                raise self._failed(error) from error
        self.pairs += len(lengths)
        self.tokens += lengths.sum(axis=0)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if error is None:
                self._finish()
        except OSError as problem:
            raise self._failed(problem) from problem
        finally:
            for file in (self._ids, self._offsets):
                with suppress(OSError):  # what it could not write has been reported
                    file.close()
            shutil.rmtree(self._folder, ignore_errors=True)

    def _finish(self) -> None:
        """Put the offsets behind the ids and the header before them, and the file in its place."""
        require(
            self.pairs > 0,
            f"expected sentence pairs for {self.path}, got none; is the corpus empty?",
        )
        self._ids.write(bytes(-self._ids.tell() % 8))  # so that the offsets are aligned
        between = self._ids.tell() - HEADER
        self._offsets.seek(0)
        shutil.copyfileobj(self._offsets, self._ids, 2**20)
        end = self._ids.tell() - HEADER
        parts = (("ids", self._kind, 0, between), ("offsets", "I64", between, end))
        digests = b"".join(each.digest() for each in self._hashes)
        source_tokens, target_tokens = self.tokens.tolist()
        header = {
            "__metadata__": {
                "format": FORMAT,
                "vocabulary": self.vocabulary,
                "vocab_size": str(self.vocab_size),
                "pairs": str(self.pairs),
                "source_tokens": str(source_tokens),
                "target_tokens": str(target_tokens),
                "fingerprint": hashlib.sha256(digests).hexdigest()[:12],
            },
        } | {
            name: {
                "dtype": kind,
                "shape": [(after - before) // NUMBERS[kind].itemsize],
                "data_offsets": [before, after],
            }
            for name, kind, before, after in parts
        }
        text = json.dumps(header).encode().ljust(HEADER - 8)
        self._ids.seek(0)
        self._ids.write(len(text).to_bytes(8, "little") + text)
        self._ids.flush()
        os.fsync(self._ids.fileno())
        os.replace(self._ids.name, self.path)

    def _failed(self, error: OSError) -> TfmrError:
        return TfmrError(
            f"cannot write the token file {self.path}: {error}; free the space, or name another "
            "place, to which no other process is writing"
        )


def write_token_file(
    path: str | os.PathLike[str],
    pairs: Iterable[Pair],
    tokenizer: Tokenizer,
    on_written: Callable[[int], object] | None = None,
) -> TokenFile:
    """Encode ``pairs`` of texts into a token file at ``path``, and open it.

    ``pairs`` may be a stream, from :func:`tfmr.data.corpora.stream_files` for example: only
    :data:`CHUNK` of them are held at a time. ``on_written`` is called after every chunk with the
    number of its pairs, for a progress bar.

    Raises:
        TfmrError: if a text has no tokens, there is no pair, or the file cannot be written.
    """
    stream = iter(pairs)
    with TokenWriter(path, tokenizer.fingerprint, tokenizer.vocab_size) as writer:
        while chunk := list(islice(stream, CHUNK)):
            sentences = tokenizer.encode_batch([text for pair in chunk for text in pair])
            lengths = np.array([len(ids) for ids in sentences]).reshape(-1, 2)
            writer.add(np.fromiter(chain.from_iterable(sentences), np.int64), lengths)
            if on_written is not None:
                on_written(len(chunk))
    return TokenFile(path, tokenizer.fingerprint)


def refuse_empty(lengths: Integer[np.ndarray, "pairs 2"], before: int = 0) -> None:
    """Raise :class:`TfmrError` if a sentence is empty, counting pairs on from those ``before``."""
    empty = np.argwhere(lengths == 0)
    if len(empty) > 0:
        pair, side = empty[0].tolist()
        raise TfmrError(
            f"the {('source', 'target')[side]} of pair {before + pair + 1} has no tokens; "
            "leave empty lines out of the corpus"
        )


def _map(
    path: Path,
) -> tuple[Integer[np.ndarray, " tokens"], Integer[np.ndarray, " cuts"]]:
    """The ids and the offsets of a whole token file, mapped and not read."""
    with path.open("rb") as file:
        size = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(size))
    ids, offsets = (
        np.memmap(
            path,
            NUMBERS[header[name]["dtype"]],
            mode="r",
            offset=8 + size + header[name]["data_offsets"][0],
            shape=tuple(header[name]["shape"]),
        ).view(np.ndarray)  # which is cut ten times as fast as a memmap
        for name in ("ids", "offsets")
    )
    return ids, offsets
