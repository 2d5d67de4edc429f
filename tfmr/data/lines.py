"""Lines of text files: plain or gzipped, in UTF-8, in their canonical spelling."""

import gzip
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from tfmr.data.text import canonical
from tfmr.errors import TfmrError

GZIP = b"\x1f\x8b"
"""The first two bytes of a gzipped file."""


def read_lines(path: Path) -> Iterator[bytes]:
    """The lines of a file as bytes with their line feeds, unpacked if it is gzipped.

    Raises :class:`TfmrError` if the file cannot be read.
    """
    try:
        with path.open("rb") as file:
            if file.peek(2).startswith(GZIP):
                with gzip.open(file) as unpacked:
                    yield from unpacked
            else:
                yield from file
    except (OSError, EOFError, zlib.error) as error:
        raise TfmrError(
            f"expected a text file, plain or gzipped, but cannot read {path}: {error}"
        ) from None


def text_lines(
    content: Iterable[bytes], name: str, convert: Callable[[str], str] = canonical
) -> Iterator[str]:
    """The lines of a UTF-8 text, each converted by ``convert``.

    Only a line feed ends a line. :meth:`str.splitlines` also splits at rarer Unicode separators,
    which would break the alignment of source and target. White space after the last line feed is
    not a line.

    Raises :class:`TfmrError` with the number of the first line that is not UTF-8.
    """
    for number, line in enumerate(content, start=1):
        try:
            text = line.decode("utf-8")
        except UnicodeDecodeError as error:
            raise TfmrError(
                f"line {number} of {name} is not UTF-8 ({error.reason}); convert the file to UTF-8"
            ) from None
        if line.endswith(b"\n") or not text.isspace():
            yield convert(text)
