"""``python -m benchmarks.recall_rates``: recall over sixty steps by learning rate and budget.

The task is that of :mod:`benchmarks.recall` at one distance. The networks are plain RNNs whose
recurrent matrix starts as in the package or orthogonal, each with its own spectral radius and with
that of the other, and LSTMs with two forget biases, whose gates are as usual or constants. Every
network is trained with the same learning rates, and its accuracy is measured after several numbers
of steps, in the same run. Chapters 1 and 2 show the results.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from typing import Any, cast

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F
from tqdm import tqdm

from benchmarks import record
from benchmarks.recall import (
    BATCH,
    D_HIDDEN,
    LEARNING_RATE,
    MAX_GRAD_NORM,
    NETWORKS,
    SYMBOLS,
    TEST,
    draw,
)
from benchmarks.record import Record, Row
from benchmarks.tables import NOTHING, RANGE, Claims, count, grouped, markdown, spread
from tfmr.errors import require
from tfmr.recurrent import RNN, Cell, LSTMCell, LSTMState, RNNCell, Stack

SOLVED = 0.99
"""The accuracy from which the task counts as learned."""


@torch.no_grad()
def rnn(*, orthogonal: bool, scaled: bool) -> RNN:
    """The RNN of the package; only its recurrent matrix may start differently.

    Args:
        orthogonal: whether the matrix is orthogonal instead of the package's.
        scaled: whether it is multiplied by a number that gives it the spectral radius of the other
            matrix: 1 for the package's matrix, the radius of the package's for the orthogonal one.
    """
    stack = RNN(2 * SYMBOLS, D_HIDDEN)
    w_h = cast(RNNCell, stack.cells[0]).w_h.weight
    radius = torch.linalg.eigvals(w_h).abs().max()
    if orthogonal:
        nn.init.orthogonal_(w_h)
    if scaled:
        w_h *= radius if orthogonal else 1 / radius
    return stack


class ConstantGates(LSTMCell):
    """An LSTM cell whose gates are the sigmoids of their biases, whatever the input and the state.

    Args:
        forget_bias: the initial bias of the forget gate.
        learned: whether the biases of the gates are trained.
        feedback: a factor of the recurrent projection, the other input of the candidate. At 0, the
            cell path is the only path from state to state.
    """

    def __init__(self, forget_bias: float, *, learned: bool, feedback: int = 1) -> None:
        super().__init__(2 * SYMBOLS, D_HIDDEN, forget_bias)
        self.learned, self.feedback = learned, feedback

    def biases(self, b: Float[Tensor, "*networks four_d_hidden"]) -> tuple[Tensor, ...]:
        """The biases of the input, the forget and the output gate among all biases ``b``."""
        i, f, _, o = (b if self.learned else b.detach()).chunk(4, dim=-1)
        return i, f, o

    def step(self, projected: Float[Tensor, "batch four_d_hidden"], state: LSTMState) -> LSTMState:
        """The next ``(h, c)``."""
        h, c = state
        i, f, o = self.biases(self.w_x.bias)
        g = (projected + self.feedback * self.w_h(h)).chunk(4, dim=-1)[2]
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        return torch.sigmoid(o) * torch.tanh(c), c


def constant_gates(forget_bias: float, *, learned: bool, feedback: int = 1) -> Stack[LSTMState]:
    """One layer of :class:`ConstantGates`."""
    return Stack([ConstantGates(forget_bias, learned=learned, feedback=feedback)], dropout=0.0)


COMPARED: dict[str, Callable[[], Stack[Any]]] = {
    "RNN": NETWORKS["RNN"],
    "RNN, orthogonal": partial(rnn, orthogonal=True, scaled=False),
    "RNN, radius 1": partial(rnn, orthogonal=False, scaled=True),
    "RNN, orthogonal, small radius": partial(rnn, orthogonal=True, scaled=True),
    "LSTM, forget bias 5": NETWORKS["LSTM, forget bias 5"],
    "LSTM, forget bias 1": NETWORKS["LSTM, forget bias 1"],
    "LSTM, forget bias 5, constant gates": partial(constant_gates, 5.0, learned=False),
    "LSTM, forget bias 5, learned constants": partial(constant_gates, 5.0, learned=True),
    "LSTM, forget bias 5, cell path alone": partial(constant_gates, 5.0, learned=False, feedback=0),
    "LSTM, forget bias 1, constant gates": partial(constant_gates, 1.0, learned=False),
    "LSTM, forget bias 1, learned constants": partial(constant_gates, 1.0, learned=True),
}
"""The networks by the names in the record."""


@dataclass(frozen=True)
class RecallRates:
    """Train each network with several learning rates and seeds, and record the accuracies."""

    distance: int = 60
    """The number of noise symbols."""
    learning_rates: tuple[float, ...] = (0.0015, LEARNING_RATE, 0.015, 0.05)
    """The learning rates, which are constant during the training."""
    budgets: tuple[int, ...] = (250, 1000)
    """Training steps after which the accuracy is measured. After the first number, only the rate of
    :mod:`benchmarks.recall` and the best one are left, and training ends when all of their networks
    have learned the task."""
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    """Seeds of the weights."""
    threads: int = 1
    """CPU threads."""
    out: Path = record.FOLDER / "recall-rates.json"
    """The record."""

    def __call__(self) -> None:
        """Measure and record."""
        require(self.distance >= 1, f"expected a --distance of 1 or more, got {self.distance}")
        require(
            LEARNING_RATE in self.learning_rates,
            f"expected --learning-rates with {LEARNING_RATE}, got {list(self.learning_rates)}",
        )
        torch.set_num_threads(self.threads)
        metadata = record.collect_metadata()
        settings = {
            "distance": self.distance,
            "d_hidden": D_HIDDEN,
            "batch": BATCH,
            "learning_rates": list(self.learning_rates),
            "max_grad_norm": MAX_GRAD_NORM,
            "budgets": list(self.budgets),
            "seeds": list(self.seeds),
            "test_sequences": TEST,
            "chance": 1 / SYMBOLS,
        }
        rows = self._measure()
        record.write(self.out, "recall_rates", rows, settings=settings, metadata=metadata)

    def _measure(self) -> Iterator[dict[str, Any]]:
        for name in tqdm(COMPARED, unit=" networks"):
            runs = Runs(COMPARED[name], self.learning_rates, self.seeds)
            torch.manual_seed(self.seeds[0])
            for trained, budget in pairwise((0, *self.budgets)):
                for _ in range(trained, budget):
                    runs.step(*draw(self.distance, BATCH))
                found = runs.accuracies(*draw(self.distance, TEST))
                for rate, accuracies in found.items():
                    for seed, accuracy in zip(self.seeds, accuracies, strict=True):
                        yield {
                            "network": name,
                            "learning_rate": rate,
                            "steps": budget,
                            "seed": seed,
                            "accuracy": round(accuracy, 4),
                        }
                best = max(found, key=lambda rate: fmean(found[rate]))
                runs.keep(LEARNING_RATE, best)
                if min(found[LEARNING_RATE] + found[best]) > SOLVED:
                    break


class Runs:
    """Networks of one kind that are trained at the same time, one for each rate and seed.

    Their weights are stacked along a first axis, which is several times as fast as separate
    networks. All of them receive the same batches. Each list of weights belongs to one rate.
    """

    def __init__(
        self, make: Callable[[], Stack[Any]], rates: tuple[float, ...], seeds: tuple[int, ...]
    ) -> None:
        networks = []
        for seed in seeds:
            torch.manual_seed(seed)
            stack, classifier = make(), nn.Linear(D_HIDDEN, SYMBOLS)
            cell = cast(Cell[Any], stack.cells[0])
            layers = (cell.w_x, cell.w_h, classifier)
            matrices = [layer.weight.T for layer in layers]
            networks.append([*matrices, cell.w_x.bias[None], classifier.bias[None]])
        self.cell = cell
        stacked = [torch.stack(tensors).detach() for tensors in zip(*networks, strict=True)]
        self.weights = {rate: [w.clone().requires_grad_() for w in stacked] for rate in rates}
        self.optimizers = {
            rate: torch.optim.Adam(weights, lr=rate) for rate, weights in self.weights.items()
        }

    def keep(self, *rates: float) -> None:
        """Train only the networks of these rates from now on."""
        for kept in (self.weights, self.optimizers):
            for rate in kept.keys() - set(rates):
                del kept[rate]

    def logits(
        self, x: Float[Tensor, "batch length symbols"]
    ) -> Float[Tensor, "networks batch classes"]:
        """The logits of every network, from its last output."""
        w_x, w_h, w_o, b, b_o = map(torch.cat, zip(*self.weights.values(), strict=True))
        projected = (x.flatten(0, 1) @ w_x + b).view(len(b), *x.shape[:2], -1)
        h = c = projected.new_zeros(len(b), len(x), D_HIDDEN)
        feedback = self.cell.feedback if isinstance(self.cell, ConstantGates) else 1
        for projected_t in projected.unbind(2):
            a = torch.baddbmm(projected_t, h, w_h, alpha=feedback)
            if isinstance(self.cell, RNNCell):
                h = torch.tanh(a)
            else:
                i, f, g, o = a.chunk(4, dim=-1)
                if isinstance(self.cell, ConstantGates):
                    i, f, o = self.cell.biases(b)
                c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
                h = torch.sigmoid(o) * torch.tanh(c)
        return torch.baddbmm(b_o, h, w_o)

    def step(self, x: Float[Tensor, "batch length symbols"], first: Int[Tensor, "batch"]) -> None:
        """One step of Adam for every network; the gradient of each is clipped by its own norm."""
        logits = self.logits(x)
        targets = first.expand(len(logits), -1)
        loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten()) * len(logits)
        for optimizer in self.optimizers.values():
            optimizer.zero_grad()
        loss.backward()
        for rate, weights in self.weights.items():
            gradients = [cast(Tensor, w.grad) for w in weights]
            norms = torch.stack([g.flatten(1).norm(dim=1) for g in gradients]).norm(dim=0)
            for gradient in gradients:
                gradient *= (MAX_GRAD_NORM / norms).clamp(max=1)[:, None, None]
            self.optimizers[rate].step()

    @torch.no_grad()
    def accuracies(
        self, x: Float[Tensor, "batch length symbols"], first: Int[Tensor, "batch"]
    ) -> dict[float, list[float]]:
        """For each rate, the accuracy of the network of each seed."""
        correct = (self.logits(x).argmax(-1) == first).double().mean(1)
        per_rate = correct.view(len(self.weights), -1).tolist()
        return dict(zip(self.weights, per_rate, strict=True))


def table(rows: list[Row], settings: Row) -> list[str]:
    """Accuracy by network, number of steps and learning rate: mean and range over the seeds."""
    rates = settings["learning_rates"]
    lines = []
    for (network, steps), own in grouped(rows, "network", "steps").items():
        found = grouped(own, "learning_rate")
        seeds = ([row["accuracy"] for row in found.get(rate, [])] for rate in rates)
        cells = (spread(values, ".2f") if values else NOTHING for values in seeds)
        lines.append([network, f"{steps:,}", *cells])
    return [
        f"Accuracy of recalling the first symbol after {settings['distance']} noise symbols, by "
        "the number of training steps and the learning rate, "
        f"{count(len(settings['seeds']), 'seed')}: the mean, {RANGE}. Chance level is "
        f"{settings['chance']:.2f}. After {settings['budgets'][0]} steps, only the learning rate "
        "of `recall.json` and the best one are left, and training ends when all of their networks "
        f"have an accuracy above {SOLVED}.",
        markdown(["", "steps", *(f"rate {rate:g}" for rate in rates)], lines),
    ]


def claims(rows: list[Row], settings: Row, records: dict[str, Record]) -> Claims:
    """What chapters 1 and 2 state: which networks learn the task with how many seeds."""
    found = {
        key: sum(row["accuracy"] > SOLVED for row in own)
        for key, own in grouped(rows, "network", "learning_rate", "steps").items()
    }
    never = [n for (network, *_), n in found.items() if network.startswith("LSTM, forget bias 1")]
    yield "no LSTM with a forget bias of 1 learns the task", not any(never)
    expected = {
        5: {"RNN": 2, "RNN, orthogonal": 3, "LSTM, forget bias 5": 5},
        20: {
            "RNN": 2,
            "RNN, orthogonal": 16,
            "RNN, radius 1": 13,
            "RNN, orthogonal, small radius": 1,
            "LSTM, forget bias 5": 17,
            "LSTM, forget bias 5, constant gates": 15,
            "LSTM, forget bias 5, learned constants": 16,
            "LSTM, forget bias 5, cell path alone": 20,
        },
    }
    seeds = len(settings["seeds"])
    for network, learned in expected[seeds].items():
        best = max(n for (name, *_), n in found.items() if name == network)
        at_the_rate = found[network, LEARNING_RATE, settings["budgets"][0]]
        yield f"{network}: {learned} of {seeds} seeds learn the task", at_the_rate == learned
        yield f"{network}: no learning rate or budget is better", best == learned


if __name__ == "__main__":
    record.run(RecallRates)
