"""The doctor names what is wrong with a curve, and nothing in a healthy one."""

import json
from pathlib import Path

import pytest

from benchmarks.curves import KINDS
from tfmr.doctor import Curve, diagnose, read_curve
from tfmr.doctor.curve import compare, recorded_curve
from tfmr.errors import TfmrError
from tfmr.records import record_path

RUNS: dict[tuple[str, int], list[dict]] = {}
for row in json.loads(record_path("curves.json").read_text("utf-8"))["rows"]:
    RUNS.setdefault((row["run"], row["seed"]), []).append(row)


def test_there_are_ten_runs_of_every_kind() -> None:
    assert set(RUNS) == {(kind, seed) for kind in KINDS for seed in range(10)}


@pytest.mark.parametrize("run", RUNS, ids=str)
def test_the_fault_of_a_run_is_named(run: tuple[str, int]) -> None:
    report = diagnose(recorded_curve(RUNS[run]))
    assert [each.name for each in report.faults] == [run[0]] * (run[0] != "healthy"), report


@pytest.mark.parametrize(
    ("kind", "fault"),
    [
        ("healthy", None),
        ("learning rate of 0.1", None),  # without the weight norm, the probe does not decide
        ("200 pairs", "overfitting"),
        ("no shift", "leak"),
    ],
)
@pytest.mark.parametrize("seed", range(5))
def test_other_runs_to_which_no_limit_was_fitted(kind: str, fault: str | None, seed: int) -> None:
    rows = [
        row
        for row in json.loads(record_path("sick-runs.json").read_text("utf-8"))["rows"]
        if (row["run"], row["seed"]) == (kind, seed) and "step" in row
    ]
    steps = [row["step"] for row in rows]
    valid = list(zip(steps, [row["valid_loss"] for row in rows], strict=True))
    report = diagnose(Curve(steps, [row["train_loss"] for row in rows], valid))
    assert [each.name for each in report.faults] == ([fault] if fault else []), report
    assert report["rate too high"].verdict == "undecided"


def test_the_recorded_run_on_captions_is_healthy() -> None:
    assert not diagnose(read_curve(record_path("multi30k-de-en") / "curve.csv")).faults


def test_a_loss_that_is_not_finite() -> None:
    losses = [6.0, 5.0, 4.0, 3.5, 3.2, float("nan"), float("nan"), float("nan")]
    report = diagnose(Curve(range(8), losses))
    assert [each.name for each in report.faults] == ["rate too high"]


def test_a_short_table_that_diverges() -> None:
    """Between some rows, there is none in a tenth of the run."""
    report = diagnose(Curve(range(1, 9), [6.0, 5.0, 4.0, 3.5, 3.2, 5.5, 5.8, 5.9]))
    assert [each.name for each in report.faults] == ["rate too high"]


def test_a_probe_without_a_validation_where_it_needs_one_is_undecided() -> None:
    losses = [6 - 0.4 * k for k in range(10)]
    report = diagnose(Curve(range(1, 11), losses, [(5, 4.2), (10, 2.5)]))
    assert report["leak"].verdict == "undecided"
    assert "between 15% and 30%" in report["leak"].text
    assert report["overfitting"].verdict == "ok"


def test_a_trained_model_that_improves_little_is_undecided() -> None:
    report = diagnose(Curve(range(1, 11), [2.0 - 0.01 * k for k in range(10)]))
    assert not report.faults
    assert "trained model" in report["not learning"].text


def test_usual_names_of_columns_and_empty_cells(tmp_path: Path) -> None:
    path = tmp_path / "curve.csv"
    rows = [f"{k},{6 - k / 4},{5 - k / 4 if k % 2 else ''}" for k in range(8)]
    path.write_text("\n".join(["iter,train_loss,val_loss", *rows]), "utf-8")
    curve = read_curve(path)
    assert list(curve.step) == list(range(8))
    assert curve.loss[4] == 5.0
    assert curve.valid_loss == [(k, 5 - k / 4) for k in (1, 3, 5, 7)]
    assert not curve.weight_norm


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("step,loss\n1,2\n", ["at least 8 rows", "got 1"]),
        ("step,other\n1,2\n", ["columns step and loss"]),
        ("step,loss\n" + "1,x\n" * 8, ["numbers", "loss"]),
        ("step,loss\n" + "".join(f"{k % 5},2\n" for k in range(8)), ["increasing", "0 after 4"]),
    ],
)
def test_a_table_that_is_no_curve(tmp_path: Path, text: str, words: list[str]) -> None:
    path = tmp_path / "curve.csv"
    path.write_text(text, "utf-8")
    with pytest.raises(TfmrError) as error:
        read_curve(path)
    assert all(word in str(error.value) for word in words)


def test_the_figure_states_both_runs() -> None:
    figure = compare(recorded_curve(RUNS["leak", 0]))
    last = RUNS["leak", 0][-1]
    assert f"your run: {last['loss']:.2f} and {last['valid_loss']:.2f}" in figure.alt
    assert "a healthy run" in figure.alt
