"""One training step, the loop over steps, resuming, precision and compilation."""

import dataclasses
import json
import math
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import nullcontext
from itertools import islice, product
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.testing import assert_close

import tfmr
from tfmr.checkpoint import named_weights
from tfmr.config import TransformerConfig
from tfmr.data.batches import Batches, collate
from tfmr.decode import greedy_search
from tfmr.dtype import Arithmetic, Units
from tfmr.errors import TfmrError
from tfmr.model import Transformer
from tfmr.train import trainer as trainer_module
from tfmr.train.config import TrainConfig
from tfmr.train.distributed import World
from tfmr.train.trainer import StepRecord, Trainer, compile_blocks
from tfmr.translator import Translator

ROOT = Path(tfmr.__file__).parent.parent
MODEL = TransformerConfig(
    **{"source_vocab": 30, "target_vocab": 30, "d_model": 32, "n_heads": 4, "d_ff": 64},
    **{"n_encoder": 1, "n_decoder": 1, "dropout": 0.1, "max_length": 12},
)
PAIRS = [
    ([4 + n, 12 + n % 3, 15][: 1 + n % 3], [16 + n, 24 + n % 3, 27, 28][: 2 + n % 3])
    for n in range(8)
]
CONFIG = TrainConfig(peak_lr=3e-3, warmup=10, ema_decay=0.9, seed=3)


def make_trainer(seed: int = 3, dropout: float = 0.1, **changes: object) -> Trainer:
    torch.manual_seed(seed)
    model = Transformer(dataclasses.replace(MODEL, dropout=dropout))
    return Trainer(model, Batches(PAIRS, 12, 0, 12), dataclasses.replace(CONFIG, **changes))


def without_time(curve: list[StepRecord]) -> list[StepRecord]:
    return [dataclasses.replace(record, seconds=0.0) for record in curve]


def assert_same_state(one: Trainer, other: Trainer) -> None:
    (tensors, progress), (expected, expected_progress) = one.state_dict(), other.state_dict()
    assert tensors.keys() == expected.keys()
    assert [name for name in tensors if not torch.equal(tensors[name], expected[name])] == []
    assert {**progress, "seconds": 0} == {**expected_progress, "seconds": 0}


def test_overfits_eight_pairs() -> None:
    trainer = make_trainer(dropout=0.0, label_smoothing=0.0)
    curve = trainer.run(steps=150)
    assert curve[0].loss > 3
    assert curve[-1].loss < 0.05
    model = trainer.averaged_model()
    for source, target in PAIRS:
        assert greedy_search(model, torch.tensor([source])) == [target]


def test_record_and_effect_of_one_step() -> None:
    trainer = make_trainer(dropout=0.0)
    batch = next(trainer.batches.epoch(0))
    before = {name: weight.clone() for name, weight in named_weights(trainer.model).items()}
    record = trainer.step(batch)
    assert (record.step, record.tokens) == (1, batch.n_tokens)
    assert record.learning_rate == pytest.approx(3e-4)
    assert record.seconds > 0
    after = named_weights(trainer.model)
    assert record.weight_norm == pytest.approx(
        math.sqrt(sum(float(weight.square().sum()) for weight in after.values()))
    )
    # Adam's first step changes every weight that has a gradient by the learning rate.
    changes = torch.cat([(after[name] - before[name]).abs().flatten() for name in after])
    assert changes.max().item() == pytest.approx(3e-4, rel=1e-3)
    assert record.grad_norm > CONFIG.max_grad_norm
    gradients = torch.cat([p.grad.flatten() for p in trainer.model.parameters()])
    assert gradients.norm().item() == pytest.approx(CONFIG.max_grad_norm, rel=1e-4)


def test_optimizer_and_schedule_are_those_of_the_paper() -> None:
    trainer = make_trainer()
    curve = trainer.run(steps=40)
    expected = [3e-3 * min(n / 10, math.sqrt(10 / n)) for n in range(1, 41)]
    assert [record.learning_rate for record in curve] == pytest.approx(expected)
    (group,) = trainer.optimizer.param_groups
    assert isinstance(trainer.optimizer, torch.optim.Adam)
    assert group["lr"] == curve[-1].learning_rate
    assert (group["betas"], group["eps"], group["weight_decay"]) == ((0.9, 0.98), 1e-9, 0)


