"""``python -m benchmarks.doctor``: which planted faults the doctor finds, and at what cost.

The models are in :mod:`benchmarks.patients`: five implementations with planted faults, and correct
models of many designs.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from tqdm import tqdm

from benchmarks import record
from benchmarks.patients import book, by_hand, hugging_face, others, torch_nn
from benchmarks.patients.case import Case
from benchmarks.record import Record, Row
from benchmarks.tables import Claims, markdown, select
from tfmr.doctor import examine
from tfmr.doctor.examination import NAMES

CASES: list[Case] = [
    case for module in (book, torch_nn, hugging_face, by_hand, others) for case in module.CASES
]


@dataclass(frozen=True)
class Doctor:
    """Examine every model and record the findings."""

    out: Path = record.FOLDER / "doctor.json"
    """The record."""

    def __call__(self) -> None:
        """Examine and record."""
        torch.set_num_threads(1)
        metadata = record.collect_metadata()
        record.write(self.out, "doctor", measure(), settings={"threads": 1}, metadata=metadata)


def measure() -> Iterator[Row]:
    """A row for each model."""
    for case in tqdm(CASES, unit=" models"):
        subject = case.build()
        start = time.process_time()
        report = examine(subject)
        seconds = round(time.process_time() - start, 2)
        found = [each.name for each in report.faults]
        yield {"model": case.name, "planted": case.fault, "found": found, "seconds": seconds}


def table(rows: list[Row], settings: Row) -> list[str]:
    """How many faults of each kind were planted and named."""
    lines = []
    for name in NAMES:
        planted = select(rows, planted=name)
        named = sum(row["found"] == [name] for row in planted)
        wrong = sum(name in row["found"] for row in rows if row["planted"] != name)
        lines.append([name, str(len(planted)), str(named), str(wrong)])
    correct = select(rows, planted=None)
    alarms = sum(bool(row["found"]) for row in correct)
    slowest = max(row["seconds"] for row in rows)
    return [
        f"The findings of `python -m tfmr doctor` in {len(rows)} small models, one planted fault "
        f"at most in each; {len(correct)} of them are correct, and {alarms} of these raise an "
        f"alarm. An examination took at most {slowest:.1f} seconds of one thread.",
        markdown(["fault", "planted", "named, and nothing else", "named wrongly"], lines),
    ]


def claims(rows: list[Row], settings: Row, records: dict[str, Record]) -> Claims:
    """The statements about the doctor."""
    expected = {case.name: case.fault for case in CASES}
    yield "the record has every model", {row["model"]: row["planted"] for row in rows} == expected
    for row in rows:
        right = row["found"] == ([] if row["planted"] is None else [row["planted"]])
        yield f"{row['model']}: exactly the planted fault is named", right
    outside = [r for r in select(rows, planted=None) if not r["model"].startswith("tfmr")]
    yield "at least fifteen correct models are none of the package", len(outside) >= 15
    yield "at least sixty faults are planted", sum(r["planted"] is not None for r in rows) >= 60
    yield "an examination takes less than 30 seconds", max(r["seconds"] for r in rows) < 30


if __name__ == "__main__":
    record.run(Doctor)
