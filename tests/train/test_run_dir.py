"""The files of a run directory: which ones a new run must not overwrite, and the table formats."""

import csv
from pathlib import Path

import pytest

from tfmr.errors import TfmrError
from tfmr.train.evaluation import ValidationResult
from tfmr.train.run_dir import (
    FILES,
    check_run_dir,
    curve_csv,
    read_curve,
    samples_tsv,
    validation_csv,
    write_text,
)
from tfmr.train.trainer import StepRecord

CURVE = [
    StepRecord(1, 5.25, 0.5, 12.5, 1e-3, 999, 0.125),
    StepRecord(1_234_567, 1 / 3, 2.0, 1e4, 2e-5, 12, 86400.5),
]


@pytest.mark.parametrize("name", FILES)
def test_a_new_run_overwrites_no_file(tmp_path: Path, name: str) -> None:
    check_run_dir(str(tmp_path), resume=False)
    (tmp_path / name).touch()
    message = "belong to a run and would be overwritten"
    if name in ("model.safetensors", "recipe.toml"):
        message = "already holds a run: continue it with --resume"
    with pytest.raises(TfmrError, match=message):
        check_run_dir(tmp_path, resume=False)


def test_a_curve_is_read_back(tmp_path: Path) -> None:
    path = tmp_path / "curve.csv"
    write_text(str(path), curve_csv(CURVE))
    assert path.read_text().splitlines() == [
        "step,loss,grad_norm,weight_norm,learning_rate,tokens,seconds",
        "1,5.25,0.5,12.5,0.001,999,0.125",
        "1234567,0.333333333,2,10000,2e-05,12,86400.5",
    ]
    first, second = read_curve(str(path))
    assert first == CURVE[0]
    assert second.loss == pytest.approx(1 / 3, rel=1e-8)
    assert isinstance(second.step, int)


@pytest.mark.parametrize("text", ["a,b\n1,2\n", "step,loss\n1,2\n", "step,tokens\nx,1\n"])
def test_another_file_is_not_read_as_a_curve(tmp_path: Path, text: str) -> None:
    path = tmp_path / "curve.csv"
    with pytest.raises(TfmrError, match="no curve at"):
        read_curve(path)
    path.write_text(text)
    with pytest.raises(TfmrError, match="step, loss, grad_norm") as error:
        read_curve(path)
    assert "\n" not in str(error.value)


def test_the_validation_table_marks_each_new_best_result() -> None:
    by_bleu = [
        ValidationResult(1, 1.0, 3.0, 20.0),
        ValidationResult(2, 2.0, 2.0, 19.0),
        ValidationResult(3, 3.0, 9.0, 20.5),
    ]
    rows = list(csv.DictReader(validation_csv(by_bleu, 7).splitlines()))
    assert [row["best"] for row in rows] == ["1", "0", "1"]
    assert [float(row["bleu"]) for row in rows] == [20.0, 19.0, 20.5]
    by_loss = validation_csv([ValidationResult(1, 1.0, 3.0, None)], 7)
    assert by_loss == "step,seconds,sentences,loss,bleu,best\n1,1,7,3.000000,,1\n"


@pytest.mark.parametrize(("sentences", "rows"), [(5, 5), (20, 20), (1000, 20)])
def test_samples_are_taken_at_equal_intervals(sentences: int, rows: int) -> None:
    sources = [f"source {i}" for i in range(sentences)]
    references = [f"reference {i}" for i in range(sentences)]
    header, *lines = samples_tsv(sources, references, references).splitlines()
    assert header == "source\treference\thypothesis\tchrF"
    interval = sentences // rows
    assert lines == [
        f"source {i}\treference {i}\treference {i}\t100.0" for i in range(0, sentences, interval)
    ]
