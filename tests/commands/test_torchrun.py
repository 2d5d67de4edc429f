"""``torchrun -m tfmr train``: several processes write the same run directory as one."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import tfmr
from tfmr.checkpoint import load_translator, named_weights
from tfmr.data import pocket
from tfmr.train.run_dir import read_curve

ROOT = Path(tfmr.__file__).parent.parent
LAUNCH = ("torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m")
SETTINGS = [
    *("model.d_model=16", "model.d_ff=16", "model.n_encoder=1", "model.n_decoder=1"),
    *(
        "vocabulary.size=300",
        "train.warmup=10",
        "evaluation.beam=1",
        "evaluation.eval_every=3",
        "evaluation.metric=loss",
    ),
    *("train.ema_decay=0", "checkpoints.average=2", "checkpoints.average_every=2"),
]


def torchrun(*arguments: object) -> tuple[list[dict], str]:
    """Train in two processes; the rows of scores, and the text on standard error."""
    done = subprocess.run(
        [sys.executable, "-m", *LAUNCH, "tfmr", "train", *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return [json.loads(line) for line in done.stdout.splitlines()], done.stderr


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    """A source and a target file."""
    pairs = pocket.generate("en-fr", 200, 0)
    files = [tmp_path / "a.en", tmp_path / "a.fr"]
    for side, file in enumerate(files):
        file.write_text("".join(pair[side] + "\n" for pair in pairs), encoding="utf-8")
    return files


def test_two_processes_write_the_run_directory_of_one(
    tmp_path: Path, command, files: list[Path]
) -> None:
    """Also with sharded weights, and when the run is resumed, which needs only its folder."""
    given = ["--files", *files, "--set", *SETTINGS]
    alone, two = tmp_path / "alone", tmp_path / "two"
    expected, _ = command("train", *given, "train.grad_accum_steps=2", "--steps", 6, "--out", alone)
    rows, messages = torchrun(*given, "train.fsdp=true", "--steps", 4, "--out", two)
    assert [row["step"] for row in rows] == [4]
    assert messages.count("parameters, ") == 1
    assert "Warning" not in messages
    rows, _ = torchrun("--steps", 6, "--out", two, "--resume")
    row = json.loads(expected)
    assert rows[-1]["valid_loss"] == pytest.approx(row["valid_loss"], rel=1e-3)
    assert rows[-1]["model_step"] == row["model_step"]

    curves = [read_curve(folder / "curve.csv") for folder in (alone, two)]
    assert [step.step for step in curves[1]] == [1, 2, 3, 4, 5, 6]
    for one, other in zip(*curves, strict=True):
        assert other.loss == pytest.approx(one.loss, rel=1e-5)
        assert other.grad_norm == pytest.approx(one.grad_norm, rel=1e-2)
        assert (other.tokens, other.learning_rate) == (one.tokens, one.learning_rate)
    there = [{path.name for path in folder.iterdir()} for folder in (alone, two)]
    assert there[0] == there[1]
    assert {"best.safetensors", "curve.png", "checkpoints", "valid.csv"} < there[1]
    ours, theirs = (named_weights(load_translator(folder)[0]) for folder in (alone, two))
    assert all(torch.allclose(ours[name], theirs[name], atol=1e-5) for name in ours)
    results = json.loads((two / "scores.json").read_text("utf-8"))
    assert results["processes"] == 2
    assert results["command"].startswith("torchrun --nproc-per-node 2 -m tfmr train --files")


def test_two_processes_fine_tune_as_one(tmp_path: Path, command, files: list[Path]) -> None:
    """Sharded weights start from those of the trained model, too."""
    base, alone, two = (tmp_path / name for name in ("base", "alone", "two"))
    command("train", "--files", *files, "--set", *SETTINGS, "--steps", 6, "--out", base)
    given = ["--from", base, "--files", *files, "--steps", 2]
    settings = ["--set", "train.warmup=10", "evaluation.beam=1"]
    command("train", *given, "--out", alone, *settings, "train.grad_accum_steps=2")
    torchrun(*given, "--out", two, *settings, "train.fsdp=true")
    first, *curves = (read_curve(folder / "curve.csv") for folder in (base, alone, two))
    for one, other in zip(*curves, strict=True):
        assert other.loss == pytest.approx(one.loss, rel=1e-5)
        assert one.loss < first[0].loss
