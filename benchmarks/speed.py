"""``python -m benchmarks.speed``: training steps and translations per second, beside the peers.

Everybody has the same sizes, batches, optimiser and threads, and takes turns with the others in one
process, a new one for each task (:mod:`benchmarks.timing`). Before that, each is given the weights
of one of tfmr's models and must compute the same vectors.

How precise products are is one global setting of PyTorch, which decides on a CPU which library
multiplies, and hence how fast every system is. It is measured at both of its ends, and a system is
compared at whichever suits it better.
"""

import functools
import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import torch
import tyro
from torch import Tensor
from tqdm import tqdm

from benchmarks import record
from benchmarks.compare import PEAK, Name, compare
from benchmarks.contenders import Work, decoding, training
from benchmarks.peers import PEERS, Sites, build
from benchmarks.timing import apart, take_turns, wall_clock
from benchmarks.workload import (
    SETTINGS,
    decoding_flops,
    sources,
    tokenised,
    training_batches,
    training_flops,
)
from tfmr.data.batches import IdPair, collate
from tfmr.dtype import Precision, type_of_products, uses_bf16
from tfmr.errors import TfmrError, require
from tfmr.model import Transformer, TransformerConfig
from tfmr.train.config import TrainConfig
from tfmr.translator import Translator

Task = Literal["train A", "train B", "greedy", "beam", "single"]

PRECISIONS = ("highest", "medium")
ARITHMETIC: dict[Sites, Precision] = {"paper": "fp32", "own": "auto"}
"""In which tfmr trains: like everybody, or as its recipes say. The others take no bf16 unasked."""
SIZE = 2048
"""Rows and columns of the matrices whose product is the peak."""
ROUNDS = {"train A": 5, "train B": 5, "greedy": 25, "beam": 7, "single": 15}
"""How often each task is measured if nothing else is asked for: a short one, which a moment's
disturbance doubles, more often."""
DROPOUT = 0.1
STEPS = 30
"""Tokens of every translation."""
SENTENCES = {"greedy": 64, "beam": 64, "single": 8}
"""Translated in a round; those of ``"single"`` one by one."""
BEAM = 4
EXAMPLE = collate([([5, 6, 7, 8], [9, 10, 11]), ([12, 13], [14, 15, 16, 17, 18])])
"""What all systems must agree on before they are measured."""


@dataclass
class Bout:
    """A task made ready: what every system does in round ``k``, and what that is worth."""

    work: dict[str, Work] = field(default_factory=dict)
    parameters: dict[str, int] = field(default_factory=dict)
    tokens: list[int] = field(default_factory=list)
    """Target tokens of each round."""
    flops: list[float] = field(default_factory=list)
    """Operations of each round that no system can do without."""


