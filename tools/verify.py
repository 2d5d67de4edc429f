"""Execute the chapters and compare their outputs with the stored ones.

For a chapter that passes, a fingerprint is stored in ``.verified/`` of everything that its outputs
depend on: the notebook, the package, the data in ``book`` and ``benchmarks``, the lock file and the
version of Python. It is verified until one of them changes. Only verified chapters are published.
"""

import argparse
import hashlib
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from xml.etree import ElementTree

from tools import ROOT
from tools.notebooks import CELL_SECONDS, chapters, check, kernel_environment, shown, write

CHAPTER_SECONDS = 90.0
WORKERS = 2
STAMPS = ROOT / ".verified"
DATA_SUFFIXES = frozenset({".csv", ".json", ".safetensors", ".tsv", ".txt"})
NOT_DATA = frozenset({"_assets", "_templates", "locale", "node_modules", "vendor"})
NOT_PACKAGE = frozenset({"__pycache__", ".ipynb_checkpoints"})


class NotVerifiedError(RuntimeError):
    """A chapter is not verified; the message states which, why, and what to run."""


def _inputs(chapter: Path) -> list[Path]:
    """Every file on which the outputs of ``chapter`` depend."""
    package = (p for p in (ROOT / "tfmr").rglob("*") if not NOT_PACKAGE & set(p.parts))
    data = (
        p
        for folder in ("book", "benchmarks")
        for p in (ROOT / folder).rglob("*")
        if p.suffix in DATA_SUFFIXES
        and not NOT_DATA & set(p.relative_to(ROOT).parts)
        and p.name not in ("package.json", "package-lock.json")
    )
    return sorted(p for p in (chapter, *package, *data, ROOT / "requirements.lock") if p.is_file())


def fingerprint(chapter: Path) -> dict[str, str]:
    """The version of Python and the SHA-256 of every file that ``chapter`` depends on."""
    files = {
        shown(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in _inputs(chapter)
    }
    return {"python": f"{sys.version_info.major}.{sys.version_info.minor}"} | files


def _stamp(chapter: Path) -> Path:
    return STAMPS / f"{chapter.stem}.json"


def why_not_verified(chapter: Path) -> str | None:
    """What changed since ``chapter`` was verified; ``None`` if nothing changed."""
    try:
        stamped: dict[str, str] = json.loads(_stamp(chapter).read_text("utf-8"))["fingerprint"]
    except (OSError, ValueError, KeyError):
        return "it has not been verified here"
    now = fingerprint(chapter)
    changed = sorted(
        name for name in stamped.keys() | now.keys() if stamped.get(name) != now.get(name)
    )
    if not changed:
        return None
    more = f" and {len(changed) - 3} more" if len(changed) > 3 else ""
    return f"changed since it was verified: {', '.join(changed[:3])}{more}"


def require_verified() -> None:
    """Raise :class:`NotVerifiedError` unless every chapter of the book is verified."""
    reasons = [f"{shown(path)}: {why}" for path in chapters() if (why := why_not_verified(path))]
    if reasons:
        raise NotVerifiedError(
            "expected verified chapters; run: python -m tools.verify\n  " + "\n  ".join(reasons)
        )


def compare(paths: list[Path]) -> tuple[dict[Path, float], set[Path]]:
    """Run ``paths`` with nbval; return the seconds for each, and the set that passed."""
    parallel = f"-n {min(WORKERS, len(paths))} --dist loadscope" if len(paths) > 1 else ""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [
            *(sys.executable, "-m", "pytest"),
            *f"--nbval --nbval-current-env --nbval-cell-timeout={CELL_SECONDS}".split(),
            *("-q", "--color=no", "-p", "no:cacheprovider"),
            *("-o", "addopts=", "-o", "filterwarnings=default"),
            *parallel.split(),
            *(f"--rootdir={ROOT}", f"--junitxml={report}", *map(str, paths)),
        ]
        done = subprocess.run(command, cwd=ROOT, env=kernel_environment(), check=False)
        cases = list(ElementTree.parse(report).iter("testcase")) if report.exists() else []
    seconds, passed = {}, set()
    for path in paths:
        own = [case for case in cases if case.get("classname") == shown(path).replace("/", ".")]
        seconds[path] = sum(float(case.get("time", 0)) for case in own)
        if len(own) == _code_cells(path) and not any(len(case) for case in own):
            passed.add(path)
    return seconds, passed if done.returncode == 0 or passed != set(paths) else set()


def _code_cells(path: Path) -> int:
    return sum(cell["cell_type"] == "code" for cell in json.loads(path.read_text("utf-8"))["cells"])


def verify(paths: list[Path], *, stamp: bool = True) -> bool:
    """Check and run ``paths``, print a line for each, and return whether all passed.

    With ``stamp``, chapters that passed are recorded as verified, and the time limit is enforced.
    Without it, nothing is recorded; this is for runs with unusual settings.
    """
    before = {path: fingerprint(path) for path in paths}
    malformed = {path: found for path in paths if (found := check(path))}
    empty = [path for path in paths if path not in malformed and not _code_cells(path)]
    running = [path for path in paths if path not in malformed and path not in empty]
    seconds, passed = compare(running) if running else ({}, set())
    failed = 0
    print()
    for path in paths:
        took = seconds.get(path, 0.0)
        if path in malformed:
            verdict = "FAILED  " + "; ".join(malformed[path])
        elif path not in passed and path not in empty:
            verdict = "FAILED  outputs differ from the stored ones (see above)"
        elif stamp and took > CHAPTER_SECONDS:
            verdict = f"FAILED  slower than {CHAPTER_SECONDS:.0f} s"
        elif fingerprint(path) != before[path]:
            verdict = "FAILED  its dependencies changed during the run; verify again"
        else:
            verdict = "verified"
            if stamp:
                STAMPS.mkdir(exist_ok=True)
                content = {"fingerprint": before[path], "seconds": round(took, 1)}
                write(_stamp(path), json.dumps(content, indent=1, sort_keys=True) + "\n")
        if stamp and verdict != "verified":
            _stamp(path).unlink(missing_ok=True)
        failed += verdict != "verified"
        print(f"  {shown(path):44} {took:6.1f} s  {verdict}")
    return not failed


def main(arguments: list[str] | None = None) -> int:
    """Verify the chapters that are not verified; the exit status is 1 if one of them fails."""
    parser = argparse.ArgumentParser(prog="python -m tools.verify", description=__doc__)
    parser.add_argument("paths", nargs="*", type=Path, help="notebooks; default: all chapters")
    parser.add_argument("--all", action="store_true", help="include verified chapters")
    parser.add_argument(
        "--no-stamp", action="store_true", help="record nothing, for runs with unusual settings"
    )
    options = parser.parse_args(arguments)
    paths = [path.resolve() for path in options.paths] or chapters()
    for path in paths:
        if not path.is_file() or not path.is_relative_to(ROOT):
            parser.error(f"expected a notebook of this project, got {path}")
    needed = [path for path in paths if options.all or why_not_verified(path)]
    for path in needed:
        print(
            f"verify: {shown(path)}: {why_not_verified(path) or 'verified, run again'}",
            flush=True,
        )
    started = time.monotonic()
    all_passed = verify(needed, stamp=not options.no_stamp) if needed else True
    skipped = len(paths) - len(needed)
    print(
        f"verify: {len(needed)} chapters run in {time.monotonic() - started:.0f} s,"
        f" {skipped} verified before: {'all passed' if all_passed else 'NOT all passed'}"
    )
    return 0 if all_passed else 1


if __name__ == "__main__":
    sys.exit(main())
