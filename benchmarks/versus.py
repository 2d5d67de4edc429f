"""``python -m benchmarks.versus CHECKOUT``: speed of this checkout compared with another one's.

Each checkout runs in its own process, with its own ``tfmr`` and its own ``benchmarks``, and only
the system tfmr. The two processes take turns round by round, on the same sentences. The result is
the ratio of their times, this checkout divided by the other one: below 1, this one is faster.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro
from tqdm import tqdm

from benchmarks import record
from benchmarks.record import Record, Row
from benchmarks.speed import TASKS, Task, default_precisions, title
from benchmarks.systems import Precision
from benchmarks.tables import Claims, markdown
from benchmarks.timing import ratio, time_interleaved
from benchmarks.workload import token_pairs
from tfmr.errors import TfmrError, require
from tfmr.train.metadata import commit

# Runs under the code of either checkout. Commits up to e2c3efc name the function that prepares a
# task ``bout``, and decode in bf16 if float32_matmul_precision is "medium".
WORKER = """
import json, os, sys
import torch
import tfmr
from benchmarks.speed import Speed

assert tfmr.__file__.startswith(os.getcwd() + os.sep), tfmr.__file__
task, precision, rounds, pairs = sys.argv[1:]
pairs = [tuple(pair) for pair in json.load(open(pairs, encoding="utf-8"))]
decodes = not task.startswith("train")
if hasattr(Speed, "bout"):
    speed = Speed(peers=(), rounds=int(rounds), bf16=precision == "bf16")
    prepared = speed.bout(task, "paper", pairs)
    work = prepared.work["tfmr"]
else:
    speed = Speed(peers=(), rounds=int(rounds), precisions=(precision,))
    prepared = speed.prepare(task, pairs)
    work = prepared.work["tfmr", precision]
torch.set_float32_matmul_precision("highest" if decodes and precision == "fp32" else "medium")
print("tokens", *prepared.tokens, flush=True)
for line in sys.stdin:
    work(int(line))
    print("done", line.strip(), flush=True)
"""


@dataclass(frozen=True)
class Versus:
    """Compare the speed of this checkout with that of another one, in interleaved rounds.

    Writes a record; python -m benchmarks.tables renders it. Run this on an otherwise idle machine.
    """

    checkout: Annotated[Path, tyro.conf.Positional]
    """The root folder of the other checkout, for example a git worktree."""
    tasks: tuple[Task, ...] = TASKS
    """Tasks to measure."""
    precisions: tuple[Precision, ...] | None = None
    """fp32, bf16 or both. Default: both, but fp32 alone on a CPU without bf16 instructions."""
    rounds: int = 20
    """Measured rounds per task and precision, after one warm-up round."""
    out: Path = record.FOLDER / "versus.json"
    """The record."""

    def __call__(self) -> None:
        """Measure and record."""
        require(
            (self.checkout / "benchmarks" / "speed.py").is_file(),
            f"expected the root of a checkout, got {self.checkout}: it has no benchmarks/speed.py",
        )
        metadata = record.collect_metadata()
        pairs, data = token_pairs()
        rows = []
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "pairs.json"
            path.write_text(json.dumps(pairs), "utf-8")
            for task in tqdm(self.tasks):
                for precision in self.precisions or default_precisions("cpu"):
                    rows.append(self.measure(task, precision, path))
        settings = {
            "new": metadata["commit"],
            "old": commit(self.checkout.resolve() / "tfmr" / "__init__.py"),
            "data": data,
            "seed": 0,
        }
        record.write(self.out, "versus", rows, settings=settings, metadata=metadata)

    def measure(self, task: Task, precision: Precision, pairs: Path) -> dict[str, Any]:
        """A row of the record: one task in one precision."""
        arguments = [task, precision, str(self.rounds), str(pairs)]
        with worker(record.ROOT, arguments) as new, worker(self.checkout, arguments) as old:
            tokens = [each.readline() for each in (new, old)]
            require(
                tokens[0] == tokens[1],
                f"{task}: the two checkouts must do the same work, but their batches differ",
            )
            seconds = time_interleaved({"new": new.run, "old": old.run}, rounds=self.rounds)
        quotient = ratio(seconds["new"], seconds["old"])
        return {
            **{"task": task, "precision": precision},
            "ratio": round(quotient.median, 3),
            "ratio_min": round(quotient.min, 3),
            "ratio_max": round(quotient.max, 3),
            **{f"seconds_{k}": [round(s, 5) for s in times] for k, times in seconds.items()},
        }


class Worker:
    """A process that runs one round of a task whenever it is told to."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process = process

    def readline(self) -> str:
        """The process's next line of output.

        Raises:
            TfmrError: if the process has ended; its error message is on stderr.
        """
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise TfmrError("the measurement ended early: see its error message above")
        return line

    def run(self, k: int) -> None:
        """Run round ``k`` and wait for its end."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{k}\n")
        self.process.stdin.flush()
        self.readline()


@contextmanager
def worker(checkout: Path, arguments: list[str]) -> Iterator[Worker]:
    """A process that runs :data:`WORKER` with the code of ``checkout``; it ends with the block."""
    root = str(checkout.resolve())
    process = subprocess.Popen(
        [sys.executable, "-c", WORKER, *arguments],
        cwd=root,
        env={**os.environ, "PYTHONPATH": root},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield Worker(process)
    finally:
        process.kill()
        process.communicate()


def table(rows: list[Row], settings: Row) -> list[str]:
    """The ratio of the times of two checkouts, by task and precision."""
    lines = [
        [
            f"{title(row)}, {row['precision']}",
            f"{row['ratio']:.2f}",
            f"{row['ratio_min']:.2f}–{row['ratio_max']:.2f}",
            str(len(row["seconds_new"])),
        ]
        for row in rows
    ]
    return [
        f"Time of commit {settings['new']} divided by the time of commit {settings['old']}: if the "
        "ratio is below 1, the former is faster.",
        markdown(["", "median ratio", "lowest to highest", "rounds"], lines),
    ]


def claims(rows: list[Row], settings: Row, records: dict[str, Record]) -> Claims:
    """No task is slower than before."""
    for row in rows:
        claim = f"{row['task']}, {row['precision']} is at most 5 % slower: {row['ratio']}"
        yield claim, row["ratio"] <= 1.05


if __name__ == "__main__":
    record.run(Versus)
