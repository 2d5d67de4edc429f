"""Read the scalars of TensorBoard's event files, without TensorBoard.

A file is a sequence of records: the length in 8 bytes, a checksum of the length in 4, the data, and
a checksum of the data in 4. The data is an ``Event`` in the wire format of Protocol Buffers. This
module uses its step (field 2), its version (3) and its summary (5), whose values (1) have a tag (1)
and a number (2), and ignores the rest and the checksums.
"""

import struct
from collections.abc import Iterator
from pathlib import Path

from tfmr.errors import TfmrError, require

Scalars = dict[str, dict[int, float]]  # for every tag the values by step
Field = int | bytes
MARK = "tfevents"
"""The names of event files contain this word."""


def read_events(path: Path) -> Scalars:
    """The scalars of an event file, or of all event files of a folder, in the order of their names.

    A record that is not complete, because the file is still being written, ends the file. The last
    value of a step is kept.

    Raises:
        TfmrError: if there is no event file, or one cannot be read.
    """
    files = sorted(path.glob(f"*{MARK}*")) if path.is_dir() else [path]
    require(
        bool(files),
        f"expected event files of TensorBoard in {path}, found none: give the folder that has them",
    )
    scalars: Scalars = {}
    for file in files:
        try:
            records = list(_records(file.read_bytes()))
            version = _bytes(dict(_fields(records[0])).get(3)) if records else b""
            found = [each for record in records for each in _scalars(record)]
        except (OSError, ValueError, IndexError, struct.error) as error:
            raise TfmrError(f"cannot read the event file {file}: {error}") from error
        require(
            version.startswith(b"brain.Event:"),
            f"expected an event file of TensorBoard, but {file} does not begin like one",
        )
        for tag, step, value in found:
            scalars.setdefault(tag, {})[step] = value
    return scalars


def _scalars(record: bytes) -> Iterator[tuple[str, int, float]]:
    """The tag, step and number of each scalar of an event."""
    event = dict(_fields(record))
    step = event.get(2, 0)
    if not isinstance(step, int):
        raise ValueError("expected a number as the step")
    for number, value in _fields(_bytes(event.get(5))):
        scalar = dict(_fields(_bytes(value))) if number == 1 else {}
        if 1 in scalar and 2 in scalar:
            (result,) = struct.unpack("<f", _bytes(scalar[2]))
            yield _bytes(scalar[1]).decode(), step, result


def _records(data: bytes) -> Iterator[bytes]:
    """The data of each complete record."""
    start = 0
    while start + 12 <= len(data):
        (length,) = struct.unpack_from("<Q", data, start)
        start += 12 + length + 4
        if start <= len(data):
            yield data[start - 4 - length : start - 4]


def _fields(message: bytes) -> Iterator[tuple[int, Field]]:
    """The numbers and contents of the fields of a message.

    The lowest three bits of a field's key are its type: 0 is an integer, 1 and 5 have a fixed size,
    and 2 starts with its size.
    """
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        kind = key & 7
        if kind == 0:
            value, at = _varint(message, at)
            yield key >> 3, value
            continue
        if kind == 2:
            size, at = _varint(message, at)
        elif kind in (1, 5):
            size = 8 if kind == 1 else 4
        else:
            raise ValueError(f"unknown type of field: {kind}")
        if at + size > len(message):
            raise ValueError("a field is longer than its message")
        yield key >> 3, message[at : at + size]
        at += size


def _varint(message: bytes, at: int) -> tuple[int, int]:
    """An integer of seven bits per byte, the lowest first, and the position after it."""
    value = shift = 0
    while True:
        byte = message[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at


def _bytes(field: Field | None) -> bytes:
    if isinstance(field, int):
        raise ValueError("expected bytes, found an integer")
    return field or b""
