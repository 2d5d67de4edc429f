"""``python -m benchmarks.parallel``: what each process stores and sends with DDP and with FSDP.

A small model of the pocket grammar is trained for a few steps by one process and, through the
launcher of ``torchrun``, by several, which take the same batches in the same order. In the last
step, every collective operation is counted with its size, and the bytes that each process really
wrote to its connections are read from ``/proc``. This needs Linux, and the backend gloo, which
writes by system calls that ``/proc`` counts.
"""

import dataclasses
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from tqdm import tqdm

from benchmarks import record
from benchmarks.record import Record, Row
from benchmarks.tables import NOTHING, Claims, markdown, only, select
from tfmr.config import TransformerConfig
from tfmr.data import corpora
from tfmr.errors import TfmrError, require
from tfmr.model import Transformer
from tfmr.train.config import RECIPE_DIR, read_recipe
from tfmr.train.distributed import World, transformer_blocks
from tfmr.train.trainer import Trainer

RUNS = (
    ("single", 1, 2),
    ("DDP", 2, 1),
    ("FSDP", 2, 1),
    ("single", 1, 4),
    ("DDP", 2, 2),
    ("FSDP", 2, 2),
    ("DDP", 4, 1),
    ("FSDP", 4, 1),
)
"""Method, number of processes, and batches per process and step. A run in one process comes before
the runs with as many batches per step."""
NAME = ("method", "processes", "batches")
"""The columns that name a run."""
STORED = ("weights", "gradients", "moments")
OPERATIONS = ("all-reduce", "all-gather", "reduce-scatter")
VOCAB_MULTIPLE = 8
"""The vocabulary is padded to a multiple of this, so that all shards have the same size."""
COLLECTIVES = {
    "allreduce_": "all-reduce",
    "all_reduce": "all-reduce",
    "_allgather_base_": "all-gather",
    "_reduce_scatter_base_": "reduce-scatter",
}
"""Collective operations of PyTorch that a training step may use."""
NOT_COLLECTIVE = {"wait_tensor", "_wrap_tensor_autograd"}
"""Operations of the same namespaces that send nothing."""
PROGRAM = "import sys; from benchmarks.parallel import launch; launch(*sys.argv[1:])"


@dataclass(frozen=True)
class Parallel:
    """Train with every method, and record memory and communication of each process."""

    steps: int = 10
    """Training steps."""
    seed: int = 0
    """Seed of weights, dropout and batches."""
    out: Path = record.FOLDER / "parallel.json"
    """The record."""

    def __call__(self) -> None:
        """Train and record."""
        # In the first step, DDP also broadcasts the order in which it reduces gradients.
        require(self.steps >= 2, f"expected --steps of 2 or more, got {self.steps}")
        torch.set_num_threads(1)
        metadata = record.collect_metadata()
        rows = [row for run in tqdm(RUNS, unit=" runs") for row in measure(self, *run)]
        trainer = make_trainer(World(), 1, fsdp=False, seed=self.seed)
        settings = {"seed": self.seed, "steps": self.steps, **sizes(trainer.model)}
        record.write(self.out, "parallel", rows, settings=settings, metadata=metadata)


def measure(
    parallel: Parallel, method: str, processes: int, batches: int
) -> Iterator[dict[str, Any]]:
    """A row for the run and one for each kind of collective operation of its last step."""
    with tempfile.TemporaryDirectory() as folder:
        words = (str(processes), method, str(batches), *map(str, (parallel.steps, parallel.seed)))
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, *words, folder],
            cwd=record.ROOT,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            check=False,
        )
        failed = f"{method} with {processes} processes failed: see its error message above"
        require(done.returncode == 0, failed)
        found = [json.loads((Path(folder) / str(rank)).read_text()) for rank in range(processes)]
    collectives = found[0]["collectives"]
    require(
        all(one["collectives"] == collectives for one in found),
        f"{method} with {processes} processes: they did not run the same collective operations",
    )
    run = dict(zip(NAME, (method, processes, batches), strict=True))
    by_rank = {name: [one[name] for one in found] for name in (*STORED, "sent")}
    yield {"what": "run", **run, **by_rank, "losses": found[0]["losses"]}
    for operation in dict.fromkeys(operation for operation, _ in collectives):
        own = [size for name, size in collectives if name == operation]
        yield {"what": "collective", **run, "operation": operation, "bytes": own}


