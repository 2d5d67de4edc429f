"""``python -m benchmarks.sick_runs``: loss curves of a healthy training and of faulty ones.

The model and the settings are those of :mod:`benchmarks.ablations`, each run with one fault
(:data:`FAULTS`). The losses are without label smoothing. At the end, sentences of the validation
set are translated.
"""

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any

import torch
from tqdm import tqdm

from benchmarks import record
from benchmarks.ablations import DIRECTION, OVERRIDES, RECIPE, predictions
from benchmarks.record import Record, Row
from benchmarks.tables import RANGE, Claims, markdown, select, spread
from tfmr import registry
from tfmr.data import corpora
from tfmr.data.batches import Batch, Batches
from tfmr.data.corpus import Corpus
from tfmr.decode import translate
from tfmr.metrics import exact_match
from tfmr.train.config import Recipe, find_recipe
from tfmr.train.trainer import Trainer

SENTENCES = 200
"""Sentences of the training set, and of the validation set, whose loss is recorded."""


class Unshifted(Batches):
    """Batches whose decoder input is the target sentence itself, so that it has the labels."""

    def epoch(self, k: int, start: int = 0, stride: int = 1) -> Iterator[Batch]:
        """The batches of epoch ``k``."""
        for batch in super().epoch(k, start, stride):
            yield dataclasses.replace(batch, target_in=batch.target_out)


@dataclass(frozen=True)
class Fault:
    """What a run does differently."""

    overrides: dict[str, Any] = dataclasses.field(default_factory=dict)
    """Settings of the recipe."""
    pairs: int | None = None
    """The number of pairs to train on; ``None`` for all."""
    batches: type[Batches] = Batches
    """How the pairs are arranged."""


FAULTS = {
    "healthy": Fault(),
    "learning rate of 0.1": Fault({"train.peak_lr": 0.1}),
    "200 pairs": Fault(pairs=200),
    "no shift": Fault(batches=Unshifted),
}
"""The runs of the record, by name."""


@dataclass(frozen=True)
class SickRuns:
    """Train with every fault and seed, and record the losses and the exact translations.

    The results do not depend on the speed of the machine.
    """

    seeds: int = 5
    """Seeds of weights and batches."""
    steps: int = 400
    """Training steps of a run."""
    every: int = 40
    """Steps between two rows."""
    out: Path = record.FOLDER / "sick-runs.json"
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
            "sentences": SENTENCES,
            "seeds": list(range(self.seeds)),
            "steps": self.steps,
        }
        steps = range(0, self.steps + 1, self.every)
        rows = measure(corpora.load(recipe.corpus, DIRECTION), recipe, range(self.seeds), steps)
        record.write(self.out, "sick-runs", rows, settings=settings, metadata=metadata)


def measure(
    corpus: Corpus, recipe: Recipe, seeds: Sequence[int], steps: Sequence[int]
) -> Iterator[Row]:
    """A row for each fault, seed and number of steps."""
    tokenizer = recipe.train_tokenizer(corpus)
    sources, references = zip(*corpus.valid[:SENTENCES], strict=True)
    for seed, (name, fault) in tqdm([(s, f) for s in seeds for f in FAULTS.items()], unit=" runs"):
        changed = recipe.with_overrides(fault.overrides | {"train.seed": seed})

        def arranged(
            pairs: Sequence[tuple[str, str]], fault: Fault = fault, changed: Recipe = changed
        ) -> Batches:
            ids = [(tokenizer.encode(source), tokenizer.encode(target)) for source, target in pairs]
            size, length = changed.batches.tokens_per_batch, changed.model.max_length
            return fault.batches(ids, size, changed.train.seed, length)

        pairs = list(corpus.train)[: fault.pairs]
        parts = {"train": arranged(pairs[:SENTENCES]), "valid": arranged(corpus.valid[:SENTENCES])}
        torch.manual_seed(seed)
        model = registry.build_model(changed.model_config(tokenizer.vocab_size))
        trainer = Trainer(model, arranged(pairs), changed.train)
        for step in steps:
            trainer.run(steps=step)
            losses = {
                f"{part}_loss": predictions(model.eval(), batches)["valid_loss"]
                for part, batches in parts.items()
            }
            model.train()
            yield {"run": name, "seed": seed, "step": step, **losses}
        outputs = translate(model.eval(), tokenizer, list(sources), detokenise=False)
        exact = round(exact_match(outputs, list(references)), 4)
        yield {"run": name, "seed": seed, "valid_exact": exact}


def table(rows: list[Row], settings: Row) -> list[str]:
    """The losses at the end and the exact translations of each run."""
    lines = []
    for name in FAULTS:
        own = select(rows, run=name)
        last = select(own, step=settings["steps"])
        lines.append(
            [
                name,
                *(spread([row[c] for row in last], ".2f") for c in ("train_loss", "valid_loss")),
                spread([row["valid_exact"] for row in own if "valid_exact" in row], ".2f"),
            ]
        )
    return [
        f"The small model of `ablations.json` ({settings['direction']}) after {settings['steps']} "
        "steps: cross-entropy in nats per token, without label smoothing, of "
        f"{settings['sentences']} sentences of the training set and of the {settings['split']} "
        "set, and the fraction of exact translations of the latter; means of "
        f"{len(settings['seeds'])} seeds, {RANGE}.",
        markdown(["", "training", "validation", "exact translations"], lines),
    ]


def claims(rows: list[Row], settings: Row, records: dict[str, Record]) -> Claims:
    """The statements of chapter 11."""
    last = {name: select(rows, run=name, step=settings["steps"]) for name in FAULTS}
    exact = {
        name: [row["valid_exact"] for row in select(rows, run=name) if "valid_exact" in row]
        for name in FAULTS
    }
    for name in FAULTS:
        works = min(exact[name]) > 0.8 if name == "healthy" else max(exact[name]) == 0
        yield f"{name}: most translations are exact, or none", works
    memorised = max(row["train_loss"] for row in last["200 pairs"])
    lower = memorised < min(row["train_loss"] for row in last["healthy"])
    yield "200 pairs: the training loss is lower than in the healthy run", lower
    level = [row["valid_loss"] for row in select(rows, run="200 pairs") if row.get("step", 0) > 100]
    yield "200 pairs: the validation loss stays at about 3.3", min(level) > 3.2 and max(level) < 3.5
    for step in range(80, settings["steps"] + 1, 40):
        leaked = mean(row["valid_loss"] for row in select(rows, run="no shift", step=step))
        yield f"no shift: the mean loss is 0.11 at step {step}", round(leaked, 2) == 0.11


if __name__ == "__main__":
    record.run(SickRuns)
