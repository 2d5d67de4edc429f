"""``python -m benchmarks.ablations``: training with and without label smoothing and warm-up.

The model is a small one (:data:`OVERRIDES`); all other settings are those of the recipe ``pocket``.
A run without warm-up has the
peak learning rate from the first step to the end of the omitted warm-up; from there on, the
schedules are equal. The runs of a seed have the same initial weights and batches. Only the
validation set is used.
"""

import dataclasses
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import tyro
from tqdm import tqdm

from benchmarks import record
from tfmr import registry
from tfmr.config import Norm
from tfmr.data import corpora
from tfmr.data.batches import Batches
from tfmr.data.corpus import Corpus
from tfmr.decode import translate
from tfmr.errors import TfmrError
from tfmr.metrics import exact_match
from tfmr.special_tokens import PAD
from tfmr.train.config import Recipe, find_recipe
from tfmr.train.schedule import learning_rate
from tfmr.train.trainer import Trainer
from tfmr.translator import Translator

Row = dict[str, Any]

RECIPE = "pocket"
DIRECTION = "en-fr"
OVERRIDES = {
    "model.n_encoder": 1,
    "model.n_decoder": 1,
    "model.dropout": 0.0,
    "batches.tokens_per_batch": 512,
    "train.warmup": 100,
}
"""What differs from the recipe, so that dozens of runs take a few minutes."""


@dataclass(frozen=True)
class Variant:
    """What the runs differ in."""

    norm: Norm = "pre"
    label_smoothing: float = 0.1
    peak_lr: float = 3e-3
    warmup: bool = True


VARIANTS = (
    Variant(),
    Variant(label_smoothing=0.0),
    Variant(warmup=False),
    *(Variant(peak_lr=lr, warmup=warmup) for lr in (1e-3, 1e-2) for warmup in (True, False)),
    *(Variant("post", warmup=warmup) for warmup in (True, False)),
)
"""The recipe; it without label smoothing; warm-up by learning rate, and in a post-norm model."""


@dataclass(frozen=True)
class Ablations:
    """Train every variant with every seed, and record its results on the validation set.

    The results do not depend on the speed of the machine.
    """

    seeds: int = 5
    """Seeds of weights, batches and dropout."""
    steps: int = 400
    """Training steps of a run."""
    sentences: int | None = None
    """Translate so many sentences of the validation set only, for a quick test."""
    out: Path = record.FOLDER / "ablations.json"
    """The record."""

    def __call__(self) -> None:
        """Measure and record."""
        torch.set_num_threads(1)
        metadata = record.collect_metadata()
        recipe = find_recipe(RECIPE).with_overrides(OVERRIDES)
        corpus = corpora.load(recipe.corpus, DIRECTION)
        corpus = dataclasses.replace(corpus, valid=corpus.valid[: self.sentences])
        settings = {
            "recipe": RECIPE,
            "direction": DIRECTION,
            **OVERRIDES,
            "split": "validation",
            "sentences": len(corpus.valid),
            "seeds": list(range(self.seeds)),
            "steps": self.steps,
            "recipe_lr": recipe.train.peak_lr,
        }
        rows = measure(corpus, recipe, VARIANTS, range(self.seeds), self.steps)
        record.write(self.out, "ablations", rows, settings=settings, metadata=metadata)
        print(f"wrote {self.out}; next: python -m benchmarks.tables")


def measure(
    corpus: Corpus, recipe: Recipe, variants: Sequence[Variant], seeds: Sequence[int], steps: int
) -> Iterator[Row]:
    """A row for each variant and seed."""
    tokenizer = recipe.train_tokenizer(corpus)
    train = [(tokenizer.encode(a), tokenizer.encode(b)) for a, b in corpus.train]
    valid = recipe.make_batches(corpus.valid, tokenizer)
    sources, references = (list(side) for side in zip(*corpus.valid, strict=True))
    runs = [(variant, seed) for seed in seeds for variant in variants]
    for variant, seed in tqdm(runs, unit=" runs"):
        changed = recipe.with_overrides(
            {
                "model.norm": variant.norm,
                "train.label_smoothing": variant.label_smoothing,
                "train.peak_lr": variant.peak_lr,
                "train.seed": seed,
            }
        )
        torch.manual_seed(seed)
        model = registry.build_model(changed.model_config(tokenizer.vocab_size))
        trainer = Trainer(model, changed.make_batches_from_ids(train), changed.train)
        if not variant.warmup:
            omit_warmup(trainer)
        row: Row = {**dataclasses.asdict(variant), "seed": seed}
        try:
            trainer.run(steps=steps)
        except TfmrError:  # the loss or the gradient is not finite
            yield {**row, "diverged": True}
            continue
        averaged = trainer.averaged_model()
        outputs = translate(averaged, tokenizer, sources, detokenise=False)
        exact = round(exact_match(outputs, references), 4)
        yield {**row, "diverged": False, **predictions(averaged, valid), "valid_exact": exact}


def omit_warmup(trainer: Trainer) -> None:
    """Hold the learning rate at its peak during the steps of the warm-up."""
    config = trainer.config

    def hold(optimizer: torch.optim.Optimizer, *_: object) -> None:
        step = max(trainer.steps_done + 1, config.warmup)
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step, config.peak_lr, config.warmup)

    trainer.optimizer.register_step_pre_hook(hold)


@torch.inference_mode()
def predictions(model: Translator, batches: Batches) -> Row:
    """Means over all target tokens of ``batches``, given the reference prefix.

    Returns:
        ``valid_loss``, the cross-entropy in nats; ``correct``, the probability of the correct
        token; ``confidence``, the probability of the most probable token; ``accuracy``, how often
        that token is correct. A calibrated model has equal confidence and accuracy.
    """
    columns = []
    for batch in batches.epoch(0):
        real = batch.target_out != PAD
        p = model(batch.source, batch.target_in)[real].softmax(dim=-1)
        labels = batch.target_out[real]
        correct = p.gather(-1, labels[:, None]).squeeze(-1)
        confidence, predicted = p.max(dim=-1)
        columns.append(torch.stack([-correct.log(), correct, confidence, predicted == labels]))
    means = torch.cat(columns, dim=1).mean(dim=1).tolist()
    names = ("valid_loss", "correct", "confidence", "accuracy")
    return {name: round(value, 5) for name, value in zip(names, means, strict=True)}


if __name__ == "__main__":
    try:
        tyro.cli(Ablations, prog="python -m benchmarks.ablations")()
    except TfmrError as error:
        sys.exit(f"benchmarks.ablations: {error}")
