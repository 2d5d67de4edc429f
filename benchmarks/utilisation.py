"""``python -m benchmarks.utilisation``: the share of the peak that a training step reaches.

A training step is a forward pass, a backward pass and a step of Adam. Its FLOPs are counted by
:func:`tfmr.complexity.counted_training_flops`, and its time is measured in rounds that interleave
all models and a product of two large matrices, whose rate is the peak. Chapter 16 shows the
results.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks import record
from benchmarks.record import Record, Row
from benchmarks.tables import Claims, markdown, select
from benchmarks.timing import ratio, time_interleaved
from tfmr.complexity import counted_training_flops
from tfmr.config import TransformerConfig
from tfmr.errors import require
from tfmr.family import GPT, GPTConfig
from tfmr.model import Transformer

VOCAB = 1000
LENGTH = 64
PEAK = "matrix product"


@dataclass(frozen=True)
class Utilisation:
    """Measure the rate of training steps relative to that of a large matrix product."""

    widths: tuple[int, ...] = (32, 64, 128, 256, 512)
    """Values of d_model of GPTs with two blocks; the feed-forward networks are 4 times as wide."""
    sentences: int = 8
    """Texts of 64 tokens per step of the GPTs."""
    pairs: tuple[int, ...] = (2, 16)
    """Pairs of 32 tokens each per step of the paper's base model."""
    peak_size: int = 2048
    """Rows and columns of the matrices of the peak."""
    rounds: int = 7
    """Measured rounds, after one that is not measured."""
    threads: int = 1
    """CPU threads."""
    out: Path = record.FOLDER / "utilisation.json"
    """The record."""

    def __call__(self) -> None:
        """Measure and record."""
        require(self.rounds >= 1, f"expected --rounds of 1 or more, got {self.rounds}")
        torch.set_num_threads(self.threads)
        metadata = record.collect_metadata()
        settings = {
            "rounds": self.rounds,
            "precision": "fp32",
            "peak_size": self.peak_size,
            "seed": 0,
            "load_average": round(os.getloadavg()[0], 2),
        }
        record.write(self.out, "utilisation", self.rows(), settings=settings, metadata=metadata)

    def rows(self) -> list[dict[str, Any]]:
        """A row for the peak and one for each model and batch."""
        torch.manual_seed(0)
        a, b = torch.randn(2, self.peak_size, self.peak_size)
        found: list[dict[str, Any]] = [{"model": PEAK, "flops": 2 * self.peak_size**3}]
        works: list[Callable[[int], object]] = [lambda _: a @ b]
        for width in self.widths:
            model = gpt(width)
            found.append(size(f"GPT, d_model {width}", model, self.sentences * LENGTH))
            works.append(prepare(model, gpt_loss(model, self.sentences), found[-1]))
        base = Transformer(TransformerConfig.base())
        for pairs in self.pairs:
            found.append(size("base", base, pairs * 64))
            works.append(prepare(base, base_loss(base, pairs), found[-1]))
        seconds = time_interleaved(dict(enumerate(works)), rounds=self.rounds)
        for index, row in enumerate(found):
            row["seconds"] = [round(second, 6) for second in seconds[index]]
            time_per_flop = [second / row["flops"] for second in seconds[index]]
            peak = [second / found[0]["flops"] for second in seconds[0]]
            row["share_of_peak"] = round(ratio(peak, time_per_flop).median, 4)
        return found


def gpt(width: int) -> GPT:
    """A GPT with two blocks and heads of 16 dimensions."""
    return GPT(
        GPTConfig(
            vocab=VOCAB,
            d_model=width,
            n_heads=width // 16,
            d_ff=4 * width,
            n_layers=2,
            max_length=LENGTH,
            dropout=0.0,
        )
    )


def gpt_loss(model: GPT, sentences: int) -> Callable[[], Tensor]:
    """The loss on random tokens."""
    ids = torch.randint(VOCAB, (sentences, LENGTH + 1))
    return lambda: F.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())


def base_loss(model: Transformer, pairs: int) -> Callable[[], Tensor]:
    """The loss of the paper's base model on random pairs of 32 tokens."""
    source, target = torch.randint(3, model.config.target_vocab, (2, pairs, 32))
    return lambda: F.cross_entropy(
        model.scores(model.hidden(source, target)).flatten(0, 1), target.flatten()
    )


def size(name: str, model: nn.Module, tokens: int) -> dict[str, Any]:
    """Name, number of parameters, and tokens per step."""
    parameters = sum(parameter.numel() for parameter in model.parameters())
    return {"model": name, "parameters": parameters, "tokens": tokens}


def prepare(
    model: nn.Module, loss: Callable[[], Tensor], row: dict[str, Any]
) -> Callable[[int], None]:
    """A training step as a function; its FLOPs are added to ``row``."""
    row["flops"] = counted_training_flops(loss)
    adam = torch.optim.Adam(model.parameters(), lr=1e-4, fused=True)

    def step(_: int) -> None:
        adam.zero_grad()
        loss().backward()
        adam.step()

    return step


def table(rows: list[Row], settings: Row) -> list[str]:
    """The share of the peak that a training step reaches."""
    peak, *steps = rows
    lines = [
        [
            "Transformer base" if row["model"] == "base" else row["model"],
            *(f"{row[size]:,}" for size in ("parameters", "tokens")),
            f"{row['flops'] / 1e9:.2f}",
            f"{row['share_of_peak']:.2f}",
        ]
        for row in steps
    ]
    rate = peak["flops"] / median(peak["seconds"]) / 1e9
    size = f"{settings['peak_size']:,}"
    return [
        f"Rate of a training step in {settings['precision']}, with Adam, divided by the peak rate: "
        f"the median of {settings['rounds']} interleaved rounds. The peak rate, {rate:.0f} "
        f"GFLOP/s, is reached by a multiplication of two {size} × {size} matrices. The load "
        f"average of the machine was {settings['load_average']}.",
        markdown(["", "parameters", "tokens", "GFLOP", "share of the peak rate"], lines),
    ]


def claims(rows: list[Row], settings: Row, records: dict[str, Record]) -> Claims:
    """The statements of chapter 16 about the share of the peak."""
    steps = rows[1:]
    gpts = [row["share_of_peak"] for row in steps if row["model"].startswith("GPT")]
    yield "wider models reach a larger share", gpts[-1] > gpts[0] + 0.1
    yield "no step reaches the peak", max(row["share_of_peak"] for row in steps) < 1
    small, large = sorted(select(steps, model="base"), key=lambda row: row["tokens"])
    shares = [row["share_of_peak"] for row in (small, large)]
    yield f"a larger batch reaches a larger share: {shares}", shares[0] < shares[1]


if __name__ == "__main__":
    record.run(Utilisation)
