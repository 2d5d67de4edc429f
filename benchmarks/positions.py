"""``python -m benchmarks.positions``: positional encodings on sequences longer than in training.

A model with one causal attention layer predicts, at each position, the token three positions back.
It is trained on sequences of 16 tokens and tested on longer ones. The models differ in their
positional encoding; one of them has a second attention layer. The rotary models are also tested on
much longer sequences, with their own frequencies, with the frequencies of two methods that extend
rotary positions, and with attention to the last positions only, always without further training.
Chapter 6 shows the results.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F
from tqdm import tqdm

from benchmarks import record
from benchmarks.record import Record, Row
from benchmarks.tables import RANGE, Claims, count, grouped, markdown, select, spread
from tfmr.attention import MultiHeadAttention, causal_mask
from tfmr.errors import require
from tfmr.position import LearnedPosition, RotaryPosition, SinusoidalPosition

TOKENS, D_MODEL, BACK = 16, 64, 3
TRAINED, LONGER, FAR = 16, 32, 512
"""The lengths of the sequences in training and in the two tests."""
BATCH, LR = 16, 0.005
LAST = 100
"""The accuracy on sequences of 512 tokens is that of so many positions at their end."""
FACTOR = FAR / TRAINED


class LookBack(nn.Module):
    """Attention layers with one head and a causal mask between an embedding and an output layer.

    Args:
        position: what is added to the embeddings.
        rotary: the rotation of queries and keys.
        first: an attention layer, with a residual connection, before the last one.
    """

    def __init__(
        self,
        position: nn.Module,
        rotary: RotaryPosition | None = None,
        first: MultiHeadAttention | None = None,
    ) -> None:
        super().__init__()
        self.embedding = nn.Embedding(TOKENS, D_MODEL)
        self.position = position
        self.first = first
        self.attention = MultiHeadAttention(D_MODEL, 1, rotary=rotary)
        self.output = nn.Linear(D_MODEL, TOKENS)

    def forward(
        self, ids: Int[Tensor, "batch length"], mask: Bool[Tensor, "length length"]
    ) -> Float[Tensor, "batch length vocab"]:
        """Logits."""
        x = self.position(self.embedding(ids))
        if self.first is not None:
            x = x + self.first(x, mask=mask)
        logits: Tensor = self.output(self.attention(x, mask=mask))
        return logits


ENCODINGS: dict[str, Callable[[], LookBack]] = {
    "rotary": lambda: LookBack(nn.Identity(), RotaryPosition(D_MODEL, FAR)),
    "sinusoidal": lambda: LookBack(SinusoidalPosition(D_MODEL, FAR)),
    "learned": lambda: LookBack(LearnedPosition(D_MODEL, FAR)),
    "none": lambda: LookBack(nn.Identity()),
    "none, two layers": lambda: LookBack(nn.Identity(), first=MultiHeadAttention(D_MODEL, 1)),
}
"""The models, by the names in the record."""
EXTENSIONS: dict[str, Callable[[], RotaryPosition]] = {
    "unchanged": lambda: RotaryPosition(D_MODEL, FAR),
    "interpolation": lambda: RotaryPosition(D_MODEL, FAR, scale=lambda omega: omega / FACTOR),
    "larger base": lambda: RotaryPosition(
        D_MODEL, FAR, base=10000.0 * FACTOR ** (D_MODEL / (D_MODEL - 2))
    ),
}
"""The rotations with which trained rotary models are tested, by the names in the record."""


@dataclass(frozen=True)
class Positions:
    """Train every model with every seed, and record its accuracy at new lengths."""

    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    """Seeds of weights and sequences."""
    steps: tuple[int, ...] = (200, 600)
    """Training steps after which the models are tested, in ascending order."""
    count: int = 64
    """Test sequences."""
    out: Path = record.FOLDER / "positions.json"
    """The record."""

    def __call__(self) -> None:
        """Train and record."""
        require(min(*self.steps, self.count) >= 1, "expected --steps and --count of 1 or more")
        torch.set_num_threads(1)
        metadata = record.collect_metadata()
        settings = {
            "seeds": list(self.seeds),
            "steps": list(self.steps),
            "sequences": self.count,
            "tokens": TOKENS,
            "lengths": [TRAINED, LONGER, FAR],
            "last": LAST,
            "d_model": D_MODEL,
            "batch": BATCH,
            "lr": LR,
        }
        record.write(self.out, "positions", self.measure(), settings=settings, metadata=metadata)

    def measure(self) -> Iterator[dict[str, Any]]:
        """A row for each model, seed and number of steps."""
        runs = [(encoding, seed) for encoding in ENCODINGS for seed in self.seeds]
        for encoding, seed in tqdm(runs, unit=" runs"):
            torch.manual_seed(seed)
            model = ENCODINGS[encoding]()
            optimizer = torch.optim.Adam(model.parameters(), lr=LR)
            for step in range(1, max(self.steps) + 1):
                train_step(model, optimizer)
                if step in self.steps:
                    row = {"encoding": encoding, "seed": seed, "steps": step}
                    yield {**row, **self.test(model)}

    def test(self, model: LookBack) -> dict[str, Any]:
        """Mean accuracies inside and beyond the training positions, and far beyond for rotary."""
        by_position = accuracies(model, causal_mask(LONGER), self.count)
        inside, beyond = by_position[: TRAINED - BACK], by_position[TRAINED - BACK :]
        row: dict[str, Any] = {"trained": _rounded(inside), "beyond": _rounded(beyond)}
        rotary = model.attention.rotary
        if isinstance(rotary, RotaryPosition):
            causal = causal_mask(FAR)
            # The same mask without the pairs that are at least 16 positions apart.
            window = causal & ~causal.tril(-TRAINED)
            tests = [(name, extended(), causal) for name, extended in EXTENSIONS.items()]
            for name, rotation, mask in [*tests, ("last 16 keys", rotary, window)]:
                model.attention.rotary = rotation
                row[f"far, {name}"] = _rounded(accuracies(model, mask, self.count)[-LAST:])
            model.attention.rotary = rotary
        return row


def train_step(model: LookBack, optimizer: torch.optim.Optimizer) -> None:
    """One step on random sequences of the training length."""
    ids = torch.randint(TOKENS, (BATCH, TRAINED))
    logits = model(ids, causal_mask(TRAINED))[:, BACK:]
    optimizer.zero_grad()
    F.cross_entropy(logits.flatten(0, 1), ids[:, :-BACK].flatten()).backward()
    optimizer.step()


@torch.no_grad()
def accuracies(
    model: LookBack, mask: Bool[Tensor, "length length"], count: int
) -> Float[Tensor, "predicted"]:
    """The accuracy at each position from the fourth, on random sequences as long as ``mask``."""
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(TOKENS, (count, len(mask)), generator=generator)
    correct: Tensor = model(ids, mask).argmax(dim=-1)[:, BACK:] == ids[:, :-BACK]
    return correct.float().mean(dim=0)


def _rounded(accuracy: Tensor) -> float:
    return round(float(accuracy.mean()), 4)


def table(rows: list[Row], settings: Row) -> list[str]:
    """Accuracies by encoding and number of steps, and those of the rotary models far away."""
    trained, longer, far = settings["lengths"]
    header = ["", "steps", f"positions {BACK} to {trained - 1}", f"{trained} to {longer - 1}"]
    lines = [
        [name, f"{steps:,}", *(spread([row[part] for row in own], ".2f") for part in PARTS)]
        for (name, steps), own in grouped(rows, "encoding", "steps").items()
    ]
    rotary = grouped(select(rows, encoding="rotary"), "steps")
    far_lines = [
        [
            name.removeprefix("far, "),
            *(spread([row[name] for row in own], ".2f") for own in rotary.values()),
        ]
        for name in rows[0]
        if name.startswith("far, ")
    ]
    return [
        f"Accuracy of predicting the token {BACK} positions back (chance: "
        f"{1 / settings['tokens']:.2f}) after training on sequences of {trained} tokens, "
        f"{count(len(settings['seeds']), 'seed')}: the mean, {RANGE}.",
        markdown(header, lines),
        f"Accuracy of the rotary models on the last {settings['last']} of {far} positions, without "
        "further training, by the number of training steps.",
        markdown(["", *(f"{steps:,} steps" for steps in rotary)], far_lines),
    ]


PARTS = ("trained", "beyond")


def claims(rows: list[Row], settings: Row, records: dict[str, Record]) -> Claims:
    """The statements of chapter 6."""
    for (encoding, steps), own in grouped(rows, "encoding", "steps").items():
        solved = {"trained": not encoding.startswith("none"), "beyond": encoding == "rotary"}
        for part, expected in solved.items():
            accuracy = [row[part] for row in own]
            claim = f"{encoding}, {steps} steps, {part}: {'' if expected else 'not '}solved"
            yield claim, min(accuracy) > 0.95 if expected else max(accuracy) < 0.5


if __name__ == "__main__":
    record.run(Positions)
