"""Corpora of the reader's own that may be larger than memory."""

import os
from collections.abc import Iterator
from functools import partial

from tfmr.data.corpora import LICENCES, load_files, stream_files
from tfmr.data.corpus import Corpus, Pair, Streamed, part_of
from tfmr.errors import require

LARGE = 200_000
"""From so many pairs on, a corpus is streamed."""
JUDGED = 2000
"""Pairs, about, of a large corpus that go to the validation part, and as many to the test part."""


def load_any(
    source_path: str | os.PathLike[str],
    target_path: str | os.PathLike[str],
    source: str = "source",
    target: str = "target",
) -> Corpus:
    """Load two text files as :func:`tfmr.data.corpora.load_files` does, large ones as a stream.

    Of :data:`LARGE` pairs and more only those to be judged by are held, :data:`JUDGED` for each
    part instead of a twentieth of all. The training part is read from the files again whenever it
    is gone through: to learn a vocabulary, to write a token file, and to know it again by its
    fingerprint.

    Raises :class:`TfmrError` as :func:`~tfmr.data.corpora.load_files` does.
    """
    stream = partial(stream_files, source_path, target_path)
    total = sum(1 for _ in stream())
    if total < LARGE:
        return load_files(source_path, target_path, source, target)
    share = JUDGED / total
    parts: dict[str, list[Pair]] = {"valid": [], "test": []}
    count = 0
    for pair in stream():
        part = part_of(pair[0], share, share)
        if part == "train":
            count += 1
        else:
            parts[part].append(pair)

    def train() -> Iterator[Pair]:
        return (pair for pair in stream() if part_of(pair[0], share, share) == "train")

    require(
        bool(parts["valid"] and parts["test"] and count),
        f"{source_path} has too few different sentences to learn from, to validate and to test: "
        f"its {total} pairs fell into parts of {count}, {len(parts['valid'])} and "
        f"{len(parts['test'])}",
    )
    licence = LICENCES["your files"]
    return Corpus(
        "your files", source, target, Streamed(train, count), parts["valid"], parts["test"], licence
    )
