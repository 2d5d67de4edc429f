"""Accuracy by distance: the networks, the selection of the learning rate, and the record."""

from pathlib import Path

import pytest
import torch

from benchmarks import distance
from benchmarks.record import read
from tfmr.errors import TfmrError


@pytest.mark.parametrize("name", distance.LAYERS)
def test_all_networks_have_equally_many_parameters(name: str) -> None:
    network = distance.Network(distance.LAYERS[name])
    missing = distance.PARAMETERS - network.count_parameters()
    assert 0 <= missing < distance.BLOCKS * (2 * distance.D_MODEL + 1) + distance.BLOCKS


@pytest.mark.parametrize("name", ["dilated convolution", "self-attention"])
def test_training_reaches_a_short_distance(name: str) -> None:
    torch.manual_seed(0)
    network = distance.Network(distance.LAYERS[name])
    assert distance.evaluate(network, 2, 200)[1] < 0.6
    distance.train(network, (1, 2), 60, 0.003)
    loss, accuracy = distance.evaluate(network, 2, 200)
    assert accuracy > 0.95
    assert loss < 0.3


def test_every_layer_is_recorded_with_its_best_learning_rate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    layers = dict(list(distance.LAYERS.items())[-2:])
    monkeypatch.setattr(distance, "LAYERS", layers)
    monkeypatch.setattr(distance, "RATES", (1e-9, 0.01))
    threads = torch.get_num_threads()
    distance.Distance(distances=(1, 3), seeds=(0, 1), steps=40, count=60, out=tmp_path / "x.json")()
    torch.set_num_threads(threads)
    written = read(tmp_path / "x.json")
    runs = [(row["layer"], row["seed"], row["peak_lr"]) for row in written["rows"]]
    assert runs == [
        (name, seed, rate)
        for name in layers
        for seed, rate in ((99, 1e-9), (99, 0.01), (0, 0.01), (1, 0.01))
    ]
    assert len(distance.recorded(written["rows"], written["settings"])) == 4
    assert all(len(row["accuracy"]) == 2 for row in written["rows"])


def test_a_distance_of_zero_raises(tmp_path: Path) -> None:
    with pytest.raises(TfmrError, match=r"--distances.*1.*got \[0\]"):
        distance.Distance(distances=(0,), out=tmp_path / "x.json")()
