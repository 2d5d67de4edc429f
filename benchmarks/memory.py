"""``python -m benchmarks.memory``: RAM used by a corpus of WMT size, memory-mapped or in lists.

The corpus is generated: as many pairs as the WMT 2014 English-German training set, random ids, and
the vocabulary size of the paper (Vaswani et al., 2017, section 5.1). Each row of the record comes
from a process of its own, which opens a corpus, plans an epoch and makes batches. The growth of its
private memory is measured, the kernel's RssAnon; it excludes pages of mapped files, which the
kernel can drop when another process needs RAM.
"""

import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import record
from benchmarks.record import Row
from benchmarks.tables import markdown
from tfmr.data.batches import Batches, IdPair
from tfmr.data.tokenfile import Chunk, TokenFile, write_ids
from tfmr.errors import require

PAIRS = 4_500_000
"""Sentence pairs of WMT 2014 English-German."""
VOCABULARY = 37_000
MAX_LENGTH = 256
TOKENS_PER_BATCH = 4096
CHUNK = 100_000
"""Pairs that are generated together."""
STATUS = Path("/proc/self/status")


@dataclass(frozen=True)
class Memory:
    """Measure the RAM used by token files and by lists, and record it."""

    pairs: int = PAIRS
    """Sentence pairs of the generated corpora; a tenth of it for the lists."""
    batches: int = 2000
    """Batches to make after the first one."""
    out: Path = record.FOLDER / "memory.json"
    """The record."""

    def __call__(self) -> None:
        """Measure and record."""
        rows = []
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "corpus"
            for reader, pairs, length in (
                ("token file", self.pairs, 12),
                ("token file", self.pairs, 25),
                ("token file", self.pairs, 50),
                ("token file", self.pairs // 10, 25),
                ("list", self.pairs // 10, 25),
            ):
                generate(path, pairs, length)
                rows.append(measure(path, reader, self.batches))
                print(rows[-1])
        settings = {
            "vocabulary": VOCABULARY,
            "tokens_per_batch": TOKENS_PER_BATCH,
            "batches": self.batches,
            "unit": "MB of private memory (RssAnon), growth since the start of the process",
        }
        record.write(self.out, "memory", rows, settings=settings)


def generate(path: Path, pairs: int, length: int) -> None:
    """Write a token file of random ids, in sentences of about ``length`` ids."""
    rng = np.random.default_rng(0)

    def chunks() -> Iterator[Chunk]:
        for begin in range(0, pairs, CHUNK):
            source = rng.gamma(4, length / 4, min(CHUNK, pairs - begin)).astype(np.int32)
            target = source + rng.integers(-4, 5, len(source), dtype=np.int32)
            lengths = np.clip(np.stack([source, target], axis=1), 1, MAX_LENGTH - 1)
            yield rng.integers(4, VOCABULARY, lengths.sum(), dtype=np.uint16), lengths

    write_ids(path, chunks(), "generated", VOCABULARY)


def measure(path: Path, reader: str, batches: int) -> dict[str, Any]:
    """:func:`grow` in a process of its own."""
    program = (
        "import json, sys\n"
        "from pathlib import Path\n"
        "from benchmarks.memory import grow\n"
        "print(json.dumps(grow(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(path), reader, str(batches)],
        cwd=record.ROOT,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    row: dict[str, Any] = json.loads(done.stdout)
    return row


def grow(path: Path, reader: str, batches: int) -> dict[str, Any]:
    """Open a corpus, plan an epoch and make ``batches``; the growth of this process after each.

    Args:
        path: a token file.
        reader: "token file", to read it through its memory map, or "list", to convert it to lists.
        batches: the number of batches after the first one.
    """
    peak = Peak()
    before = private_memory()
    start = time.perf_counter()
    file = TokenFile(path)
    pairs: TokenFile | list[IdPair] = file
    if reader == "list":
        pairs = [(np.array(s).tolist(), np.array(t).tolist()) for s, t in file]
    opened = private_memory() - before, time.perf_counter() - start
    planner = Batches(pairs, TOKENS_PER_BATCH, seed=0, max_length=MAX_LENGTH)
    epoch = planner.epoch(0)
    next(epoch)
    planned = private_memory() - before, time.perf_counter() - start - opened[1]
    read = sum(1 for _ in islice(epoch, batches))
    require(
        read == batches, f"expected {batches + 1} batches in an epoch, got {read + 1}: add pairs"
    )
    finished = private_memory() - before
    return {
        "reader": reader,
        "pairs": len(file),
        "tokens": sum(file.tokens),
        "file": round(sum(file.stat().st_size for file in path.iterdir()) / 1e6, 1),
        "opened": round(opened[0], 1),
        "planned": round(planned[0], 1),
        "read": round(finished, 1),
        "peak": round(peak.stop() - before, 1),
        "seconds_to_open": round(opened[1], 3),
        "seconds_to_plan": round(planned[1], 3),
        "padding_share": round(planner.padding_share(), 4),
    }


class Peak:
    """The largest private memory of this process since the object was created."""

    def __init__(self) -> None:
        self._largest = private_memory()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        while not self._stopped.wait(0.002):
            self._largest = max(self._largest, private_memory())

    def stop(self) -> float:
        """Stop measuring and return the peak in MB."""
        self._stopped.set()
        self._thread.join()
        return max(self._largest, private_memory())


def private_memory() -> float:
    """The private memory of this process in MB, without mapped files.

    Raises:
        TfmrError: if the system is not Linux.
    """
    require(STATUS.exists(), f"private memory is read from {STATUS}, which only Linux has")
    for line in STATUS.read_text("utf-8").splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024 / 1e6
    raise LookupError(f"no RssAnon in {STATUS}")


def table(rows: list[Row], settings: Row) -> list[str]:
    """The growth of a process that opens a corpus, plans an epoch and reads batches."""
    moments = ("opened", "planned", "read", "peak")
    lines = [
        [
            row["reader"],
            *(f"{row[count]:,}" for count in ("pairs", "tokens")),
            *(f"{row[moment]:.0f}" for moment in ("file", *moments)),
        ]
        for row in rows
    ]
    return [
        "Size of the file, and growth of a process's private memory since its start: after opening "
        "a generated corpus, after planning the batches of an epoch, after reading "
        f"{settings['batches']:,} batches, and at its peak, all in MB. Pages "
        "of memory-mapped files are not counted, because the operating system can evict them.",
        markdown(["", "pairs", "tokens", "file", *moments], lines),
    ]


if __name__ == "__main__":
    record.run(Memory)