def launch(processes: str, *arguments: str) -> None:
    """Call :func:`process` here, or in several forks, which need not import PyTorch again."""
    if processes == "1":
        process(*arguments)
        return
    import torch._dynamo  # noqa: F401  which Adam would import in each process
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    config = LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=int(processes),
        run_id="parallel",
        rdzv_backend="c10d",
        rdzv_endpoint="localhost:0",
        max_restarts=0,
        start_method="fork",
    )
    elastic_launch(config, process)(*arguments)


def process(method: str, batches: str, steps: str, seed: str, folder: str) -> None:
    """Train in this process, one of those that were launched; write a file of its rank."""
    torch.set_num_threads(1)
    with World.join() as world:
        fsdp = method == "FSDP"
        trainer = make_trainer(world, int(batches), fsdp=fsdp, seed=int(seed))
        upcoming = trainer.upcoming_batches()
        losses = [trainer.step(*next(upcoming)[0]).loss for _ in range(int(steps) - 1)]
        last = next(upcoming)[0]
        before = bytes_written()
        with Collectives() as counted:
            losses.append(trainer.step(*last).loss)
        sent = bytes_written() - before
        result = {"collectives": counted.found, "sent": sent, "losses": losses, **stored(trainer)}
        (Path(folder) / str(world.rank)).write_text(json.dumps(result))


