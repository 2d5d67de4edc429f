"""``python -m benchmarks.division``: training with and without the division by √d_k.

The model is that of :mod:`benchmarks.ablations` with one head, so that d_k is 64, and with smaller
batches. Besides the model with the division there are two without it: one with the same initial
weights, and one whose initial queries are smaller by √d_k, so that its initial scores are those of
the model with the division. Every variant has the same learning rates and seeds, and a row at
several numbers of steps. Only the validation set is used.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean

import torch
from tqdm import tqdm

from benchmarks import record
from benchmarks.ablations import DIRECTION, OVERRIDES, RECIPE, validation_losses
from benchmarks.record import Record, Row
from benchmarks.tables import RANGE, Claims, markdown, select, spread
from tfmr.attention import MultiHeadAttention
from tfmr.data import corpora
from tfmr.data.corpus import Corpus
from tfmr.model import Transformer
from tfmr.train.config import Recipe, find_recipe

CHANGES = {**OVERRIDES, "model.n_heads": 1, "batches.tokens_per_batch": 256}
STEPS = (80, 240, 800)
RATES = (1e-3, 3e-3, 1e-2, 3e-2)
DIVIDED = "divided by √d_k"
UNDIVIDED = "not divided"
SMALL_START = "not divided, smaller initial queries"
VARIANTS = (DIVIDED, UNDIVIDED, SMALL_START)


@dataclass(frozen=True)
class Division:
    """Train every variant with every learning rate and seed, and record the validation loss.

    The results do not depend on the speed of the machine.
    """

    seeds: int = 5
    """Seeds of weights and batches."""
    steps: tuple[int, ...] = STEPS
    """Steps after which a row is recorded, in ascending order."""
    out: Path = record.FOLDER / "division.json"
    """The record."""

    def __call__(self) -> None:
        """Measure and record."""
        torch.set_num_threads(1)
        metadata = record.collect_metadata()
        recipe = find_recipe(RECIPE).with_overrides(CHANGES)
        settings = {
            "recipe": RECIPE,
            "direction": DIRECTION,
            **CHANGES,
            "split": "validation",
            "rates": list(RATES),
            "seeds": list(range(self.seeds)),
            "steps": list(self.steps),
        }
        rows = measure(
            corpora.load(recipe.corpus, DIRECTION), recipe, range(self.seeds), self.steps
        )
        record.write(self.out, "division", rows, settings=settings, metadata=metadata)


def measure(
    corpus: Corpus, recipe: Recipe, seeds: Sequence[int], steps: Sequence[int]
) -> Iterator[Row]:
    """A row for each variant, learning rate, seed and number of steps."""
    tokenizer = recipe.train_tokenizer(corpus)
    train = [(tokenizer.encode(a), tokenizer.encode(b)) for a, b in corpus.train]
    valid = recipe.make_batches(corpus.valid, tokenizer)
    runs = [(seed, rate, variant) for seed in seeds for rate in RATES for variant in VARIANTS]
    for seed, rate, variant in tqdm(runs, unit=" runs"):
        changed = recipe.with_overrides({"train.peak_lr": rate, "train.seed": seed})
        for row in validation_losses(
            changed, tokenizer.vocab_size, train, valid, steps, CHANGE[variant]
        ):
            yield {"variant": variant, "peak_lr": rate, "seed": seed, **row}


def undivide(model: Transformer) -> None:
    """Omit the division in every attention."""
    for attention in _attentions(model):
        attention.scale = 1.0


def start_small(model: Transformer) -> None:
    """Omit the division, but leave the initial scores as they are with it."""
    undivide(model)
    with torch.no_grad():
        for attention in _attentions(model):
            attention.w_q.weight.div_(math.sqrt(attention.d_k))
            attention.w_q.bias.div_(math.sqrt(attention.d_k))


def _attentions(model: Transformer) -> list[MultiHeadAttention]:
    return [module for module in model.modules() if isinstance(module, MultiHeadAttention)]


CHANGE: dict[str, Callable[[Transformer], None]] = {
    DIVIDED: lambda model: None,
    UNDIVIDED: undivide,
    SMALL_START: start_small,
}
"""What is done to the initial model of each variant."""


def table(rows: list[Row], settings: Row) -> list[str]:
    """The validation loss of each variant, by learning rate and number of steps."""
    lines = [
        [
            variant,
            f"{rate:g}",
            *(
                spread([row["valid_loss"] for row in select(own, step=step)], ".2f")
                for step in settings["steps"]
            ),
        ]
        for variant in VARIANTS
        for rate in settings["rates"]
        for own in [select(rows, variant=variant, peak_lr=rate)]
    ]
    header = ["scores", "peak learning rate", *(f"{n} steps" for n in settings["steps"])]
    return [
        f"The small model of `ablations.json` ({settings['direction']}) with one head of d_k = 64 "
        f"and batches of at most {settings['batches.tokens_per_batch']} tokens: cross-entropy of "
        f"the {settings['split']} set in nats per token, without label smoothing; means of "
        f"{len(settings['seeds'])} seeds, {RANGE}.",
        markdown(header, lines),
    ]


def claims(rows: list[Row], settings: Row, records: dict[str, Record]) -> Claims:
    """The statements of chapter 4, about the best learning rate of each variant."""

    def best(variant: str, step: int) -> list[float]:
        own = [select(rows, variant=variant, step=step, peak_lr=rate) for rate in settings["rates"]]
        return min((sorted(row["valid_loss"] for row in each) for each in own), key=mean)

    for step in settings["steps"]:
        divided, undivided, small = (best(variant, step) for variant in VARIANTS)
        ordered = mean(divided) < mean(small) < mean(undivided)
        yield f"{step} steps: the small start is between the others on average", ordered
    for step in settings["steps"][1:]:
        apart = max(best(DIVIDED, step)) < min(best(UNDIVIDED, step))
        yield f"{step} steps: with the division, every seed has a lower loss", apart
        ahead = max(best(DIVIDED, step)) < min(best(SMALL_START, step))
        yield f"{step} steps: every seed is ahead of the small start", ahead
    within = max(best(SMALL_START, 240)) < min(best(UNDIVIDED, 240))
    yield "240 steps: every seed of the small start is ahead of the model without it", within
    four = best(SMALL_START, 800)[3] < min(best(UNDIVIDED, 800)) < best(SMALL_START, 800)[4]
    yield "800 steps: four of five seeds of the small start are", four


if __name__ == "__main__":
    record.run(Division)
