"""Execute the chapters and compare their outputs with the stored ones.

For a chapter that passes, ``.verified/`` stores a fingerprint of everything that its outputs depend
on: the notebook, the files of the project that its kernel read (see :mod:`tools.kernel`), the lock
file and the version of Python. The chapter remains verified until one of them changes. Only
verified chapters are published.
"""

import argparse
import hashlib
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tools import ROOT
from tools.kernel import ANYTHING, REPORT
from tools.notebooks import CELL_SECONDS, chapters, check, kernel_environment, shown, write

WORKERS = 2
STAMPS = ROOT / ".verified"
READ = ("tfmr", "book", "benchmarks")
"""The folders that a chapter may read."""
NOT_READ = frozenset({"__pycache__", ".ipynb_checkpoints", "node_modules", "vendor"})
APPROXIMATE = ("≈ *[-+]?[0-9.,]+", "≈ a number")
"""What nbval does not compare: the digits that :func:`tfmr.notebook.approximate` has compared."""
FOLDER = "VERIFY_FOLDER"
"""The environment variable that names the folder of the reports."""
SECONDS = pytest.StashKey[float]()
"""The time that the kernels of a process have used so far."""
LOCK = "requirements.lock"


class NotVerifiedError(RuntimeError):
    """A chapter is not verified; the message states which, why, and what to run."""


def matching(pattern: str) -> list[str]:
    """The files that match ``pattern`` and that a chapter may read."""
    found = (path for folder in READ for path in (ROOT / folder).glob(pattern) if path.is_file())
    names = (path.relative_to(ROOT) for path in found)
    return sorted(name.as_posix() for name in names if not NOT_READ & set(name.parts))


def digest(name: str) -> str:
    """The SHA-256 of a file, or of the names in a folder."""
    path = ROOT / name
    if path.is_dir():
        content = "\n".join(sorted({item.name for item in path.iterdir()} - NOT_READ)).encode()
    elif path.is_file():
        content = path.read_bytes()
    else:
        return "missing"
    return hashlib.sha256(content).hexdigest()


def fingerprint(names: Iterable[str]) -> dict[str, str]:
    """The version of Python, and the digest of each of ``names``."""
    python = {"python": f"{sys.version_info.major}.{sys.version_info.minor}"}
    return python | {name: digest(name) for name in names}


def stamped(chapter: Path) -> dict[str, str] | None:
    """The fingerprint with which ``chapter`` was verified, if it was."""
    try:
        found: dict[str, str] = json.loads(_stamp(chapter).read_text("utf-8"))["fingerprint"]
    except (OSError, ValueError, KeyError):
        return None
    return found


def _stamp(chapter: Path) -> Path:
    return STAMPS / f"{chapter.stem}.json"


def why_not_verified(chapter: Path) -> str | None:
    """What changed since ``chapter`` was verified; ``None`` if nothing changed."""
    before = stamped(chapter)
    if before is None:
        return "it has not been verified here"
    now = fingerprint(before.keys() - {"python"})
    changed = sorted(name for name in now if before.get(name) != now[name])
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


