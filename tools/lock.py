"""Write ``requirements.lock``: the exact versions that the book is run and tested with.

``python -m tools.lock`` lets pip resolve the ranges and extras of ``pyproject.toml`` for the oldest
supported Python, in an empty environment, and writes the result without installing anything.
torch keeps its version, because a new version can change the outputs of trained models.
``--newest`` updates torch, too; a requirement such as ``torch==2.13.0`` sets its version.
"""

import argparse
import json
import re
import subprocess
import sys
import tomllib

from packaging.utils import canonicalize_name
from packaging.version import Version

from tools import ROOT
from tools.notebooks import write

LOCK = ROOT / "requirements.lock"
HEADER = """\
# The exact versions that the book was run and tested with: dependencies, extras book and test.
# Written by `make lock` from the ranges in pyproject.toml; do not edit by hand.
"""
MACHINE = re.compile(r"^(nvidia-|cuda-|triton$|pytorch-triton|appnope$|pywin32)")
"""Packages that only some platforms need; the packages that require them fix their versions."""


def locked(text: str) -> dict[str, str]:
    """The versions in the ``text`` of a lock file, by canonical name."""
    pairs = (line.split("==") for line in text.splitlines() if "==" in line)
    return {canonicalize_name(name): version for name, version in pairs}


def resolve(held: list[str]) -> dict[str, str]:
    """The versions that pip would install for the package and its extras, by canonical name.

    ``held`` are further requirements, such as ``torch==2.13.0``.
    """
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    oldest = project["requires-python"].removeprefix(">=")
    command = [
        *(sys.executable, "-m", "pip", "install", "--dry-run", "--ignore-installed", "--quiet"),
        # pip resolves for another Python only with a target folder and without builds.
        *(f"--python-version={oldest}", "--target=unused", "--only-binary=:all:"),
        *("--report=-", f"{ROOT}[book,test]", *held),
    ]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    found = (item["metadata"] for item in json.loads(done.stdout)["install"])
    # The local part of a version, such as +cpu, depends on the machine.
    versions = {canonicalize_name(p["name"]): Version(p["version"]).public for p in found}
    return {n: v for n, v in versions.items() if n != "tfmr" and not MACHINE.match(n)}


def main(arguments: list[str] | None = None) -> int:
    """Write the lock file and print what changed."""
    parser = argparse.ArgumentParser(prog="python -m tools.lock", description=__doc__)
    parser.add_argument("held", nargs="*", help="further requirements, such as torch==2.13.0")
    parser.add_argument("--newest", action="store_true", help="update torch, too")
    options = parser.parse_args(arguments)
    old = locked(LOCK.read_text("utf-8")) if LOCK.exists() else {}
    held: list[str] = options.held
    if "torch" in old and not options.newest and not any(r.startswith("torch") for r in held):
        held.append(f"torch=={old['torch']}")
    new = resolve(held)
    write(LOCK, HEADER + "".join(f"{name}=={new[name]}\n" for name in sorted(new)))
    for name in sorted(old.keys() | new.keys()):
        if old.get(name) != new.get(name):
            print(f"  {name}: {old.get(name, 'absent')} → {new.get(name, 'removed')}")
    print(f"lock: wrote {len(new)} versions; run `make refresh` and `make test` before you commit")
    return 0


if __name__ == "__main__":
    sys.exit(main())