def test_ema_equals_its_closed_form() -> None:
    trainer = make_trainer(ema_decay=0.5)
    name = "decoder.blocks.0.feed_forward.expand.weight"
    weights = [named_weights(trainer.model)[name].clone()]
    for n in range(1, 14):
        trainer.run(steps=n)
        weights.append(named_weights(trainer.model)[name].clone())
    ema = weights[0]
    for n in range(1, 14):
        decay = min(0.5, n / (n + 10))
        ema = decay * ema + (1 - decay) * weights[n]
    assert_close(trainer.ema[name], ema)
    assert_close(named_weights(trainer.averaged_model())[name], ema)
    assert torch.equal(named_weights(trainer.model)[name], weights[-1])


def test_averaged_model_without_ema_has_the_weights_themselves() -> None:
    trainer = make_trainer(ema_decay=0.0)
    trainer.run(steps=3)
    model, weights = trainer.averaged_model(), named_weights(trainer.model)
    assert all(torch.equal(w, weights[n]) for n, w in named_weights(model).items())
    assert not model.training


def test_the_seed_determines_the_run() -> None:
    one, same, other = make_trainer(), make_trainer(), make_trainer(seed=4)
    curve = without_time(one.run(steps=20))
    assert without_time(same.run(steps=20)) == curve
    assert_same_state(one, same)
    assert without_time(other.run(steps=20)) != curve


def test_each_epoch_has_every_pair_once() -> None:
    trainer, rows = make_trainer(), []
    per_epoch = trainer.batches.count()
    for (batch,), epoch, done in islice(trainer.upcoming_batches(), per_epoch):
        rows.append(batch.source.shape[0])
        assert (epoch, done) == (0, len(rows))
    assert sum(rows) == len(PAIRS)
    trainer.run(steps=per_epoch + 1)
    assert (trainer.epoch, trainer.batches_done) == (1, 1)


