"""The replayed training: what is recorded, and that the record can be repeated."""

from pathlib import Path

import pytest
import torch

from benchmarks.record import read
from benchmarks.replay import Replay, Run
from tfmr.analysis import entropy
from tfmr.decode import translate
from tfmr.errors import TfmrError
from tfmr.records import record_path
from tfmr.train.loss import cross_entropy_naive


@pytest.mark.usefixtures("small_corpus")
def test_the_state_is_that_of_the_model() -> None:
    run = Run()
    state = run.state()
    [output] = translate(run.model, run.tokenizer, [run.example[0]])
    assert state["output"] == output
    weights = torch.tensor(state["weights"])
    assert weights.sum(dim=-1).tolist() == pytest.approx([1.0] * len(weights), abs=0.01)
    assert state["entropy"] == pytest.approx(float(entropy(weights).mean()), abs=0.01)
    batch = run.valid
    with torch.no_grad():
        expected = cross_entropy_naive(run.model(batch.source, batch.target_in), batch.target_out)
    assert state["valid_loss"] == pytest.approx(float(expected), abs=1e-3)
    assert state["train_loss"] != state["valid_loss"]


@pytest.mark.usefixtures("small_corpus")
def test_the_record_has_every_step(tmp_path: Path) -> None:
    out = tmp_path / "replay.json"
    Replay(steps=(0, 1), out=out)()
    record = read(out)
    assert [row["step"] for row in record["rows"]] == [0, 1]
    assert record["rows"][0]["learning_rate"] == pytest.approx(0.003 / 200)
    assert record["rows"][1]["valid_loss"] < record["rows"][0]["valid_loss"]
    assert len(record["rows"][0]["weights"][0]) == len(record["settings"]["source"].split())
    with pytest.raises(TfmrError, match=r"steps.*ascending order, from 0.*got \(2, 1\)"):
        Replay(steps=(2, 1), out=tmp_path / "replay.json")()


def test_the_record_can_be_repeated() -> None:
    record = read(record_path("replay.json"))
    run = Run()
    assert run.settings() == record["settings"]
    again = list(run.rows((0, 10)))
    for name in ("train_loss", "valid_loss", "entropy", "learning_rate"):
        for recorded, repeated in zip(record["rows"], again, strict=False):
            assert repeated[name] == pytest.approx(recorded[name], rel=0.01)
