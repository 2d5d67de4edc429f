"""Relations between names: the models, their training, and the record."""

from pathlib import Path

import pytest
import torch

from benchmarks import relations
from benchmarks.record import read

TINY = relations.Relations(seeds=(0, 1), steps=(1, 2), count=3)


def test_names_at_the_offsets() -> None:
    ids, names = relations.draw(2, torch.Generator().manual_seed(0))
    assert names.shape == (2, 8, 4)
    for position in range(8):
        expected = [ids[0, (position + offset) % 8] for offset in (-2, -1, 1, 2)]
        assert names[0, position].tolist() == expected


@pytest.mark.parametrize("surrounding", ["attention", "block"])
def test_one_and_four_heads_have_the_same_parameters(surrounding: str) -> None:
    one, four, unprojected = (
        sum(p.numel() for p in relations.Model(*relations.VARIANTS[name]).parameters())
        for name in relations.VARIANTS
        if name.startswith(surrounding)
    )
    assert one == four == unprojected + 32 * 33


def test_without_projection_a_head_writes_to_its_own_columns() -> None:
    torch.manual_seed(0)
    model = relations.Model(4, False, False)
    x = torch.randn(1, 8, 32)
    before = model.block(x)
    with torch.no_grad():
        model.block.w_v.weight[:8] += 1
    changed = (model.block(x) != before).any(dim=1)[0]
    assert changed.tolist() == [True] * 8 + [False] * 24


def test_training_increases_the_accuracy() -> None:
    torch.manual_seed(0)
    model = relations.Model(4, False, True)
    optimizer = torch.optim.Adam(model.parameters(), lr=relations.LR)
    before = relations.accuracy(model, 50)
    for _ in range(40):
        relations.train_step(model, optimizer, torch.Generator().manual_seed(0))
    assert before < 0.3 < relations.accuracy(model, 50)


def test_the_record_has_a_row_for_each_variant_and_seed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relations, "accuracy", lambda model, number: 1.0)
    relations.Relations(seeds=(0, 1), steps=(1, 2), out=tmp_path / "record.json")()
    rows = read(tmp_path / "record.json")["rows"]
    assert [(row["variant"], row["seed"]) for row in rows] == [
        (variant, seed) for variant in relations.VARIANTS for seed in (0, 1)
    ]
    # Every seed is above the limit after the first step.
    assert all(row["accuracy"] == [1.0] for row in rows)


def test_training_continues_until_every_seed_has_learned(monkeypatch: pytest.MonkeyPatch) -> None:
    values = iter([1.0, 0.9, 1.0, 0.95])
    monkeypatch.setattr(relations, "accuracy", lambda model, number: next(values))
    monkeypatch.setattr(relations, "VARIANTS", {"one": (1, False, True)})
    assert [row["accuracy"] for row in TINY.measure()] == [[1.0, 1.0], [0.9, 0.95]]