def test_gradient_accumulation_equals_one_large_batch() -> None:
    """In float64, to 1e-12; every token must have the same weight, whatever its batch."""
    parts = [PAIRS[:2], PAIRS[2:7], PAIRS[7:]]
    tokens = [collate(part).n_tokens for part in parts]
    assert max(tokens) > 2 * min(tokens)
    separate, joint, accumulated = [], make_trainer(dropout=0.0), make_trainer(dropout=0.0)
    for part in parts:
        trainer = make_trainer(dropout=0.0)
        trainer.model.double()
        separate.append(trainer.step(collate(part)).loss)
    for trainer in (joint, accumulated):
        trainer.model.double()
    expected = joint.step(collate(PAIRS))
    record = accumulated.step(*map(collate, parts))
    assert record.tokens == expected.tokens == sum(tokens)
    for name in ("loss", "grad_norm", "weight_norm"):
        assert getattr(record, name) == pytest.approx(getattr(expected, name), rel=1e-12)
    weighted = sum(n * loss for n, loss in zip(tokens, separate, strict=True)) / sum(tokens)
    assert record.loss == pytest.approx(weighted, rel=1e-12)
    assert abs(record.loss - sum(separate) / 3) > 1e-3, "equal weights would give another loss"
    gradients = [p.grad for p in accumulated.model.parameters()]
    assert_close(gradients, [p.grad for p in joint.model.parameters()], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(("grad_accum_steps", "size"), [(1, 2), (1, 3), (2, 4), (3, 1), (5, 3)])
def test_processes_divide_the_batches_of_every_epoch(grad_accum_steps: int, size: int) -> None:
    """From any position on, all processes together train on each batch once, in order.

    Three processes tell the next epoch's first batch apart from its mirror image.
    """
    all_batches = Batches(PAIRS, 9, 0, 12)
    count, start = all_batches.count(), 2
    assert math.gcd(count, 3) == 1
    sequence = [batch for k in range(60) for batch in all_batches.epoch(k)]
    processes, steps = [], 3 * count
    for rank in range(size):
        trainer = make_trainer(grad_accum_steps=grad_accum_steps)
        trainer.batches, trainer.world = all_batches, World(rank=rank, size=size)
        trainer.batches_done = start
        processes.append(list(islice(trainer.upcoming_batches(), steps)))
    for number, items in enumerate(zip(*processes, strict=True), start=1):
        batches = [item[0][index] for index in range(grad_accum_steps) for item in items]
        end = start + number * grad_accum_steps * size
        for batch, expected in zip(batches, sequence[end - len(batches) : end], strict=True):
            assert torch.equal(batch.source, expected.source)
            assert torch.equal(batch.target_out, expected.target_out)
        for _, epoch, done in items:
            assert epoch * count + done == end
            assert 0 < done <= count


@settings(max_examples=10)
@given(
    stops=st.lists(st.integers(1, 13), max_size=3, unique=True),
    grad_accum_steps=st.integers(1, 4),
    precision=st.sampled_from(["fp32", "bf16"]),
)
def test_resumed_run_is_bit_identical(
    stops: list[int], grad_accum_steps: int, precision: str
) -> None:
    changes = {"grad_accum_steps": grad_accum_steps, "precision": precision}
    uninterrupted = make_trainer(dropout=0.3, **changes)
    expected = uninterrupted.run(steps=14)
    assert uninterrupted.epoch >= 2
    trainer, curve = make_trainer(dropout=0.3, **changes), []
    for number, stop in enumerate(sorted(stops)):
        curve += trainer.run(steps=stop)
        state = trainer.state_dict()
        trainer.run(steps=stop + 1)  # steps after state_dict must not change it
        trainer = make_trainer(seed=50 + number, dropout=0.3, **changes)
        trainer.load_state_dict(*state)
    curve += trainer.run(steps=14)
    assert without_time(curve) == without_time(expected)
    assert_same_state(trainer, uninterrupted)


def test_steps_after_loading_do_not_change_the_loaded_state() -> None:
    trainer = make_trainer()
    trainer.run(steps=2)
    tensors, progress = trainer.state_dict()
    before = {name: tensor.clone() for name, tensor in tensors.items()}
    other = make_trainer()
    other.load_state_dict(tensors, progress)
    other.run(steps=3)
    assert_close(tensors, before, atol=0, rtol=0)


def test_incomplete_state_is_an_error() -> None:
    state = make_trainer().state_dict()  # Adam has no moments before the first step
    with pytest.raises(TfmrError, match=r"adam\.\S+, which is missing"):
        make_trainer().load_state_dict(*state)


def changed(tensor: Tensor, number: float) -> Tensor:
    changed = tensor.clone()
    changed.view(-1)[-1] = number
    return changed


DAMAGES: list[Callable[[Tensor], Tensor]] = [
    *(lambda x: x.double(), lambda x: x.half(), lambda x: x.long(), lambda x: x[..., None]),
    *(lambda x: x.reshape(-1)[:1].repeat(3), lambda x: changed(x, -math.inf)),
    lambda x: changed(x, math.nan),
]


@pytest.mark.parametrize(
    ("kind", "damage"),
    [
        *(("adam.exp_avg", damage) for damage in DAMAGES),
        *product(["weight", "ema", "adam.exp_avg_sq", "adam.step"], DAMAGES[3:]),
    ],
)
def test_a_damaged_state_is_rejected_before_anything_changes(
    kind: str, damage: Callable[[Tensor], Tensor]
) -> None:
    """An optimiser that gets a moment of another shape can end the process."""
    saved, trainer = make_trainer(), make_trainer(seed=4)
    saved.run(steps=2)
    trainer.run(steps=1)
    tensors, progress = saved.state_dict()
    before, _ = trainer.state_dict()
    name = [name for name in tensors if name.startswith(f"{kind}.")][-1]
    with pytest.raises(TfmrError, match=name):
        trainer.load_state_dict(tensors | {name: damage(tensors[name])}, progress)
    after, _ = trainer.state_dict()
    assert all(torch.equal(after[name], tensor) for name, tensor in before.items())
    assert trainer.steps_done == 1


@pytest.mark.parametrize(
    "changes",
    [
        *({"step": -1}, {"step": 2.5}, {"step": None}, {"epoch": "1"}, {"seconds": math.nan}),
        *({"seconds": math.inf}, {"batches_done": True}),
    ],
)
def test_a_damaged_progress_is_rejected(changes: dict[str, object]) -> None:
    trainer = make_trainer()
    trainer.run(steps=2)
    tensors, progress = trainer.state_dict()
    with pytest.raises(TfmrError, match=next(iter(changes))):
        trainer.load_state_dict(tensors, progress | changes)
    with pytest.raises(TfmrError, match="seconds"):
        trainer.load_state_dict(tensors, {"step": 2, "epoch": 0, "batches_done": 1})


def test_steps_neither_use_nor_change_the_global_generator() -> None:
    one, other = make_trainer(dropout=0.3), make_trainer(dropout=0.3)
    one.run(steps=8)
    other.run(steps=8, on_step=lambda _: torch.rand(3))
    assert_same_state(one, other)
    before = torch.get_rng_state()
    one.run(steps=10)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_steps_on_a_gpu_do_not_change_its_global_generator() -> None:
    model = Transformer(dataclasses.replace(MODEL, dropout=0.3)).to("cuda")
    trainer = Trainer(model, Batches(PAIRS, 12, 0, 12), CONFIG)
    before = torch.cuda.get_rng_state()
    losses = {trainer.run(steps=n)[0].loss for n in (1, 2)}
    assert len(losses) == 2
    assert torch.equal(torch.cuda.get_rng_state(), before)


def test_each_batch_has_its_own_dropout() -> None:
    trainer = make_trainer(dropout=0.3, peak_lr=1e-30, grad_accum_steps=2)
    batch = next(trainer.batches.epoch(0))
    assert len({trainer.step(batch).loss for _ in range(5)}) == 5
    once = make_trainer(dropout=0.3).step(batch).loss
    twice = make_trainer(dropout=0.3).step(batch, batch).loss
    assert once != pytest.approx(twice)


def test_failed_step_is_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    uninterrupted, trainer = make_trainer(dropout=0.0), make_trainer(dropout=0.0)
    uninterrupted.run(steps=6)
    trainer.run(steps=2)
    with monkeypatch.context() as patch:
        patch.setattr(trainer, "start_step", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            trainer.run(steps=6)
    trainer.run(steps=6)
    assert_same_state(uninterrupted, trainer)


def test_the_end_of_the_launcher_takes_effect_after_the_step() -> None:
    for launcher, steps in ((0, 4), (os.getppid(), 4), (os.getppid() + 1, 1)):
        trainer = make_trainer()
        trainer.world = World(launcher=launcher)
        with pytest.raises(KeyboardInterrupt) if steps == 1 else nullcontext():
            trainer.run(steps=4)
        assert trainer.steps_done == steps
        assert trainer.between_steps


def test_ctrl_c_takes_effect_after_the_step(monkeypatch: pytest.MonkeyPatch) -> None:
    uninterrupted, trainer = make_trainer(), make_trainer()
    uninterrupted.run(steps=6)
    optimizer_step = trainer.optimizer.step

    def press_ctrl_c() -> None:
        if trainer.steps_done == 3:
            os.kill(os.getpid(), signal.SIGINT)
        optimizer_step()

    monkeypatch.setattr(trainer.optimizer, "step", press_ctrl_c)
    with pytest.raises(KeyboardInterrupt):
        trainer.run(steps=6)
    assert trainer.steps_done == 4
    assert trainer.between_steps
    trainer.run(steps=6)
    assert_same_state(uninterrupted, trainer)


def test_divergence_is_an_error_and_leaves_the_weights_unchanged() -> None:
    trainer = make_trainer(peak_lr=1e30)
    before = {}

    def copy_weights(_: StepRecord) -> None:
        before.update({name: w.clone() for name, w in named_weights(trainer.model).items()})

    with pytest.raises(TfmrError, match=r"diverged.*step \d+.*loss .*lower peak_lr"):
        trainer.run(steps=50, on_step=copy_weights)
    assert before
    for name, weight in named_weights(trainer.model).items():
        assert torch.equal(weight, before[name])


def test_limits_of_a_run() -> None:
    trainer = make_trainer()
    trainer.run(seconds=0.2)
    assert trainer.seconds >= 0.2
    done = trainer.steps_done
    assert trainer.run(seconds=0.2, steps=1000) == []
    assert trainer.steps_done == done
    with pytest.raises(TfmrError, match="pass steps, seconds, or both"):
        trainer.run()


def test_bf16_training_is_close_to_fp32() -> None:
    """bf16 has 8 bits of mantissa: each loss differs by at most 2 % from fp32, over ten steps."""
    fp32, bf16 = make_trainer(precision="fp32"), make_trainer(precision="bf16")
    dtypes: list[torch.dtype] = []

    def record_dtype(_: nn.Module, __: tuple[Tensor, ...], output: Tensor) -> None:
        dtypes.append(output.dtype)

    bf16.model.encoder.blocks[0].feed_forward.expand.register_forward_hook(record_dtype)
    curves = [trainer.run(steps=10) for trainer in (fp32, bf16)]
    assert set(dtypes) == {torch.bfloat16}
    for exact, rounded in zip(*curves, strict=True):
        assert rounded.loss == pytest.approx(exact.loss, rel=0.02)
        assert rounded.grad_norm == pytest.approx(exact.grad_norm, rel=0.1)
    assert [record.loss for record in curves[0]] != [record.loss for record in curves[1]]
    tensors, _ = bf16.state_dict()
    assert {tensor.dtype for tensor in tensors.values()} == {torch.float32}
    assert all(p.grad is not None and p.grad.isfinite().all() for p in bf16.model.parameters())


def test_bf16_needs_a_device_that_supports_it() -> None:
    model = Transformer(MODEL).to("meta")
    with pytest.raises(TfmrError, match=r"bf16 needs a device .*meta"):
        Trainer(model, Batches(PAIRS, 12, 0, 12), TrainConfig(precision="bf16"))


def test_compiled_blocks_train_identically_without_graph_breaks() -> None:
    """In a separate process: the shape checks of these tests cannot be compiled."""
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("worker.py")), "compile"],
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["breaks"] == {}
    assert json.loads(done.stdout)["graphs"] >= 2


