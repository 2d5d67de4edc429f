"""``python -m benchmarks.recall``: accuracy of recurrent networks that recall the first symbol.

A sequence starts with one of four symbols, followed by noise symbols drawn from four others. After
the last noise symbol, the network classifies the first symbol. The number of noise symbols is the
distance. Chapters 1 and 2 explain the task and show the results.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, cast

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F
from tqdm import tqdm

from benchmarks import record
from benchmarks.record import Record, Row
from benchmarks.tables import RANGE, Claims, count, grouped, markdown, select, spread
from tfmr.errors import require
from tfmr.recurrent import GRU, LSTM, RNN, GRUCell, Stack

SYMBOLS = 4
"""The number of symbols to recall, and of noise symbols."""
D_HIDDEN = 32
BATCH = 64
LEARNING_RATE = 0.005
MAX_GRAD_NORM = 1.0
TEST = 1000
"""Sequences in the evaluation, drawn after the training."""


@dataclass(frozen=True)
class Recall:
    """Train each network for each distance with several seeds, and record the accuracies."""

    distances: tuple[int, ...] = (2, 5, 10, 20, 40, 60)
    """Numbers of noise symbols."""
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    """Seeds of weights and sequences."""
    steps: int = 250
    """Training steps."""
    threads: int = 1
    """CPU threads."""
    out: Path = record.FOLDER / "recall.json"
    """The record."""

    def __call__(self) -> None:
        """Measure and record."""
        require(
            all(distance >= 1 for distance in self.distances),
            f"expected --distances of 1 or more, got {list(self.distances)}",
        )
        torch.set_num_threads(self.threads)
        settings = {
            "d_hidden": D_HIDDEN,
            "batch": BATCH,
            "learning_rate": LEARNING_RATE,
            "max_grad_norm": MAX_GRAD_NORM,
            "steps": self.steps,
            "seeds": self.seeds,
            "test_sequences": TEST,
            "chance": 1 / SYMBOLS,
        }
        record.write(self.out, "recall", self._measure(), settings=settings)

    def _measure(self) -> Iterator[dict[str, Any]]:
        runs = [(name, n, seed) for name in NETWORKS for n in self.distances for seed in self.seeds]
        for name, distance, seed in tqdm(runs, unit=" networks"):
            torch.manual_seed(seed)
            stack = NETWORKS[name]()
            yield {
                "network": name,
                "parameters": sum(p.numel() for p in stack.parameters()),
                "distance": distance,
                "seed": seed,
                "accuracy": round(accuracy_after_training(stack, distance, self.steps), 4),
            }


def gru_with_update_bias(bias: float) -> GRU:
    """A GRU whose update gates start near σ(``bias``), as ``forget_bias`` does for an LSTM."""
    stack = GRU(2 * SYMBOLS, D_HIDDEN)
    with torch.no_grad():
        # The columns of the gates are in the order r, z, n.
        cast(GRUCell, stack.cells[0]).w_x.bias[D_HIDDEN : 2 * D_HIDDEN] = bias
    return stack


NETWORKS: dict[str, Callable[[], Stack[Any]]] = {
    "RNN": lambda: RNN(2 * SYMBOLS, D_HIDDEN),
    "LSTM, forget bias 1": lambda: LSTM(2 * SYMBOLS, D_HIDDEN, forget_bias=1.0),
    "LSTM, forget bias 5": lambda: LSTM(2 * SYMBOLS, D_HIDDEN, forget_bias=5.0),
    "GRU": lambda: GRU(2 * SYMBOLS, D_HIDDEN),
    "GRU, update bias 5": lambda: gru_with_update_bias(5.0),
}
"""The networks by the names in the record."""


def draw(
    distance: int, batch: int
) -> tuple[Float[Tensor, "batch length symbols"], Int[Tensor, "batch"]]:
    """One-hot sequences of ``distance + 1`` symbols, and the index of the first symbol."""
    ids = torch.randint(SYMBOLS, 2 * SYMBOLS, (batch, distance + 1))
    ids[:, 0] = torch.randint(0, SYMBOLS, (batch,))
    return F.one_hot(ids, 2 * SYMBOLS).float(), ids[:, 0]


def accuracy_after_training(stack: Stack[Any], distance: int, steps: int) -> float:
    """The accuracy on new sequences of ``stack`` with a linear classifier on its last output."""
    classifier = nn.Linear(D_HIDDEN, SYMBOLS)
    parameters = [*stack.parameters(), *classifier.parameters()]
    optimizer = torch.optim.Adam(parameters, lr=LEARNING_RATE)
    for _ in range(steps):
        x, first = draw(distance, BATCH)
        optimizer.zero_grad()
        F.cross_entropy(classifier(stack(x)[0][:, -1]), first).backward()
        nn.utils.clip_grad_norm_(parameters, MAX_GRAD_NORM)
        optimizer.step()
    with torch.no_grad():
        x, first = draw(distance, TEST)
        predicted = classifier(stack(x)[0][:, -1]).argmax(-1)
    return float((predicted == first).float().mean())


def table(rows: list[Row], settings: Row) -> list[str]:
    """Accuracy by network and distance: median and range over the seeds."""
    distances = grouped(rows, "distance")
    lines = []
    for network, own in grouped(rows, "network").items():
        found = ([r["accuracy"] for r in select(own, distance=d)] for d in distances)
        cells = (spread(accuracies, ".2f", median) for accuracies in found)
        lines.append([network, f"{own[0]['parameters']:,}", *cells])
    return [
        "Accuracy of recalling the first symbol at the last position, by the distance between "
        f"these two positions, after {settings['steps']} training steps, "
        f"{count(len(settings['seeds']), 'seed')}: the median, {RANGE}. Chance level is "
        f"{settings['chance']:.2f}.",
        markdown(["", "parameters", *map(str, distances)], lines),
    ]


def claims(rows: list[Row], settings: Row, records: dict[str, Record]) -> Claims:
    """What chapters 1 and 2 state about all seeds, and what an RNN and a gate near 1 recall."""
    found = grouped(rows, "network", "distance")
    complete = all(len(own) == len(settings["seeds"]) == 5 for own in found.values())
    yield "five seeds of every network and distance", complete
    for network, distance, low, high in (
        ("RNN", 5, 0.99, 1.0),
        ("RNN", 60, 0.0, 0.35),
        ("LSTM, forget bias 1", 60, 0.0, 0.35),
        ("LSTM, forget bias 5", 60, 0.95, 1.0),
        ("GRU", 60, 0.0, 0.35),
        ("GRU, update bias 5", 60, 0.95, 1.0),
    ):
        seeds = [row["accuracy"] for row in found[network, distance]]
        claim = f"{network} at distance {distance} is in {low}..{high} for every seed: {seeds}"
        yield claim, low <= min(seeds) and max(seeds) <= high


if __name__ == "__main__":
    record.run(Recall)
