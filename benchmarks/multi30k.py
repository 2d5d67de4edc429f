"""``python -m benchmarks.multi30k``: what the book's model reaches on real sentences.

Every run is the command that a reader would type, ``python -m tfmr train``, in a process of its
own. A run that is already in the folder of runs is not repeated, and one that was stopped goes on,
so the record can be interrupted, and lengthened by a seed or a direction.
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
"""The recipe that is trained for some minutes."""
PATIENT = "multi30k-patient"
"""The recipe that is trained until the validation part finds nothing better."""


@dataclass(frozen=True)
class Multi30k:
    """Train on Multi30k for some minutes, in several directions and with several seeds.

    Everything was chosen on the validation part; a run scores both parts at each of its times.
    Measure on a machine that does nothing else.
    """

    seeds: dict[str, int] = field(default_factory=lambda: {"de-en": 3, "en-de": 1, "en-fr": 1})
    """How many seeds a direction is trained with; 0 leaves it out."""
    minutes: tuple[float, ...] = (5.0, 10.0, 20.0)
    """Training time at which a run is scored."""
    patient: tuple[str, ...] = ("de-en",)
    """Directions that are also trained, with one seed, until it gets no better."""
    keep: bool = False
    """Keep what the record has of runs whose folders are gone, and do not repeat them."""
    runs: Path = Path("runs/multi30k")
    """The folders of the runs."""
    out: Path = record.FOLDER / "multi30k.json"
    """The record."""

    def __call__(self) -> None:
        """Train what is missing, and record all."""
        about = record.facts()
        known = record.read(self.out)["rows"] if self.keep else []
        rows: list[dict[str, Any]] = []
        for run in tqdm(list(self.planned()), unit=" runs"):
            rows += run.rows(known)
        settings = {
            "corpus": "multi30k",
            "seeds": self.seeds,
            "minutes": list(self.minutes),
            "patient": list(self.patient),
        }
        record.write(self.out, "multi30k", rows, settings=settings, about=about)
        print(f"wrote {self.out}; now: python -m benchmarks.tables")

    def planned(self) -> Iterator["Planned"]:
        """The runs, the first seed of every direction first."""
        for seed in range(max(self.seeds.values(), default=0)):
            for direction, count in self.seeds.items():
                if seed < count:
                    yield Planned(TIMED, direction, seed, self.minutes, self.runs)
        for direction in self.patient:
            yield Planned(PATIENT, direction, 0, (), self.runs)


@dataclass(frozen=True)
class Planned:
    """A run of the command line, done or not."""

    recipe: str
    direction: str
    seed: int
    minutes: tuple[float, ...]
    """None where the recipe says how long."""
    runs: Path

    @property
    def folder(self) -> Path:
        """Where it is."""
        return self.runs / f"{self.recipe}-{self.direction}-{self.seed}"

    def command(self) -> list[str]:
        """What trains it, or goes on with it."""
        words = ["tfmr", "train", "--corpus", "multi30k", "--direction", self.direction]
        words += ["--recipe", self.recipe, "--seed", str(self.seed), "--out", str(self.folder)]
        if self.minutes:
            words += ["--minutes", *(f"{mark:g}" for mark in self.minutes)]
        return words + ["--resume"] * (self.folder / "recipe.toml").exists()

    def rows(self, known: Sequence[dict[str, Any]] = ()) -> list[dict[str, Any]]:
        """A row for each time at which it was scored; trains it first unless that is done.

        A run that has no folder takes its rows from ``known`` if they are there.
        """
        if not self.folder.exists() and (kept := self.among(known)):
            return kept
        if not self.scores():
            done = subprocess.run([sys.executable, "-m", *self.command()], check=False)
            require(
                done.returncode == 0, f"the run in {self.folder} failed: mend what it says above"
            )
            require(
                bool(self.scores()),
                f"{self.folder} was scored at other times than {list(self.minutes)}: ask for the "
                "same, or name another folder by --runs",
            )
        facts = self.facts()
        ran = {
            "recipe": self.recipe,
            "direction": self.direction,
            "seed": self.seed,
            "parameters": facts["parameters"],
            "commit": facts["commit"],
            "threads": facts["hardware"]["threads"],
        }
        if not self.minutes:
            longest = facts["recipe"]["budget"]["steps"][-1]
            ended = facts["scores"][-1]["step"]
            ran["until"] = f"{longest:,} steps" if ended >= longest else "until no better"
        return [ran | row for row in self.scores()]

    def among(self, known: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """Its rows of a record; none unless all its times are there."""
        name = {"recipe": self.recipe, "direction": self.direction, "seed": self.seed}
        return self.asked([row for row in known if name.items() <= row.items()])

    def facts(self) -> dict[str, Any]:
        """What the run says of itself; nothing before it has begun."""
        path = self.folder / "scores.json"
        return json.loads(path.read_text("utf-8")) if path.exists() else {"scores": []}

    def scores(self) -> list[dict[str, Any]]:
        """The scores of the times that were asked for; none unless all are there."""
        return self.asked(self.facts()["scores"])

    def asked(self, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Those of ``rows`` that are of the times asked for; none unless all are there."""
        if self.minutes:
            rows = [row for row in rows if row["minutes"] in self.minutes]
        return rows if len(rows) >= max(1, len(self.minutes)) else []


if __name__ == "__main__":
    try:
        tyro.cli(Multi30k, prog="python -m benchmarks.multi30k")()
    except TfmrError as error:
        sys.exit(f"benchmarks.multi30k: {error}")
