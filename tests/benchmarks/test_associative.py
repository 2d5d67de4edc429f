"""Associative recall: the sequences, the selection of the learning rate, and the record."""

from pathlib import Path

import pytest
import torch

from benchmarks import associative
from benchmarks.associative import KEYS, VALUES, draw
from benchmarks.record import read
from tfmr.errors import TfmrError


def test_the_value_is_the_one_that_was_stored_with_the_key() -> None:
    torch.manual_seed(0)
    x, value = draw(8, 50)
    assert x.shape == (50, 9, KEYS + VALUES)
    keys, values = x[:, :8, :KEYS].argmax(-1), x[:, :8, KEYS:].argmax(-1)
    assert all(len(set(row)) == 8 for row in keys.tolist())
    assert (x[:, :8].sum(-1) == 2).all()
    assert (x[:, 8, KEYS:] == 0).all()
    found = keys == x[:, 8, :KEYS].argmax(-1)[:, None]
    assert (found.sum(-1) == 1).all()
    assert torch.equal(values[found], value)
    assert len(found.nonzero()[:, 1].unique()) == 8  # any of the pairs


def test_attention_learns_a_few_pairs() -> None:
    rows = list(
        associative.Associative(pairs=(4,), count=200).run("self-attention", 0, 0.01, (200,))
    )
    assert rows[0]["accuracy"][0] > 0.9
    assert rows[0]["loss"] < 0.4


def test_every_layer_is_recorded_with_its_best_learning_rate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    layers = tuple(associative.LAYERS)[-2:]
    monkeypatch.setattr(associative, "RATES", (1e-9, 0.01))
    threads = torch.get_num_threads()
    associative.Associative(
        layers=layers, pairs=(1, 2), seeds=(0, 1), steps=(1, 3), selection_steps=30, count=50,
        out=tmp_path / "x.json",
    )()  # fmt: skip
    torch.set_num_threads(threads)
    rows = read(tmp_path / "x.json")["rows"]
    runs = [(row["layer"], row["seed"], row["learning_rate"], row["steps"]) for row in rows]
    selection = [(99, 1e-9, 30), (99, 0.01, 30)]
    recorded = [(seed, 0.01, steps) for seed in (0, 1) for steps in (1, 3)]
    assert runs == [(name, *run) for name in layers for run in (*selection, *recorded)]
    table = associative.table(rows, read(tmp_path / "x.json")["settings"])
    assert table[1].count("\n") == 1 + len(layers) * 2


def test_more_pairs_than_keys_raise(tmp_path: Path) -> None:
    with pytest.raises(TfmrError, match=r"--pairs.*64.*got \[65\]"):
        associative.Associative(pairs=(65,), out=tmp_path / "x.json")()


def test_an_unknown_layer_raises(tmp_path: Path) -> None:
    with pytest.raises(TfmrError, match=r"--layers.*got \['GRU'\]"):
        associative.Associative(layers=("GRU",), out=tmp_path / "x.json")()
