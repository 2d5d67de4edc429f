"""Positional encodings beyond training: the models, the tests, and the record."""

from pathlib import Path

import pytest
import torch

from benchmarks import positions
from benchmarks.record import read
from tfmr.attention import causal_mask
from tfmr.position import frequencies


@pytest.mark.parametrize("encoding", positions.ENCODINGS)
def test_models_are_causal(encoding: str) -> None:
    torch.manual_seed(0)
    model = positions.ENCODINGS[encoding]()
    ids = torch.randint(16, (1, 20))
    changed = ids.clone()
    changed[0, 12] = (changed[0, 12] + 1) % 16
    before, after = model(ids, causal_mask(20)), model(changed, causal_mask(20))
    assert torch.equal(before[:, :12], after[:, :12])
    assert not torch.allclose(before[:, 12:], after[:, 12:])


def test_extensions_change_the_frequencies() -> None:
    omega = frequencies(64)
    rotations = {name: make() for name, make in positions.EXTENSIONS.items()}
    angles = {name: torch.atan2(each.sin[1], each.cos[1]) for name, each in rotations.items()}
    assert torch.allclose(angles["unchanged"], omega.float())
    assert torch.allclose(angles["interpolation"], omega.float() / 32, atol=1e-6)
    # The highest frequency is kept, and the lowest is divided by 32.
    slower = omega.float() / angles["larger base"]
    assert slower[0] == pytest.approx(1, rel=1e-4)
    assert slower[-1] == pytest.approx(32, rel=1e-3)


def test_accuracies_by_position(monkeypatch: pytest.MonkeyPatch) -> None:
    def correct_at_even_positions(ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        correct = ids.roll(3, dims=1)
        correct[:, 1::2] = (correct[:, 1::2] + 1) % 16
        return torch.nn.functional.one_hot(correct, 16).float()

    model = positions.ENCODINGS["none"]()
    monkeypatch.setattr(model, "forward", correct_at_even_positions)
    found = positions.accuracies(model, causal_mask(9), 5)
    assert found.tolist() == [0, 1, 0, 1, 0, 1]


def test_a_rotary_model_learns_and_extrapolates() -> None:
    torch.manual_seed(0)
    model = positions.ENCODINGS["rotary"]()
    rotary = model.attention.rotary
    optimizer = torch.optim.Adam(model.parameters(), lr=positions.LR)
    for _ in range(150):
        positions.train_step(model, optimizer)
    row = positions.Positions(count=4).test(model)
    assert model.attention.rotary is rotary
    assert min(row["trained"], row["beyond"], row["far, last 16 keys"]) > 0.9
    assert row["far, interpolation"] < 0.3


def test_the_record_has_a_row_for_each_model_seed_and_number_of_steps(tmp_path: Path) -> None:
    path = tmp_path / "record.json"
    positions.Positions(seeds=(0, 1), steps=(1, 2), count=1, out=path)()
    rows = read(path)["rows"]
    assert [(row["encoding"], row["seed"], row["steps"]) for row in rows] == [
        (encoding, seed, steps)
        for encoding in positions.ENCODINGS
        for seed in (0, 1)
        for steps in (1, 2)
    ]
    assert all(("far, unchanged" in row) == (row["encoding"] == "rotary") for row in rows)
