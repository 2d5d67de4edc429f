"""``python -m benchmarks.multi30k``: BLEU of the book's model on Multi30k.

Every run is the command ``python -m tfmr train`` in a process of its own. A finished run in the
folder of runs is not repeated, and an interrupted one is resumed, so the benchmark can be
interrupted and extended by seeds or directions.
"""

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tyro
from tqdm import tqdm

from benchmarks import record
from tfmr.errors import TfmrError, require

TIMED = "multi30k"
"""The recipe that is trained for a fixed time."""
PATIENT = "multi30k-patient"
"""The recipe that is trained until the validation score stops improving."""


@dataclass(frozen=True)
class Multi30k:
    """Train on Multi30k in several directions and with several seeds, and record BLEU.

    All settings were chosen on the validation set. Each run evaluates validation and test set after
    each training time. Run this on an otherwise idle machine.
    """

    seeds: dict[str, int] = field(default_factory=lambda: {"de-en": 3, "en-de": 1, "en-fr": 1})
    """The number of seeds of each direction; 0 omits a direction."""
    minutes: tuple[float, ...] = (5.0, 10.0, 20.0)
    """Training times at which a run is evaluated."""
    patient: tuple[str, ...] = ("de-en",)
    """Directions that are also trained, with one seed, until the score stops improving."""
    keep: bool = False
    """Keep recorded rows of runs whose folders do not exist, instead of repeating the runs."""
    runs: Path = Path("runs/multi30k")
    """The folders of the runs."""
    out: Path = record.FOLDER / "multi30k.json"
    """The record."""

    def __call__(self) -> None:
        """Train the missing runs, and record all."""
        metadata = record.collect_metadata()
        known = record.read(self.out)["rows"] if self.keep else []
        rows: list[dict[str, Any]] = []
        for run in tqdm(list(self.runs_to_record()), unit=" runs"):
            rows += run.rows(known)
        settings = {
            "corpus": "multi30k",
            "seeds": self.seeds,
            "minutes": list(self.minutes),
            "patient": list(self.patient),
        }
        record.write(self.out, "multi30k", rows, settings=settings, metadata=metadata)
        print(f"wrote {self.out}; next: python -m benchmarks.tables")

    def runs_to_record(self) -> Iterator["TrainingRun"]:
        """The runs: the first seed of every direction, then the second, and so on."""
        for seed in range(max(self.seeds.values(), default=0)):
            for direction, count in self.seeds.items():
                if seed < count:
                    yield TrainingRun(TIMED, direction, seed, self.minutes, self.runs)
        for direction in self.patient:
            yield TrainingRun(PATIENT, direction, 0, (), self.runs)


@dataclass(frozen=True)
class TrainingRun:
    """A run of ``python -m tfmr train``, finished or not."""

    recipe: str
    direction: str
    seed: int
    minutes: tuple[float, ...]
    """Empty if the recipe sets the training time."""
    runs: Path

    @property
    def folder(self) -> Path:
        """Its run directory."""
        return self.runs / f"{self.recipe}-{self.direction}-{self.seed}"

    def command(self) -> list[str]:
        """The command that starts or resumes it."""
        words = ["tfmr", "train", "--corpus", "multi30k", "--direction", self.direction]
        words += ["--recipe", self.recipe, "--seed", str(self.seed), "--out", str(self.folder)]
        if self.minutes:
            words += ["--minutes", *(f"{mark:g}" for mark in self.minutes)]
        return words + ["--resume"] * (self.folder / "recipe.toml").exists()

    def rows(self, known: Sequence[dict[str, Any]] = ()) -> list[dict[str, Any]]:
        """A row for each evaluation; the run is trained first unless it is finished.

        A run without a folder takes its rows from ``known`` if they are there.
        """
        if not self.folder.exists() and (kept := self.recorded(known)):
            return kept
        if not self.scores():
            done = subprocess.run([sys.executable, "-m", *self.command()], check=False)
            require(
                done.returncode == 0,
                f"the run in {self.folder} failed: see its error message above",
            )
            require(
                bool(self.scores()),
                f"{self.folder} was not evaluated after {list(self.minutes)} minutes: use the same "
                "--minutes, or another folder for --runs",
            )
        metadata = self.metadata()
        common = {
            "recipe": self.recipe,
            "direction": self.direction,
            "seed": self.seed,
            "parameters": metadata["parameters"],
            "commit": metadata["commit"],
            "threads": metadata["hardware"]["threads"],
        }
        if not self.minutes:
            budget = metadata["recipe"]["budget"]["steps"][-1]
            last = metadata["scores"][-1]["step"]
            common["until"] = f"{budget:,} steps" if last >= budget else "until converged"
        return [common | row for row in self.scores()]

    def recorded(self, known: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """Its rows in a record; empty unless the record has all its training times."""
        name = {"recipe": self.recipe, "direction": self.direction, "seed": self.seed}
        return self.select([row for row in known if name.items() <= row.items()])

    def metadata(self) -> dict[str, Any]:
        """The content of the run's scores.json; without rows if the run has not started."""
        path = self.folder / "scores.json"
        return json.loads(path.read_text("utf-8")) if path.exists() else {"scores": []}

    def scores(self) -> list[dict[str, Any]]:
        """The scores after :attr:`minutes`; empty unless all are there."""
        return self.select(self.metadata()["scores"])

    def select(self, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """The ``rows`` of :attr:`minutes`; empty unless all are there."""
        if self.minutes:
            rows = [row for row in rows if row["minutes"] in self.minutes]
        return rows if len(rows) >= max(1, len(self.minutes)) else []


if __name__ == "__main__":
    try:
        tyro.cli(Multi30k, prog="python -m benchmarks.multi30k")()
    except TfmrError as error:
        sys.exit(f"benchmarks.multi30k: {error}")
