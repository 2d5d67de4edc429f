"""``python -m benchmarks.scaling_law``: the loss of small GPTs by their weights and tokens.

Every run trains a GPT on the English captions of Multi30k and records its loss on the test set. The
runs differ in the width of the model, in the number of training steps, and in the seed. Each has
its own learning rate schedule, from warm-up to zero; no loss is measured before the end of a
schedule. No run sees a caption twice. Chapter 17 fits power laws to the results.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from statistics import mean
from typing import Any

import torch
from torch import Tensor
from tqdm import tqdm

from benchmarks import record
from benchmarks.family import Texts, batches, encoded, evaluate, next_token_nats
from benchmarks.record import Record, Row
from benchmarks.tables import RANGE, Claims, count, grouped, markdown, select, spread
from tfmr.data import corpora
from tfmr.data.tokenizer import Tokenizer
from tfmr.errors import require
from tfmr.family import GPT, GPTConfig
from tfmr.family.training import train
from tfmr.special_tokens import PAD

VOCAB = 512
LAYERS = 2
D_K = 8
"""Size of an attention head."""
MAX_LENGTH = 128
"""No caption has more tokens."""
BATCH = 8
"""Captions per step; few, so that the shortest run also has many steps."""
LR_TIMES_WIDTH = 0.2
"""The peak learning rate times d_model, chosen on the validation set for three of the widths."""


@dataclass(frozen=True)
class ScalingLaw:
    """Train GPTs of several widths on several numbers of tokens, and record the losses."""

    widths: tuple[int, ...] = (16, 24, 32, 48, 64, 96)
    """Values of d_model; the feed-forward networks are four times as wide."""
    divisors: tuple[int, ...] = (32, 16, 8, 4, 2)
    """The parts of an epoch: 32 trains on one of 32 equal parts of the captions."""
    seeds: tuple[int, ...] = (0, 1, 2)
    """Seeds of weights and batches."""
    threads: int = 1
    """CPU threads."""
    out: Path = record.FOLDER / "scaling-law.json"
    """The record."""

    def __call__(self) -> None:
        """Train and record."""
        require(
            all(width > 0 and width % D_K == 0 for width in self.widths),
            f"--widths must be multiples of {D_K}, the size of a head: got {self.widths}",
        )
        require(
            min(self.divisors, default=0) >= 1,
            f"--divisors are the parts of an epoch, 1 or more: got {self.divisors}",
        )
        torch.set_num_threads(self.threads)
        metadata = record.collect_metadata()
        data = load_captions()
        settings = {
            "corpus": "multi30k, English",
            "captions": len(data.train),
            "vocab": data.tokenizer.vocab_size,
            "n_layers": LAYERS,
            "d_k": D_K,
            "batch": BATCH,
            "peak_lr_times_d_model": LR_TIMES_WIDTH,
            "seeds": list(self.seeds),
            "test_tokens": tokens(data.test),
        }
        record.write(self.out, "scaling law", self.rows(data), settings=settings, metadata=metadata)

    def rows(self, data: Texts) -> Iterator[dict[str, Any]]:
        """A row for each run."""
        runs = list(product(self.seeds, self.divisors, self.widths))
        for seed, divisor, width in tqdm(runs, unit=" runs"):
            yield run(data, width, max(1, len(data.train) // (divisor * BATCH)), seed)


def load_captions() -> Texts:
    """The English captions of Multi30k in lower case, with a tokenizer of :data:`VOCAB` tokens."""
    corpus = corpora.load("multi30k", "de-en")
    return encoded(corpus, lambda texts: Tokenizer.train_bpe(texts, VOCAB))


def tokens(texts: list[list[int]]) -> int:
    """The number of predicted tokens, ``EOS`` included."""
    return sum(len(text) + 1 for text in texts)


def run(data: Texts, width: int, steps: int, seed: int) -> dict[str, Any]:
    """Train one model; its size, its training tokens, and its loss in nats per test token."""
    torch.manual_seed(seed)
    model = GPT(
        GPTConfig(
            vocab=data.tokenizer.vocab_size,
            d_model=width,
            n_heads=width // D_K,
            d_ff=4 * width,
            n_layers=LAYERS,
            max_length=MAX_LENGTH,
            dropout=0.0,
        )
    )
    source, seen = batches(data.train, BATCH, seed), []

    def loss() -> Tensor:
        ids = next(source)
        seen.append(int((ids[:, 1:] != PAD).sum()))
        return next_token_nats(model, ids).sum() / seen[-1]

    train(model, loss, steps, LR_TIMES_WIDTH / width)
    return {
        "width": width,
        "weights": sum(p.numel() for p in model.blocks.parameters()),
        "parameters": model.count_parameters(),
        "steps": steps,
        "tokens": sum(seen),
        "seed": seed,
        "loss": round(sum(evaluate(model, data.test)) / tokens(data.test), 5),
    }


def table(rows: list[Row], settings: Row) -> list[str]:
    """The loss by weights and training steps, over the seeds."""
    steps = sorted(grouped(rows, "steps"))
    lines = []
    for width, own in grouped(rows, "width").items():
        cells = (spread([row["loss"] for row in select(own, steps=n)], ".3f") for n in steps)
        lines.append([str(width), f"{own[0]['weights']:,}", *cells])
    return [
        "Test loss, in nats per token, of GPTs with "
        f"{settings['n_layers']} blocks, trained on captions ({settings['corpus']}), in "
        f"batches of {settings['batch']}; {count(len(settings['seeds']), 'seed')}: the mean, "
        f"{RANGE}. The weights exclude the embeddings.",
        markdown(["d_model", "weights", *(f"{n:,} steps" for n in steps)], lines),
    ]


def claims(rows: list[Row], settings: Row, records: dict[str, Record]) -> Claims:
    """The statements of chapter 17 about the loss of small GPTs."""
    widths, steps = (sorted(grouped(rows, column)) for column in ("width", "steps"))
    curves = {
        width: [mean(row["loss"] for row in select(rows, width=width, steps=n)) for n in steps]
        for width in widths
    }
    for width, curve in curves.items():
        falling = curve == sorted(curve, reverse=True)
        yield f"the loss falls with the tokens, width {width}", falling
    for n, narrow, wide in zip(steps, curves[widths[0]], curves[widths[-1]], strict=True):
        gain = narrow - wide
        yield f"the widest model is ahead after {n} steps: {gain:.3f}", gain > 0
    enough = len(widths) >= 5 and len(grouped(rows, "seed")) >= 3
    yield "at least five sizes and three seeds", enough


if __name__ == "__main__":
    record.run(ScalingLaw)
