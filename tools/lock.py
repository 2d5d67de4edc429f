"""Write ``requirements.lock``: the exact versions that the book is run and tested with.

``python -m tools.lock`` asks pip which versions it would install, today and into an empty
environment, for the ranges and extras of ``pyproject.toml``, and stores the answer. It asks for
the oldest Python that the project promises, whichever it runs in itself. It installs nothing.
torch stays as it is, since a new torch can change what a trained model prints; ``--newest`` moves
it, too, and so does a requirement such as ``torch==2.13.0``.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

from tools import ROOT
from tools.notebooks import write

LOCK = ROOT / "requirements.lock"
HEADER = """\
# The exact versions that the book was run and tested with: dependencies, extras book and test.
# Written by `make lock` from the ranges in pyproject.toml; do not edit by hand.
"""
MACHINE = re.compile(r"^(nvidia-|cuda-|triton$|pytorch-triton|appnope$|pywin32)")
"""What only some machines need, for their accelerator or system; its users name its version."""


def canonical(name: str) -> str:
    """The one spelling of a distribution's name."""
    return re.sub(r"[-_.]+", "-", name).lower()


def public(version: str) -> str:
    """``version`` without the local part (``+cpu``) that says who built it."""
    return version.split("+")[0]


def locked(text: str) -> dict[str, str]:
    """The versions in a lock's ``text``, by canonical name."""
    lines = (line.strip() for line in text.splitlines())
    pairs = (line.split("==") for line in lines if line and not line.startswith("#"))
    return {canonical(name): version for name, version in pairs}


def oldest_python() -> str:
    """The first version that ``requires-python`` allows, such as 3.11."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    allowed: str = project["requires-python"]
    return allowed.removeprefix(">=")


def resolve(held: list[str]) -> dict[str, str]:
    """The versions that pip would install for the package and its extras, by canonical name.

    ``held`` are requirements such as ``torch==2.13.0`` that the answer must respect.
    """
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        command = [
            *(sys.executable, "-m", "pip", "install", "--dry-run", "--ignore-installed", "--quiet"),
            # For another Python than its own, pip wants to be told of a folder, and of no builds.
            *(f"--python-version={oldest_python()}", f"--target={folder}", "--only-binary=:all:"),
            *(f"--report={report}", f"{ROOT}[book,test]", *held),
        ]
        subprocess.run(command, check=True)
        found = [item["metadata"] for item in json.loads(report.read_text("utf-8"))["install"]]
    versions = {canonical(item["name"]): public(item["version"]) for item in found}
    versions.pop("tfmr")
    return {name: version for name, version in versions.items() if not MACHINE.match(name)}


def main(arguments: list[str] | None = None) -> int:
    """Write the lock and say what changed in it."""
    parser = argparse.ArgumentParser(prog="python -m tools.lock", description=__doc__)
    parser.add_argument("held", nargs="*", help="requirements to respect, such as torch==2.13.0")
    parser.add_argument("--newest", action="store_true", help="take the newest torch, too")
    chosen = parser.parse_args(arguments)
    held: list[str] = chosen.held
    old = locked(LOCK.read_text("utf-8")) if LOCK.exists() else {}
    named = any(requirement.startswith("torch") for requirement in held)
    if "torch" in old and not named and not chosen.newest:
        held.append(f"torch=={old['torch']}")
    within = " and ".join(["the ranges of pyproject.toml", *held])
    print(f"lock: asking pip for the newest versions within {within}", flush=True)
    new = resolve(held)
    write(LOCK, HEADER + "".join(f"{name}=={new[name]}\n" for name in sorted(new)))
    for name in sorted(old.keys() | new.keys()):
        if old.get(name) != new.get(name):
            print(f"  {name}: {old.get(name, 'not there')} → {new.get(name, 'gone')}")
    print(
        f"lock: {len(new)} versions in {LOCK.name};"
        " run `make refresh` and `make test` before you keep it"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
