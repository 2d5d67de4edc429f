"""``python -m benchmarks.curves``: training curves of healthy and faulty runs, for the doctor.

Every kind of run has ten runs, which differ in their settings and seeds. The model and the corpus
are those of :mod:`benchmarks.sick_runs`. :mod:`tfmr.doctor.curve` must name the fault of each run,
and none in a healthy one.
"""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from tqdm import tqdm

from benchmarks import record
from benchmarks.ablations import DIRECTION, OVERRIDES, RECIPE, predictions
from benchmarks.record import Record, Row
from benchmarks.sick_runs import Fault, Unshifted
from benchmarks.tables import RANGE, Claims, markdown, select, spread
from tfmr import registry
from tfmr.data import corpora
from tfmr.data.batches import Batches
from tfmr.data.corpus import Corpus
from tfmr.doctor.curve import diagnose, recorded_curve
from tfmr.errors import TfmrError
from tfmr.train.config import Recipe, find_recipe
from tfmr.train.trainer import Trainer

WARMUP = 60
TOKENS = 256
"""Tokens of a batch."""
SENTENCES = 100
"""Sentences of the validation set whose loss is recorded."""


def _rate(peak_lr: float, warmup: int = WARMUP, **model: Any) -> Fault:
    settings = {f"model.{name}": value for name, value in model.items()}
    return Fault({"train.peak_lr": peak_lr, "train.warmup": warmup, **settings})


KINDS: dict[str, list[Fault]] = {
    "healthy": [
        *(_rate(lr) for lr in (0.002, 0.003, 0.005, 0.01)),
        _rate(0.003, norm="post"),
        _rate(0.003, position="rotary"),
        _rate(0.003, tie="none"),
        _rate(0.003, warmup=30, dropout=0.1),
        _rate(0.003, n_encoder=2, n_decoder=2),
        _rate(0.003, warmup=1),
    ],
    "rate too high": [_rate(lr) for lr in (0.1, 0.2, 0.3, 0.5, 1.0)],
    "no warm-up": [
        _rate(lr, warmup=1, norm="post", n_encoder=3, n_decoder=3) for lr in (0.008, 0.01, 0.012)
    ],
    "overfitting": [Fault(pairs=pairs) for pairs in (100, 150, 200, 300, 400)],
    "leak": [
        Fault({"train.peak_lr": lr}, batches=Unshifted) for lr in (0.002, 0.003, 0.005, 0.007, 0.01)
    ],
    "not learning": [_rate(lr) for lr in (1e-7, 3e-7, 1e-6, 3e-6, 1e-5)],
}
"""The kinds of runs; each list is repeated with other seeds until it has ten runs."""


def runs(kind: str) -> list[tuple[Fault, int]]:
    """The ten runs of a kind, each with its seed."""
    return list(zip(itertools.islice(itertools.cycle(KINDS[kind]), 10), range(10), strict=True))


@dataclass(frozen=True)
class Curves:
    """Train all runs and record their curves, which do not depend on the speed of the machine."""

    steps: int = 300
    """Training steps of a run."""
    every: int = 20
    """Steps between two rows; the training loss is the mean over them."""
    kinds: tuple[str, ...] = tuple(KINDS)
    """The kinds of runs."""
    out: Path = record.FOLDER / "curves.json"
    """The record."""

    def __call__(self) -> None:
        """Measure and record."""
        torch.set_num_threads(1)
        metadata = record.collect_metadata()
        overrides = OVERRIDES | {"batches.tokens_per_batch": TOKENS, "train.warmup": WARMUP}
        recipe = find_recipe(RECIPE).with_overrides(overrides)
        settings = {
            "recipe": RECIPE,
            "direction": DIRECTION,
            **overrides,
            "steps": self.steps,
            "sentences": SENTENCES,
        }
        corpus = corpora.load(recipe.corpus, DIRECTION)
        steps = [1, *range(self.every, self.steps + 1, self.every)]
        rows = measure(corpus, recipe, self.kinds, steps)
        record.write(self.out, "curves", rows, settings=settings, metadata=metadata)


def measure(
    corpus: Corpus, recipe: Recipe, kinds: Sequence[str], steps: Sequence[int]
) -> Iterator[Row]:
    """A row for each run and number of steps."""
    tokenizer = recipe.train_tokenizer(corpus)
    for kind in kinds:
        for fault, seed in tqdm(runs(kind), desc=kind):
            changed = recipe.with_overrides({**fault.overrides, "train.seed": seed})
            size, length = changed.batches.tokens_per_batch, changed.model.max_length

            def batches(pairs: Any, fault: Fault = fault, seed: int = seed) -> Batches:
                ids = [(tokenizer.encode(a), tokenizer.encode(b)) for a, b in pairs]
                return fault.batches(ids, size, seed, length)  # noqa: B023

            valid = batches(corpus.valid[:SENTENCES])
            torch.manual_seed(seed)
            model = registry.build_model(changed.model_config(tokenizer.vocab_size))
            trainer = Trainer(model, batches(list(corpus.train)[: fault.pairs]), changed.train)
            for step in steps:
                try:
                    taken = trainer.run(steps=step)
                except TfmrError:  # the run has diverged
                    yield {"run": kind, "seed": seed, "step": trainer.steps_done, "loss": None}
                    break
                row = {"run": kind, "seed": seed, "step": step}
                row["loss"] = round(fmean(each.loss for each in taken), 4)
                row["valid_loss"] = round(predictions(model.eval(), valid)["valid_loss"], 4)
                row["learning_rate"] = float(f"{taken[-1].learning_rate:.4g}")
                row["grad_norm"] = float(f"{fmean(each.grad_norm for each in taken):.4g}")
                row["weight_norm"] = round(taken[-1].weight_norm, 2)
                model.train()
                yield row


def verdicts(rows: list[Row]) -> Iterator[tuple[str, int, list[str]]]:
    """For each recorded run: its kind, its seed, and the faults that the doctor names."""
    for kind in KINDS:
        for seed in range(10):
            curve = recorded_curve(select(rows, run=kind, seed=seed))
            yield kind, seed, [each.name for each in diagnose(curve).faults]


def table(rows: list[Row], settings: Row) -> list[str]:
    """The losses at the end, and how many curves of each kind are named."""
    named = list(verdicts(rows))
    lines = []
    for kind in KINDS:
        last = [row for row in select(rows, run=kind) if row["step"] == settings["steps"]]
        right = sum(
            found == ([] if kind == "healthy" else [kind]) for k, _, found in named if k == kind
        )
        lines.append(
            [
                kind,
                *(spread([row[c] for row in last], ".2f") for c in ("loss", "valid_loss")),
                f"{right} of 10",
            ]
        )
    return [
        f"Ten runs of {settings['steps']} steps of each kind: training loss with label smoothing "
        "and validation loss without, in nats per token (means of ten runs, "
        f"{RANGE}), and for how many `python -m tfmr doctor` names this kind and no other.",
        markdown(["kind", "training", "validation", "named"], lines),
    ]


def claims(rows: list[Row], settings: Row, records: dict[str, Record]) -> Claims:
    """The statements about the doctor."""
    for kind, seed, found in verdicts(rows):
        right = found == ([] if kind == "healthy" else [kind])
        yield f"curves: {kind}, seed {seed} is named, and nothing else", right


if __name__ == "__main__":
    record.run(Curves)
