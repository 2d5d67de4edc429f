"""Training with and without the division by √d_k."""

import dataclasses
from pathlib import Path

import pytest
import torch

from benchmarks import division
from benchmarks.division import DIVIDED, SMALL_START, UNDIVIDED, VARIANTS, Division
from benchmarks.record import read
from tests.benchmarks.small import CORPUS
from tfmr.config import TransformerConfig
from tfmr.model import Transformer

SIZES = {"d_model": 16, "n_heads": 1, "d_ff": 16, "n_encoder": 1, "n_decoder": 1}


def test_only_the_small_start_has_the_initial_scores_of_the_divided_model() -> None:
    logits = {}
    for variant in VARIANTS:
        torch.manual_seed(0)
        model = Transformer(TransformerConfig(source_vocab=9, target_vocab=9, **SIZES)).eval()
        division.CHANGE[variant](model)
        ids = torch.tensor([[4, 5, 6]])
        logits[variant] = model(ids, ids)
    assert torch.allclose(logits[SMALL_START], logits[DIVIDED], atol=1e-5)
    assert not torch.allclose(logits[UNDIVIDED], logits[DIVIDED], atol=1e-5)


def test_every_variant_has_every_rate_seed_and_number_of_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = dataclasses.replace(CORPUS, train=CORPUS.train[:50], valid=CORPUS.train[:5])
    monkeypatch.setattr(division.corpora, "load", lambda *_: small)
    changes = {f"model.{name}": n for name, n in SIZES.items()}
    monkeypatch.setattr(division, "CHANGES", {**changes, "batches.tokens_per_batch": 256})
    monkeypatch.setattr(division, "RATES", (3e-3, 1e-2))
    Division(seeds=2, steps=(1, 3), out=tmp_path / "division.json")()
    record = read(tmp_path / "division.json")
    rows = record["rows"]
    names = ("variant", "peak_lr", "seed", "step")
    assert len({tuple(row[name] for name in names) for row in rows}) == len(rows) == 3 * 2 * 2 * 2
    [text, lines] = division.table(rows, record["settings"])
    assert "means of 2 seeds" in text
    assert len(lines.splitlines()) == 2 + len(VARIANTS) * 2
    losses = {row["valid_loss"] for row in rows if row["step"] == 3 and row["seed"] == 0}
    assert len(losses) == 6, "the runs differ"