def test_only_transformers_can_be_compiled() -> None:
    class Empty(Translator):
        pass

    with pytest.raises(TfmrError, match=r"Transformer blocks, and Empty has none: train it"):
        compile_blocks(Empty())


AMX = Units(torch.device("cpu"), bf16=True, avx512=True, amx=True)
AVX512 = Units(torch.device("cpu"), avx512=True)


@pytest.mark.parametrize(("units", "setting"), [(AMX, "highest"), (AVX512, "medium")])
def test_a_step_uses_the_setting_of_the_machine_and_restores_it(
    monkeypatch: pytest.MonkeyPatch, units: Units, setting: str
) -> None:
    monkeypatch.setattr(trainer_module, "find_units", lambda device: units)
    trainer = make_trainer(precision="fp32")
    found: list[str] = []
    layer = trainer.model.encoder.blocks[0].feed_forward.expand
    layer.register_forward_hook(lambda *_: found.append(torch.get_float32_matmul_precision()))
    layer.weight.register_hook(lambda _: found.append(torch.get_float32_matmul_precision()))
    with Arithmetic("tf32", "high").applied():
        trainer.run(steps=1)
        assert torch.get_float32_matmul_precision() == "high"
    assert found == [setting, setting]


def forbidden(*_: object, **__: object) -> None:
    raise AssertionError("not needed here")


