"""The mean of a run's last checkpoints."""

import dataclasses
from pathlib import Path

import pytest
import torch

from tests.test_checkpoint import CONFIG, new_checkpoint
from tfmr import checkpoint
from tfmr.checkpoint import Checkpoint
from tfmr.data.tokenizer import Tokenizer
from tfmr.errors import TfmrError
from tfmr.train import averaging
from tfmr.train.averaging import CheckpointAverager, average_checkpoints


def test_the_average_is_the_mean_of_the_weights(tmp_path: Path) -> None:
    paths = [str(tmp_path / f"{seed}.safetensors") for seed in range(3)]
    saved = [new_checkpoint(seed=seed) for seed in range(3)]
    for path, one in zip(paths, saved, strict=True):
        checkpoint.save(path, dataclasses.replace(one, metadata={"path": path}))
    average = average_checkpoints(paths)
    assert (average.state, average.metadata) == ({}, {"path": paths[-1]})
    for name, weight in average.weights.items():
        mean = torch.stack([one.weights[name] for one in saved]).double().mean(dim=0)
        assert torch.equal(weight, mean.float())

    with pytest.raises(TfmrError, match="checkpoint to average, got none"):
        average_checkpoints([])
    for number, other in enumerate(
        (
            new_checkpoint(dataclasses.replace(CONFIG, d_ff=16)),
            new_checkpoint(tokenizer=Tokenizer("words", ["a", "b", "d"])),
        )
    ):
        other_path = tmp_path / f"other{number}.safetensors"
        checkpoint.save(other_path, other)
        with pytest.raises(TfmrError, match="has another configuration or vocabulary than"):
            average_checkpoints([paths[0], other_path])


def test_the_averager_keeps_the_last_checkpoints_and_reads_them_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    averager = CheckpointAverager(str(tmp_path / "checkpoints"), 2)
    assert averager.average(9) == {}
    read: list[list[int]] = []

    def recording(paths: list[Path]) -> Checkpoint:
        read.append([int(path.stem) for path in paths])
        return average_checkpoints(paths)

    monkeypatch.setattr(averaging, "average_checkpoints", recording)
    for step in (1, 2, 3):
        averager.add(step, new_checkpoint(seed=step))
        averager.average(step)
        averager.average(step)
    assert read == [[1], [1, 2], [2, 3]]
    assert [int(path.stem) for path in averager.paths(2)] == [2], "after a resume at step 2"
    (tmp_path / "checkpoints" / "9 copy.safetensors").touch()
    assert [int(path.stem) for path in averager.paths(3)] == [2, 3]
