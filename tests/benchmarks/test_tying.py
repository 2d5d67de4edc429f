"""Training with and without weight tying and the factor √d_model."""

import dataclasses
import math
from pathlib import Path

import pytest
import torch

from benchmarks import tying
from benchmarks.record import read
from benchmarks.tying import VARIANTS, Tying, cancel_factor
from tests.benchmarks.small import CORPUS
from tfmr.config import TransformerConfig
from tfmr.model import Transformer

SIZES = {"d_model": 16, "n_heads": 2, "d_ff": 16, "n_encoder": 1, "n_decoder": 1}


def test_without_the_factor_only_the_embeddings_are_smaller() -> None:
    model = Transformer(TransformerConfig(source_vocab=9, target_vocab=9, **SIZES)).eval()
    ids = torch.tensor([[4, 5, 6]])
    assert model.position is not None
    zeros = torch.zeros(1, 3, 16)
    positions = model.position(zeros, 0)
    embedded = model._embed(model.target_embedding, ids, "target") - positions
    cancel_factor(model)
    smaller = model._embed(model.target_embedding, ids, "target") - positions
    assert torch.allclose(smaller * math.sqrt(16), embedded, atol=1e-5)
    assert torch.allclose(smaller, model.target_embedding(ids), atol=1e-5)


def test_every_variant_has_every_rate_seed_and_number_of_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = dataclasses.replace(CORPUS, train=CORPUS.train[:50], valid=CORPUS.train[:5])
    monkeypatch.setattr(tying.corpora, "load", lambda *_: small)
    monkeypatch.setattr(tying, "OVERRIDES", {f"model.{name}": n for name, n in SIZES.items()})
    Tying(seeds=2, steps=(1, 3), out=tmp_path / "tying.json")()
    record = read(tmp_path / "tying.json")
    rows = record["rows"]
    names = ("tie", "factor", "peak_lr", "seed", "step")
    assert len({tuple(row[name] for name in names) for row in rows}) == len(rows) == 3 * 2 * 2 * 2
    [text, lines] = tying.table(rows, record["settings"])
    assert "means of 2 seeds" in text
    assert len(lines.splitlines()) == 2 + len(VARIANTS) * len(tying.RATES)
    losses = {row["valid_loss"] for row in rows if row["step"] == 3 and row["seed"] == 0}
    assert len(losses) == 6, "the runs differ"
