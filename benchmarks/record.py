"""What was measured, and all that a reader must know to measure it again, in one JSON file.

Every record has the same form, so that three lines read any of them::

    import json
    record = json.loads(Path("benchmarks/speed.json").read_text("utf-8"))
    rows = [row for row in record["rows"] if row["task"] == "greedy"]

``rows`` are flat: a dictionary of names and plain values for each thing measured. ``settings`` says
what the rows have in common, and ``facts`` where, when, from what code and by which command they
were measured (:func:`facts`).
"""

import importlib.metadata
import json
import os
import shlex
import sys
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypedDict, cast

import torch

from tfmr.errors import TfmrError, require
from tfmr.train.metadata import environment_info
from tfmr.train.run_dir import write_text

FOLDER = Path(__file__).parent
"""Where records are kept."""
LIBRARIES = ("transformers", "x-transformers", "sacrebleu", "numpy")
"""Libraries whose version is recorded beside those that a run of tfmr depends on."""


class Record(TypedDict):
    """A JSON file of measurements."""

    kind: str
    """What was measured, which says how to render it: see :mod:`benchmarks.tables`."""
    facts: dict[str, Any]
    settings: dict[str, Any]
    rows: list[dict[str, Any]]


def facts(device: str = "cpu") -> dict[str, Any]:
    """Command, date, commit, hardware and versions, as JSON.

    A commit with "+" behind it had changes that were not committed.
    """
    found = environment_info(torch.device(device))
    found["versions"] |= _versions()
    found["hardware"] |= {"cores": os.cpu_count(), "memory_gib": memory_gib()}
    return {
        "command": shlex.join(["python", "-m", *_command()]),
        "date": datetime.now(UTC).date().isoformat(),
        **found,
    }


def memory_gib() -> float | None:
    """The machine's memory in GiB, or ``None`` where the system does not say."""
    try:
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1)
    except (AttributeError, OSError, ValueError):
        return None


def _command() -> list[str]:
    """The running program as it is started with ``python -m``."""
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    name = spec.name if spec is not None else Path(sys.argv[0]).stem
    return [name.removesuffix(".__main__"), *sys.argv[1:]]


def _versions() -> dict[str, str]:
    """The installed versions of :data:`LIBRARIES`, those that are not installed left out."""
    found: dict[str, str] = {}
    for name in LIBRARIES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def write(
    path: Path,
    kind: str,
    rows: Iterable[Mapping[str, Any]],
    *,
    settings: Mapping[str, Any],
    about: Mapping[str, Any] | None = None,
) -> Record:
    """Write a record whole or not at all.

    Args:
        path: the JSON file; its folder is made if needed.
        kind: what was measured; a word that :mod:`benchmarks.tables` knows how to render.
        rows: what was measured, flat: plain values, or lists of them.
        settings: what the rows have in common: sizes, seeds, rounds.
        about: the :func:`facts`, if they were collected before.

    Raises:
        TfmrError: if there is nothing to record, or a row is not flat.
    """
    record = Record(
        kind=kind,
        facts=dict(about or facts()),
        settings=dict(settings),
        rows=[dict(row) for row in rows],
    )
    require(len(record["rows"]) > 0, f"nothing was measured: {path.name} would have no rows")
    for row in record["rows"]:
        nested = [name for name, value in row.items() if isinstance(value, Mapping)]
        require(not nested, f"a row of a record is flat, but {nested} of {path.name} hold more")
    lines = ",\n".join(f"  {json.dumps(row, ensure_ascii=False)}" for row in record["rows"])
    head = json.dumps({**record, "rows": []}, ensure_ascii=False, indent=1)
    text = head.removesuffix("[]\n}") + f"[\n{lines}\n ]\n}}\n"
    write_text(path, text)
    return record


def read(path: Path) -> Record:
    """A record from its file.

    Raises:
        TfmrError: if the file is missing or is no record.
    """
    try:
        content = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise TfmrError(f"no record at {path}: {error}") from error
    missing = [name for name in Record.__required_keys__ if name not in content]
    require(not missing, f"{path} is no record: it lacks {', '.join(sorted(missing))}")
    return cast(Record, content)


def records(folder: Path = FOLDER) -> dict[str, Record]:
    """All records of a folder and of its folder ``cost``, by their paths without ".json"."""
    paths = [*sorted(folder.glob("*.json")), *sorted(folder.glob("cost/*.json"))]
    return {path.relative_to(folder).with_suffix("").as_posix(): read(path) for path in paths}
