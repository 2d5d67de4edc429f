"""Files that are whole or not there, whatever happens while they are written."""

import os
from collections.abc import Callable
from pathlib import Path


def write_whole(path: Path, write: Callable[[Path], object]) -> None:
    """Let ``write`` make a file beside ``path``, and move it there when it is on the disk.

    Whoever opens ``path`` finds what was there before or all that is there now. That holds when
    the process is killed (the move is one act of the file system) and when the power fails (the
    content is on the disk before its name is).

    Raises:
        OSError: if the folder cannot be written to; what was there before stays.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        write(beside)
        beside.chmod(0o644)  # safetensors makes it readable by its owner alone
        _to_disk(beside)
        os.replace(beside, path)
        _to_disk(path.parent)
    finally:
        beside.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write ``text`` whole or not at all, as :func:`write_whole`."""
    write_whole(path, lambda beside: beside.write_text(text, encoding="utf-8"))


def _to_disk(path: Path) -> None:
    """Wait until the file, or the folder's list of names, is on the disk."""
    if path.is_dir() and os.name != "posix":
        return  # elsewhere a folder cannot be opened, and needs not be
    descriptor = os.open(path, os.O_RDONLY if os.name == "posix" else os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
