"""Token files: the token ids of a corpus on disk, read through memory maps.

A list of ids costs Python about 36 bytes per token, so the 4.5 million sentence pairs on which
Vaswani et al. (2017, section 5.1) trained would fill the RAM of most machines. In a token file a
token takes two bytes; the operating system reads the pages that are accessed, and evicts them when
RAM is short.

A token file is a folder with three files in standard formats. ``ids.npy`` holds all sentences one
after another, source and target alternating. ``offsets.npy`` holds the start of each sentence and
the end of the last one: the source of pair i is ``ids[offsets[2 * i] : offsets[2 * i + 1]]``, and
its target continues up to ``offsets[2 * i + 2]``. ``tokens.json`` holds the fingerprint of the
vocabulary and the counts.
"""

import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any, BinaryIO, overload

import numpy as np
from jaxtyping import Integer

from tfmr.data.corpus import SentencePair
from tfmr.data.files import explain_os_error, temporary_folder
from tfmr.data.tokenizer import Tokenizer
from tfmr.errors import TfmrError, require

Ids = Sequence[int] | Integer[np.ndarray, " _"]
"""A sentence: a list of ids, or a view of a token file."""
# Source ids and target ids.
IdPair = tuple[Ids, Ids]
# Some pairs: the ids of all their sentences in one array, and the lengths of the sentences.
Chunk = tuple[Integer[np.ndarray, " tokens"], Integer[np.ndarray, "pairs 2"]]

FORMAT = "tfmr-tokens-2"
CHUNK = 2048
"""Sentence pairs that are encoded together."""


class TokenFile(Sequence[IdPair]):
    """The sentence pairs of a token file, by index, as (source ids, target ids).

    Opening one maps the files without reading them. The ids are read-only views of the map.

    Args:
        path: a folder that :func:`write_token_file` or :func:`write_ids` wrote.
        vocabulary: the fingerprint of the tokenizer that the ids must come from; ``None`` accepts
            any.

    Raises:
        TfmrError: if there is no such folder, it is damaged, it has another format, or its ids
            belong to another vocabulary.
    """

    def __init__(self, path: str | os.PathLike[str], vocabulary: str | None = None) -> None:
        self.path = Path(path)
        require(
            (self.path / "tokens.json").is_file(),
            f"expected a token file at {path}, found none; write one with "
            "tfmr.data.tokenfile.write_token_file, or give another path",
        )
        try:
            header = json.loads((self.path / "tokens.json").read_text("utf-8"))
            found = header.get("format") if isinstance(header, dict) else header
            require(
                found == FORMAT,
                f"expected {path} to have the format {FORMAT!r}, got {found!r}; write it again "
                "with tfmr.data.tokenfile.write_token_file",
            )
            self._ids, self._offsets = (_map(self.path / f"{n}.npy") for n in ("ids", "offsets"))
            self.vocabulary: str = header["vocabulary"]
            """The fingerprint of the tokenizer."""
            self.tokens: tuple[int, int] = header["source_tokens"], header["target_tokens"]
            """The number of source tokens and of target tokens."""
            if (len(self._ids), len(self._offsets)) != (sum(self.tokens), 2 * header["pairs"] + 1):
                raise ValueError("its arrays do not have the lengths in tokens.json")
        except TfmrError:
            raise
        except (OSError, ValueError, LookupError, TypeError) as error:
            raise TfmrError(
                f"expected {path} to be a complete token file, got a damaged one ({error}); write "
                "it again"
            ) from error
        require(
            vocabulary in (None, self.vocabulary),
            f"expected {path} to have ids of the vocabulary {vocabulary}, got ids of "
            f"{self.vocabulary}; encode the corpus again with this vocabulary",
        )

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
            raise IndexError(f"{self.path} has {len(self)} pairs, got index {index}")
        first = 2 * (index % len(self))
        begin, middle, end = self._offsets[first : first + 3].tolist()
        return self._ids[begin:middle], self._ids[middle:end]

    def lengths(self) -> Integer[np.ndarray, "pairs 2"]:
        """The number of source ids and target ids of every pair, computed from the offsets."""
        lengths = np.empty(2 * len(self), np.int32)
        np.subtract(self._offsets[1:], self._offsets[:-1], out=lengths, casting="unsafe")
        return lengths.reshape(-1, 2)


def write_token_file(
    path: str | os.PathLike[str],
    pairs: Iterable[SentencePair],
    tokenizer: Tokenizer,
    on_written: Callable[[int], object] | None = None,
) -> TokenFile:
    """Encode sentence pairs, write a token file to ``path`` as :func:`write_ids` does, and open it.

    ``pairs`` may be a stream: only :data:`CHUNK` pairs are held in memory at a time.
    ``on_written`` is called with the number of pairs after every chunk, for a progress bar.

    Raises:
        TfmrError: if a text has no tokens, there are no pairs, or the file cannot be written.
    """

    def chunks() -> Iterator[Chunk]:
        stream = iter(pairs)
        while chunk := list(islice(stream, CHUNK)):
            sentences = tokenizer.encode_batch([text for pair in chunk for text in pair])
            lengths = np.array([len(ids) for ids in sentences]).reshape(-1, 2)
            yield np.fromiter(chain.from_iterable(sentences), np.int64), lengths
            if on_written is not None:
                on_written(len(chunk))

    return write_ids(path, chunks(), tokenizer.fingerprint, tokenizer.vocab_size)


