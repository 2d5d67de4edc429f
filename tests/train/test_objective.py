"""The objective: in bf16 nearly what it is in fp32, and the same compiled."""

import dataclasses
import json
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import tfmr
from tfmr.data.batches import Batches, collate
from tfmr.errors import TfmrError
from tfmr.model import Transformer, TransformerConfig
from tfmr.train.config import TrainConfig
from tfmr.train.loss import cross_entropy_naive
from tfmr.train.objective import Objective, compile_blocks
from tfmr.train.trainer import Trainer
from tfmr.translator import Translator

ROOT = Path(tfmr.__file__).parent.parent
MODEL = TransformerConfig(
    30, 30, d_model=32, n_heads=4, d_ff=64, n_encoder=1, n_decoder=1, dropout=0.1, max_length=12
)
PAIRS = [([4 + n, 12 + n % 3, 15][: 1 + n % 3], [16 + n, 24 + n % 3, 27]) for n in range(8)]


def trainer(precision: str) -> Trainer:
    torch.manual_seed(0)
    config = TrainConfig(warmup=10, precision=precision)
    return Trainer(Transformer(MODEL), Batches(PAIRS, 12, 0, 12), config)


def test_it_is_the_loss_of_the_models_scores() -> None:
    model = Transformer(MODEL).eval()
    batch = collate(PAIRS)
    expected = cross_entropy_naive(model(batch.source, batch.target_in), batch.target_out, 0.1)
    torch.testing.assert_close(Objective(model, 0.1)(batch), expected)


def test_bf16_trains_nearly_as_fp32_does() -> None:
    """Eight bits of mantissa: each loss within 2 % of that in fp32, over ten steps."""
    exact, quick = trainer("fp32"), trainer("bf16")
    seen: list[torch.dtype] = []

    def note(_: nn.Module, __: tuple[Tensor, ...], output: Tensor) -> None:
        seen.append(output.dtype)

    quick.model.encoder.blocks[0].feed_forward.expand.register_forward_hook(note)
    curves = [training.run(steps=10) for training in (exact, quick)]
    assert set(seen) == {torch.bfloat16}
    for one, other in zip(*curves, strict=True):
        assert other.loss == pytest.approx(one.loss, rel=0.02)
        assert other.gradient_norm == pytest.approx(one.gradient_norm, rel=0.1)
        assert math.isfinite(other.gradient_norm)
    assert [step.loss for step in curves[0]] != [step.loss for step in curves[1]]
    tensors, _ = quick.state()
    assert {tensor.dtype for tensor in tensors.values()} == {torch.float32}
    assert all(p.grad is not None and p.grad.isfinite().all() for p in quick.model.parameters())


def test_bf16_on_a_device_that_has_it_not_is_refused() -> None:
    model = Transformer(MODEL).to("meta")
    with pytest.raises(TfmrError, match="bf16 needs a device that computes in it, and meta"):
        Trainer(model, Batches(PAIRS, 12, 0, 12), TrainConfig(precision="bf16"))


def test_compiled_blocks_do_the_same_in_one_piece_each(tmp_path: Path) -> None:
    """In a process of its own: what checks the shapes in these tests cannot be compiled."""
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("worker.py")), str(tmp_path), "compile"],
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["breaks"] == {}
    assert json.loads(done.stdout)["graphs"] >= 2


def test_a_model_without_blocks_is_not_compiled() -> None:
    class Empty(Translator):
        pass

    with pytest.raises(TfmrError, match="blocks of a Transformer and a Empty has none: train it"):
        compile_blocks(Empty())


def test_compile_and_shard_exclude_each_other() -> None:
    with pytest.raises(TfmrError, match="choose compile or shard"):
        dataclasses.replace(TrainConfig(), compile=True, fsdp=True)
