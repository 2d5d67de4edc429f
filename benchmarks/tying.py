"""``python -m benchmarks.tying``: training with and without weight tying and the factor √d_model.

The model and the settings are those of :mod:`benchmarks.ablations`. Every variant has the same
learning rates and seeds, and a row at several numbers of steps. A model without the factor divides
its embeddings by √d_model, which cancels it. Only the validation set is used.
"""

import dataclasses
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean

import torch
from torch import Tensor, nn
from tqdm import tqdm

from benchmarks import record
from benchmarks.ablations import DIRECTION, OVERRIDES, RECIPE, validation_losses
from benchmarks.record import Record, Row
from benchmarks.tables import RANGE, Claims, markdown, select, spread
from tfmr.config import Tie
from tfmr.data import corpora
from tfmr.data.corpus import Corpus
from tfmr.model import Transformer
from tfmr.train.config import Recipe, find_recipe

STEPS = (100, 200, 400)
RATES = (3e-3, 1e-2)


@dataclass(frozen=True)
class Variant:
    """What the runs differ in."""

    tie: Tie = "three-way"
    factor: bool = True


VARIANTS = (Variant(), Variant("none"), Variant(factor=False))
"""The paper's model; it without weight tying; it without the factor."""


@dataclass(frozen=True)
class Tying:
    """Train every variant with every learning rate and seed, and record the validation loss.

    The results do not depend on the speed of the machine.
    """

    seeds: int = 5
    """Seeds of weights and batches."""
    steps: tuple[int, ...] = STEPS
    """Steps after which a row is recorded, in ascending order."""
    out: Path = record.FOLDER / "tying.json"
    """The record."""

    def __call__(self) -> None:
        """Measure and record."""
        torch.set_num_threads(1)
        metadata = record.collect_metadata()
        recipe = find_recipe(RECIPE).with_overrides(OVERRIDES)
        settings = {
            "recipe": RECIPE,
            "direction": DIRECTION,
            **OVERRIDES,
            "split": "validation",
            "rates": list(RATES),
            "seeds": list(range(self.seeds)),
            "steps": list(self.steps),
        }
        rows = measure(
            corpora.load(recipe.corpus, DIRECTION), recipe, range(self.seeds), self.steps
        )
        record.write(self.out, "tying", rows, settings=settings, metadata=metadata)


def measure(
    corpus: Corpus, recipe: Recipe, seeds: Sequence[int], steps: Sequence[int]
) -> Iterator[Row]:
    """A row for each variant, learning rate, seed and number of steps."""
    tokenizer = recipe.train_tokenizer(corpus)
    train = [(tokenizer.encode(a), tokenizer.encode(b)) for a, b in corpus.train]
    valid = recipe.make_batches(corpus.valid, tokenizer)
    runs = [(seed, rate, variant) for seed in seeds for rate in RATES for variant in VARIANTS]
    for seed, rate, variant in tqdm(runs, unit=" runs"):
        changed = recipe.with_overrides(
            {"model.tie": variant.tie, "train.peak_lr": rate, "train.seed": seed}
        )
        change = {} if variant.factor else {"change": cancel_factor}
        for row in validation_losses(changed, tokenizer.vocab_size, train, valid, steps, **change):
            yield {**dataclasses.asdict(variant), "peak_lr": rate, "seed": seed, **row}


def cancel_factor(model: Transformer) -> None:
    """Divide the embeddings, not the output matrix, by √d_model before positions are added."""
    assert model.position is not None

    def divide(module: nn.Module, arguments: tuple[Tensor, int]) -> tuple[Tensor, int]:
        embeddings, start = arguments
        return embeddings / math.sqrt(model.config.d_model), start

    model.position.register_forward_pre_hook(divide)


def table(rows: list[Row], settings: Row) -> list[str]:
    """The validation loss of each variant, by learning rate and number of steps."""
    names = {
        variant: f"{variant.tie}, {'with' if variant.factor else 'without'} the factor"
        for variant in VARIANTS
    }
    lines = [
        [
            names[variant],
            f"{rate:g}",
            *(
                spread([row["valid_loss"] for row in select(own, step=step)], ".2f")
                for step in settings["steps"]
            ),
        ]
        for variant in VARIANTS
        for rate in settings["rates"]
        for own in [select(rows, **dataclasses.asdict(variant), peak_lr=rate)]
    ]
    header = ["weight tying", "peak learning rate", *(f"{n} steps" for n in settings["steps"])]
    return [
        f"The small model of `ablations.json` ({settings['direction']}): cross-entropy of the "
        f"{settings['split']} set in nats per token, without label smoothing; means of "
        f"{len(settings['seeds'])} seeds, {RANGE}.",
        markdown(header, lines),
    ]


def claims(rows: list[Row], settings: Row, records: dict[str, Record]) -> Claims:
    """The statements of chapter 10."""

    def losses(variant: Variant, **selection: object) -> list[float]:
        own = select(rows, **dataclasses.asdict(variant), **selection)
        return [row["valid_loss"] for row in sorted(own, key=lambda row: row["seed"])]

    tied, separate, unscaled = VARIANTS
    gains = []
    for rate in settings["rates"]:
        for step in settings["steps"]:
            with_ties, without, small = (
                losses(variant, peak_lr=rate, step=step) for variant in (tied, separate, unscaled)
            )
            pairs = zip(with_ties, without, strict=True)
            lower = all(one < other for other, one in pairs)
            yield f"{rate:g}, {step} steps: separate matrices have the lower loss", lower
            higher = min(small) > max(with_ties)
            yield f"{rate:g}, {step} steps: the loss without the factor is higher", higher
            gains.append(round(100 * (1 - mean(without) / mean(with_ties))))
    yield "separate matrices lower the loss by 12 to 37 %", (min(gains), max(gains)) == (12, 37)


if __name__ == "__main__":
    record.run(Tying)
