"""The copy task, its accuracy, and the record."""

from pathlib import Path

import pytest
import torch

from benchmarks import copying
from benchmarks.record import read
from tfmr.errors import TfmrError
from tfmr.seq2seq import Seq2Seq
from tfmr.special_tokens import BOS, EOS

TINY = copying.Copying(seeds=(0, 1), steps=1, count=3)


def test_copy_task() -> None:
    digits, previous, expected = copying.copy_task(5, 400)
    assert sorted(digits.unique().tolist()) == list(range(4, 14))
    assert (previous[:, 0] == BOS).all()
    assert (expected[:, -1] == EOS).all()
    assert torch.equal(previous[:, 1:], digits)
    assert torch.equal(expected[:, :-1], digits)


def test_variants_differ_in_attention_only() -> None:
    configs = [copying.build(attention).config for attention in (False, True)]
    assert [config.attention for config in configs] == [False, True]
    assert len({(c.cell, c.d_model, c.dropout, c.source_vocab) for c in configs}) == 1


def test_training_reduces_the_loss() -> None:
    torch.manual_seed(0)
    model = copying.build(attention=False)
    digits, previous, expected = copying.copy_task(2, 100)

    def loss() -> float:
        scores = model(digits, previous).flatten(0, 1)
        return torch.nn.functional.cross_entropy(scores, expected.flatten()).item()

    before = loss()
    copying.train(model, 30)
    assert loss() < before - 0.3
    assert not model.training


def test_a_sequence_with_one_error_counts_as_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    def search(model: Seq2Seq, digits: torch.Tensor) -> list[list[int]]:
        outputs = digits.tolist()
        outputs[0][-1] += 1
        return [*outputs[:-1], outputs[-1][:-1]]

    monkeypatch.setattr(copying, "greedy_search", search)
    assert copying.accuracy(copying.build(attention=False), length=3, count=8) == 6 / 8


def test_the_record_has_a_row_for_each_variant_and_seed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copying, "LENGTHS", (2, 5))
    copying.Copying(
        seeds=TINY.seeds, steps=TINY.steps, count=TINY.count, out=tmp_path / "copying.json"
    )()
    record = read(tmp_path / "copying.json")
    names = [(row["variant"], row["seed"]) for row in record["rows"]]
    assert names == [(variant, seed) for variant in TINY.variants for seed in TINY.seeds]
    assert [row["steps"] for row in record["rows"]] == [1, 1, 2, 2, 1, 1]
    assert all(len(row["accuracy"]) == 2 for row in record["rows"])
    assert record["rows"] == list(copying.measure(TINY))


def test_too_small_numbers_raise(tmp_path: Path) -> None:
    with pytest.raises(TfmrError, match=r"1.*got 600.*0"):
        copying.Copying(count=0, out=tmp_path / "copying.json")()
    with pytest.raises(TfmrError, match=r"--variants.*got \['two'\]"):
        copying.Copying(variants=("attention", "two"), out=tmp_path / "copying.json")()
