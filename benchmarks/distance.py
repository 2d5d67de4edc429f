"""``python -m benchmarks.distance``: accuracy of the layer types by the distance of a dependency.

The task is that of :mod:`benchmarks.recall`: a sequence starts with one of four symbols, noise
symbols follow, and the network classifies the first symbol at the last position. A network is
trained on all distances: each batch has one of them, drawn at random. All networks have the same
number of blocks with the same residual connections and layer norms. They have the same number of
parameters up to rounding: the width of the feed-forward networks compensates for the differences
between the layers. The peak learning rate of each type is the one of :data:`RATES` with the
smallest loss, with a seed that is not recorded otherwise. Chapter 14 shows the results.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F
from tqdm import tqdm

from benchmarks import record
from benchmarks.recall import SYMBOLS, draw
from benchmarks.record import Record, Row
from benchmarks.tables import RANGE, Claims, count, grouped, markdown, spread
from benchmarks.torch_layers import TorchRecurrentLayer
from tfmr.errors import require
from tfmr.layers import FeedForward, LayerNorm
from tfmr.sequence_layers import (
    ConvolutionalLayer,
    SelfAttentionLayer,
    SequenceLayer,
)

D_MODEL = 32
BLOCKS = 4
HEADS = 2
KERNEL = 5
PARAMETERS = 42_000
"""No network has more; what is missing is less than one unit of each feed-forward network."""
BATCH = 16
RATES = (0.0003, 0.001, 0.003, 0.01)
"""The peak learning rates from which that of each type is selected."""
SELECTION_SEED = 99
"""The seed of the selection."""
MAX_GRAD_NORM = 1.0

LAYERS: dict[str, Callable[[int], SequenceLayer]] = {
    "recurrent (RNN)": lambda _: TorchRecurrentLayer(D_MODEL, nn.RNN),
    "recurrent (LSTM)": lambda _: TorchRecurrentLayer(D_MODEL, nn.LSTM),
    "dilated convolution": lambda block: ConvolutionalLayer(
        D_MODEL, KERNEL, dilation=KERNEL**block, causal=True
    ),
    "self-attention": lambda _: SelfAttentionLayer(D_MODEL, HEADS, causal=True),
}
"""The layer of each block, from 0, by the names in the record."""


@dataclass(frozen=True)
class Distance:
    """Train each network with several seeds, and record its accuracy by distance."""

    distances: tuple[int, ...] = (4, 8, 16, 32, 64, 128)
    """Numbers of positions between the first symbol and the classification."""
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    """Seeds of weights and sequences."""
    steps: int = 300
    """Training steps."""
    count: int = 200
    """Test sequences of each distance."""
    out: Path = record.FOLDER / "distance.json"
    """The record."""

    def __call__(self) -> None:
        """Measure and record."""
        require(
            all(distance >= 1 for distance in self.distances),
            f"expected --distances of 1 or more, got {list(self.distances)}",
        )
        torch.set_num_threads(1)
        # Collected first: writing a record would mark the checkout as changed.
        metadata = record.collect_metadata()
        settings = {
            "distances": list(self.distances),
            "seeds": list(self.seeds),
            "steps": self.steps,
            "sequences": self.count,
            "d_model": D_MODEL,
            "blocks": BLOCKS,
            "heads": HEADS,
            "kernel": KERNEL,
            "batch": BATCH,
            "rates": list(RATES),
            "selection_seed": SELECTION_SEED,
            "max_grad_norm": MAX_GRAD_NORM,
            "chance": 1 / SYMBOLS,
        }
        record.write(self.out, "distance", self._measure(), settings=settings, metadata=metadata)

    def _measure(self) -> Iterator[dict[str, Any]]:
        for name in tqdm(LAYERS, unit=" networks"):
            selection = [self.run(name, SELECTION_SEED, rate) for rate in RATES]
            yield from selection
            best = min(selection, key=lambda row: row["loss"])["peak_lr"]
            for seed in self.seeds:
                yield self.run(name, seed, best)

    def run(self, name: str, seed: int, peak_lr: float) -> dict[str, Any]:
        """Train and evaluate one network."""
        torch.manual_seed(seed)
        network = Network(LAYERS[name])
        train(network, self.distances, self.steps, peak_lr)
        losses, accuracies = zip(
            *(evaluate(network, n, self.count) for n in self.distances), strict=True
        )
        return {
            "layer": name,
            "parameters": network.count_parameters(),
            "peak_lr": peak_lr,
            "seed": seed,
            "loss": round(sum(losses) / len(losses), 4),
            "accuracy": list(accuracies),
        }


class Network(nn.Module):
    """Pre-norm blocks of a sequence layer and a feed-forward network, and a classifier.

    There are no positional encodings: the first symbol differs from all noise symbols, so its
    position is not needed to find it.
    """

    def __init__(self, make_layer: Callable[[int], SequenceLayer]) -> None:
        super().__init__()
        self.embed = nn.Linear(2 * SYMBOLS, D_MODEL)
        self.layers = nn.ModuleList(map(make_layer, range(BLOCKS)))
        self.norms = nn.ModuleList(LayerNorm(D_MODEL) for _ in range(2 * BLOCKS + 1))
        self.classify = nn.Linear(D_MODEL, SYMBOLS)
        remaining = (PARAMETERS - self.count_parameters()) // BLOCKS
        # A unit of the hidden layer has 2 · d_model weights and a bias; D_MODEL are other biases.
        d_ff = (remaining - D_MODEL) // (2 * D_MODEL + 1)
        self.networks = nn.ModuleList(FeedForward(D_MODEL, d_ff) for _ in range(BLOCKS))

    def forward(self, x: Float[Tensor, "batch length symbols"]) -> Float[Tensor, "batch classes"]:
        """The scores of the classes, from the last position."""
        h = self.embed(x)
        for block in range(BLOCKS):
            h = h + self.layers[block](self.norms[2 * block](h))
            h = h + self.networks[block](self.norms[2 * block + 1](h))
        scores: Tensor = self.classify(self.norms[-1](h[:, -1]))
        return scores

    def count_parameters(self) -> int:
        """The number of parameters."""
        return sum(parameter.numel() for parameter in self.parameters())


def train(network: Network, distances: tuple[int, ...], steps: int, peak_lr: float) -> None:
    """Adam with a learning rate that decreases linearly to zero; one distance per batch."""
    optimizer = torch.optim.Adam(network.parameters(), lr=peak_lr)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, steps)
    for _ in range(steps):
        distance = distances[int(torch.randint(len(distances), ()))]
        x, first = draw(distance, BATCH)
        optimizer.zero_grad()
        F.cross_entropy(network(x), first).backward()
        nn.utils.clip_grad_norm_(network.parameters(), MAX_GRAD_NORM)
        optimizer.step()
        schedule.step()


@torch.no_grad()
def evaluate(network: Network, distance: int, count: int) -> tuple[float, float]:
    """The mean cross-entropy and the accuracy on ``count`` new sequences."""
    x, first = draw(distance, count)
    scores = torch.cat([network(part) for part in x.split(50)])
    accuracy = (scores.argmax(-1) == first).float().mean()
    return float(F.cross_entropy(scores, first)), round(float(accuracy), 4)


def table(rows: list[Row], settings: Row) -> list[str]:
    """Accuracy by layer type and distance: mean and range over the seeds."""
    lines = []
    for layer, own in grouped(recorded(rows, settings), "layer").items():
        by_distance = zip(*(row["accuracy"] for row in own), strict=True)
        scores = (spread(values, ".2f") for values in by_distance)
        rate = f"{own[0]['peak_lr']:g}"
        lines.append([layer, f"{own[0]['parameters']:,}", rate, *scores])
    rates = ", ".join(f"{rate:g}" for rate in settings["rates"])
    return [
        "Accuracy of recalling the first symbol at the last position, by the distance between "
        f"these two positions, after {settings['steps']} training steps, "
        f"{count(len(settings['seeds']), 'seed')}: the mean, {RANGE}. The peak learning rate is "
        f"the best of {rates} with another seed. Chance level is {settings['chance']:.2f}.",
        markdown(["", "parameters", "peak learning rate", *map(str, settings["distances"])], lines),
    ]


def recorded(rows: list[Row], settings: Row) -> list[Row]:
    """The rows without those of the selection."""
    return [row for row in rows if row["seed"] != settings["selection_seed"]]


def claims(rows: list[Row], settings: Row, records: dict[str, Record]) -> Claims:
    """The statements of chapter 14 about the accuracy of the layers by distance, for every seed."""
    are_together = len(settings["distances"]) > 1
    for row in recorded(rows, settings):
        by_distance = dict(zip(settings["distances"], row["accuracy"], strict=True))
        name = f"{row['layer']}, seed {row['seed']}"
        has_short_path = row["layer"] in ("dilated convolution", "self-attention")
        if has_short_path or (are_together and row["layer"] == "recurrent (LSTM)"):
            yield f"{name}: at least 0.99 at every distance", min(by_distance.values()) >= 0.99
        elif are_together:
            yield f"{name}: below 0.6 at distance 4", by_distance[4] < 0.6
        else:
            yield f"{name}: below 0.4 at distance 128", by_distance[128] < 0.4


if __name__ == "__main__":
    record.run(Distance)
