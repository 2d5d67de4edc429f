"""What keeps a GPU at work in training; tested without one.

On the device ``meta``, as on a GPU, the results of an operation are not there when it returns: any
code that would wait for them raises an error.
"""

from collections.abc import Callable
from contextlib import nullcontext
from itertools import islice

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from tests.train.test_trainer import (
    CONFIG,
    MODEL,
    PAIRS,
    assert_same_state,
    make_trainer,
    without_time,
)
from tfmr.data.batches import Batch, Batches, collate
from tfmr.dtype import Arithmetic
from tfmr.errors import TfmrError
from tfmr.later import STEPS_AHEAD
from tfmr.model import Transformer
from tfmr.special_tokens import PAD
from tfmr.train import loss as loss_module
from tfmr.train import trainer as trainer_module
from tfmr.train.loss import CHUNK_ROWS, LossModule, chunk_rows, round_shape
from tfmr.train.trainer import StepRecord, Trainer


def test_a_step_does_not_wait_for_its_results(monkeypatch: pytest.MonkeyPatch) -> None:
    started, read = [], []

    def pretend_to_copy(numbers: Tensor) -> Callable[[], list[float]]:
        step = len(started)
        started.append(step)
        return lambda: read.append((step, len(started))) or [1.0] * len(numbers)

    monkeypatch.setattr(trainer_module, "read_later", pretend_to_copy)
    # PyTorch's autocast does not know the device "meta".
    monkeypatch.setattr(Arithmetic, "autocast", lambda *_: nullcontext())
    monkeypatch.setattr(torch, "is_autocast_enabled", lambda *_: False)
    trainer = Trainer(Transformer(MODEL).to("meta"), Batches(PAIRS, 12, 0, 12), CONFIG)
    monkeypatch.setattr(trainer.optimizer, "step", lambda: None)  # rejects "meta", too
    curve = trainer.run(steps=9, on_step=lambda _: None, needs_model=lambda: False)
    assert [record.step for record in curve] == list(range(1, 10))
    assert [step for step, _ in read] == started
    assert read[0] == (0, STEPS_AHEAD + 1)  # the first numbers, after the start of four more steps


def test_records_that_are_read_later_are_the_same() -> None:
    at_once, later = make_trainer(), make_trainer()
    later._steps_ahead = STEPS_AHEAD
    at_step: list[tuple[int, int]] = []

    def note(record: StepRecord) -> None:
        at_step.append((record.step, later.steps_done))

    curve = later.run(steps=10, on_step=note, needs_model=lambda: later.steps_done == 6)
    assert without_time(curve) == without_time(at_once.run(steps=10))
    assert_same_state(at_once, later)
    # All records up to step 6 before step 7, because the model of step 6 is needed.
    assert at_step[:7] == [(1, 5), (2, 6), (3, 6), (4, 6), (5, 6), (6, 6), (7, 10)]


@pytest.mark.parametrize("steps_ahead", [0, STEPS_AHEAD])
def test_the_weights_before_a_divergence_remain(steps_ahead: int) -> None:
    trainer, before = make_trainer(ema_decay=0.0), make_trainer(ema_decay=0.0)
    trainer._steps_ahead = steps_ahead
    before.run(steps=3)

    def overflow(module: object, arguments: object, loss: Tensor) -> Tensor:
        return loss * (torch.inf if trainer.steps_done == 3 else 1)

    trainer.loss_module.register_forward_hook(overflow)
    with pytest.raises(TfmrError, match=r"step 4.*loss inf"):
        trainer.run(steps=20)
    assert trainer.steps_done == 3
    for weight, expected in zip(trainer.weights.values(), before.weights.values(), strict=True):
        assert torch.equal(weight, expected)


def test_an_epoch_has_few_shapes() -> None:
    generator = torch.Generator().manual_seed(0)
    lengths = torch.randint(2, 40, (400, 2), generator=generator).tolist()
    batches = Batches([([5] * s, [6] * t) for s, t in lengths], 400, 0, 42)

    def shapes(of: Callable[[Batch], Batch]) -> set[tuple[int, int]]:
        return {
            (batch.source.shape[1], batch.target_in.shape[1]) for batch in map(of, batches.epoch(0))
        }

    assert len(shapes(lambda batch: batch)) > 25
    rounded = shapes(lambda batch: batch.rounded(8, 16, 42))
    assert rounded <= {(s, t) for s in (8, 16, 24, 32, 40) for t in (8, 16, 24, 32, 40, 42)}
    assert all(len(batch.rounded(8, 16, 42).source) % 16 == 0 for batch in batches.epoch(0))


def test_more_padding_does_not_change_the_loss_or_its_gradients() -> None:
    """Neither on a CPU, where padding is left out, nor on a GPU, where it is computed."""
    model = Transformer(MODEL).eval()
    loss = LossModule(model, 0.1, Arithmetic("fp32"))
    weight = model.output.weight
    for batch in islice(Batches(PAIRS, 12, 0, 12).epoch(0), 3):
        more = round_shape(batch, 12)
        assert more.source.shape == more.target_out.shape == (16, 8)
        expected = loss(batch)
        gradients = torch.autograd.grad(expected, list(model.parameters()))
        x = model.hidden(more.source, more.target_in)
        target = more.target_out.flatten()
        counted = (target != PAD).float().unsqueeze(1)
        with_padding = loss_module._apply(x.flatten(0, 1), weight, target, 0.1, counted)
        for found in (loss(more), with_padding):
            assert_close(found, expected)
            others = torch.autograd.grad(found, list(model.parameters()))
            for gradient, other in zip(gradients, others, strict=True):
                assert_close(other, gradient)


def test_the_compiled_loss_is_the_same() -> None:
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(5, 7, generator=generator)
    arguments = (torch.tensor([[0], [6], [3], [3], [1]]), 0.1, torch.float32, True)
    compiled = torch.compile(loss_module.chunk_loss, backend="eager", fullgraph=True)
    for found, expected in zip(
        compiled(logits, *arguments), loss_module.chunk_loss(logits, *arguments), strict=True
    ):
        assert_close(found, expected)


def test_a_batch_longer_than_the_multiples_keeps_its_length() -> None:
    batch = collate([([5] * 11, [6] * 10)])
    assert (
        batch.rounded(8, 1, 12).source.shape[1] == batch.rounded(8, 1, 12).target_in.shape[1] == 12
    )
    assert batch.rounded(8, 1, 30).source.shape[1] == 16


def test_the_logits_that_are_held_at_the_same_time() -> None:
    assert chunk_rows(37_000, None) == CHUNK_ROWS == 256
    assert chunk_rows(37_000, 80 * 2**30) == 4836  # 2 GiB
    assert chunk_rows(37_000, 8 * 2**30) == 1209  # a sixteenth of 8 GiB
    assert chunk_rows(1_000_000, 2**30) == CHUNK_ROWS


def test_attention_is_not_computed_by_the_kernel_that_plans_each_shape() -> None:
    cuda = torch.backends.cuda
    assert cuda.cudnn_sdp_enabled()
    with Arithmetic("bf16").applied():
        assert not cuda.cudnn_sdp_enabled()
        assert cuda.flash_sdp_enabled()
        assert cuda.mem_efficient_sdp_enabled()
    assert cuda.cudnn_sdp_enabled()
