"""``python -m benchmarks.associative``: recall of the value that was stored with a key.

A sequence has pairs of a key and a value, one pair at each position; at the last position, a key
comes alone, and the network predicts its value. All keys of a sequence are different. The task
needs a look-up by content: which position matters depends on the last input. The networks are one
block with the layer under test. Each is trained with several peak learning rates; the rate with
the smallest loss is used for the recorded seeds. Chapter 14 shows the results.
"""

from collections.abc import Callable, Iterator
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
from benchmarks.tables import RANGE, Claims, count, grouped, markdown, select, spread
from benchmarks.torch_layers import TorchRecurrentLayer
from tfmr.errors import require
from tfmr.layers import FeedForward, LayerNorm
from tfmr.sequence_layers import (
    LinearAttentionLayer,
    SelfAttentionLayer,
    SequenceLayer,
)

KEYS, VALUES = 64, 4
D_MODEL = 32
HEADS = 2
BATCH = 32
MAX_GRAD_NORM = 1.0
RATES = (0.0003, 0.001, 0.003, 0.01, 0.03)
"""The learning rates from which that of each network is selected."""
SELECTION_SEED = 99
"""The seed of the selection, which no recorded network has."""

LAYERS: dict[str, tuple[int, Callable[[int], SequenceLayer]]] = {
    "LSTM": (D_MODEL, lambda d: TorchRecurrentLayer(d, nn.LSTM)),
    "LSTM, d = 64": (64, lambda d: TorchRecurrentLayer(d, nn.LSTM)),
    "linear attention": (D_MODEL, lambda d: LinearAttentionLayer(d, HEADS)),
    "self-attention": (D_MODEL, lambda d: SelfAttentionLayer(d, HEADS, causal=True)),
}
"""The size of each network, and its layer, by the names in the record."""


@dataclass(frozen=True)
class Associative:
    """Train each network with several seeds, and record its accuracy by the number of pairs."""

    layers: tuple[str, ...] = tuple(LAYERS)
    """The layers, by their names in the record."""
    pairs: tuple[int, ...] = (4, 8, 16, 32, 64)
    """Numbers of pairs; each batch has one of them, drawn at random."""
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    """Seeds of weights and sequences."""
    steps: tuple[int, ...] = (100, 300, 1000)
    """Numbers of training steps after which a network is evaluated."""
    selection_steps: int = 300
    """Training steps of the selection of the learning rate."""
    count: int = 500
    """Test sequences of each number of pairs."""
    out: Path = record.FOLDER / "associative.json"
    """The record."""

    def __call__(self) -> None:
        """Measure and record."""
        require(
            all(1 <= pairs <= KEYS for pairs in self.pairs),
            f"expected --pairs from 1 to {KEYS}, got {list(self.pairs)}",
        )
        unknown = sorted(set(self.layers) - set(LAYERS))
        require(not unknown, f"expected --layers of {list(LAYERS)}, got {unknown}")
        torch.set_num_threads(1)
        metadata = record.collect_metadata()
        settings = {
            "pairs": list(self.pairs),
            "seeds": list(self.seeds),
            "selection_seed": SELECTION_SEED,
            "selection_steps": self.selection_steps,
            "rates": list(RATES),
            "sequences": self.count,
            "keys": KEYS,
            "values": VALUES,
            "heads": HEADS,
            "batch": BATCH,
            "max_grad_norm": MAX_GRAD_NORM,
            "chance": 1 / VALUES,
        }
        record.write(
            self.out, "associative recall", self._measure(), settings=settings, metadata=metadata
        )

    def _measure(self) -> Iterator[dict[str, Any]]:
        for name in tqdm(self.layers, unit=" networks"):
            selection = {}
            for rate in RATES:
                [row] = self.run(name, SELECTION_SEED, rate, (self.selection_steps,))
                selection[rate] = row["loss"]
                yield row
            best = min(selection, key=lambda rate: selection[rate])
            for seed in self.seeds:
                yield from self.run(name, seed, best, self.steps)

    def run(
        self, name: str, seed: int, rate: float, steps: tuple[int, ...]
    ) -> Iterator[dict[str, Any]]:
        """Train one network, and evaluate it after each of ``steps``."""
        torch.manual_seed(seed)
        network = Network(*LAYERS[name])
        # The learning rate is constant, so that one run shows several numbers of steps.
        optimizer = torch.optim.Adam(network.parameters(), lr=rate, fused=True)
        for step in range(1, max(steps) + 1):
            pairs = self.pairs[int(torch.randint(len(self.pairs), ()))]
            x, value = draw(pairs, BATCH)
            optimizer.zero_grad()
            F.cross_entropy(network(x), value).backward()
            nn.utils.clip_grad_norm_(network.parameters(), MAX_GRAD_NORM)
            optimizer.step()
            if step in steps:
                losses, accuracies = zip(
                    *(evaluate(network, n, self.count) for n in self.pairs), strict=True
                )
                yield {
                    "layer": name,
                    "parameters": sum(p.numel() for p in network.parameters()),
                    "learning_rate": rate,
                    "seed": seed,
                    "steps": step,
                    "loss": round(sum(losses) / len(losses), 4),
                    "accuracy": [round(value, 4) for value in accuracies],
                }