def test_a_model_is_copied_for_its_average(monkeypatch: pytest.MonkeyPatch) -> None:
    trainer = make_trainer()
    trainer.run(steps=2)
    with monkeypatch.context() as patch:
        patch.setattr(Transformer, "__init__", forbidden)
        model = trainer.averaged_model()
    weights = named_weights(model)
    assert all(torch.equal(weights[name], ema) for name, ema in trainer.ema.items())


def test_a_sharded_model_is_built_anew_for_its_average(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sharded modules cannot be copied. Here the process is alone and its shard is everything."""
    trainer = make_trainer()
    trainer.run(steps=2)
    trainer.config = dataclasses.replace(trainer.config, fsdp=True)
    trainer.world = World(1, 2)
    before = torch.get_rng_state()
    with monkeypatch.context() as patch:
        patch.setattr(trainer_module.copy, "deepcopy", forbidden)
        model = trainer.averaged_model()
    assert torch.equal(torch.get_rng_state(), before)
    weights = named_weights(model)
    assert all(torch.equal(weights[name], ema) for name, ema in trainer.ema.items())
    assert trainer.state_dict()[0] == {}, "the main process holds the gathered state"
    trainer.world = World(0, 2)
    assert trainer.state_dict()[0].keys() >= {f"ema.{name}" for name in trainer.ema}
