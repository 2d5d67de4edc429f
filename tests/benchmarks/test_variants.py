"""Variants of a small model, trained with equal learning rates and seeds."""

import dataclasses
from pathlib import Path

import pytest

from benchmarks import division, tying, variants
from benchmarks.record import read
from benchmarks.variants import Comparison
from tests.benchmarks.small import CORPUS


@pytest.mark.parametrize("comparison", [division.COMPARISON, *tying.COMPARISONS.values()])
def test_every_variant_has_every_rate_seed_and_number_of_steps(
    comparison: Comparison, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = dataclasses.replace(CORPUS, train=CORPUS.train[:50], valid=CORPUS.train[:5])
    monkeypatch.setattr(variants.corpora, "load", lambda *_: small)
    sizes = {"d_model": 16, "n_heads": 1, "d_ff": 16, "n_encoder": 1, "n_decoder": 1}
    settings = {f"model.{name}": n for name, n in sizes.items()}
    smaller = dataclasses.replace(comparison, rates=(3e-3, 1e-2), settings=settings)
    smaller.record(seeds=2, steps=(1, 3), out=tmp_path / "out.json")
    record = read(tmp_path / "out.json")
    rows = record["rows"]
    inputs = [tuple(value for name, value in row.items() if name != "valid_loss") for row in rows]
    assert len(set(inputs)) == len(rows) == len(comparison.variants) * 2 * 2 * 2
    lines = smaller.table(rows, record["settings"], "variant").splitlines()
    assert len(lines) == 2 + len(comparison.variants) * 2
    losses = {row["valid_loss"] for row in rows if row["step"] == 3 and row["seed"] == 0}
    assert len(losses) == 2 * len(comparison.variants), "the runs differ"