class Network(nn.Module):
    """A pre-norm block of a sequence layer and a feed-forward network, and a classifier."""

    def __init__(self, d_model: int, make_layer: Callable[[int], SequenceLayer]) -> None:
        super().__init__()
        self.embed = nn.Linear(KEYS + VALUES, d_model)
        self.norms = nn.ModuleList(LayerNorm(d_model) for _ in range(3))
        self.layer = make_layer(d_model)
        self.network = FeedForward(d_model, 4 * d_model)
        self.classify = nn.Linear(d_model, VALUES)

    def forward(self, x: Float[Tensor, "batch length symbols"]) -> Float[Tensor, "batch values"]:
        """The scores of the values, from the last position."""
        h = self.embed(x)
        last = (h + self.layer(self.norms[0](h)))[:, -1]
        last = last + self.network(self.norms[1](last))
        scores: Tensor = self.classify(self.norms[2](last))
        return scores


def draw(
    pairs: int, batch: int
) -> tuple[Float[Tensor, "batch length symbols"], Int[Tensor, "batch"]]:
    """Sequences of ``pairs`` pairs and a key, one-hot, and the value of this key."""
    keys = torch.rand(batch, KEYS).argsort(dim=1)[:, :pairs]
    values = torch.randint(VALUES, (batch, pairs))
    chosen = torch.randint(pairs, (batch, 1))
    stored = torch.cat([F.one_hot(keys, KEYS), F.one_hot(values, VALUES)], dim=-1)
    asked = F.pad(F.one_hot(keys.gather(1, chosen), KEYS), (0, VALUES))
    return torch.cat([stored, asked], dim=1).float(), values.gather(1, chosen)[:, 0]


@torch.no_grad()
def evaluate(network: Network, pairs: int, count: int) -> tuple[float, float]:
    """The mean cross-entropy and the accuracy on ``count`` new sequences."""
    x, value = draw(pairs, count)
    scores = network(x)
    return float(F.cross_entropy(scores, value)), float((scores.argmax(-1) == value).float().mean())


def table(rows: list[Row], settings: Row) -> list[str]:
    """Accuracy by network, steps and number of pairs: mean and range over the seeds."""
    recorded = [row for row in rows if row["seed"] != settings["selection_seed"]]
    lines = []
    for (layer, steps), own in grouped(recorded, "layer", "steps").items():
        by_pairs = zip(*(row["accuracy"] for row in own), strict=True)
        cells = (spread(values, ".2f") for values in by_pairs)
        first = own[0]
        lines.append(
            [layer, f"{first['parameters']:,}", f"{first['learning_rate']:g}", f"{steps:,}", *cells]
        )
    return [
        "Accuracy of recalling the value of a key, by the number of stored pairs of key and value, "
        f"{count(len(settings['seeds']), 'seed')}: the mean, {RANGE}. The learning rate is the one "
        f"of {', '.join(f'{rate:g}' for rate in settings['rates'])} with the smallest loss after "
        f"{settings['selection_steps']:,} steps, with another seed. Chance level is "
        f"{settings['chance']:.2f}.",
        markdown(["", "parameters", "rate", "steps", *map(str, settings["pairs"])], lines),
    ]


def claims(rows: list[Row], settings: Row, records: dict[str, Record]) -> Claims:
    """The statements of chapter 14 about the recall of values."""
    recorded = [row for row in rows if row["seed"] != settings["selection_seed"]]
    for row in select(recorded, steps=1000):
        name = f"{row['layer']}, seed {row['seed']}"
        if row["layer"] == "self-attention":
            yield f"{name}: at least 0.99 for every number of pairs", min(row["accuracy"]) >= 0.99
        elif row["layer"] == "linear attention":
            yield (
                f"{name}: better with 4 pairs than with 64",
                row["accuracy"][0] > 0.9 and row["accuracy"][-1] < 0.6,
            )
        else:
            yield f"{name}: no better than counting values", row["accuracy"][0] < 0.6


if __name__ == "__main__":
    record.run(Associative)
