"""``python -m benchmarks.relations``: one head and four heads on four relations.

The input is a circle of eight random names. From the output at each position, a linear layer
predicts four names: the two before this position and the two after it. The models differ in the
number of heads, in what surrounds the attention (nothing or the rest of a pre-norm encoder block)
and in whether the heads are projected by :math:`W^O`. Chapter 5 shows the results.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F
from tqdm import tqdm

from benchmarks import record
from benchmarks.record import Record, Row
from benchmarks.tables import NOTHING, RANGE, Claims, count, grouped, markdown, spread
from tfmr.attention import MultiHeadAttention
from tfmr.config import BlockConfig
from tfmr.encoder import EncoderBlock
from tfmr.errors import require

NAMES, LENGTH, D_MODEL, D_FF = 8, 8, 32, 128
OFFSETS = (-2, -1, 1, 2)
BATCH, LR = 32, 0.01
SOLVED = 0.99
"""Training ends when the accuracy of every seed is higher."""
VARIANTS = {
    "attention, one head": (1, False, True),
    "attention, four heads": (4, False, True),
    "attention, four heads, no $W^O$": (4, False, False),
    "block, one head": (1, True, True),
    "block, four heads": (4, True, True),
    "block, four heads, no $W^O$": (4, True, False),
}
"""The number of heads, and whether the model has a whole block and the output projection."""


@dataclass(frozen=True)
class Relations:
    """Train every variant with every seed, and record its accuracy."""

    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    """Seeds of weights and names."""
    steps: tuple[int, ...] = (200, 600, 2000)
    """Training steps after which the models are tested, in ascending order."""
    count: int = 500
    """Test sequences."""
    out: Path = record.FOLDER / "relations.json"
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
            "d_model": D_MODEL,
            "d_ff": D_FF,
            "batch": BATCH,
            "lr": LR,
        }
        record.write(self.out, "relations", self.measure(), settings=settings, metadata=metadata)

    def measure(self) -> Iterator[dict[str, Any]]:
        """A row for each variant and seed."""
        for variant in tqdm(VARIANTS, unit=" variants"):
            models, optimizers = [], []
            for seed in self.seeds:
                torch.manual_seed(seed)
                models.append(Model(*VARIANTS[variant]))
                optimizers.append(torch.optim.Adam(models[-1].parameters(), lr=LR))
            generators = [torch.Generator().manual_seed(seed) for seed in self.seeds]
            accuracies: list[list[float]] = [[] for _ in self.seeds]
            done = 0
            for steps in self.steps:
                for own in zip(models, optimizers, generators, strict=True):
                    for _ in range(steps - done):
                        train_step(*own)
                done = steps
                for model, reached in zip(models, accuracies, strict=True):
                    reached.append(accuracy(model, self.count))
                if min(reached[-1] for reached in accuracies) > SOLVED:
                    break
            for seed, model, reached in zip(self.seeds, models, accuracies, strict=True):
                size = sum(p.numel() for p in model.parameters())
                row = {"variant": variant, "seed": seed, "parameters": size}
                yield {**row, "accuracy": reached}


class Model(nn.Module):
    """Attention over names and positions, and a linear layer that predicts four names.

    Args:
        heads: number of heads.
        whole: whether the rest of a pre-norm encoder block surrounds the attention.
        projected: whether the heads are projected by :math:`W^O`; otherwise they are concatenated.
    """

    def __init__(self, heads: int, whole: bool, projected: bool) -> None:
        super().__init__()
        self.name = nn.Embedding(NAMES, D_MODEL)
        self.position = nn.Parameter(torch.randn(LENGTH, D_MODEL))
        config = BlockConfig(D_MODEL, heads, D_FF, dropout=0.0, norm="pre")
        self.block = EncoderBlock(config) if whole else MultiHeadAttention(D_MODEL, heads)
        attention = self.block.attention if isinstance(self.block, EncoderBlock) else self.block
        if not projected:
            attention.register_module("w_o", nn.Identity())
        self.output = nn.Linear(D_MODEL, len(OFFSETS) * NAMES)

    def forward(
        self, ids: Int[Tensor, "batch length"]
    ) -> Float[Tensor, "batch length offset name"]:
        """Logits."""
        logits: Tensor = self.output(self.block(self.name(ids) + self.position))
        names: Tensor = logits.unflatten(-1, (len(OFFSETS), NAMES))
        return names


def draw(
    number: int, generator: torch.Generator
) -> tuple[Int[Tensor, "batch length"], Int[Tensor, "batch length offset"]]:
    """Random names, and those to be predicted at each position."""
    ids = torch.randint(NAMES, (number, LENGTH), generator=generator)
    return ids, torch.stack([ids.roll(-offset, dims=1) for offset in OFFSETS], dim=-1)


def train_step(model: Model, optimizer: torch.optim.Optimizer, generator: torch.Generator) -> None:
    """One step on random names."""
    ids, names = draw(BATCH, generator)
    optimizer.zero_grad()
    F.cross_entropy(model(ids).flatten(0, 2), names.flatten()).backward()
    optimizer.step()


@torch.no_grad()
def accuracy(model: Model, number: int) -> float:
    """The fraction of names that are predicted correctly."""
    ids, names = draw(number, torch.Generator().manual_seed(1_000_000))
    return round(float((model(ids).argmax(dim=-1) == names).float().mean()), 4)


def table(rows: list[Row], settings: Row) -> list[str]:
    """Accuracies by variant and number of steps."""
    lines = []
    for variant, own in grouped(rows, "variant").items():
        by_steps = list(zip(*(row["accuracy"] for row in own), strict=True))
        missing = len(settings["steps"]) - len(by_steps)
        cells = [*(spread(reached, ".3f") for reached in by_steps), *[NOTHING] * missing]
        lines.append([variant, f"{own[0]['parameters']:,}", *cells])
    return [
        "Accuracy of predicting four neighbouring names from one position, "
        f"{count(len(settings['seeds']), 'seed')}: the mean, {RANGE}. Training ends when the "
        f"accuracy of every seed is above {SOLVED}.",
        markdown(["", "parameters", *(f"{n:,} steps" for n in settings["steps"])], lines),
    ]


def claims(rows: list[Row], settings: Row, records: dict[str, Record]) -> Claims:
    """The statements of chapter 5."""
    for variant, own in grouped(rows, "variant").items():
        solved = min(row["accuracy"][-1] for row in own) > SOLVED
        yield f"{variant}: solved only with four heads", solved == (VARIANTS[variant][0] == 4)


if __name__ == "__main__":
    record.run(Relations)