@dataclass
class Outcome:
    """The result of running a chapter."""

    passed: bool = False
    seconds: float = 0.0
    """The time that its kernel used the processor."""
    read: set[str] = field(default_factory=set)
    """What it depends on, besides the version of Python."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(
    item: pytest.Item, nextitem: pytest.Item | None
) -> Generator[None, object, object]:
    """Name the report of a kernel before it starts, and store the seconds that it used."""
    report = Path(os.environ[FOLDER]) / item.path.stem
    os.environ[REPORT] = str(report)
    result = yield
    if nextitem is None or nextitem.path != item.path:
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        total, before = used.ru_utime + used.ru_stime, item.config.stash.get(SECONDS, 0.0)
        report.with_suffix(".seconds").write_text(f"{total - before}")
        item.config.stash[SECONDS] = total
    return result


def compare(paths: list[Path]) -> dict[Path, Outcome]:
    """Run ``paths`` with nbval, and compare their outputs."""
    parallel = f"-n {min(WORKERS, len(paths))} --dist loadscope" if len(paths) > 1 else ""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        junit = folder / "report.xml"
        sanitized = folder / "sanitize.cfg"
        sanitized.write_text("regex: {}\nreplace: {}\n".format(*APPROXIMATE), "utf-8")
        kernel = folder / "kernels" / "recorded" / "kernel.json"
        kernel.parent.mkdir(parents=True)
        argv = [sys.executable, "-m", "tools.kernel", "-f", "{connection_file}"]
        kernel.write_text(json.dumps({"argv": argv, "language": "python", "display_name": ""}))
        command = [
            *(sys.executable, "-m", "pytest"),
            *["-p", "tools.verify", "-p", "nbval.plugin", "-p", "xdist.plugin"],
            *f"--nbval --nbval-kernel-name=recorded --nbval-cell-timeout={CELL_SECONDS}".split(),
            f"--nbval-kernel-startup-timeout={CELL_SECONDS}",
            f"--nbval-sanitize-with={sanitized}",
            *("-q", "--color=no", "-p", "no:cacheprovider"),
            *("-o", "addopts=", "-o", "filterwarnings=default"),
            *parallel.split(),
            *(f"--rootdir={ROOT}", f"--junitxml={junit}", *map(str, paths)),
        ]
        environment = kernel_environment() | {FOLDER: temporary, "JUPYTER_PATH": temporary}
        environment["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # other plugins import for seconds
        done = subprocess.run(command, cwd=ROOT, env=environment, check=False)
        cases = list(ElementTree.parse(junit).iter("testcase")) if junit.exists() else []
        outcomes = {}
        for path in paths:
            own = [case for case in cases if case.get("classname") == shown(path).replace("/", ".")]
            reports = [folder / f"{path.stem}{suffix}" for suffix in ("", ".seconds")]
            if all(report.exists() for report in reports):
                read, seconds = (report.read_text("utf-8") for report in reports)
                complete = len(own) == _code_cells(path) and not any(len(case) for case in own)
                names = (matching(each) if "*" in each else [each] for each in read.splitlines())
                outcomes[path] = Outcome(complete, float(seconds), set().union(*names))
            else:
                outcomes[path] = Outcome()
    if done.returncode != 0 and all(outcome.passed for outcome in outcomes.values()):
        return {path: Outcome() for path in paths}
    return outcomes


def _code_cells(path: Path) -> int:
    return sum(cell["cell_type"] == "code" for cell in json.loads(path.read_text("utf-8"))["cells"])


def verify(paths: list[Path], *, stamp: bool = True) -> list[Path]:
    """Check and run ``paths``, print a line for each, and return those that passed.

    With ``stamp``, chapters that passed are recorded as verified. Without it, nothing is recorded;
    this is for runs with unusual settings.
    """
    before = {name: digest(name) for name in matching(ANYTHING)}
    malformed = {path: found for path in paths if (found := check(path))}
    sound = [path for path in paths if path not in malformed]
    running = [path for path in sound if _code_cells(path)]
    outcomes = {path: Outcome(passed=True) for path in sound} | (
        compare(running) if running else {}
    )
    verified = []
    print()
    for path in paths:
        outcome = outcomes.get(path, Outcome())
        now = fingerprint(outcome.read | {shown(path), LOCK})
        if path in malformed:
            verdict = "FAILED  " + "; ".join(malformed[path])
        elif not outcome.passed:
            verdict = "FAILED  outputs differ from the stored ones (see above)"
        elif any(before[name] != now[name] for name in before.keys() & now.keys()):
            verdict = "FAILED  its dependencies changed during the run; verify again"
        else:
            verdict = "verified"
            verified.append(path)
            if stamp:
                STAMPS.mkdir(exist_ok=True)
                content = {"fingerprint": now, "seconds": round(outcome.seconds, 1)}
                write(_stamp(path), json.dumps(content, indent=1, sort_keys=True) + "\n")
        if stamp and verdict != "verified":
            _stamp(path).unlink(missing_ok=True)
        print(f"  {shown(path):44} {outcome.seconds:6.1f} s  {verdict}")
    return verified


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
    all_passed = not needed or verify(needed, stamp=not options.no_stamp) == needed
    skipped = len(paths) - len(needed)
    print(
        f"verify: {len(needed)} chapters run in {time.monotonic() - started:.0f} s,"
        f" {skipped} verified before: {'all passed' if all_passed else 'NOT all passed'}"
    )
    return 0 if all_passed else 1


if __name__ == "__main__":
    sys.exit(main())
