"""Write files so that they are whole or absent, and explain the errors of file systems.

What is written goes to a temporary folder first, and is then renamed. The folder is locked, so that
a later process can tell whether its writer has been killed, and removes it then.
"""

import errno
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

SUFFIX = ".writing"
TEMPORARY = re.compile(rf"\..+\.[a-z0-9_]{{8}}{re.escape(SUFFIX)}")
"""The name of a temporary folder; :mod:`tempfile` draws the eight characters."""
REMEDIES = {
    errno.ENOSPC: "free disk space",
    errno.EDQUOT: "free disk space, or ask for a larger quota",
    errno.EACCES: "change its permissions",
    errno.EPERM: "change its permissions",
    errno.EROFS: "choose a folder on another file system, because this one is read-only",
    errno.ENOENT: "check the path",
    errno.ENOTDIR: "check the path, of which a part is a file",
    errno.EISDIR: "move the folder of this name away, or give a file",
    errno.ENAMETOOLONG: "choose a shorter name",
    errno.ELOOP: "remove the symbolic link that leads to itself",
    errno.EMFILE: "raise the limit on open files (ulimit -n)",
    errno.EIO: "check the disk",
}


def explain_os_error(error: OSError) -> str:
    """The reason and the remedy, without the names of the files, for the end of a message.

    >>> explain_os_error(OSError(errno.ENOSPC, "No space left on device", ".x.1", 0, "x"))
    'No space left on device; free disk space'
    """
    reason = error.strerror or str(error).partition("\n")[0] or type(error).__name__
    return f"{reason}; {REMEDIES.get(error.errno or 0, 'check the device and the file')}"


@contextmanager
def lock_folder(folder: str | os.PathLike[str]) -> Iterator[bool | None]:
    """Lock an existing folder against other processes that call this function.

    Yields ``True`` if the folder is locked, ``False`` if another process holds the lock, and
    ``None`` if the file system has no locks. The operating system releases a lock when its process
    ends, however that happens.
    """
    if os.name != "posix":
        yield None
        return
    import fcntl

    descriptor = os.open(folder, os.O_RDONLY)
    try:
        is_locked: bool | None = True
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            is_locked = False
        except OSError:
            is_locked = None
        yield is_locked
    finally:
        os.close(descriptor)


@contextmanager
def temporary_folder(path: str | os.PathLike[str]) -> Iterator[Path]:
    """An empty folder beside ``path``, in which to write what will be moved to ``path``.

    It is removed at the end. Those that killed processes have left beside ``path``, whatever they
    wrote, are removed first.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    for other in path.parent.glob(f".*{SUFFIX}"):
        if TEMPORARY.fullmatch(other.name):
            with suppress(OSError), lock_folder(other) as is_locked:
                if is_locked:
                    shutil.rmtree(other)
    with ExitStack() as stack:
        while True:
            folder = Path(tempfile.mkdtemp(SUFFIX, f".{path.name}.", path.parent))
            with suppress(FileNotFoundError):
                is_locked = stack.enter_context(lock_folder(folder))
                if is_locked is not False and folder.exists():
                    break
            # Another process has removed it before it was locked.
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def write_atomic(path: str | os.PathLike[str], write: Callable[[Path], object]) -> None:
    """Let ``write`` create a file in a temporary folder, then move it to ``path``.

    Readers find either the previous file or the complete new one, even if the process is killed
    (renaming is atomic) or the power fails (the content is flushed to disk before the renaming).
    The permissions of the file follow the user's umask.

    Raises:
        OSError: if the folder cannot be written to; a previous file is unchanged.
    """
    path = Path(path)
    with temporary_folder(path) as folder:
        temporary = folder / path.name
        temporary.touch()
        mode = temporary.stat().st_mode
        write(temporary)
        temporary.chmod(mode)  # safetensors creates files that only their owner can read
        _flush_to_disk(temporary)
        os.replace(temporary, path)
        _flush_to_disk(path.parent)


def _flush_to_disk(path: Path) -> None:
    """Wait until a file, or the entries of a directory, are on disk."""
    if path.is_dir() and os.name != "posix":
        return  # other systems cannot open a directory, and do not need to
    descriptor = os.open(path, os.O_RDONLY if os.name == "posix" else os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
