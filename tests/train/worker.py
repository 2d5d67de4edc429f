"""Processes that train a tiny model, for test_distributed.py.

``worker.py scenarios FOLDER SCENARIO …`` plays one scenario after another, each with the launcher
of ``torchrun``, in a folder of its own, which also gets the output of the processes and the exit
status. ``worker.py tfmr ARGUMENT …`` starts ``tfmr ARGUMENT …`` in two processes. All
processes are forks, so that PyTorch is imported once. ``worker.py compile`` runs in one process.
"""

import dataclasses
import json
import os
import signal
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import torch
import torch._dynamo  # which Adam needs: imported once here, and not by each process
import torch.distributed.fsdp  # likewise
from safetensors.torch import load_file, save_file
from torch.distributed.elastic.multiprocessing.errors import record
from torch.distributed.launcher.api import LaunchConfig, elastic_launch

from tfmr.__main__ import main as command_line
from tfmr.config import TransformerConfig
from tfmr.data.batches import Batches
from tfmr.errors import TfmrError
from tfmr.model import Transformer
from tfmr.train import distributed, interrupt, trainer
from tfmr.train.config import TrainConfig
from tfmr.train.distributed import World
from tfmr.train.trainer import StepRecord, Trainer

MODEL = TransformerConfig(
    **{"source_vocab": 30, "target_vocab": 30, "d_model": 16, "n_heads": 2, "d_ff": 18},
    **{"n_encoder": 1, "n_decoder": 1, "dropout": 0.2, "max_length": 12},
)
PAIRS = [
    ([4 + n, 12 + n % 3, 15][: 1 + n % 3], [16 + n, 24 + n % 3, 27, 28][: 1 + n % 4])
    for n in range(10)
]
CONFIG = TrainConfig(peak_lr=3e-3, warmup=4, ema_decay=0.9, seed=3)
STEPS = 6


def make_trainer(
    world: World, *, grad_accum_steps: int, fsdp: bool = False, seed: int = 3
) -> Trainer:
    """A new trainer in float64, because these tests do not test rounding."""
    torch.manual_seed(seed)
    model = Transformer(MODEL).double()
    config = dataclasses.replace(CONFIG, grad_accum_steps=grad_accum_steps, fsdp=fsdp)
    return Trainer(model, Batches(PAIRS, 9, 0, 12), config, world)


def save(path: Path, trainer: Trainer, curve: list[StepRecord]) -> None:
    """Write the state of the trainer, its averaged model and the curve."""
    tensors, progress = trainer.state_dict()
    averaged = trainer.averaged_model()
    if trainer.world.is_main:
        for name, weight in averaged.named_parameters():
            tensors[f"averaged.{name}"] = weight.detach().clone()
        progress["curve"] = [dataclasses.asdict(step) for step in curve]
        save_file(tensors, path.with_suffix(".safetensors"))
        path.with_suffix(".json").write_text(json.dumps(progress))
    trainer.world.barrier()
    trainer.world.last_checkpoint = f"the checkpoint of step {trainer.steps_done} in {path}"


def load(path: Path, trainer: Trainer) -> None:
    """Load what :func:`save` wrote."""
    progress = json.loads(path.with_suffix(".json").read_text())
    trainer.load_state_dict(load_file(path.with_suffix(".safetensors")), progress)


def compare(folder: Path, world: World) -> None:
    """Train with DDP and FSDP: uninterrupted, stopped, resumed, and resumed from one process.

    Each process has another seed: the weights of the main process must be used.
    """
    for method, fsdp in (("ddp", False), ("fsdp", True)):
        own = {"fsdp": fsdp, "seed": 3 + world.rank}
        for grad_accum_steps in (1, 2):
            straight = make_trainer(world, grad_accum_steps=grad_accum_steps, **own)
            save(folder / f"{method}{grad_accum_steps}", straight, straight.run(steps=STEPS))
        stopped = make_trainer(world, grad_accum_steps=1, **own)
        save(folder / f"{method}1-stopped", stopped, stopped.run(steps=3))
        for start, steps, name in (
            (f"{method}1-stopped", 1, f"{method}1-resumed"),
            ("single6", 2, f"{method}2-after-single"),
        ):
            resumed = make_trainer(world, grad_accum_steps=steps, fsdp=fsdp, seed=40 + world.rank)
            load(folder / start, resumed)
            save(folder / name, resumed, resumed.run(steps=STEPS))


