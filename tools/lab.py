"""Start JupyterLab on a working copy of the chapters: ``python -m tools.lab``.

Jupyter changes a notebook's file whenever it is saved, so readers work on copies in ``lab/``, which
git ignores. A copy that the reader changed is never overwritten: if the book has a newer version,
it is copied beside it.
"""

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
from nbformat.sign import NotebookNotary

from tools import ROOT
from tools.notebooks import chapters, kernel_environment, write

LAB = ROOT / "lab"
STATE = ".copied.json"
PAGES = ("glossary.md", "notation.md")
"""Pages that the chapters link to."""


def copy_chapters(target: Path = LAB, sources: list[Path] | None = None) -> list[str]:
    """Copy new and changed chapters into ``target``; return what was done, a line per file."""
    target.mkdir(parents=True, exist_ok=True)
    state = target / STATE
    copied: dict[str, str] = json.loads(state.read_text("utf-8")) if state.exists() else {}
    done = []
    if sources is None:
        sources = [*chapters(), *(ROOT / "book" / page for page in PAGES)]
    for source in sources:
        own, new = target / source.name, _digest(source)
        if not own.exists() or _digest(own) == copied.get(source.name):
            if copied.get(source.name) != new or not own.exists():
                _copy(source, own)
                done.append(f"{own.name}: copied")
        elif copied.get(source.name) != new:
            newer = own.with_stem(f"{own.stem}-new")
            _copy(source, newer)
            done.append(f"{own.name}: kept with your changes; the book's version is {newer.name}")
        copied[source.name] = new
    write(state, json.dumps(copied, indent=1, sort_keys=True) + "\n")
    return done


def _copy(source: Path, target: Path) -> None:
    """Copy a file, and trust it if it is a notebook: JupyterLab displays no SVG of others."""
    shutil.copyfile(source, target)
    if target.suffix == ".ipynb":
        NotebookNotary().sign(nbformat.read(target, as_version=4))


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def main(arguments: list[str] | None = None) -> int:
    """Copy the chapters and start JupyterLab; further options go to JupyterLab."""
    parser = argparse.ArgumentParser(prog="python -m tools.lab", description=__doc__)
    parser.add_argument("--copy-only", action="store_true", help="do not start JupyterLab")
    options, further = parser.parse_known_args(arguments)
    for line in copy_chapters():
        print(f"lab: {line}")
    print(f"lab: your working copies are in {LAB.relative_to(ROOT)}/", flush=True)
    if options.copy_only:
        return 0
    command = [sys.executable, "-m", "jupyterlab", f"--ServerApp.root_dir={LAB}", *further]
    # As in a plain Jupyter, PyTorch uses all cores.
    environment = os.environ | {"PYTHONPATH": kernel_environment()["PYTHONPATH"]}
    return subprocess.run(command, cwd=LAB, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
