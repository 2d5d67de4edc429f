"""``python -m benchmarks.copying``: how many digits recurrent encoder-decoders can repeat.

The models have GRU cells and differ in one respect, attention or one vector for the source. They
are trained to repeat random digits, and the accuracy of greedy decoding is recorded by length.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor
from torch.nn import functional as F
from tqdm import tqdm

from benchmarks import record
from benchmarks.record import Record, Row
from benchmarks.tables import RANGE, Claims, count, grouped, markdown, select, spread
from tfmr.decode import greedy_search
from tfmr.errors import require
from tfmr.seq2seq import Seq2Seq, Seq2SeqConfig
from tfmr.special_tokens import BOS, EOS, SPECIAL

VARIANTS = {
    "one vector": (False, 1),
    "one vector, twice the steps": (False, 2),
    "one vector, four times the steps": (False, 4),
    "attention": (True, 1),
}
"""Whether the model has attention, and the factor of its number of training steps."""
LENGTHS = (2, 4, 6, 8, 10, 12, 14)
"""The numbers of digits at which the models are evaluated; training has from 1 to the largest."""
D_MODEL = 64
BATCH = 48
PEAK_LR = 0.01


@dataclass(frozen=True)
class Copying:
    """Train every variant with every seed, and record its accuracy by length."""

    variants: tuple[str, ...] = ("one vector", "one vector, twice the steps", "attention")
    """The variants to train."""
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    """Seeds of weights and digits."""
    steps: int = 600
    """Training steps of a variant with the factor 1."""
    count: int = 1000
    """Test sequences of each length."""
    threads: int = 1
    """CPU threads."""
    out: Path = record.FOLDER / "copying.json"
    """The record."""

    def __call__(self) -> None:
        """Train and record."""
        require(
            min(self.steps, self.count) >= 1,
            f"expected --steps and --count of 1 or more, got {self.steps} and {self.count}",
        )
        unknown = [name for name in self.variants if name not in VARIANTS]
        require(not unknown, f"expected --variants of {list(VARIANTS)}, got {unknown}")
        torch.set_num_threads(self.threads)
        metadata = record.collect_metadata()
        settings = {
            "seeds": list(self.seeds),
            "lengths": list(LENGTHS),
            "sequences": self.count,
            "d_model": D_MODEL,
            "batch": BATCH,
            "peak_lr": PEAK_LR,
        }
        record.write(self.out, "copying", measure(self), settings=settings, metadata=metadata)


def measure(copying: Copying) -> Iterator[dict[str, Any]]:
    """A row for each variant and seed."""
    names = [(variant, seed) for variant in copying.variants for seed in copying.seeds]
    for variant, seed in tqdm(names, unit=" runs"):
        attention, factor = VARIANTS[variant]
        torch.manual_seed(seed)
        model = build(attention)
        train(model, factor * copying.steps)
        yield {
            "variant": variant,
            "seed": seed,
            "steps": factor * copying.steps,
            "parameters": model.count_parameters(),
            "accuracy": [accuracy(model, length, copying.count) for length in LENGTHS],
        }


def build(attention: bool) -> Seq2Seq:
    """An untrained model of the digits."""
    vocab = len(SPECIAL) + 10
    config = Seq2SeqConfig(
        source_vocab=vocab,
        target_vocab=vocab,
        cell="gru",
        attention=attention,
        d_model=D_MODEL,
        dropout=0.0,
    )
    return Seq2Seq(config)


def copy_task(
    length: int, count: int
) -> tuple[
    Int[Tensor, "count length"],
    Int[Tensor, "count length_plus_1"],
    Int[Tensor, "count length_plus_1"],
]:
    """Random digits, the decoder input for repeating them, and the expected tokens."""
    first = len(SPECIAL)
    digits = torch.randint(first, first + 10, (count, length))
    return digits, F.pad(digits, (1, 0), value=BOS), F.pad(digits, (0, 1), value=EOS)


def train(model: Seq2Seq, steps: int) -> None:
    """Adam with a learning rate that decreases linearly to zero; one length per batch."""
    optimizer = torch.optim.Adam(model.parameters(), lr=PEAK_LR)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, steps)
    for _ in range(steps):
        length = int(torch.randint(1, LENGTHS[-1] + 1, ()))
        digits, previous, expected = copy_task(length, BATCH)
        scores = model(digits, previous)
        optimizer.zero_grad()
        F.cross_entropy(scores.flatten(0, 1), expected.flatten()).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
    model.eval()


def accuracy(model: Seq2Seq, length: int, count: int) -> float:
    """The fraction of random sequences that greedy decoding repeats without an error."""
    digits, _, _ = copy_task(length, count)
    outputs = greedy_search(model, digits)
    correct: int = sum(a == b for a, b in zip(outputs, digits.tolist(), strict=True))
    return correct / count


def table(rows: list[Row], settings: Row) -> list[str]:
    """The fraction of sequences repeated without an error, by variant and length."""
    lines = []
    for variant, own in grouped(rows, "variant").items():
        by_length = zip(*(row["accuracy"] for row in own), strict=True)
        sizes = (f"{own[0][name]:,}" for name in ("parameters", "steps"))
        lines.append([variant, *sizes, *(spread(scores, ".3f") for scores in by_length)])
    header = ["", "parameters", "steps", *(f"{n} digits" for n in settings["lengths"])]
    return [
        f"Fraction of {settings['sequences']:,} random digit sequences that the model repeats "
        f"without an error, {count(len(settings['seeds']), 'seed')}: the mean, {RANGE}.",
        markdown(header, lines),
    ]


def claims(rows: list[Row], settings: Row, records: dict[str, Record]) -> Claims:
    """With every seed, attention repeats more of the long sequences than one vector.

    The runs with attention are those of ``copying.json``, with the fewest steps.
    """
    scores = {
        variant: [row["accuracy"] for row in own]
        for variant, own in grouped(rows, "variant").items()
    }
    complete = {len(own) for own in scores.values()} == {len(settings["seeds"])}
    yield "every variant has every seed", complete
    attention = [row["accuracy"] for row in select(records["copying"]["rows"], variant="attention")]
    for variant in scores.keys() - {"attention"}:
        first = 8 if VARIANTS[variant][1] == 4 else 6
        for k, length in enumerate(settings["lengths"]):
            if length >= first:
                claim = f"attention repeats more of {length} digits than {variant}"
                best = max(row[k] for row in scores[variant])
                yield claim, min(row[k] for row in attention) > best


if __name__ == "__main__":
    record.run(Copying)
