"""One process of several, as torchrun starts it for test_parallel.py: trains a tiny model.

It is started as "worker.py FOLDER SCENE". The scene "compile" is for one process alone.
"""

import dataclasses
import json
import os
import signal
import sys
import time
from datetime import timedelta
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from tfmr.data.batches import Batches
from tfmr.errors import TfmrError
from tfmr.model import Transformer, TransformerConfig
from tfmr.train import distributed, interrupt, objective
from tfmr.train.config import TrainConfig
from tfmr.train.distributed import World
from tfmr.train.trainer import Step, Trainer

MODEL = TransformerConfig(
    30, 30, d_model=16, n_heads=2, d_ff=18, n_encoder=1, n_decoder=1, dropout=0.2, max_length=12
)
PAIRS = [
    ([4 + n, 12 + n % 3, 15][: 1 + n % 3], [16 + n, 24 + n % 3, 27, 28][: 1 + n % 4])
    for n in range(10)
]
CONFIG = TrainConfig(peak_lr=3e-3, warmup=4, ema_decay=0.9, seed=3)
STEPS = 6


def trainer(world: World, *, accumulate: int, shard: bool = False, seed: int = 3) -> Trainer:
    """Ready to begin. Its numbers are doubles: rounding is not what these tests look for."""
    torch.manual_seed(seed)
    model = Transformer(MODEL).double()
    config = dataclasses.replace(CONFIG, grad_accum_steps=accumulate, fsdp=shard)
    return Trainer(model, Batches(PAIRS, 9, 0, 12), config, world)


def keep(path: Path, training: Trainer, curve: list[Step]) -> None:
    """Write what a checkpoint would hold, and the curve."""
    tensors, facts = training.state()
    averaged = training.averaged()
    if training.world.first:
        for name, weight in averaged.named_parameters():
            tensors[f"averaged.{name}"] = weight.detach().clone()
        facts["curve"] = [dataclasses.asdict(step) for step in curve]
        save_file(tensors, path.with_suffix(".safetensors"))
        path.with_suffix(".json").write_text(json.dumps(facts))
    training.world.wait()
    training.world.saved = f"the checkpoint of step {training.steps_done} in {path}"


def restore(path: Path, training: Trainer) -> None:
    """Go on from what :func:`keep` wrote."""
    facts = json.loads(path.with_suffix(".json").read_text())
    training.restore(load_file(path.with_suffix(".safetensors")), facts)


def compare(folder: Path, world: World) -> None:
    """Train in every way: without a stop, up to one, and on from where one process stopped."""
    for way, shard in (("ddp", False), ("fsdp", True)):
        for accumulate in (1, 2):
            straight = trainer(world, accumulate=accumulate, fsdp=shard)
            keep(folder / f"{way}{accumulate}", straight, straight.run(steps=STEPS))
        stopped = trainer(world, accumulate=1, shard=shard)
        keep(folder / f"{way}1-stopped", stopped, stopped.run(steps=3))
        # Another seed in every process: what counts is the first one's weights.
        resumed = trainer(world, accumulate=2, shard=shard, seed=40 + world.rank)
        restore(folder / "alone4", resumed)
        keep(folder / f"{way}2-after-alone", resumed, resumed.run(steps=STEPS))


def resume(folder: Path, world: World) -> None:
    """Train without a stop, and with one."""
    for way, shard in (("ddp", False), ("fsdp", True)):
        straight = trainer(world, accumulate=1, shard=shard)
        keep(folder / way, straight, straight.run(steps=STEPS))
        stopped = trainer(world, accumulate=1, shard=shard)
        keep(folder / f"{way}-stopped", stopped, stopped.run(steps=3))
        resumed = trainer(world, accumulate=1, shard=shard, seed=40 + world.rank)
        restore(folder / f"{way}-stopped", resumed)
        keep(folder / f"{way}-resumed", resumed, resumed.run(steps=STEPS))


def end(folder: Path, world: World, scene: str) -> None:
    """Train, save after the third step, and come to harm after the fourth, while the fifth runs."""
    training = trainer(world, accumulate=1)
    curve: list[Step] = []

    def on_step(step: Step) -> None:
        curve.append(step)
        if step.step == 3:
            keep(folder / "run", training, curve)
        if step.step == 4:
            if scene == "busy" and world.first:
                time.sleep(600)
            if scene == f"kill{world.rank}" or scene == "busy":
                os.kill(os.getpid(), signal.SIGKILL)
            if scene == "silence" and not world.first:
                time.sleep(600)
            if scene == "mistake":
                raise TfmrError("this will never do")

    training.run(steps=STEPS, on_step=on_step)


def compiled(world: World) -> None:
    """Train a compiled model and one that is not; both must do the same."""
    objective.BACKEND = "eager"  # traces the blocks, and makes no kernels, which takes a minute
    curves = []
    for compile in (False, True):
        torch.manual_seed(3)
        model = Transformer(dataclasses.replace(MODEL, dropout=0.0))
        config = dataclasses.replace(CONFIG, compile=compile)
        training = Trainer(model, Batches(PAIRS, 9, 0, 12), config, world)
        curves.append([(step.loss, step.gradient_norm) for step in training.run(steps=STEPS)])
        averaged = training.averaged()
        assert not any(part._compiled_call_impl for part in averaged.modules())
    assert curves[0] == curves[1]
    counts = torch._dynamo.utils.counters
    print(json.dumps({"graphs": counts["stats"]["unique_graphs"], "breaks": counts["graph_break"]}))


def main() -> None:
    """Play the scene that the command line names."""
    torch.set_num_threads(1)
    folder, scene = Path(sys.argv[1]), sys.argv[2]
    if scene == "silence":
        distributed.PATIENCE = timedelta(seconds=3)
    interrupt.GRACE = 1.0
    with World.join() as world:
        if scene == "compare":
            compare(folder, world)
        elif scene == "resume":
            resume(folder, world)
        elif scene == "compile":
            compiled(world)
        else:
            end(folder, world, scene)


if __name__ == "__main__":
    main()