def write_ids(
    path: str | os.PathLike[str], chunks: Iterable[Chunk], vocabulary: str, vocab_size: int
) -> TokenFile:
    """Write a token file to ``path``, one chunk at a time, and open it.

    The files are written to a temporary folder beside ``path``, flushed to disk, and then renamed,
    so ``path`` is always absent or complete; see :func:`tfmr.data.files.temporary_folder`.

    Args:
        path: the folder to write, which replaces an existing one; parent folders are created.
        chunks: token ids and sentence lengths.
        vocabulary: the fingerprint of the tokenizer that the ids come from.
        vocab_size: number of ids of the tokenizer. Ids take two bytes up to 65 536, else four.

    Raises:
        TfmrError: if a sentence is empty, an id is outside the vocabulary, the lengths of a chunk
            do not match its ids, there are no pairs, or the files cannot be written.
    """
    path = Path(path)
    try:
        with temporary_folder(path) as temporary:
            (temporary / "new").mkdir()
            _write(temporary / "new", path, chunks, vocabulary, vocab_size)
            if path.exists():
                path.rename(temporary / "old")
            (temporary / "new").rename(path)
    except OSError as error:
        raise TfmrError(
            f"cannot write the token file {path}: {explain_os_error(error)}, or give another path"
        ) from error
    return TokenFile(path)


def check_not_empty(lengths: Integer[np.ndarray, "pairs 2"], before: int = 0) -> None:
    """Raise :class:`TfmrError` if a sentence is empty; ``before`` counts the earlier pairs."""
    empty = np.argwhere(lengths == 0)
    if len(empty) > 0:
        pair, side = empty[0].tolist()
        raise TfmrError(
            f"expected sentences with at least one token, but the {('source', 'target')[side]} of "
            f"pair {before + pair + 1} has none; leave empty lines out of the corpus"
        )


def _write(
    folder: Path, path: Path, chunks: Iterable[Chunk], vocabulary: str, vocab_size: int
) -> None:
    """Write the three files of the token file ``path`` to ``folder``."""
    dtype = np.dtype("<u2" if vocab_size <= 2**16 else "<u4")
    pairs, tokens = 0, np.zeros(2, np.int64)
    with (
        (folder / "ids.npy").open("wb") as ids_file,
        (folder / "offsets.npy").open("wb") as offsets,
    ):
        _write_header(ids_file, dtype, 0)
        _write_header(offsets, np.dtype("<i8"), 0)
        offsets.write(bytes(8))
        for ids, lengths in chunks:
            check_not_empty(lengths, before=pairs)
            total = int(lengths.sum())
            if total != len(ids):
                raise TfmrError(
                    f"expected as many ids as the lengths of the sentences add up to, {total}, got "
                    f"{len(ids)}"
                )
            outside = ids[(ids < 0) | (ids >= vocab_size)].tolist()
            if outside:
                raise TfmrError(
                    f"expected ids from 0 to {vocab_size - 1}, got {outside[0]}; "
                    "were they made with another vocabulary?"
                )
            ids_file.write(ids.astype(dtype).tobytes())
            offsets.write((tokens.sum() + np.cumsum(lengths, dtype="<i8")).tobytes())
            pairs += len(lengths)
            tokens += lengths.sum(axis=0)
        require(
            pairs > 0,
            f"expected sentence pairs for {path}, got none; is the corpus empty?",
        )
        for file, kind, length in (
            (ids_file, dtype, int(tokens.sum())),
            (offsets, np.dtype("<i8"), 2 * pairs + 1),
        ):
            _write_header(file, kind, length)
            file.flush()
            os.fsync(file.fileno())
    header = {
        "format": FORMAT,
        "vocabulary": vocabulary,
        "pairs": pairs,
        "source_tokens": int(tokens[0]),
        "target_tokens": int(tokens[1]),
    }
    (folder / "tokens.json").write_text(json.dumps(header) + "\n", "utf-8")


def _write_header(file: BinaryIO, dtype: np.dtype[Any], length: int) -> None:
    """Write the header of a ``.npy`` file with one axis at the start of ``file``.

    NumPy pads headers, so the length of the first axis can be overwritten with a larger number.
    """
    file.seek(0)
    described = np.lib.format.dtype_to_descr(dtype)
    np.lib.format.write_array_header_1_0(
        file, {"descr": described, "fortran_order": False, "shape": (length,)}
    )


def _map(path: Path) -> Integer[np.ndarray, " _"]:
    """Map a ``.npy`` file, and check that its size matches its header."""
    mapped = np.lib.format.open_memmap(path, mode="r")
    if mapped.offset + mapped.nbytes != path.stat().st_size:
        raise ValueError(f"{path.name} does not have the size in its header")
    return mapped.view(np.ndarray)  # slicing it is ten times as fast as slicing a memmap
