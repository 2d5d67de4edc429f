"""Benchmark results as JSON files that all have the same form.

Three lines read any of them::

    import json; from tfmr.records import record_path
    record = json.loads(record_path("speed.json").read_text("utf-8"))
    rows = [row for row in record["rows"] if row["task"] == "greedy"]

``rows`` are flat: one dictionary of names and plain values per result. ``settings`` holds what all
rows have in common. ``metadata`` holds command, date, commit, hardware and library versions
(:func:`collect_metadata`).
"""

import importlib.metadata
import json
import os
import shlex
import sys
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypedDict, cast

import torch
import tyro

from tfmr.errors import TfmrError, require
from tfmr.records import FOLDER as FOLDER
from tfmr.train.metadata import environment_info
from tfmr.train.run_dir import write_text

ROOT = Path(__file__).parent.parent
"""The root folder of the project."""
LIBRARIES = ("transformers", "x-transformers", "ctranslate2", "sacrebleu", "numpy")
"""Libraries whose versions are recorded in addition to those of :func:`environment_info`."""


Row = dict[str, Any]
"""One result."""


class Record(TypedDict):
    """The content of a JSON file of results."""

    kind: str
    """What was measured."""
    metadata: dict[str, Any]
    settings: dict[str, Any]
    rows: list[Row]


def collect_metadata(device: str = "cpu") -> dict[str, Any]:
    """Command, date, commit, hardware and versions, as JSON.

    A "+" after the commit means that the checkout had uncommitted changes.
    """
    info = environment_info(torch.device(device))
    info["versions"] |= _versions()
    info["hardware"] |= {"cores": os.cpu_count(), "memory_gib": memory_gib()}
    return {
        "command": shlex.join(["python", "-m", *_command()]),
        "date": datetime.now(UTC).date().isoformat(),
        **info,
    }


def memory_gib() -> float | None:
    """The machine's memory in GiB, or ``None`` if the system does not report it."""
    try:
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1)
    except (AttributeError, OSError, ValueError):
        return None


def _command() -> list[str]:
    """The module and the arguments of the running command."""
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    name = spec.name if spec is not None else Path(sys.argv[0]).stem
    return [name.removesuffix(".__main__"), *sys.argv[1:]]


def _versions() -> dict[str, str]:
    """The versions of those :data:`LIBRARIES` that are installed."""
    found: dict[str, str] = {}
    for name in LIBRARIES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def run(command: Callable[..., Callable[[], object]]) -> None:
    """Run the dataclass ``command`` with the options of the command line; exit if it raises."""
    [name, *_] = _command()
    try:
        tyro.cli(command, prog=f"python -m {name}")()
    except (TfmrError, ImportError) as error:
        sys.exit(f"{name}: {error}")


def write(
    path: str | os.PathLike[str],
    kind: str,
    rows: Iterable[Mapping[str, Any]],
    *,
    settings: Mapping[str, Any],
    metadata: Mapping[str, Any] | None = None,
) -> Record:
    """Write a record atomically.

    Args:
        path: the JSON file; its folder is created if needed.
        kind: what was measured.
        rows: the results, flat: plain values, or lists of them.
        settings: what the rows have in common: sizes, seeds, rounds.
        metadata: the result of :func:`collect_metadata`, if it was called before the measurement.

    Raises:
        TfmrError: if there are no rows, or a row is not flat.
    """
    path = Path(path)
    metadata = dict(metadata or collect_metadata())
    flat = []
    # Each row is checked as it arrives: a long measurement must not fail at its end.
    for row in rows:
        nested = [name for name, value in row.items() if isinstance(value, Mapping)]
        require(not nested, f"the rows of {path.name} must be flat: {nested} hold dictionaries")
        flat.append(dict(row))
    require(len(flat) > 0, f"expected at least one row for {path.name}, got none")
    record = Record(kind=kind, metadata=metadata, settings=dict(settings), rows=flat)
    lines = ",\n".join(f"  {json.dumps(row, ensure_ascii=False)}" for row in record["rows"])
    head = json.dumps({**record, "rows": []}, ensure_ascii=False, indent=1)
    text = head.removesuffix("[]\n}") + f"[\n{lines}\n ]\n}}\n"
    write_text(path, text)
    print(f"wrote {path}; next: python -m benchmarks.tables")
    return record


def read(path: str | os.PathLike[str]) -> Record:
    """Read a record.

    Raises:
        TfmrError: if the file is missing or is not a record.
    """
    try:
        content = json.loads(Path(path).read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise TfmrError(f"cannot read a record from {path}: {error}") from error
    missing = [name for name in Record.__required_keys__ if name not in content]
    require(not missing, f"{path} is not a record: it lacks {', '.join(sorted(missing))}")
    return cast(Record, content)


def read_all(folder: str | os.PathLike[str] = FOLDER) -> dict[str, Record]:
    """All records of a folder and of its subfolder ``cost``, by their paths without ".json"."""
    folder = Path(folder)
    paths = [*sorted(folder.glob("*.json")), *sorted(folder.glob("cost/*.json"))]
    return {path.relative_to(folder).with_suffix("").as_posix(): read(path) for path in paths}
