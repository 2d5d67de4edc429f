"""Several processes: the same numbers as one, one voice, and a clean end when one is lost."""

import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
import torch
from safetensors.torch import load_file
from torch.testing import assert_close

import tfmr
from tfmr.__main__ import main
from tfmr.data import pocket
from tfmr.train.distributed import World, spread
from tfmr.train.records import read_curve
from tfmr.train.trainer import Step

ROOT = Path(tfmr.__file__).parent.parent
WORKER = Path(__file__).with_name("worker.py")


TORCHRUN = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node")
"""How many processes on this machine, and what they run, follows."""
SETTINGS = [
    *("model.d_model=16", "model.d_ff=32", "model.n_encoder=1", "model.n_decoder=1"),
    *("vocabulary.size=300", "train.warmup=10", "batches.tokens_per_batch=256"),
    *("checkpoints.steps=4", "evaluation.eval_every=6", "evaluation.beam=1"),
]


def torchrun(*arguments: object, processes: int = 2) -> subprocess.CompletedProcess[str]:
    """Run processes to their end, each with one thread."""
    return subprocess.run(
        [sys.executable, *TORCHRUN, str(processes), *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )


def told(stderr: str) -> list[str]:
    """What the package itself says in the end, without PyTorch's own report."""
    lines = stderr.replace("\r", "\n").splitlines()
    return [line for line in lines if line.startswith("tfmr: ")]


@pytest.fixture(scope="module")
def worker() -> ModuleType:
    """The script that the processes run, here for one process."""
    spec = importlib.util.spec_from_file_location("worker", WORKER)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory, worker: ModuleType) -> Path:
    """What two processes left, DDP and FSDP; and what one process did with as many batches."""
    folder = tmp_path_factory.mktemp("trained")
    for accumulate in (2, 4):
        name = f"alone{accumulate}"
        first = worker.trainer(World(), grad_accum_steps=accumulate)
        worker.keep(folder / name, first, first.run(steps=3))
        straight = worker.trainer(World(), grad_accum_steps=accumulate)
        worker.keep(folder / f"{name}-straight", straight, straight.run(steps=worker.STEPS))
    done = torchrun(WORKER, folder, "compare")
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    return folder


def assert_same(folder: Path, name: str, other: str, *, steps: int, exactly: bool = False) -> None:
    """The last ``steps`` of two runs, and all that they left, are the same to 1e-9 or exactly."""
    tolerance = {"rtol": 0.0, "atol": 0.0} if exactly else {"rtol": 1e-9, "atol": 1e-9}
    (facts, tensors), (others, expected) = (
        (json.loads((folder / f"{n}.json").read_text()), load_file(folder / f"{n}.safetensors"))
        for n in (name, other)
    )
    for key in ("step", "epoch", "batches_done"):
        assert facts[key] == others[key]
    for row, wanted in zip(facts["curve"][-steps:], others["curve"][-steps:], strict=True):
        assert row.keys() == wanted.keys()
        for key in row.keys() - {"seconds"}:
            assert row[key] == pytest.approx(
                wanted[key], rel=tolerance["rtol"], abs=tolerance["atol"]
            )
    assert_close(tensors, expected, **tolerance)


@pytest.mark.parametrize("way", ["ddp", "fsdp"])
@pytest.mark.parametrize("accumulate", [1, 2])
def test_two_processes_do_what_one_does_with_the_same_batches(
    trained: Path, way: str, accumulate: int
) -> None:
    name = f"alone{2 * accumulate}-straight"
    assert json.loads((trained / f"{name}.json").read_text())["epoch"] >= 2
    assert_same(trained, f"{way}{accumulate}", name, steps=6)


def test_three_processes_go_on_as_if_never_stopped(tmp_path: Path) -> None:
    """Bit for bit. Of three numbers, unlike of two, the order decides how the sum is rounded."""
    done = torchrun(WORKER, tmp_path, "resume", processes=3)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    for way in ("ddp", "fsdp"):
        assert_same(tmp_path, f"{way}-resumed", way, steps=3, exactly=True)


@pytest.mark.parametrize("way", ["ddp", "fsdp"])
def test_two_processes_go_on_where_one_stopped_and_one_where_two_did(
    trained: Path, worker: ModuleType, way: str
) -> None:
    assert_same(trained, f"{way}2-after-alone", "alone4-straight", steps=3)
    alone = worker.trainer(World(), grad_accum_steps=2, seed=50)
    worker.restore(trained / f"{way}1-stopped", alone)
    worker.keep(trained / f"alone-after-{way}", alone, alone.run(steps=6))
    assert_same(trained, f"alone-after-{way}", "alone2-straight", steps=3)


def test_the_processes_drop_out_different_numbers(worker: ModuleType) -> None:
    """Two worlds that see the same batch at different places; dropout apart, it is one loss."""
    losses = []
    for rank in (0, 1, 0):
        training = worker.trainer(World(rank=rank), grad_accum_steps=1)
        (batch, *_) = training.batches.epoch(0)
        losses.append(training.step(batch).loss)
    assert losses[0] != losses[1]
    assert losses[0] == losses[2]


