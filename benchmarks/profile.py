"""``python -m benchmarks.profile``: where the time of a training step and of decoding goes.

tfmr runs the tasks of :mod:`benchmarks.speed` under PyTorch's profiler, which measures each
operation without the operations that it calls. Profiling itself takes time, relatively more for
small operations. So the results are shares; speed.json has the absolute times.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile
from tqdm import tqdm

from benchmarks import record
from benchmarks.record import Record, Row
from benchmarks.speed import OWN, TASKS, Speed, Task, title
from benchmarks.systems import Precision
from benchmarks.tables import NOTHING, Claims, grouped, markdown
from benchmarks.timing import run_in_new_process
from benchmarks.workload import token_pairs
from tfmr.data.batches import IdPair

KINDS = {
    "matrix multiplication": "mm addmm bmm baddbmm linear_pointwise",
    "fused attention": "scaled_dot_product_flash_attention_for_cpu",
    "softmax": "softmax log_softmax logsumexp",
    "layer norm": "native_layer_norm",
    "random numbers": "random bernoulli",
    "optimiser": "fused_adam foreach_norm foreach_mul foreach_lerp linalg_vector_norm",
    "data movement": "copy cat index index_put index_select gather scatter embedding where fill "
    "zero masked_fill embedding_dense reorder_linear_weight",
    "elementwise": "add sub rsub mul div relu threshold exp sum mean max eq ne lt le gt ge "
    "clamp clamp_min bitwise_and bitwise_or logical_and logical_or logical_not argmax any all topk "
    "sort",
}
"""PyTorch's operations by kind; in-place and backward variants belong to the same kind. Reductions,
comparisons and ``topk`` count as elementwise."""
OTHER = "other"
FRAMEWORK = "Python and autograd"
"""Time outside PyTorch's operations: the interpreter and autograd's bookkeeping."""


@dataclass(frozen=True)
class Profile:
    """Profile training and decoding of tfmr, and record the share of each kind of operation.

    Run this on an otherwise idle machine.
    """

    tasks: tuple[Task, ...] = TASKS
    """Tasks to profile."""
    rounds: int = 3
    """Profiled rounds, after one warm-up round."""
    precision: Precision = "fp32"
    """fp32 or bf16."""
    seed: int = 0
    """Seed of weights, batches and sentences."""
    out: Path = record.FOLDER / "profile.json"
    """The record."""

    def __call__(self) -> None:
        """Profile and record."""
        metadata = record.collect_metadata()
        pairs, data = token_pairs()
        rows: list[dict[str, Any]] = []
        for task in tqdm(self.tasks):
            rows += run_in_new_process(self.profile, task, pairs)
        settings = {
            **{name: getattr(self, name) for name in ("rounds", "seed")},
            "data": data,
        }
        record.write(self.out, "profile", rows, settings=settings, metadata=metadata)

    def profile(self, task: Task, pairs: list[IdPair]) -> list[dict[str, Any]]:
        """The rows of a task, profiled after one warm-up round."""
        speed = Speed(peers=(), precisions=(self.precision,), rounds=self.rounds, seed=self.seed)
        work = speed.prepare(task, pairs).work[OWN, self.precision]
        work(0)
        with profile(activities=[ProfilerActivity.CPU], acc_events=True) as profiler:
            for k in range(1, self.rounds + 1):
                with torch.profiler.record_function(OWN):
                    work(k)
        return [
            {"task": task, "precision": self.precision, **row}
            for row in shares(profiler.key_averages())
        ]


def shares(events: Iterable[Any]) -> list[dict[str, Any]]:
    """A row for each kind of operation that occurs, the largest share first."""
    seconds: dict[str, float] = defaultdict(float)
    for event in events:
        seconds[kind_of(event.key)] += event.self_cpu_time_total / 1e6
    total = sum(seconds.values())
    return [
        {"kind": kind, "seconds": round(duration, 4), "share": round(duration / total, 4)}
        for kind, duration in sorted(seconds.items(), key=lambda item: -item[1])
    ]


def kind_of(operation: str) -> str:
    """The kind of an entry of the profile."""
    space, _, name = operation.partition("::")
    if space not in ("aten", "mkldnn"):
        return FRAMEWORK
    name = name.strip("_")
    name = name.removesuffix("_data").removesuffix("_backward")
    return next((kind for kind, names in KINDS.items() if name in names.split()), OTHER)


def table(rows: list[Row], settings: Row) -> list[str]:
    """The share of each kind of operation in the time of each task."""
    tasks = grouped(rows, "task")
    lines = []
    for kind, own in grouped(rows, "kind").items():
        found = {row["task"]: f"{row['share']:.0%}" for row in own}
        lines.append([kind, *(found.get(task, NOTHING) for task in tasks)])
    titles = (f"{title(first)}, {first['precision']}" for first, *_ in tasks.values())
    return [
        "Share of each kind of operation in tfmr's time in the tasks of speed.json, measured with "
        "PyTorch's profiler.",
        markdown(["", *titles], lines),
    ]


def claims(rows: list[Row], settings: Row, records: dict[str, Record]) -> Claims:
    """What takes most of the time."""
    for task, own in grouped(rows, "task").items():
        shares = {row["kind"]: row["share"] for row in own}
        largest = max(shares, key=lambda kind: shares[kind])
        claim = f"matrix multiplication takes the largest share of {task}"
        yield claim, largest == "matrix multiplication"
        if task.startswith("train"):
            share = shares["matrix multiplication"]
            yield f"matmuls take more than two thirds of {task}", share > 2 / 3


if __name__ == "__main__":
    record.run(Profile)
