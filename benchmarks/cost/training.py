"""Time of an epoch, and quality after a fixed number of steps, by the size of the corpus."""

import dataclasses
import random
from collections.abc import Callable, Sequence
from typing import Any

import torch

from benchmarks.record import Record, Row
from benchmarks.scaling import exponent, fits_follow, fitted, points
from benchmarks.scaling import table as table
from benchmarks.tables import Claims
from tfmr.config import TransformerConfig
from tfmr.data.batches import Batches
from tfmr.data.corpus import Corpus, SentencePair
from tfmr.data.tokenizer import Tokenizer
from tfmr.decode import translate
from tfmr.errors import require
from tfmr.metrics import bleu
from tfmr.model import Transformer
from tfmr.train.config import TrainConfig
from tfmr.train.evaluation import mean_loss
from tfmr.train.trainer import StepRecord, Trainer

VOCAB = 3000
MODEL: dict[str, Any] = {
    "d_model": 128,
    "n_heads": 4,
    "d_ff": 512,
    "n_encoder": 2,
    "n_decoder": 2,
    "dropout": 0.1,
    "norm": "pre",
    "max_length": 128,
}
"""Small enough for five training runs in a few minutes."""
TOKENS_PER_BATCH = 1024
TRAIN = TrainConfig(peak_lr=3e-3, warmup=300)
STEPS = 600
SHARES = (16, 8, 4, 2, 1)
"""Divisors of the size of the corpus. Each subset contains the smaller ones."""
WARM_UP = 20
"""Steps of an unmeasured model, trained first."""


def settings(corpus: Corpus, steps: int) -> dict[str, Any]:
    """The settings of the record."""
    return {
        "corpus": corpus.name,
        "direction": f"{corpus.source}-{corpus.target}",
        "vocabulary": VOCAB,
        **MODEL,
        "tokens_per_batch": TOKENS_PER_BATCH,
        "steps": steps,
        **dataclasses.asdict(TRAIN),
    }


def measure(
    corpus: Corpus,
    *,
    steps: int = STEPS,
    shares: Sequence[int] = SHARES,
    on_step: Callable[[StepRecord], object] | None = None,
) -> list[Row]:
    """A row for each subset of the corpus, all with one vocabulary, and the power law of an epoch.

    Raises:
        TfmrError: if an epoch of the whole corpus has more than ``steps`` steps, so that its time
            cannot be measured.
    """
    pairs = list(corpus.train)
    random.Random(0).shuffle(pairs)
    tokenizer = Tokenizer.train_bpe([text for pair in corpus.train for text in pair], VOCAB)
    valid = batches(tokenizer, corpus.valid)
    parts = [batches(tokenizer, pairs[: len(pairs) // share]) for share in shares]
    epoch = max(part.count() for part in parts)
    require(
        epoch <= steps,
        f"an epoch of the whole corpus has {epoch} steps: expected at least as many training "
        f"steps, got {steps}",
    )
    Trainer(model(tokenizer), valid, TRAIN).run(steps=WARM_UP)
    rows: list[Row] = []
    for part in parts:
        trainer = Trainer(model(tokenizer), part, TRAIN)
        curve = trainer.run(steps=steps, on_step=on_step)
        averaged = trainer.averaged_model()
        sources = [source for source, _ in corpus.valid]
        outputs = translate(averaged, tokenizer, sources, detokenise=False)
        rows.append(
            {
                "what": "point",
                "size": len(part.pairs),
                "steps_per_epoch": part.count(),
                "seconds": round(curve[part.count() - 1].seconds, 3),
                "train_loss": round(mean_loss(averaged, parts[0]), 4),
                "valid_loss": round(mean_loss(averaged, valid), 4),
                "valid_bleu": bleu(outputs, [target for _, target in corpus.valid]).score,
            }
        )
    return [*rows, fitted(rows, "seconds", 0)]


def model(tokenizer: Tokenizer) -> Transformer:
    """A new model with the same initial weights at every call."""
    torch.manual_seed(TRAIN.seed)
    vocab = tokenizer.vocab_size
    return Transformer(TransformerConfig(source_vocab=vocab, target_vocab=vocab, **MODEL))


def batches(tokenizer: Tokenizer, pairs: Sequence[SentencePair]) -> Batches:
    """Sentence pairs as batches of ids."""
    sides = [tokenizer.encode_batch([pair[side] for pair in pairs]) for side in (0, 1)]
    return Batches(
        list(zip(*sides, strict=True)), TOKENS_PER_BATCH, TRAIN.seed, MODEL["max_length"]
    )


def claims(rows: list[Row], settings: Row, records: dict[str, Record]) -> Claims:
    """An epoch takes time in proportion to the corpus; more pairs reduce overfitting."""
    yield from fits_follow(rows)
    linear = abs(exponent(rows, "seconds") - 1) < 0.15
    yield "the time of an epoch is proportional to the corpus", linear
    losses = [loss for _, loss in points(rows, "valid_loss")]
    falling = losses[:4] == sorted(losses[:4], reverse=True)
    yield "validation loss falls with the size, up to half of the corpus", falling
    yield "and is level from there", abs(losses[4] / losses[3] - 1) < 0.02
    gaps = [a - b for a, (_, b) in zip(losses, points(rows, "train_loss"), strict=True)]
    yield "the generalisation gap shrinks", gaps == sorted(gaps, reverse=True)
    scores = [score for _, score in points(rows, "valid_bleu")]
    yield "BLEU rises with the size", min(scores[2:]) > scores[1] > scores[0] + 3
