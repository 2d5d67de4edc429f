"""Run as a program: starts processes that write, and kills them with SIGKILL at any moment.

``killing.py saves FOLDER SEED TIMES`` kills a process that saves one checkpoint after another, and
reads what it left. ``killing.py run FOLDER SEED TIMES ARGUMENT …`` runs ``tfmr ARGUMENT …`` to its
end in FOLDER/straight. In FOLDER/killed it kills it, goes on with ``--resume`` until it has been
killed so often, and lets it come to its end. Both print how many of the kills fell into the middle
of a write.
"""

import os
import random
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
import torch._dynamo  # which Adam needs: imported once here, and not by each process

import tfmr.figures.training  # noqa: F401  likewise
from tfmr import checkpoint, registry
from tfmr.__main__ import main
from tfmr.checkpoint import Checkpoint, named_weights
from tfmr.config import TransformerConfig
from tfmr.data.tokenizer import Tokenizer

PATIENCE = 600.0
"""Seconds after which a process that does nothing is a failure of the test."""


def start(work: Callable[[], None]) -> int:
    """A process that does ``work``."""
    process = os.fork()
    if process == 0:
        try:
            work()
            os._exit(0)
        except SystemExit as end:
            os._exit(end.code if isinstance(end.code, int) else 1)
        except BaseException as error:
            print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
            os._exit(1)
    return process


def ended(process: int) -> int | None:
    """The exit status of ``process``, ``None`` while it runs."""
    done, status = os.waitpid(process, os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if done else None


def kill_in_time(process: int, folder: Path, chance: random.Random) -> int | None:
    """Kill ``process`` some time after a write of the checkpoint, or while it writes a file.

    Returns:
        Its exit status, if it came to its end before.
    """
    path = folder / "model.safetensors"
    writes, middle = chance.randint(1, 3), chance.random() < 0.7
    name = chance.choice(("curve.csv", "scores.json", "model.safetensors", "model.safetensors"))
    last = written(path)
    began = time.monotonic()
    while writes:
        status = ended(process)
        if status is not None:
            return status
        assert time.monotonic() - began < PATIENCE, "nothing was written"
        if middle and writes == 1 and any(folder.glob(f".{name}.*")):
            break
        now = written(path)
        writes -= now != last
        last = now
        time.sleep(0.0005)
    if not middle:
        time.sleep(chance.random() * 0.03)
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)
    return None


def written(path: Path) -> tuple[int, int]:
    """What changes whenever the file is written anew."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return (0, 0)
    return (status.st_ino, status.st_mtime_ns)


def made(fill: float) -> Checkpoint:
    """A large checkpoint in which every weight is ``fill``."""
    config = TransformerConfig(
        128, 2, 4096, source_vocab=7, target_vocab=7, n_encoder=1, n_decoder=1
    )
    weights = {
        name: torch.full_like(weight, fill)
        for name, weight in named_weights(registry.build_model(config)).items()
    }
    return Checkpoint(config, Tokenizer("words", ["a", "b", "c"]), weights, metadata={"fill": fill})


def saves(folder: Path, chance: random.Random, times: int) -> int:
    """Kill a process that saves, and read what is there, ``times`` times."""
    path = folder / "model.safetensors"
    both = [made(1.0), made(2.0)]

    def work() -> None:
        for turn in range(10**9):
            checkpoint.save(path, both[turn % 2])

    middle = 0
    checkpoint.save(path, both[0])
    for _ in range(times):
        assert kill_in_time(start(work), folder, chance) is None
        middle += bool(list(folder.glob(".*")))
        saved = checkpoint.load(path)
        values = torch.cat([weight.flatten() for weight in saved.weights.values()])
        assert values.unique().tolist() == [saved.metadata["fill"]], "parts of two checkpoints"
    return middle


def run(arguments: list[str], folder: Path, chance: random.Random, times: int) -> int:
    """Kill the command ``times`` times, then let it come to its end."""
    middle = killed = 0
    while True:
        resume = ["--resume"] if (folder / "recipe.toml").exists() else []
        sys.argv = ["tfmr", *arguments, "--out", str(folder), *resume]
        process = start(main)
        if killed < times:
            status = kill_in_time(process, folder, chance)
        else:
            status = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
        if status is not None:
            assert status == 0, f"ended with {status}"
            assert killed == times, f"came to its end after {killed} kills"
            return middle
        killed += 1
        middle += bool(list(folder.glob(".*")))


if __name__ == "__main__":
    torch.set_num_threads(1)
    what, folder, seed, times, *rest = sys.argv[1:]
    luck = random.Random(int(seed))
    if what == "saves":
        print(saves(Path(folder), luck, int(times)))
    else:
        run(rest, Path(folder) / "straight", luck, 0)
        print(run(rest, Path(folder) / "killed", luck, int(times)))
