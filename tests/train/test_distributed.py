"""Several processes compute what one does, print errors once, and end if one is lost."""

import importlib.util
import json
import os
import signal
import socket
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
from tests.errors import rejects
from tfmr.__main__ import main
from tfmr.data import pocket
from tfmr.train.distributed import World, wrap_distributed
from tfmr.train.run_dir import read_curve
from tfmr.train.trainer import StepRecord

ROOT = Path(tfmr.__file__).parent.parent
WORKER = Path(__file__).with_name("worker.py")
PATIENCE = 1800
"""Seconds after which a process that does not end is a failure, also on a busy machine."""
LOST = ("kill0", "kill1", "busy")
"""The scenarios of worker.py that lose a process."""
SETTINGS = [
    *("model.d_model=16", "model.d_ff=32", "model.n_encoder=1", "model.n_decoder=1"),
    *("vocabulary.size=300", "train.warmup=10", "batches.tokens_per_batch=256"),
    *("checkpoints.steps=4", "evaluation.eval_every=6", "evaluation.beam=1"),
]


def start(*arguments: object) -> subprocess.Popen[str]:
    """A process of worker.py."""
    return subprocess.Popen(
        [sys.executable, str(WORKER), *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def own_messages(stderr: str) -> list[str]:
    """The messages of tfmr itself, without PyTorch's report."""
    lines = stderr.replace("\r", "\n").splitlines()
    return [line for line in lines if line.startswith("tfmr: ")]


@pytest.fixture(scope="module")
def worker() -> ModuleType:
    """The script of the processes as a module, to run it in this process."""
    spec = importlib.util.spec_from_file_location("worker", WORKER)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def assert_same(folder: Path, name: str, other: str, *, steps: int, exactly: bool = False) -> None:
    """The last ``steps`` records of two runs, and their states, agree to 1e-9 or exactly."""
    tolerance = {"rtol": 0.0, "atol": 0.0} if exactly else {"rtol": 1e-9, "atol": 1e-9}
    (progress, tensors), (expected_progress, expected) = (
        (json.loads((folder / f"{n}.json").read_text()), load_file(folder / f"{n}.safetensors"))
        for n in (name, other)
    )
    for key in ("step", "epoch", "batches_done"):
        assert progress[key] == expected_progress[key]
    records = zip(progress["curve"][-steps:], expected_progress["curve"][-steps:], strict=True)
    for record, expected_record in records:
        assert record.keys() == expected_record.keys()
        for key in record.keys() - {"seconds"}:
            assert record[key] == pytest.approx(
                expected_record[key], rel=tolerance["rtol"], abs=tolerance["atol"]
            )
    assert_close(tensors, expected, **tolerance)


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory, worker: ModuleType) -> Path:
    """A folder in which all scenarios of worker.py were played, one after another."""
    folder = tmp_path_factory.mktemp("played")
    (folder / "compare").mkdir()
    for steps in (3, 6):
        name = folder / "compare" / f"single{steps}"
        stopped = worker.make_trainer(World(), grad_accum_steps=steps)
        worker.save(name, stopped, stopped.run(steps=3))
        straight = worker.make_trainer(World(), grad_accum_steps=steps)
        worker.save(name.with_name(f"{name.name}-straight"), straight, straight.run(steps=6))
    playing = start("scenarios", folder, "compare", *LOST, "silent", "error")
    _, err = playing.communicate(timeout=PATIENCE)
    assert playing.returncode == 0, err
    return folder


def result(folder: Path) -> tuple[int, str, str]:
    """Status, output and errors of a scenario."""
    texts = [(folder / name).read_text("utf-8") for name in ("status", "stdout", "stderr")]
    return int(texts[0]), texts[1], texts[2]


def test_three_processes_equal_one_with_the_same_batches(played: Path, worker: ModuleType) -> None:
    """With DDP and FSDP, in one go and resumed, also with another number of processes.

    Clipping included: the gradients of all steps are longer than the maximal norm. A resumed run is
    bit-identical: the sum of three numbers, unlike that of two, depends on their order.
    """
    folder = played / "compare"
    status, out, err = result(folder)
    assert (status, out) == (0, ""), err
    for steps in (3, 6):
        progress = json.loads((folder / f"single{steps}-straight.json").read_text())
        assert progress["epoch"] >= 2
        assert all(record["grad_norm"] > 1.0 for record in progress["curve"])
    for method in ("ddp", "fsdp"):
        for batches in (1, 2):
            assert_same(folder, f"{method}{batches}", f"single{3 * batches}-straight", steps=6)
        assert_same(folder, f"{method}1-resumed", f"{method}1", steps=3, exactly=True)
        assert_same(folder, f"{method}2-after-single", "single6-straight", steps=3)
        single = worker.make_trainer(World(), grad_accum_steps=3, seed=50)
        worker.load(folder / f"{method}1-stopped", single)
        worker.save(folder / f"single-after-{method}", single, single.run(steps=6))
        assert_same(folder, f"single-after-{method}", "single3-straight", steps=3)


def test_processes_have_different_dropout(worker: ModuleType) -> None:
    losses = []
    for rank in (0, 1, 0):
        trainer = worker.make_trainer(World(rank=rank), grad_accum_steps=1)
        losses.append(trainer.step(next(trainer.batches.epoch(0))).loss)
    assert losses[0] != losses[1]
    assert losses[0] == losses[2]


def test_a_lost_process_or_an_error_ends_the_run(played: Path, worker: ModuleType) -> None:
    """Also if the other process is busy, as the main process is during evaluation.

    The checkpoint resumes in one process.
    """
    expected = worker.make_trainer(World(), grad_accum_steps=2).run(steps=6)[3:]
    for scenario in LOST:
        status, out, err = result(played / scenario)
        run = played / scenario / "run"
        assert status != 0
        assert out == ""
        (message,) = own_messages(err)
        assert message.startswith("tfmr: the run stopped because one of its 2 processes ended")
        assert f"the checkpoint of step 3 in {run} is complete: resume" in message
        single = worker.make_trainer(World(), grad_accum_steps=2, seed=50)
        worker.load(run, single)
        losses = [record.loss for record in single.run(steps=6)]
        assert losses == pytest.approx([record.loss for record in expected])

    status, _, err = result(played / "silent")
    assert status != 0
    (message,) = own_messages(err)
    assert "did not respond" in message
    assert "[rank 0] RuntimeError" in err
    assert "Timed out waiting 3000ms" in err

    status, _, err = result(played / "error")
    assert status != 0
    assert own_messages(err) == ["tfmr: this is not possible"]
    assert err.count("this is not possible") == 1
    assert "exitcode  : 2" in err


@pytest.fixture
def process_group(monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment that torchrun sets for a single process."""
    environment = {"RANK": 0, "WORLD_SIZE": 1, "LOCAL_RANK": 0, "LOCAL_WORLD_SIZE": 1}
    with socket.create_server(("localhost", 0)) as server:
        environment |= {"MASTER_ADDR": "localhost", "MASTER_PORT": server.getsockname()[1]}
    for name, value in environment.items():
        monkeypatch.setenv(name, str(value))


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({"MASTER_ADDR": None, "LOCAL_RANK": None}, ["MASTER_ADDR missing", "LOCAL_RANK missing"]),
        ({"RANK": "x"}, ["got RANK=x:"]),
        ({"RANK": "1"}, ["got RANK=1:"]),
    ],
)
def test_incomplete_variables_of_torchrun_are_named(
    process_group: None, monkeypatch: pytest.MonkeyPatch, variables: dict, words: list[str]
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value) if value else monkeypatch.delenv(name)
    rejects(World.join().__enter__, *words)


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("could not load libnccl.so.2"),
        RuntimeError("the download of the corpus timed out"),
        torch.distributed.DistBackendError("NCCL error: invalid usage, duplicate GPU detected"),
    ],
)
def test_other_errors_are_not_mistaken_for_a_lost_process(
    process_group: None, error: RuntimeError
) -> None:
    with pytest.raises(RuntimeError) as raised, World.join():
        raise error
    assert raised.value is error


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("[/src/gloo/transport/tcp/pair.cc:553] Connection closed by peer [::1]:9"),
        torch.distributed.DistBackendError("NCCL error: remote process exited"),
        torch.distributed.DistNetworkError("Connection was likely closed"),
    ],
)
def test_cause_of_a_lost_process_is_printed(
    process_group: None, capsys: pytest.CaptureFixture[str], error: RuntimeError
) -> None:
    with pytest.raises(SystemExit, match="1"), World.join():
        raise error
    message, cause = capsys.readouterr().err.splitlines()
    assert message.startswith("tfmr: the run stopped because one of its 1 processes ended")
    assert "nothing was saved: start again" in message
    assert cause == f"[rank 0] {type(error).__name__}: {error}"


def test_single_process_needs_no_process_group(
    monkeypatch: pytest.MonkeyPatch, worker: ModuleType
) -> None:
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"):
        monkeypatch.delenv(name, raising=False)
    with World.join() as world:
        assert (world.rank, world.size, world.is_main) == (0, 1, True)
        assert world.all_reduce(2.5) == 2.5
        assert world.broadcast("value") == "value"
        world.barrier()
        module = worker.make_trainer(world, grad_accum_steps=1).loss_module
        assert wrap_distributed(module, world, fsdp=True) is module
        assert not torch.distributed.is_initialized()


@pytest.fixture
def options(tmp_path: Path) -> list[str]:
    """Options of ``tfmr train`` for a small corpus and a tiny model."""
    pairs = pocket.generate("en-fr", 200, 0)
    files = [tmp_path / "a.en", tmp_path / "a.fr"]
    for side, file in enumerate(files):
        file.write_text("".join(pair[side] + "\n" for pair in pairs), encoding="utf-8")
    return ["--files", *map(str, files), "--set", *SETTINGS]


@pytest.fixture
def train_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], options: list[str]
) -> Callable[..., tuple[list[StepRecord], str]]:
    """Train in this process on the batches of two; returns the curve and standard output."""

    def train(folder: Path, *more: str) -> tuple[list[StepRecord], str]:
        changed = ["train", *options, "train.grad_accum_steps=2", "--out", str(folder), *more]
        monkeypatch.setattr(sys, "argv", ["tfmr", *changed])
        main()
        return read_curve(folder / "curve.csv"), capsys.readouterr().out

    return train


def assert_close_curves(curve: list[StepRecord], expected: list[StepRecord]) -> None:
    """In fp32, different rounding changes the losses by less than 1e-4."""
    for record, other in zip(curve, expected, strict=True):
        for name in ("step", "tokens", "learning_rate"):
            assert getattr(record, name) == getattr(other, name)
        assert record.loss == pytest.approx(other.loss, rel=1e-4)
        assert record.grad_norm == pytest.approx(other.grad_norm, rel=1e-2)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_ctrl_c_ends_all_processes_at_one_step_and_one_process_can_resume(
    tmp_path: Path,
    options: list[str],
    train_alone: Callable[..., tuple[list[StepRecord], str]],
    number: signal.Signals,
) -> None:
    """So does the end of the launcher, even by SIGKILL; none of its processes is left."""
    folder = tmp_path / "run"
    running = start("tfmr", "train", *options, "--out", folder, "--steps", 100000)
    began = time.monotonic()
    while not (folder / "model.safetensors").exists() and running.poll() is None:
        assert time.monotonic() - began < PATIENCE
        time.sleep(0.05)
    running.send_signal(number)
    _, stderr = running.communicate(timeout=PATIENCE)  # until all have closed their output
    assert running.returncode != 0
    steps = len(read_curve(folder / "curve.csv"))
    (message,) = own_messages(stderr)
    assert message.startswith(f"tfmr: stopped at step {steps}")
    more = str(steps + 2)
    resumed, _ = train_alone(folder, "--resume", "--steps", more)
    straight, _ = train_alone(tmp_path / "straight", "--steps", more)
    assert_close_curves(resumed, straight)
