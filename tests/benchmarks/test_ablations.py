"""Training with and without label smoothing and warm-up."""

import dataclasses
from pathlib import Path

import pytest
import torch

from benchmarks import ablations
from benchmarks.ablations import (
    OVERRIDES,
    VARIANTS,
    Ablations,
    Variant,
    measure,
    omit_warmup,
    predictions,
)
from benchmarks.record import read
from tests.benchmarks.small import CORPUS
from tfmr.data import corpora
from tfmr.model import Transformer
from tfmr.registry import build_model
from tfmr.train.config import Recipe, find_recipe
from tfmr.train.evaluation import mean_loss
from tfmr.train.schedule import learning_rate
from tfmr.train.trainer import Trainer

SMALL = dataclasses.replace(CORPUS, train=CORPUS.train[:50], valid=CORPUS.train[:5])


@pytest.fixture
def recipe() -> Recipe:
    sizes = {"d_model": 8, "n_heads": 2, "d_ff": 8, "n_encoder": 1, "n_decoder": 1, "dropout": 0.0}
    overrides = {f"model.{name}": value for name, value in sizes.items()}
    return find_recipe("pocket").with_overrides(overrides | {"train.warmup": 3})


def trainer_of(recipe: Recipe) -> Trainer:
    tokenizer = recipe.train_tokenizer(SMALL)
    torch.manual_seed(0)
    model = build_model(recipe.model_config(tokenizer.vocab_size))
    return Trainer(model, recipe.make_batches(SMALL.train, tokenizer), recipe.train)


def test_without_warm_up_the_rate_starts_at_its_peak(recipe: Recipe) -> None:
    rates: list[float] = []
    trainer = trainer_of(recipe)
    omit_warmup(trainer)
    trainer.optimizer.register_step_post_hook(
        lambda optimizer, *_: rates.append(optimizer.param_groups[0]["lr"])
    )
    trainer.run(steps=6)
    peak = recipe.train.peak_lr
    assert rates == [peak] * 3 + [learning_rate(step, peak, 3) for step in (4, 5, 6)]


def test_variants_differ_and_include_the_recipe() -> None:
    assert len(set(VARIANTS)) == len(VARIANTS) == 9
    recipe = find_recipe("pocket")
    settings = (recipe.model.norm, recipe.train.label_smoothing, recipe.train.peak_lr)
    assert (Variant().norm, Variant().label_smoothing, Variant().peak_lr) == settings


def test_predictions_are_means_over_target_tokens(recipe: Recipe) -> None:
    trainer = trainer_of(recipe)
    batches, model = trainer.batches, trainer.model.eval()
    row = predictions(model, batches)
    assert row["valid_loss"] == pytest.approx(mean_loss(model, batches), abs=1e-4)
    assert 0 < row["correct"] < row["confidence"] < 1
    before = row["accuracy"]
    trainer.run(steps=150)
    row = predictions(model.eval(), batches)
    assert row["accuracy"] > before + 0.1
    assert row["accuracy"] <= 1


def test_a_perfect_and_confident_model_is_calibrated(
    recipe: Recipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer = trainer_of(recipe)
    batch = next(trainer.batches.epoch(0))
    labels = torch.nn.functional.one_hot(batch.target_out, 600) * 50.0
    monkeypatch.setattr(Transformer, "forward", lambda *_: labels)
    monkeypatch.setattr(trainer.batches, "epoch", lambda _: [batch])
    assert predictions(trainer.model, trainer.batches) == {
        "valid_loss": 0.0,
        "correct": 1.0,
        "confidence": 1.0,
        "accuracy": 1.0,
    }


def test_each_variant_is_trained_as_it_says(recipe: Recipe) -> None:
    variants = [
        Variant(),
        Variant(label_smoothing=0.0),
        Variant(warmup=False),
        Variant(norm="post"),
        Variant(peak_lr=1e-2),
    ]
    rows = list(measure(SMALL, recipe, variants, [0], 4))
    assert [row["norm"] for row in rows] == ["pre", "pre", "pre", "post", "pre"]
    assert len({row["valid_loss"] for row in rows}) == len(variants)
    assert rows[0] == next(measure(SMALL, recipe, variants, [0], 4))
    assert rows[0]["valid_loss"] != next(measure(SMALL, recipe, variants, [1], 4))["valid_loss"]


def test_a_run_that_diverges_is_recorded(recipe: Recipe) -> None:
    [row] = measure(SMALL, recipe, [Variant(peak_lr=1e30)], [0], 4)
    assert row["diverged"]
    assert "valid_loss" not in row


def test_the_record(tmp_path: Path, recipe: Recipe, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ablations, "find_recipe", lambda name: recipe)
    monkeypatch.setitem(OVERRIDES, "train.warmup", 3)
    monkeypatch.setattr(ablations, "VARIANTS", VARIANTS[:2])
    monkeypatch.setattr(corpora, "load", lambda *_: SMALL)
    Ablations(seeds=2, steps=2, sentences=3, out=tmp_path / "ablations.json")()
    record = read(tmp_path / "ablations.json")
    assert record["settings"]["sentences"] == 3
    assert record["settings"]["train.warmup"] == 3
    assert [(row["label_smoothing"], row["seed"]) for row in record["rows"]] == [
        (0.1, 0),
        (0.0, 0),
        (0.1, 1),
        (0.0, 1),
    ]
