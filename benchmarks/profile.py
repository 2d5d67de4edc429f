"""``python -m benchmarks.profile``: where the time of a training step and of a translation goes.

The tasks are those of :mod:`benchmarks.speed`, done by tfmr alone under PyTorch's profiler, which
says for every operation how long it took without those that it called. Watching takes time too, the
more the smaller the operations are; so these are shares, and speed.json has the seconds.
"""

import sys
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import tyro
from torch.profiler import ProfilerActivity, profile
from tqdm import tqdm

from benchmarks import record
from benchmarks.compare import OWN
from benchmarks.speed import Speed, Task
from benchmarks.timing import apart
from benchmarks.workload import tokenised
from tfmr.data.batches import IdPair
from tfmr.errors import TfmrError

KINDS = {
    "products of matrices": "mm addmm bmm baddbmm linear_pointwise",
    "fused attention": "scaled_dot_product_flash_attention_for_cpu",
    "softmax": "softmax log_softmax logsumexp",
    "norm": "native_layer_norm",
    "chance": "random bernoulli",
    "optimiser": "fused_adam foreach_norm foreach_mul foreach_lerp linalg_vector_norm",
    "moving numbers": "copy cat index index_put index_select gather scatter embedding where fill "
    "zero masked_fill embedding_dense reorder_linear_weight",
    "number by number": "add sub rsub mul div relu threshold exp sum mean max eq ne lt le gt ge "
    "clamp clamp_min bitwise_and bitwise_or logical_and logical_or logical_not argmax any all topk "
    "sort",
}
"""What the operations of PyTorch are counted as; their variants that write in place or go back are
counted with them."""
REST = "all else"
BETWEEN = "between operations"
"""Python, and autograd's book of what to go back through."""


@dataclass(frozen=True)
class Profile:
    """Watch tfmr train and translate, and record which share of the time each kind of work takes.

    Measure on a machine that does nothing else.
    """

    tasks: tuple[Task, ...] = ("train A", "train B", "greedy", "beam", "single")
    """What to watch."""
    rounds: int = 3
    """How often; one more time goes before them."""
    precision: str = "medium"
    """Of products."""
    seed: int = 0
    """Of weights, batches and sentences."""
    out: Path = record.FOLDER / "profile.json"
    """The record."""

    def __call__(self) -> None:
        """Watch and record."""
        about = record.facts()
        pairs, data = tokenised()
        rows: list[dict[str, Any]] = []
        for task in tqdm(self.tasks):
            rows += apart(self.watch, task, pairs)
        settings = {
            **{name: getattr(self, name) for name in ("rounds", "precision", "seed")},
            "data": data,
        }
        record.write(self.out, "profile", rows, settings=settings, about=about)
        print(f"wrote {self.out}; now: python -m benchmarks.tables")

    def watch(self, task: Task, pairs: list[IdPair]) -> list[dict[str, Any]]:
        """The rows of a task, after a round that nobody watches."""
        speed = Speed(peers=(), rounds=self.rounds, seed=self.seed)
        work = speed.bout(task, "paper", pairs).work[OWN]
        torch.set_float32_matmul_precision(self.precision)
        work(0)
        with profile(activities=[ProfilerActivity.CPU], acc_events=True) as watched:
            for k in range(1, self.rounds + 1):
                with torch.profiler.record_function(OWN):
                    work(k)
        return shares(task, watched.key_averages())


def shares(task: str, events: Iterable[Any]) -> list[dict[str, Any]]:
    """A row for each kind of work that was seen, the largest share first."""
    seconds: dict[str, float] = defaultdict(float)
    for event in events:
        seconds[kind_of(event.key)] += event.self_cpu_time_total / 1e6
    total = sum(seconds.values())
    return [
        {"task": task, "kind": kind, "seconds": round(spent, 4), "share": round(spent / total, 4)}
        for kind, spent in sorted(seconds.items(), key=lambda item: -item[1])
    ]


def kind_of(operation: str) -> str:
    """What an entry of the profile is counted as."""
    space, _, name = operation.partition("::")
    if space not in ("aten", "mkldnn"):
        return BETWEEN
    name = name.strip("_")
    name = name.removesuffix("_data").removesuffix("_backward")
    return next((kind for kind, names in KINDS.items() if name in names.split()), REST)


if __name__ == "__main__":
    try:
        tyro.cli(Profile, prog="python -m benchmarks.profile")()
    except (TfmrError, ImportError) as error:
        sys.exit(f"benchmarks.profile: {error}")