@dataclass(frozen=True)
class Speed:
    """Measure training and decoding beside torch.nn.Transformer, Marian and x-transformers.

    Writes a record, which ``python -m benchmarks.tables`` renders. Measure on a machine that does
    nothing else. The peers are installed by: pip install -e '.[bench]'
    """

    tasks: tuple[Task, ...] = ("train A", "train B", "greedy", "beam", "single")
    """What to measure."""
    peers: tuple[str, ...] = PEERS
    """Whom to measure beside tfmr: torch, marian, x-transformers."""
    rounds: int | None = None
    """Turns of every system that count, one more goes before them; if not given, from 5 to 25, the
    more the shorter a turn is."""
    device: str = "cpu"
    """Or "cuda"."""
    bf16: bool = False
    """Train in bfloat16, wherever PyTorch's autocast thinks it safe."""
    threads: int | None = None
    """Of the CPU; as many as PyTorch takes if not given."""
    seed: int = 0
    """Of weights, batches and sentences."""
    out: Path | None = None
    """The record; speed.json, speed-cuda.json, speed-bf16.json, … beside this file if not given."""

    def __call__(self) -> None:
        """Measure and record."""
        require(
            self.rounds is None or self.rounds >= 1,
            f"there is no median of nothing: expected --rounds 1 or more, got {self.rounds}",
        )
        if self.threads is not None:
            torch.set_num_threads(self.threads)
        about = record.facts(self.device)
        pairs, data = tokenised()
        rows: list[dict[str, Any]] = []
        for task in self.tasks:
            every: tuple[Sites, ...] = ("paper", "own") if task.startswith("train") else ("paper",)
            for sites in every:
                rows += apart(self.measure, task, sites, pairs)
        settings = {
            **{name: getattr(self, name) for name in ("seed", "device", "bf16")},
            **{"data": data, "dropout": DROPOUT, "steps": STEPS, "beam": BEAM},
            "sentences": SENTENCES,
            "own_bf16": uses_bf16(ARITHMETIC["own"], torch.device(self.device)),
            "decoder": {name: decoder_type(name, self.device) for name in PRECISIONS},
            "product_error": {name: product_error(name, self.device) for name in PRECISIONS},
        }
        kind = "-".join(["speed", *[self.device] * (self.device != "cpu"), *["bf16"] * self.bf16])
        path = self.out or record.FOLDER / f"{kind}.json"
        record.write(path, "speed", rows, settings=settings, about=about)
        print(f"wrote {path}; now: python -m benchmarks.tables")

    def measure(self, task: Task, sites: Sites, pairs: list[IdPair]) -> list[dict[str, Any]]:
        """A row of the record for every system, at either precision."""
        if self.threads is not None:
            torch.set_num_threads(self.threads)
        about: dict[str, str] = {"task": task}
        if task.startswith("train"):
            about["dropout"] = sites
        return [about | row for row in self._take_turns(self.bout(task, sites, pairs), about)]

    def _rounds(self, task: str) -> int:
        return ROUNDS[task] if self.rounds is None else self.rounds

    def bout(self, task: Task, sites: Sites, pairs: list[IdPair]) -> Bout:
        """A task made ready for everybody, with dropout at these ``sites`` if it is training."""
        if task.startswith("train"):
            return self._training(task, sites, pairs)
        return self._decoding(task, pairs)

    def _training(self, task: str, sites: Sites, pairs: list[IdPair]) -> Bout:
        """A step on batch ``k``, and beside it a large product of matrices."""
        setting = SETTINGS[task[-1]]
        batches = training_batches(setting, pairs, self._rounds(task) + 1, self.seed)
        config = setting.config()
        bout = Bout(
            tokens=[batch.n_tokens for batch in batches],
            flops=[training_flops(config, batch) for batch in batches],
        )
        batches = [batch.to(self.device) for batch in batches]
        for name, model in self._models(config, sites).items():
            # A long warm-up, so that nobody's weights go far in so few steps.
            how = TrainConfig(warmup=4000, seed=self.seed, precision=ARITHMETIC[sites])
            bout.work[name] = training(model, batches, how, bf16=self.bf16)
            bout.parameters[name] = model.count_parameters()
        bout.work[PEAK] = self._peak(torch.bfloat16 if self.bf16 else torch.float32)
        return bout

    def _decoding(self, task: str, pairs: list[IdPair]) -> Bout:
        """Translations of as many tokens as the model has positions."""
        config = SETTINGS["A"].config(max_length=STEPS)
        number = SENTENCES[task]
        rows = 1 if task == "single" else number
        count = (self._rounds(task) + 1) * number // rows
        drawn = [s.to(self.device) for s in sources(pairs, rows, STEPS, count, self.seed)]
        turns = [drawn[k : k + number // rows] for k in range(0, count, number // rows)]
        beam = BEAM if task == "beam" else 1
        bout = Bout(
            tokens=[number * STEPS] * len(turns),
            flops=[sum(decoding_flops(config, s, STEPS, beam) for s in turn) for turn in turns],
        )
        for name, model in self._models(config, "paper").items():
            work = decoding(model, turns, STEPS, beam)
            if work is not None:
                bout.work[name] = work
                bout.parameters[name] = model.count_parameters()
        bout.work[PEAK] = self._peak(torch.float32)
        return bout

    def _peak(self, kind: torch.dtype) -> Work:
        """A product of matrices so large that nothing else counts."""
        a, b = (torch.randn(SIZE, SIZE, device=self.device, dtype=kind) for _ in range(2))
        return lambda _: a @ b

    def _models(self, config: TransformerConfig, sites: Sites) -> dict[str, Translator]:
        """Every system, by its title, tfmr's first; the peers after proving that they are peers."""
        torch.set_float32_matmul_precision("highest")
        torch.manual_seed(self.seed)
        models: dict[str, Translator] = {"tfmr": Transformer(replace(config, dropout=DROPOUT))}
        for name in self.peers:
            build(name, config, DROPOUT, sites).check_agreement(EXAMPLE)
            peer = build(name, config, DROPOUT, sites)
            models[peer.title] = peer
        return {name: model.to(self.device) for name, model in models.items()}

    def _take_turns(self, bout: Bout, about: dict[str, str]) -> list[dict[str, Any]]:
        """The times of a bout, as rows of the record but for what they are ``about``."""
        contenders: dict[Name, Callable[[int], object]] = {
            (system, precision): functools.partial(_at, precision, work)
            for system, work in bout.work.items()
            for precision in PRECISIONS
        }
        rounds = self._rounds(about["task"])
        turns = len(contenders) * (rounds + 1)
        with tqdm(total=turns, desc=", dropout ".join(about.values()), leave=False) as bar:

            def show(name: Name) -> None:
                bar.set_postfix_str(name[0])
                bar.update()

            clock = wall_clock(self.device)
            seconds = take_turns(contenders, rounds=rounds, clock=clock, on_turn=show)
        # The first round warmed up, and is not compared.
        rows = compare(seconds, bout.tokens[1:], bout.flops[1:], 2.0 * SIZE**3)
        for row in rows:
            if row["system"] in bout.parameters:
                row["parameters"] = bout.parameters[row["system"]]
        return rows


def _at(precision: str, work: Work, k: int) -> None:
    """``work`` at a precision of products."""
    torch.set_float32_matmul_precision(precision)
    work(k)


def decoder_type(precision: str, device: str) -> str:
    """In which type tfmr's decoder multiplies several hypotheses at this ``precision``."""
    torch.set_float32_matmul_precision(precision)
    return str(type_of_products(torch.zeros(1, device=device))).removeprefix("torch.")


def product_error(precision: str, device: str) -> float:
    """How far products at this ``precision`` are from the truth, relative to their size."""
    chance = torch.Generator().manual_seed(0)
    a, b = (torch.randn(256, 256, generator=chance) for _ in range(2))
    truth = a.double() @ b.double()
    torch.set_float32_matmul_precision(precision)
    product: Tensor = (a.to(device) @ b.to(device)).cpu()
    return float(f"{float((product - truth).norm() / truth.norm()):.1e}")


if __name__ == "__main__":
    try:
        tyro.cli(Speed, prog="python -m benchmarks.speed")()
    except (TfmrError, ImportError) as error:
        sys.exit(f"benchmarks.speed: {error}")
