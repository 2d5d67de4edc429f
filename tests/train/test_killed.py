"""SIGKILL at any moment: every file is whole, and the run that goes on is the one never stopped."""

import os
import random
import subprocess
import sys
from pathlib import Path

import torch
from safetensors.torch import load_file

import tfmr
from tfmr.data import pocket

ROOT = Path(tfmr.__file__).parent.parent
SETTINGS = [
    *("model.d_model=16", "model.d_ff=32", "model.n_encoder=1", "model.n_decoder=1"),
    *("vocabulary.size=300", "train.warmup=10", "batches.tokens_per_batch=512"),
    *("checkpoints.steps=4", "evaluation.eval_every=20", "evaluation.beam=1"),
]


def killing(*arguments: object) -> int:
    """Run killing.py; the number of kills in the middle of a write."""
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("killing.py")), *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=1800,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return int(done.stdout.splitlines()[-1])


def test_a_checkpoint_is_always_whole(tmp_path: Path) -> None:
    seed = random.randrange(10**6)
    assert killing("saves", tmp_path, seed, 10) > 0, f"seed {seed}: no kill hit a write"


def test_the_curve_of_a_killed_run_is_that_of_one_never_stopped(tmp_path: Path) -> None:
    pairs = pocket.generate("en-fr", 200, 0)
    files = [tmp_path / "a.en", tmp_path / "a.fr"]
    for side, file in enumerate(files):
        file.write_text("".join(pair[side] + "\n" for pair in pairs), encoding="utf-8")
    command = ["train", "--files", *map(str, files), "--steps", "40", "--set", *SETTINGS]
    seed = random.randrange(10**6)
    killing("run", tmp_path, seed, 3, *command)

    curves, looks, states = [], [], []
    for name in ("straight", "killed"):
        rows = (tmp_path / name / "curve.csv").read_text("utf-8").splitlines()
        assert rows[0].endswith(",seconds")
        curves.append([row.rpartition(",")[0] for row in rows])
        rows = (tmp_path / name / "valid.csv").read_text("utf-8").splitlines()
        looks.append([row.split(",")[:1] + row.split(",")[2:] for row in rows])
        states.append(load_file(tmp_path / name / "model.safetensors"))
    assert len(curves[0]) == 41
    assert curves[0] == curves[1], f"seed {seed}"
    assert looks[0] == looks[1], f"seed {seed}"
    assert len(looks[0]) == 3
    assert states[0].keys() == states[1].keys()
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0]), f"seed {seed}"
    there = {path.name for path in (tmp_path / "killed").iterdir()}
    assert there == {path.name for path in (tmp_path / "straight").iterdir()}
