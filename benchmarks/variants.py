"""Variants of the small model of :mod:`benchmarks.ablations`, trained with equal rates and seeds.

Every variant has the same learning rates and seeds, and a row at several numbers of steps. Only the
validation set is used.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch
from tqdm import tqdm

from benchmarks import record
from benchmarks.ablations import DIRECTION, RECIPE, predictions
from benchmarks.record import Row
from benchmarks.tables import markdown, select, spread
from tfmr.config import TransformerConfig
from tfmr.data import corpora
from tfmr.data.batches import Batches
from tfmr.model import Transformer
from tfmr.train.config import Recipe, find_recipe
from tfmr.train.trainer import Trainer


@dataclass(frozen=True)
class Variant:
    """What the runs differ in."""

    name: str
    """In the table."""
    columns: Row
    """In the record."""
    settings: Row = field(default_factory=dict)
    """What differs from the settings that the variants share."""
    change: Callable[[Transformer], None] = lambda model: None
    """What is done to the initial model."""


@dataclass(frozen=True)
class Comparison:
    """Variants, and what they have in common."""

    kind: str
    """The name of the record."""
    variants: tuple[Variant, ...]
    rates: tuple[float, ...]
    """Peak learning rates."""
    settings: Row
    """What differs from the recipe in every run."""

    def record(self, seeds: int, steps: tuple[int, ...], out: Path) -> None:
        """Train every variant with every learning rate and seed, and record the validation loss."""
        torch.set_num_threads(1)
        metadata = record.collect_metadata()
        recipe = find_recipe(RECIPE).with_overrides(self.settings)
        settings = {
            "recipe": RECIPE,
            "direction": DIRECTION,
            **self.settings,
            "split": "validation",
            "rates": list(self.rates),
            "seeds": list(range(seeds)),
            "steps": list(steps),
        }
        rows = self._measure(recipe, range(seeds), steps)
        record.write(out, self.kind, rows, settings=settings, metadata=metadata)

    def _measure(self, recipe: Recipe, seeds: Sequence[int], steps: Sequence[int]) -> Iterator[Row]:
        """A row for each variant, learning rate, seed and number of steps."""
        corpus = corpora.load(recipe.corpus, DIRECTION)
        tokenizer = recipe.train_tokenizer(corpus)
        train = [(tokenizer.encode(a), tokenizer.encode(b)) for a, b in corpus.train]
        valid = recipe.make_batches(corpus.valid, tokenizer)
        runs = [
            (seed, lr, variant) for seed in seeds for lr in self.rates for variant in self.variants
        ]
        for seed, lr, variant in tqdm(runs, unit=" runs"):
            changes = {**variant.settings, "train.peak_lr": lr, "train.seed": seed}
            changed = recipe.with_overrides(changes)
            torch.manual_seed(seed)
            config = changed.model_config(tokenizer.vocab_size)
            assert isinstance(config, TransformerConfig)
            model = Transformer(config)
            variant.change(model)
            trainer = Trainer(model, changed.make_batches_from_ids(train), changed.train)
            for step in steps:
                row = {**variant.columns, "peak_lr": lr, "seed": seed, "step": step}
                yield {**row, "valid_loss": _validation_loss(trainer, step, valid)}

    def table(self, rows: list[Row], settings: Row, header: str) -> str:
        """The validation loss of each variant, by learning rate and number of steps."""
        lines = [
            [
                variant.name,
                f"{lr:g}",
                *(
                    spread([row["valid_loss"] for row in select(own, step=step)], ".2f")
                    for step in settings["steps"]
                ),
            ]
            for variant in self.variants
            for lr in settings["rates"]
            for own in [select(rows, **variant.columns, peak_lr=lr)]
        ]
        steps = (f"{n} steps" for n in settings["steps"])
        return markdown([header, "peak learning rate", *steps], lines)


def _validation_loss(trainer: Trainer, step: int, valid: Batches) -> float:
    """Train until ``step``; the validation loss of the averaged weights."""
    trainer.run(steps=step)
    loss: float = predictions(trainer.averaged_model(), valid)["valid_loss"]
    return loss
