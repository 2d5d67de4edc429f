"""``python -m benchmarks.ablations``: training with and without label smoothing and warm-up.

The model is a small one (:data:`OVERRIDES`); all other settings are those of the recipe ``pocket``.
A run without warm-up has the
peak learning rate from the first step to the end of the omitted warm-up; from there on, the
schedules are equal. The runs of a seed have the same initial weights and batches. Only the
validation set is used.
"""

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean

import torch
from tqdm import tqdm

from benchmarks import record
from benchmarks.record import Record, Row
from benchmarks.tables import NOTHING, Claims, grouped, markdown, select
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
from tfmr.train.intervals import Difference, paired_difference
from tfmr.train.schedule import learning_rate
from tfmr.train.trainer import Trainer
from tfmr.translator import Translator

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


def table(rows: list[Row], settings: Row) -> list[str]:
    """Results with and without label smoothing and warm-up, and their paired differences."""
    columns = {
        "valid_loss": "cross-entropy",
        "valid_exact": "exact matches",
        "correct": "probability of the correct token",
        "confidence": "confidence",
        "accuracy": "accuracy",
    }
    recipe = select(rows, norm="pre", peak_lr=settings["recipe_lr"], warmup=True)
    smoothed, sharp = (select(recipe, label_smoothing=smoothing) for smoothing in (0.1, 0.0))
    smoothing = [
        ["with", *(_mean(smoothed, column) for column in columns)],
        ["without", *(_mean(sharp, column) for column in columns)],
        ["difference", *(_difference(smoothed, sharp, column) for column in columns)],
    ]
    warm_up = []
    groups = grouped(select(rows, label_smoothing=0.1), "norm", "peak_lr")
    for norm, rate in sorted(groups, key=lambda key: (key[0] == "post", key[1])):
        warm, cold = (select(groups[norm, rate], warmup=with_) for with_ in (True, False))
        cells = [f"{norm}-norm, {rate:g}"]
        for column in ("valid_loss", "valid_exact"):
            cells += [_mean(warm, column), _mean(cold, column), _difference(warm, cold, column)]
        warm_up.append(cells)
    header = [
        f"{title}: {name}"
        for name in ("cross-entropy", "exact matches")
        for title in ("with", "without", "difference")
    ]
    return [
        f"A small model with the recipe `{settings['recipe']}` ({settings['direction']}), "
        f"{settings['steps']} steps, "
        f"evaluated on {settings['sentences']} sentences of the {settings['split']} set: means of "
        f"{len(settings['seeds'])} seeds. Differences (with minus without) are paired by seed, "
        "with a 95 % confidence interval from Student's t distribution. The cross-entropy is "
        "without label smoothing, in nats per token; *confidence* is the probability of the most "
        "probable token, *accuracy* the fraction of positions at which this token is correct, and "
        "*exact matches* the fraction of translations that equal the reference.",
        "**Label smoothing**",
        markdown(["", *columns.values()], smoothing),
        f"**Warm-up.** *With*: {settings['train.warmup']} steps; *without*: none. Both have label "
        "smoothing.",
        markdown(["layer norm, peak learning rate", *header], warm_up),
    ]


def _mean(rows: Sequence[Row], column: str) -> str:
    """The mean of a column, or how many runs diverged."""
    diverged = sum(row["diverged"] for row in rows)
    return f"{diverged} diverged" if diverged else f"{mean(row[column] for row in rows):.3f}"


def _difference(rows: Sequence[Row], baseline: Sequence[Row], column: str) -> str:
    """The paired difference of a column, with its interval."""
    if any(row["diverged"] for row in [*rows, *baseline]):
        return NOTHING
    found = paired_difference([r[column] for r in rows], [r[column] for r in baseline])
    return f"{found.mean:+.3f} ({found.low:+.3f} to {found.high:+.3f})"


def claims(rows: list[Row], settings: Row, records: dict[str, Record]) -> Claims:
    """The statements of chapter 11 about label smoothing and warm-up."""

    def difference(quantity: str, baseline: Row, **changed: object) -> Difference:
        recipe = {"norm": "pre", "label_smoothing": 0.1, "peak_lr": 3e-3, "warmup": True}
        by_seed = sorted(rows, key=lambda row: row["seed"])
        with_it, without = (
            [row[quantity] for row in select(by_seed, **recipe | changed | other)]
            for other in ({}, baseline)
        )
        return paired_difference(with_it, without)

    plain: Row = {"label_smoothing": 0.0}
    yield "label smoothing raises the loss", difference("valid_loss", plain).low > 0
    yield "label smoothing lowers the confidence", difference("confidence", plain).high < 0
    yield "its effect on accuracy is noise", difference("accuracy", plain).is_noise
    fewer = difference("valid_exact", plain).high < 0
    yield "label smoothing costs exact matches", fewer
    for norm, peak_lr in (("pre", 1e-3), ("pre", 3e-3), ("pre", 1e-2), ("post", 3e-3)):
        loss, exact = (
            difference(quantity, {"warmup": False}, norm=norm, peak_lr=peak_lr)
            for quantity in ("valid_loss", "valid_exact")
        )
        claim = f"{norm}-norm, {peak_lr:g}: warm-up"
        if peak_lr == 1e-2:
            yield f"{claim} helps", loss.high < 0 < exact.low
        else:
            yield f"{claim} costs", exact.high < 0 < loss.low
    yield "no run diverged", not any(row["diverged"] for row in rows)


if __name__ == "__main__":
    record.run(Ablations)