@pytest.mark.parametrize("scene", ["kill0", "kill1", "busy"])
def test_a_killed_process_ends_the_run_and_leaves_a_checkpoint(
    tmp_path: Path, worker: ModuleType, scene: str
) -> None:
    """Whether the other waits for it or is busy for long, as the first one is while it scores."""
    done = torchrun(WORKER, tmp_path, scene)
    assert done.returncode != 0
    assert done.stdout == ""
    assert told(done.stderr) == [
        "tfmr: one of the 2 processes has ended, and the run with it; the checkpoint of step 3 in "
        f"{tmp_path / 'run'} is whole: go on with the same command and --resume"
    ]
    alone = worker.trainer(World(), grad_accum_steps=2, seed=50)
    worker.restore(tmp_path / "run", alone)
    straight = worker.trainer(World(), grad_accum_steps=2)
    wanted = straight.run(steps=6)[3:]
    assert [step.loss for step in alone.run(steps=6)] == pytest.approx([s.loss for s in wanted])


def test_a_silent_process_is_not_waited_for_without_end(tmp_path: Path) -> None:
    done = torchrun(WORKER, tmp_path, "silence")
    assert done.returncode != 0
    (line,) = told(done.stderr)
    assert "one of the 2 processes has ended" in line


def test_a_mistake_is_told_once(tmp_path: Path) -> None:
    done = torchrun(WORKER, tmp_path, "mistake")
    assert done.returncode != 0
    assert told(done.stderr) == ["tfmr: this will never do"]
    assert done.stderr.count("this will never do") == 1
    assert "exitcode  : 2" in done.stderr


def test_a_world_of_one_needs_nobody(monkeypatch: pytest.MonkeyPatch, worker: ModuleType) -> None:
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"):
        monkeypatch.delenv(name, raising=False)
    with World.join() as world:
        assert (world.rank, world.size, world.first) == (0, 1, True)
        assert world.sum(2.5) == 2.5
        assert world.share("said") == "said"
        world.wait()
        objective = worker.trainer(world, accumulate=1).objective
        assert spread(objective, world, shard=True) is objective
        assert not torch.distributed.is_initialized()


@pytest.fixture
def options(tmp_path: Path) -> list[str]:
    """A small corpus and a tiny model, for ``tfmr train``."""
    pairs = pocket.generate("en-fr", 200, 0)
    files = [tmp_path / "a.en", tmp_path / "a.fr"]
    for side, file in enumerate(files):
        file.write_text("".join(pair[side] + "\n" for pair in pairs), encoding="utf-8")
    return ["--files", *map(str, files), "--set", *SETTINGS]


@pytest.fixture
def alone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], options: list[str]
) -> Callable[..., tuple[list[Step], str]]:
    """Let this process do what two would; the curve, and what is printed."""

    def train(folder: Path, *more: str) -> tuple[list[Step], str]:
        precision = torch.get_float32_matmul_precision()
        changed = ["train", *options, "train.grad_accum_steps=2", "--out", str(folder), *more]
        monkeypatch.setattr(sys, "argv", ["tfmr", *changed])
        main()
        torch.set_float32_matmul_precision(precision)
        return read_curve(folder / "curve.csv"), capsys.readouterr().out

    return train


def assert_alike(curve: list[Step], expected: list[Step]) -> None:
    """In single precision, and rounded differently, the losses stay within 1e-4."""
    for step, wanted in zip(curve, expected, strict=True):
        assert (step.step, step.tokens, step.rate) == (wanted.step, wanted.tokens, wanted.rate)
        assert step.loss == pytest.approx(wanted.loss, rel=1e-4)
        assert step.gradient_norm == pytest.approx(wanted.gradient_norm, rel=1e-2)


def test_the_command_under_torchrun_is_the_command(
    tmp_path: Path, options: list[str], alone: Callable[..., tuple[list[Step], str]]
) -> None:
    two, one = tmp_path / "two", tmp_path / "one"
    command = ("train", *options, "--out", str(two), "--steps", "12")
    done = torchrun("-m", "tfmr", *command)
    assert done.returncode == 0, done.stderr
    curve, printed = alone(one, "--steps", "12")
    assert_alike(read_curve(two / "curve.csv"), curve)
    (row,), (wanted,) = (
        [json.loads(line) for line in text.splitlines()] for text in (done.stdout, printed)
    )
    assert row["valid_loss"] == pytest.approx(wanted["valid_loss"], rel=1e-3)
    assert row["model_step"] == wanted["model_step"]
    assert done.stderr.count("parameters, ") == 1
    assert "Warning" not in done.stderr
    assert {path.name for path in two.iterdir()} == {path.name for path in one.iterdir()}
    assert json.loads((two / "scores.json").read_text())["processes"] == 2


def test_ctrl_c_ends_all_processes_at_one_step_and_one_process_can_go_on(
    tmp_path: Path, options: list[str], alone: Callable[..., tuple[list[Step], str]]
) -> None:
    """With the weights sharded, too, which changes neither the steps nor what is saved."""
    folder = tmp_path / "run"
    command = ("-m", "tfmr", "train", *options, "train.fsdp=true", "--out", str(folder))
    running = subprocess.Popen(
        [sys.executable, *TORCHRUN, "2", *command, "--steps", "100000"],
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    began = time.monotonic()
    while not (folder / "model.safetensors").exists() and running.poll() is None:
        assert time.monotonic() - began < 180
        time.sleep(0.05)
    running.send_signal(signal.SIGINT)
    _, stderr = running.communicate(timeout=180)
    assert running.returncode != 0
    steps = len(read_curve(folder / "curve.csv"))
    assert told(stderr) == [
        f"tfmr: stopped at step {steps}, all of it saved in {folder}: go on with --resume"
    ]
    more = str(steps + 2)
    resumed, _ = alone(folder, "--resume", "--steps", more)
    straight, _ = alone(tmp_path / "straight", "--steps", more)
    assert_alike(resumed, straight)
