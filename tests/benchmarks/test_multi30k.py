"""Runs are ordered by seed, trained by the command line, and not repeated."""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks.multi30k import PATIENT, TIMED, Multi30k, TrainingRun
from benchmarks.record import read
from tfmr.errors import TfmrError

PLAN = Multi30k(seeds={"de-en": 2, "en-fr": 1}, minutes=(5.0, 10.0), patient=("en-fr",))


Done = subprocess.CompletedProcess[str]


class Shell:
    """Replaces the command line: a run writes one score for each of its training times."""

    def __init__(self, *, fails: bool = False, most: int = 30_000) -> None:
        self.commands: list[list[str]] = []
        self.most = most
        self.fails = fails

    def __call__(self, words: list[str], check: bool) -> subprocess.CompletedProcess[str]:
        assert words[:4] == [sys.executable, "-m", "tfmr", "train"]
        assert not check
        self.commands.append(words)
        folder = Path(words[words.index("--out") + 1])
        marks = words[words.index("--minutes") + 1 :] if "--minutes" in words else ["61.5"]
        scores = [
            {
                "minutes": float(mark),
                "step": 9000,
                "test_bleu_beam4": 30.0 + float(mark),
                "signature": "s",
            }
            for mark in marks
            if mark != "--resume"
        ]
        folder.mkdir(parents=True, exist_ok=True)
        recipe = {"budget": {"steps": [self.most]}}
        metadata = {"parameters": 7, "commit": "c", "recipe": recipe, "scores": scores}
        metadata |= {"hardware": {"threads": 2}}
        (folder / "scores.json").write_text(json.dumps(metadata), "utf-8")
        return subprocess.CompletedProcess(words, int(self.fails))


Measured = Callable[..., list[Any]]


@pytest.fixture
def measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Measured:
    """The recorded rows of the plan, with a shell in place of the command line."""

    def measure(shell: Shell, *, keep: bool = False) -> list[Any]:
        monkeypatch.setattr("benchmarks.multi30k.subprocess", SimpleNamespace(run=shell))
        out = tmp_path / "multi30k.json"
        Multi30k(PLAN.seeds, PLAN.minutes, PLAN.patient, keep, tmp_path / "runs", out)()
        return read(out)["rows"]

    return measure


def test_the_first_seed_of_every_direction_comes_first() -> None:
    runs = [(run.recipe, run.direction, run.seed) for run in PLAN.runs_to_record()]
    assert runs == [
        (TIMED, "de-en", 0),
        (TIMED, "en-fr", 0),
        (TIMED, "de-en", 1),
        (PATIENT, "en-fr", 0),
    ]


def test_each_evaluation_is_a_row(measured: Measured) -> None:
    rows = measured(Shell())
    assert [(row["recipe"], row["direction"], row["seed"], row["minutes"]) for row in rows] == [
        *((TIMED, direction, 0, minutes) for direction in PLAN.seeds for minutes in PLAN.minutes),
        *((TIMED, "de-en", 1, minutes) for minutes in PLAN.minutes),
        (PATIENT, "en-fr", 0, 61.5),
    ]
    assert {(row["parameters"], row["commit"], row["threads"]) for row in rows} == {(7, "c", 2)}
    assert [row.get("until") for row in rows] == [*[None] * 6, "until converged"]


def test_a_run_that_uses_all_its_steps_is_labelled_with_them(measured: Measured) -> None:
    rows = measured(Shell(most=9000))
    assert rows[-1]["until"] == "9,000 steps"


def test_finished_runs_are_not_repeated_and_interrupted_ones_resume(
    tmp_path: Path, measured: Measured
) -> None:
    first = measured(Shell())
    again = Shell()
    stopped = tmp_path / "runs" / f"{TIMED}-de-en-1"
    metadata = json.loads((stopped / "scores.json").read_text("utf-8"))
    del metadata["scores"][-1]
    (stopped / "scores.json").write_text(json.dumps(metadata), "utf-8")
    (stopped / "recipe.toml").touch()
    assert measured(again) == first
    [command] = again.commands
    assert command[-1] == "--resume"
    assert command[command.index("--seed") + 1] == "1"


def test_recorded_rows_are_kept_without_a_folder(tmp_path: Path, measured: Measured) -> None:
    first = measured(Shell())
    shutil.rmtree(tmp_path / "runs" / f"{TIMED}-de-en-0")
    shutil.rmtree(tmp_path / "runs" / f"{PATIENT}-en-fr-0")
    again = Shell()
    assert measured(again, keep=True) == first
    assert again.commands == []
    measured(again)
    assert len(again.commands) == 2


def test_incomplete_recorded_rows_are_not_kept(tmp_path: Path, measured: Measured) -> None:
    rows = measured(Shell())
    gone = TrainingRun(TIMED, "de-en", 0, (5.0, 10.0), tmp_path / "gone")
    assert gone.recorded(rows) == rows[:2]
    assert gone.recorded(rows[1:]) == []
    assert TrainingRun(TIMED, "de-en", 7, (5.0, 10.0), tmp_path / "gone").recorded(rows) == []


def test_a_failed_run_raises(tmp_path: Path, measured: Measured) -> None:
    with pytest.raises(TfmrError, match=f"the run in .*{TIMED}-de-en-0 failed"):
        measured(Shell(fails=True))
    assert not (tmp_path / "multi30k.json").exists()


def test_other_training_times_of_a_finished_run_raise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, measured: Measured
) -> None:
    measured(Shell())
    monkeypatch.setattr(
        "benchmarks.multi30k.subprocess", SimpleNamespace(run=lambda words, check: Done(words, 0))
    )
    with pytest.raises(TfmrError, match=r"evaluated.*\[2.5\] minutes"):
        Multi30k({"de-en": 1}, (2.5,), (), False, tmp_path / "runs", tmp_path / "other.json")()


def test_the_command_is_that_of_the_command_line(tmp_path: Path) -> None:
    words = TrainingRun(TIMED, "en-de", 2, (5.0, 10.0), tmp_path).command()
    assert " ".join(words) == (
        "tfmr train --corpus multi30k --direction en-de --recipe multi30k --seed 2 "
        f"--out {tmp_path / 'multi30k-en-de-2'} --minutes 5 10"
    )