def fail(folder: Path, world: World, scenario: str) -> None:
    """Train, save after the third step, and fail after the fourth."""
    training = make_trainer(world, grad_accum_steps=1)
    curve: list[StepRecord] = []

    def on_step(step: StepRecord) -> None:
        curve.append(step)
        if step.step == 3:
            save(folder / "run", training, curve)
        if step.step == 4:
            if scenario == "busy" and world.is_main:
                time.sleep(600)
            if scenario == f"kill{world.rank}" or scenario == "busy":
                os.kill(os.getpid(), signal.SIGKILL)
            if scenario == "silent" and not world.is_main:
                time.sleep(600)
            if scenario == "error":
                raise TfmrError("this is not possible")

    training.run(steps=STEPS, on_step=on_step)


def compare_compiled(world: World) -> None:
    """Train a compiled model and one that is not compiled; both must give the same numbers."""
    trainer.COMPILE_BACKEND = "eager"  # traces the blocks without a minute of kernel compilation
    curves = []
    for compile in (False, True):
        torch.manual_seed(3)
        model = Transformer(dataclasses.replace(MODEL, dropout=0.0))
        config = dataclasses.replace(CONFIG, compile=compile)
        training = Trainer(model, Batches(PAIRS, 9, 0, 12), config, world)
        curves.append([(step.loss, step.grad_norm) for step in training.run(steps=3)])
        averaged = training.averaged_model()
        assert not any(part._compiled_call_impl for part in averaged.modules())
    assert curves[0] == curves[1]
    counts = torch._dynamo.utils.counters
    print(json.dumps({"graphs": counts["stats"]["unique_graphs"], "breaks": counts["graph_break"]}))


def work(folder: Path, scenario: str) -> None:
    """Run a scenario in one of the processes."""
    torch.set_num_threads(1)
    if scenario == "silent":
        distributed.TIMEOUT = timedelta(seconds=3)
    interrupt.GRACE_SECONDS = 1.0
    with World.join() as world:
        if scenario == "compare":
            compare(folder, world)
        else:
            fail(folder, world, scenario)


@record
def launch(processes: int, function: Callable[..., None], *arguments: object) -> None:
    """Call ``function`` in several processes."""
    config = LaunchConfig(
        **{"min_nodes": 1, "max_nodes": 1, "nproc_per_node": processes},
        **{"run_id": "test", "rdzv_backend": "c10d", "rdzv_endpoint": "localhost:0"},
        **{"max_restarts": 0, "start_method": "fork"},
    )
    elastic_launch(config, function)(*arguments)


def play(folder: Path, scenario: str) -> None:
    """Launch a scenario from a process of its own."""
    folder.mkdir(exist_ok=True)
    launcher = os.fork()
    if launcher:
        status = os.waitstatus_to_exitcode(os.waitpid(launcher, 0)[1])
        (folder / "status").write_text(str(status))
        return
    for stream, name in ((1, "stdout"), (2, "stderr")):
        os.dup2(os.open(folder / name, os.O_WRONLY | os.O_CREAT), stream)
    launch(3 if scenario == "compare" else 2, work, folder, scenario)
    sys.exit()


def process() -> None:
    """Run the command as a process of ``torchrun``, which gets no signal if ``torchrun`` ends.

    The launcher gives the processes that it forks such a signal.
    """
    torch.multiprocessing._prctl_pr_set_pdeathsig(0)
    command_line()


def main() -> None:
    """Do what the command line says."""
    what, *arguments = sys.argv[1:]
    if what == "compile":
        torch.set_num_threads(1)
        compare_compiled(World())
    elif what == "tfmr":
        sys.argv = ["tfmr", *arguments]
        import tfmr.figures.training  # noqa: F401  once here, and not by each process

        launch(2, process)
    else:
        folder, *scenarios = arguments
        for scenario in scenarios:
            play(Path(folder) / scenario, scenario)


if __name__ == "__main__":
    main()
