"""A Python kernel that records what it reads: ``python -m tools.kernel``.

An audit hook reports which files of the project the process opens and which folders it lists. It
writes one line for each, as soon as it happens. An imported module is a file that is opened. The
hook does not see files that libraries in :data:`NATIVE` open without Python, or that other
processes open; for these, the report has a pattern of the files that may have been read.
"""

import os
import runpy
import sys
from pathlib import Path
from typing import Any

from tools import ROOT

REPORT = "VERIFY_REPORT"
"""The environment variable that names the report."""
ANYTHING = "**/*"
NATIVE = {"safetensors": "**/*.safetensors"}
"""Libraries that open files without Python, and the names of these files."""
PROCESSES = ("os.exec", "os.posix_spawn", "os.spawn", "os.system", "subprocess.Popen")
READ_NOTHING = frozenset({"uname"})
"""Programs that the kernel itself starts; they read no files of the project."""
LISTS = ("os.listdir", "os.scandir")
WRITES = os.O_WRONLY | os.O_TRUNC


def project_file(path: str) -> str | None:
    """``path`` relative to the project; ``None`` if it is elsewhere, installed, made or hidden.

    For the compiled form of a module, it is the path of the source.
    """
    real = Path(os.path.realpath(path))
    if real.suffix == ".pyc" and real.parent.name == "__pycache__":
        real = real.parent.with_name(f"{real.name.partition('.')[0]}.py")
    if not real.is_relative_to(ROOT) or real.is_relative_to(os.path.realpath(sys.prefix)):
        return None
    name = real.relative_to(ROOT)
    outside = any(
        part.startswith((".", "_build", "__editable__")) or part.endswith(".egg-info")
        for part in name.parts
    )
    return None if outside else name.as_posix()


def what_is_read(event: str, arguments: tuple[Any, ...]) -> str | None:
    """The line of the report for an event of the interpreter, if it reads something."""
    if event in PROCESSES:
        return None if os.path.basename(arguments[0]) in READ_NOTHING else ANYTHING
    if event == "import":
        return NATIVE.get(arguments[0])
    if event == "open" and isinstance(arguments[0], str | bytes | os.PathLike):
        return None if arguments[2] & WRITES else project_file(os.fsdecode(arguments[0]))
    if event in LISTS and not isinstance(arguments[0], int):
        # The import system lists the folders that it searches.
        searches = "importlib" in sys._getframe(2).f_code.co_filename
        return None if searches else project_file(os.fsdecode(arguments[0] or "."))
    return None


def record(report: Path) -> None:
    """Write what this process and its forks read to ``report`` from now on."""
    file = os.open(report, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    seen = set()

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        line = what_is_read(event, arguments)
        if line is not None and line not in seen:
            seen.add(line)
            os.write(file, f"{line}\n".encode())

    sys.addaudithook(hook)


if __name__ == "__main__":
    record(Path(os.environ[REPORT]))
    runpy.run_module("ipykernel_launcher", run_name="__main__", alter_sys=True)
