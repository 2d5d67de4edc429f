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
from statistics import mean
from typing import Any

from tqdm import tqdm

from benchmarks import record
from benchmarks.quality import about_search, scored, signatures
from benchmarks.record import Record, Row
from benchmarks.tables import RANGE, Claims, grouped, markdown, only, select, spread
from tfmr.errors import require
from tfmr.records import record_path
from tfmr.train.config import find_recipe

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
    overrides: tuple[str, ...] = ()
    """Values that replace those of the recipe."""

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
        if self.overrides:
            words += ["--set", *self.overrides]
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


def table(rows: list[Row], settings: Row) -> list[str]:
    """BLEU by direction, recipe and training time."""
    parts = scored(rows)
    directions = list(grouped(rows, "direction"))
    lines = []
    timed = [{"until": f"{row['minutes']:g} minutes"} | row for row in rows]
    timed.sort(key=lambda row: (directions.index(row["direction"]), row["minutes"]))
    for run, own in grouped(timed, "direction", "recipe", "until").items():
        scores = (spread([row[part] for row in own if part in row]) for part in parts)
        lines.append([*run, str(len(own)), *scores])
    parameters = " or ".join(f"{n:,}" for n in sorted(grouped(rows, "parameters")))
    return [
        f"BLEU on Multi30k's validation set and on test2016: the mean over the seeds, {RANGE}. "
        f"{about_search(rows)} {parameters} parameters. {signatures(rows)}",
        markdown(["", "recipe", "training", "seeds", *parts.values()], lines),
    ]


def claims(rows: list[Row], settings: Row, records: dict[str, Record]) -> Claims:
    """What README.md, chapter 11 and chapter 13 state about the runs and their recipes."""
    quoted = " ".join((record.ROOT / "README.md").read_text("utf-8").split())
    for quote in quotes(rows, settings):
        yield f"README.md contains: {quote}", quote in quoted
    found = [
        (row["seed"], row["step"], round(row["test_bleu_beam4"], 1))
        for row in select(rows, direction="en-de", minutes=20)
    ]
    claim = f"English to German, seed, steps and BLEU after 20 minutes: {found}"
    yield claim, found == [(0, 5059, 37.0)]
    own = select(rows, recipe=TIMED, direction="de-en", seed=0)
    run = json.loads(record_path("multi30k-de-en/scores.json").read_text("utf-8"))
    common = {"parameters": run["parameters"], "commit": run["commit"]}
    common |= {"recipe": TIMED, "direction": "de-en", "seed": 0}
    common |= {"threads": run["hardware"]["threads"]}
    yield "multi30k-de-en is the first run", [common | row for row in run["scores"]] == own
    patient, timed = find_recipe(PATIENT), find_recipe(TIMED)
    chapter = (record.ROOT / "book" / "11-training.ipynb").read_text("utf-8")
    steps = f"{patient.budget.steps[-1]:,}"
    yield f"chapter 11 contains the step limit of {PATIENT}: {steps}", steps in chapter
    yield f"{PATIENT} stops after ten validations", patient.evaluation.patience == 10
    dropout: list[float] = [getattr(recipe.model, "dropout", 0.0) for recipe in (patient, timed)]
    yield f"{PATIENT} has more dropout than {TIMED}: {dropout}", dropout[0] > dropout[1]
    decay = [recipe.train.ema_decay for recipe in (patient, timed)]
    yield f"{PATIENT} has a slower EMA than {TIMED}: {decay}", decay[0] > decay[1]


def quotes(rows: list[Row], settings: Row) -> Iterator[str]:
    """What the section *Measured results* of the README contains."""
    minutes = settings["minutes"]
    german = select(rows, recipe=TIMED, direction="de-en")

    def score(recipe: str, direction: str, **selection: object) -> str:
        own = select(rows, recipe=recipe, direction=direction, **selection)
        return f"{mean(row['test_bleu_beam4'] for row in own):.1f}"

    [parameters] = grouped(select(rows, direction="de-en"), "parameters")
    yield f"{parameters / 1e6:.2f} million parameters"
    yield from grouped(rows, "signature")
    last = [row["test_bleu_beam4"] for row in select(german, minutes=minutes[-1])]
    seeds = {2: "two", 3: "three", 4: "four", 5: "five"}[len(last)]
    spread = f"(mean of {seeds} seeds; lowest {min(last):.1f}, highest {max(last):.1f})"
    yield f"{mean(last):.1f} BLEU from German to English {spread}"
    english = score(TIMED, "en-de", minutes=minutes[-1])
    yield f"After {minutes[-1]:g} minutes, a single run for English to German reached {english}"
    yield f"English to French reached {score(TIMED, 'en-fr', minutes=minutes[-1])}"
    step = only(rows, recipe=PATIENT)["step"]
    yield f"{score(PATIENT, 'de-en')} for German to English after {step:,} steps"
    for row in german:
        yield f"{row['test_bleu_beam4']:.1f} ({row['step']:,} steps)"
    yield f"--direction de-en --minutes {' '.join(f'{after:g}' for after in minutes)}"


if __name__ == "__main__":
    record.run(Multi30k)