def make_trainer(world: World, batches: int, *, fsdp: bool, seed: int) -> Trainer:
    """An untrained model of the recipe ``pocket``, without an average of the weights."""
    recipe = read_recipe(RECIPE_DIR / "pocket.toml")
    corpus = corpora.load("pocket", "en-fr")
    tokenizer = recipe.train_tokenizer(corpus)
    vocab = -(-tokenizer.vocab_size // VOCAB_MULTIPLE) * VOCAB_MULTIPLE
    config = dataclasses.replace(
        recipe.train, ema_decay=0.0, seed=seed, grad_accum_steps=batches, fsdp=fsdp
    )
    model_config = recipe.model_config(vocab)
    assert isinstance(model_config, TransformerConfig)
    torch.manual_seed(seed)
    model = Transformer(model_config)
    recipe = dataclasses.replace(recipe, train=config)
    return Trainer(model, recipe.make_batches(list(corpus.train), tokenizer), config, world)


def sizes(model: nn.Module) -> dict[str, int]:
    """The numbers of weights, of weights in blocks, and of weight tensors."""
    weights = list(model.parameters())
    blocks = [weight for block in transformer_blocks(model) for weight in block.parameters()]
    return {
        "parameters": sum(weight.numel() for weight in weights),
        "block_parameters": sum(weight.numel() for weight in blocks),
        "tensors": len(weights),
    }


def stored(trainer: Trainer) -> dict[str, int]:
    """Bytes of weights, gradients and Adam's two moments in this process."""
    weights = list(trainer.model.parameters())
    states = [trainer.optimizer.state[weight] for weight in weights]
    return {
        "weights": sum(map(local_bytes, weights)),
        "gradients": sum(local_bytes(w.grad) for w in weights if w.grad is not None),
        "moments": sum(
            local_bytes(state[name]) for state in states for name in ("exp_avg", "exp_avg_sq")
        ),
    }


def local_bytes(tensor: Tensor) -> int:
    """Bytes of the part of ``tensor`` that this process stores."""
    local: Tensor = tensor.to_local() if hasattr(tensor, "to_local") else tensor
    return local.nbytes


def bytes_written() -> int:
    """Bytes that this process has written, to files and connections.

    Raises:
        TfmrError: if the system does not count them.
    """
    try:
        lines = Path("/proc/self/io").read_text().splitlines()
    except OSError as error:
        raise TfmrError(f"expected /proc/self/io, which Linux has: {error}; use Linux") from error
    return int(dict(line.split(": ") for line in lines)["wchar"])


class Collectives(TorchDispatchMode):
    """Records each collective operation of this process and its bytes.

    The bytes are those of the whole tensor: the tensor that is reduced, or that is gathered from
    the shards, or that is reduced and scattered to shards.

    Raises:
        TfmrError: if a collective operation runs that :data:`COLLECTIVES` does not list.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.found: list[tuple[str, int]] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> object:
        if any(hasattr(kind, "to_local") for kind in types):
            return NotImplemented  # a DTensor runs its operations on its local tensors
        name = func.overloadpacket.__name__
        if func.namespace in ("c10d", "_c10d_functional") and name not in NOT_COLLECTIVE:
            require(name in COLLECTIVES, f"expected one of {', '.join(COLLECTIVES)}: got {name}")
            found = [x.nbytes for x in tree_leaves((args, kwargs)) if isinstance(x, Tensor)]
            operation = COLLECTIVES[name]
            self.found.append((operation, sum(found) if operation == "all-reduce" else max(found)))
        return func(*args, **(kwargs or {}))


def table(rows: list[Row], settings: Row) -> list[str]:
    """What each process stores, and the volume of its collective operations."""
    lines = []
    for run in select(rows, what="run"):
        volumes = {name: sum(sizes) for name, sizes in _collectives(rows, run).items()}
        stored = (max(run[part]) for part in STORED)
        counted = (volumes.get(name, 0) for name in OPERATIONS)
        sizes = (f"{size / 1000:,.1f}" for size in (*stored, *counted, max(run["sent"])))
        difference = f"{_loss_difference(rows, run):.0e}" if run["method"] != "single" else NOTHING
        lines.append([*(str(run[key]) for key in NAME), *sizes, difference])
    header = ["", "processes", "batches per process", *STORED, *OPERATIONS, "sent"]
    return [
        f"A model with {settings['parameters']:,} weights, {settings['steps']} training steps. The "
        "columns give, in kB per process, the weights, gradients and moments that a process stores "
        "after the last step, the total size of the tensors in each kind of collective operation "
        "of this step, and the amount of data that the process sent in this step. The last column "
        "is the largest relative difference between the losses and those of a single process with "
        "the same batches.",
        markdown([*header, "loss difference"], lines),
    ]


def _collectives(rows: list[Row], run: Row) -> dict[str, list[int]]:
    """The sizes of the tensors in each kind of collective operation of a run."""
    name = {key: run[key] for key in NAME}
    return {row["operation"]: row["bytes"] for row in select(rows, what="collective", **name)}


def _loss_difference(rows: list[Row], run: Row) -> float:
    """The largest relative difference to the losses of one process with the same batches."""
    batches = run["processes"] * run["batches"]
    single = only(rows, what="run", method="single", batches=batches)
    pairs = zip(run["losses"], single["losses"], strict=True)
    return float(max(abs(own / other - 1) for own, other in pairs))


def claims(rows: list[Row], settings: Row, records: dict[str, Record]) -> Claims:
    """The statements of chapter 17 about the memory and communication of DDP and FSDP."""
    whole, blocks = 4 * settings["parameters"], 4 * settings["block_parameters"]
    for run in select(rows, what="run"):
        p, batches = run["processes"], run["batches"]
        claim = f"{run['method']}, {p} processes, {batches} batches"
        shards = p if run["method"] == "FSDP" else 1
        expected = [[size * whole // shards] * p for size in (1, 1, 2)]
        stored = [run[part] for part in STORED]
        yield f"{claim}: bytes stored: {stored}", stored == expected
        difference = _loss_difference(rows, run)
        yield f"{claim}: the losses are those of one process: {difference}", difference < 1e-6
        large = {
            operation: sum(size for size in sizes if size > 1000)
            for operation, sizes in _collectives(rows, run).items()
        }
        if run["method"] == "FSDP":
            gathered, scattered = batches * (whole + blocks), batches * whole
            counted = {"all-reduce": 0, "all-gather": gathered, "reduce-scatter": scattered}
        else:
            counted = {"all-reduce": whole} if p > 1 else {}
        yield f"{claim}: bytes of collective operations: {large}", large == counted
        # gloo implements reduce-scatter as an all-reduce.
        twice = counted.get("all-reduce", 0) + counted.get("reduce-scatter", 0)
        volume = (p - 1) / p * (2 * twice + counted.get("all-gather", 0))
        sent = all(volume <= one <= 1.01 * volume for one in run["sent"])
        yield f"{claim}: bytes sent: {run['sent']}, expected {volume:.0f} to 1 % more", sent


if __name__ == "__main__":
    record.run(Parallel)
