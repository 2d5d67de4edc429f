"""``python -m benchmarks.tying``: training with and without weight tying and the factor √d_model.

The model and the settings are those of :mod:`benchmarks.ablations`. A model without the factor
divides its embeddings by √d_model, which cancels it.

A tied output matrix starts with larger entries than a separate one, and so with larger logits. Two
more models exchange the scale of the initial logits: a tied one whose final layer norm starts with
a smaller gain, and a separate output matrix that starts with the scale of the embeddings.
"""

import math
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Annotated, Literal

import torch
import tyro
from torch import Tensor, nn

from benchmarks import record
from benchmarks.ablations import OVERRIDES
from benchmarks.record import Record, Row
from benchmarks.tables import RANGE, Claims, select
from benchmarks.variants import Comparison, Variant
from tfmr.layers import LayerNorm
from tfmr.model import Transformer

Name = Literal["tying", "tying-logits"]


@dataclass(frozen=True)
class Tying:
    """Train every variant with every learning rate and seed, and record the validation loss.

    The results do not depend on the speed of the machine.
    """

    comparisons: Annotated[tuple[Name, ...], tyro.conf.Positional] = ("tying", "tying-logits")
    """What to measure; each comparison has its own record. Default: everything."""
    seeds: int = 5
    """Seeds of weights and batches."""
    steps: tuple[int, ...] = (100, 200, 400)
    """Steps after which a row is recorded, in ascending order."""
    out: Path = record.FOLDER
    """The folder of the records."""

    def __call__(self) -> None:
        """Measure and record."""
        for name in self.comparisons:
            COMPARISONS[name].record(self.seeds, self.steps, self.out / f"{name}.json")


def cancel_factor(model: Transformer) -> None:
    """Divide the embeddings, not the output matrix, by √d_model before positions are added."""
    assert model.position is not None

    def divide(module: nn.Module, arguments: tuple[Tensor, int]) -> tuple[Tensor, int]:
        embeddings, start = arguments
        return embeddings / math.sqrt(model.config.d_model), start

    model.position.register_forward_pre_hook(divide)


def output_scale(model: Transformer) -> float:
    """The standard deviation of the initial entries of a separate output matrix (Xavier's)."""
    return math.sqrt(2 / sum(model.output.weight.shape))


@torch.no_grad()
def shrink_logits(model: Transformer) -> None:
    """Start a tied model with the logits of a separate output matrix."""
    final_norm = model.decoder.norm
    assert isinstance(final_norm, LayerNorm)
    final_norm.weight.mul_(output_scale(model) * math.sqrt(model.config.d_model))


@torch.no_grad()
def enlarge_logits(model: Transformer) -> None:
    """Start a separate output matrix with the scale of the embeddings."""
    model.output.weight.div_(output_scale(model) * math.sqrt(model.config.d_model))


PAPER = Variant("three-way, with the factor", {"tie": "three-way", "factor": True})
SEPARATE = Variant(
    "none, with the factor", {"tie": "none", "factor": True}, settings={"model.tie": "none"}
)
UNSCALED = Variant(
    "three-way, without the factor", {"tie": "three-way", "factor": False}, change=cancel_factor
)
SMALL_LOGITS = Variant(
    "three-way, small initial logits",
    {"tie": "three-way", "factor": True, "logits": "small"},
    change=shrink_logits,
)
LARGE_LOGITS = Variant(
    "none, large initial logits",
    {"tie": "none", "factor": True, "logits": "large"},
    settings={"model.tie": "none"},
    change=enlarge_logits,
)
RATES = (3e-3, 1e-2)
COMPARISONS: dict[Name, Comparison] = {
    "tying": Comparison("tying", (PAPER, SEPARATE, UNSCALED), RATES, OVERRIDES),
    "tying-logits": Comparison("tying", (SMALL_LOGITS, LARGE_LOGITS), RATES, OVERRIDES),
}


def table(rows: list[Row], settings: Row) -> list[str]:
    """The validation loss of each variant, by learning rate and number of steps."""
    name: Name = "tying-logits" if "logits" in rows[0] else "tying"
    return [
        f"The small model of `ablations.json` ({settings['direction']}): cross-entropy of the "
        f"{settings['split']} set in nats per token, without label smoothing; means of "
        f"{len(settings['seeds'])} seeds, {RANGE}.",
        COMPARISONS[name].table(rows, settings, "weight tying"),
    ]


def claims(rows: list[Row], settings: Row, records: dict[str, Record]) -> Claims:
    """The statements of chapter 10."""
    rows = [row for name in COMPARISONS for row in records[name]["rows"]]

    def losses(variant: Variant, **selection: object) -> list[float]:
        own = [
            row
            for row in select(rows, **variant.columns, **selection)
            if row.get("logits") == variant.columns.get("logits")
        ]
        return [row["valid_loss"] for row in sorted(own, key=lambda row: row["seed"])]

    gains = []
    for rate in settings["rates"]:
        for step in settings["steps"]:
            with_ties, without, small = (
                losses(variant, peak_lr=rate, step=step) for variant in (PAPER, SEPARATE, UNSCALED)
            )
            for tied, separate, logits in (
                (PAPER, SEPARATE, "usual"),
                (SMALL_LOGITS, SEPARATE, "small"),
                (PAPER, LARGE_LOGITS, "large"),
            ):
                both = (losses(variant, peak_lr=rate, step=step) for variant in (tied, separate))
                lower = all(one < other for other, one in zip(*both, strict=True))
                yield f"{rate:g}, {step} steps, {logits} logits: separate has the lower loss", lower
            higher = min(small) > max(with_ties)
            yield f"{rate:g}, {step} steps: the loss without the factor is higher", higher
            gains.append(round(100 * (1 - mean(without) / mean(with_ties))))
    yield "separate matrices lower the loss by 12 to 37 %", (min(gains), max(gains)) == (12, 37)


if __name__ == "__main__":
    record.run(Tying)
