"""``python -m benchmarks.division``: training with and without the division by √d_k.

The model is that of :mod:`benchmarks.ablations` with one head, so that d_k is 64, and with smaller
batches. Besides the model with the division there are two without it: one with the same initial
weights, and one whose initial queries are smaller by √d_k, so that its initial scores are those of
the model with the division.
"""

import math
from dataclasses import dataclass
from pathlib import Path
from statistics import mean

import torch

from benchmarks import record
from benchmarks.ablations import OVERRIDES
from benchmarks.record import Record, Row
from benchmarks.tables import RANGE, Claims, select
from benchmarks.variants import Comparison, Variant
from tfmr.attention import MultiHeadAttention
from tfmr.model import Transformer

DIVIDED = "divided by √d_k"
UNDIVIDED = "not divided"
SMALL_START = "not divided, smaller initial queries"


@dataclass(frozen=True)
class Division:
    """Train every variant with every learning rate and seed, and record the validation loss.

    The results do not depend on the speed of the machine.
    """

    seeds: int = 5
    """Seeds of weights and batches."""
    steps: tuple[int, ...] = (80, 240, 800)
    """Steps after which a row is recorded, in ascending order."""
    out: Path = record.FOLDER / "division.json"
    """The record."""

    def __call__(self) -> None:
        """Measure and record."""
        COMPARISON.record(self.seeds, self.steps, self.out)


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


COMPARISON = Comparison(
    "division",
    (
        Variant(DIVIDED, {"variant": DIVIDED}),
        Variant(UNDIVIDED, {"variant": UNDIVIDED}, change=undivide),
        Variant(SMALL_START, {"variant": SMALL_START}, change=start_small),
    ),
    rates=(1e-3, 3e-3, 1e-2, 3e-2),
    settings={**OVERRIDES, "model.n_heads": 1, "batches.tokens_per_batch": 256},
)


def table(rows: list[Row], settings: Row) -> list[str]:
    """The validation loss of each variant, by learning rate and number of steps."""
    return [
        f"The small model of `ablations.json` ({settings['direction']}) with one head of d_k = 64 "
        f"and batches of at most {settings['batches.tokens_per_batch']} tokens: cross-entropy of "
        f"the {settings['split']} set in nats per token, without label smoothing; means of "
        f"{len(settings['seeds'])} seeds, {RANGE}.",
        COMPARISON.table(rows, settings, "scores"),
    ]


def claims(rows: list[Row], settings: Row, records: dict[str, Record]) -> Claims:
    """The statements of chapter 4, about the best learning rate of each variant."""

    def best(variant: str, step: int) -> list[float]:
        own = [select(rows, variant=variant, step=step, peak_lr=rate) for rate in settings["rates"]]
        return min((sorted(row["valid_loss"] for row in each) for each in own), key=mean)

    for step in settings["steps"]:
        names = (DIVIDED, UNDIVIDED, SMALL_START)
        divided, undivided, small = (best(variant, step) for variant in names)
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
