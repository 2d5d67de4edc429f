"""Accuracy by distance: the networks, their reach, and the record."""

from pathlib import Path

import pytest
import torch

from benchmarks import distance
from benchmarks.recall import draw
from benchmarks.record import read
from tfmr.errors import TfmrError


@pytest.mark.parametrize("name", distance.LAYERS)
def test_all_networks_have_equally_many_parameters(name: str) -> None:
    network = distance.Network(distance.LAYERS[name])
    missing = distance.PARAMETERS - network.count_parameters()
    assert 0 <= missing < distance.BLOCKS * (2 * distance.D_MODEL + 1) + distance.BLOCKS


@pytest.mark.parametrize("name", distance.LAYERS)
def test_the_reach_is_that_of_the_network(name: str) -> None:
    """The gradient of the classification is zero beyond the reach only."""
    torch.manual_seed(0)
    network = distance.Network(distance.LAYERS[name]).double()
    reach = distance.REACH.get(name, 40)
    x, _ = draw(reach + 5, 1)
    x = x.double().requires_grad_()
    network(x).square().sum().backward()
    assert x.grad is not None
    depends = x.grad[0].abs().sum(dim=-1) != 0
    assert depends[5:].all()
    assert depends[:5].any() == (name not in distance.REACH)


@pytest.mark.parametrize("name", ["convolution", "self-attention"])
def test_training_reaches_a_short_distance(name: str) -> None:
    torch.manual_seed(0)
    network = distance.Network(distance.LAYERS[name])
    assert distance.accuracy(network, 2, 200) < 0.6
    distance.train(network, (1, 2), 60)
    assert distance.accuracy(network, 2, 200) > 0.95


def test_the_record_has_every_layer_and_seed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    layers = dict(list(distance.LAYERS.items())[:2])
    monkeypatch.setattr(distance, "LAYERS", layers)
    distance.Distance(distances=(1, 3), seeds=(0, 1), steps=2, count=60, out=tmp_path / "x.json")()
    written = read(tmp_path / "x.json")
    runs = [(row["layer"], row["seed"], len(row["accuracy"])) for row in written["rows"]]
    assert runs == [(name, seed, 2) for name in layers for seed in (0, 1)]
    torch.manual_seed(1)
    network = distance.Network(distance.LAYERS["recurrent (RNN)"])
    distance.train(network, (1, 3), 2)
    assert written["rows"][1]["accuracy"] == [distance.accuracy(network, n, 60) for n in (1, 3)]
    with pytest.raises(TfmrError, match=r"--distances.*1.*got \[0\]"):
        distance.Distance(distances=(0,), out=tmp_path / "x.json")()
    with pytest.raises(TfmrError, match=r"--jobs.*1.*got 0"):
        distance.Distance(jobs=0, out=tmp_path / "x.json")()
