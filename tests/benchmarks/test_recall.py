"""Recall of the first symbol: the task, the networks, and the record."""

from pathlib import Path

import pytest
import torch

from benchmarks import recall
from benchmarks.record import read
from tfmr.errors import TfmrError
from tfmr.recurrent import RNN


def test_only_the_first_symbol_is_to_be_recalled() -> None:
    torch.manual_seed(0)
    x, first = recall.draw(distance=5, batch=200)
    ids = x.argmax(-1)
    assert x.shape == (200, 6, 2 * recall.SYMBOLS)
    assert torch.equal(x.sum(-1), torch.ones(200, 6))
    assert torch.equal(ids[:, 0], first)
    assert set(first.tolist()) == set(range(recall.SYMBOLS))
    assert set(ids[:, 1:].flatten().tolist()) == set(range(recall.SYMBOLS, 2 * recall.SYMBOLS))


@pytest.mark.parametrize(
    ("name", "bias"), [("LSTM, forget bias 1", 1), ("LSTM, forget bias 5", 5),
                       ("GRU, update bias 5", 5)],
)  # fmt: skip
def test_the_bias_is_that_of_the_gate_that_keeps_the_state(name: str, bias: float) -> None:
    biases = recall.NETWORKS[name]().cells[0].w_x.bias.view(-1, recall.D_HIDDEN)
    # f is the second of i, f, g, o, and z the second of r, z, n.
    assert (biases[1] == bias).all()
    assert all((row.abs() < 1).all() for row in biases[[0, *range(2, len(biases))]])


def test_training_reaches_a_short_distance() -> None:
    torch.manual_seed(0)
    before, after = (
        recall.accuracy_after_training(RNN(2 * recall.SYMBOLS, recall.D_HIDDEN), 1, steps)
        for steps in (0, 60)
    )
    assert before < 0.6 < 0.95 < after


def test_the_record_has_every_network_distance_and_seed(tmp_path: Path) -> None:
    recall.Recall(distances=(1, 2), seeds=(0, 1), steps=2, out=tmp_path / "recall.json")()
    written = read(tmp_path / "recall.json")
    runs = [(row["network"], row["distance"], row["seed"]) for row in written["rows"]]
    assert runs == [(name, n, seed) for name in recall.NETWORKS for n in (1, 2) for seed in (0, 1)]
    assert written["settings"]["steps"] == 2
    first, second = (row["accuracy"] for row in written["rows"][:2])
    torch.manual_seed(0)
    assert first == round(recall.accuracy_after_training(recall.NETWORKS["RNN"](), 1, 2), 4)
    assert first != second
    with pytest.raises(TfmrError, match=r"--distances.*1.*got \[0\]"):
        recall.Recall(distances=(0,), out=tmp_path / "x.json")()
