"""Loss curves of a healthy training and of faulty ones."""

import dataclasses
from pathlib import Path

import pytest

from benchmarks import sick_runs
from benchmarks.record import read
from benchmarks.sick_runs import FAULTS, SickRuns, Unshifted
from tests.benchmarks.small import CORPUS, WORDS
from tfmr.data.batches import Batches

SIZES = {"d_model": 16, "n_heads": 2, "d_ff": 16, "n_encoder": 1, "n_decoder": 1}


def test_an_unshifted_batch_contains_its_labels_as_input() -> None:
    pairs = [(WORDS.encode(a), WORDS.encode(b)) for a, b in CORPUS.train[:9]]
    settings = {"tokens_per_batch": 64, "seed": 0, "max_length": 32}
    both = zip(
        Batches(pairs, **settings).epoch(0), Unshifted(pairs, **settings).epoch(0), strict=True
    )
    for batch, unshifted in both:
        assert unshifted.target_in.equal(batch.target_out)
        assert unshifted.target_out.equal(batch.target_out)
        assert unshifted.source.equal(batch.source)


def test_every_run_has_its_losses_and_its_translations(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = dataclasses.replace(CORPUS, train=CORPUS.train[:50], valid=CORPUS.train[:5])
    monkeypatch.setattr(sick_runs.corpora, "load", lambda *_: small)
    monkeypatch.setattr(sick_runs, "OVERRIDES", {f"model.{name}": n for name, n in SIZES.items()})
    SickRuns(seeds=2, steps=4, every=2, out=tmp_path / "sick-runs.json")()
    record = read(tmp_path / "sick-runs.json")
    losses = [row for row in record["rows"] if "step" in row]
    assert len(losses) == len(FAULTS) * 2 * 3
    assert all(row["train_loss"] > 0 < row["valid_loss"] for row in losses)
    assert len(record["rows"]) == len(losses) + len(FAULTS) * 2
    [_, lines] = sick_runs.table(record["rows"], record["settings"])
    assert all(f"| {name} |" in lines for name in FAULTS)
