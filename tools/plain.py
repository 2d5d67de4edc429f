"""Verify that no output depends on the processor: ``python -m tools.plain``.

PyTorch selects its kernels by the vector instructions of the processor, and these kernels round
differently. Here the chapters run on one thread with PyTorch's plain kernels, which use no vector
instructions. The plain kernels are the same on every processor, so a pass also holds on other
machines: it is recorded in ``tools/plain.json``, by the fingerprint of the chapter (see
:mod:`tools.verify`). A chapter runs again when its fingerprint changes. ``tools.verify`` uses the
kernels for the vector instructions of the processor.
"""

import argparse
import hashlib
import json
import os
import sys
from pathlib import Path

from tools import ROOT
from tools.notebooks import chapters, shown, write
from tools.verify import NotVerifiedError, require_verified, stamped, verify

RECORD = ROOT / "tools" / "plain.json"
SETTINGS = {"ATEN_CPU_CAPABILITY": "default", "OMP_NUM_THREADS": "1"}


def key(chapter: Path) -> str:
    """A digest of the fingerprint with which ``chapter`` was verified, without Python's version."""
    found = stamped(chapter) or {}
    text = json.dumps({name: found[name] for name in found.keys() - {"python"}}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def main(arguments: list[str] | None = None) -> int:
    """Run the chapters without a recorded pass.

    The exit status is 1 if a chapter fails, and 2 if the chapters are not verified.
    """
    parser = argparse.ArgumentParser(prog="python -m tools.plain", description=__doc__)
    parser.add_argument("--all", action="store_true", help="include chapters with a recorded pass")
    options = parser.parse_args(arguments)
    try:
        require_verified()
    except NotVerifiedError as problem:
        print(f"plain: {problem}", file=sys.stderr)
        return 2
    keys = {shown(chapter): key(chapter) for chapter in chapters()}
    recorded = json.loads(RECORD.read_text("utf-8")) if RECORD.exists() else {}
    passed = {name: value for name, value in keys.items() if recorded.get(name) == value}
    needed = [path for path in chapters() if options.all or shown(path) not in passed]
    os.environ.update(SETTINGS)
    verified = verify(needed, stamp=False) if needed else []
    passed |= {shown(path): keys[shown(path)] for path in verified}
    for path in needed:
        if path not in verified:
            passed.pop(shown(path), None)
    if passed != recorded:
        write(RECORD, json.dumps(passed, indent=1, sort_keys=True) + "\n")
        print(f"plain: {shown(RECORD)} has changed; commit it with the chapters")
    failed = len(needed) - len(verified)
    print(f"plain: {len(needed)} chapters run with plain kernels, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
