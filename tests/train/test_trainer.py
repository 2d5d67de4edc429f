"""The loop: it learns, repeats itself, goes on where it stopped, and stops when it diverges."""

import dataclasses
import math
import os
import signal
from itertools import islice
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.testing import assert_close

from tfmr.data.batches import Batches, collate
from tfmr.data.tokenizer import Tokenizer
from tfmr.decode import greedy_search
from tfmr.errors import TfmrError
from tfmr.model import Transformer, TransformerConfig
from tfmr.train import checkpoint
from tfmr.train.checkpoint import Checkpoint, named_weights
from tfmr.train.distributed import World
from tfmr.train.trainer import Step, TrainConfig, Trainer, clip_gradients, total_norm

MODEL = TransformerConfig(
    30, 30, d_model=32, n_heads=4, d_ff=64, n_encoder=1, n_decoder=1, dropout=0.1, max_length=12
)
PAIRS = [
    ([4 + n, 12 + n % 3, 15][: 1 + n % 3], [16 + n, 24 + n % 3, 27, 28][: 2 + n % 3])
    for n in range(8)
]
CONFIG = TrainConfig(peak_lr=3e-3, warmup=10, ema_decay=0.9, seed=3)


def trainer(seed: int = 3, dropout: float = 0.1, **changed: object) -> Trainer:
    torch.manual_seed(seed)
    model = Transformer(dataclasses.replace(MODEL, dropout=dropout))
    return Trainer(model, Batches(PAIRS, 12, 0, 12), dataclasses.replace(CONFIG, **changed))


def timeless(curve: list[Step]) -> list[Step]:
    return [dataclasses.replace(step, seconds=0.0) for step in curve]


def assert_same_state(one: Trainer, other: Trainer) -> None:
    (tensors, facts), (others, other_facts) = one.state(), other.state()
    assert tensors.keys() == others.keys()
    assert [name for name in tensors if not torch.equal(tensors[name], others[name])] == []
    assert {**facts, "seconds": 0} == {**other_facts, "seconds": 0}


def test_eight_pairs_are_learnt_by_heart() -> None:
    learning = trainer(dropout=0.0, label_smoothing=0.0)
    curve = learning.run(steps=150)
    assert curve[0].loss > 3
    assert curve[-1].loss < 0.05
    model = learning.averaged()
    for source, target in PAIRS:
        assert greedy_search(model, torch.tensor([source])) == [target]


def test_a_step_is_recorded_as_it_was() -> None:
    learning = trainer(dropout=0.0)
    (batch, *_) = learning.batches.epoch(0)
    before = {name: weight.clone() for name, weight in named_weights(learning.model).items()}
    step = learning.step(batch)
    assert (step.step, step.rate, step.tokens) == (1, pytest.approx(3e-4), batch.n_tokens)
    assert step.seconds > 0
    after = named_weights(learning.model)
    assert step.weight_norm == pytest.approx(
        math.sqrt(sum(float(weight.square().sum()) for weight in after.values()))
    )
    # Adam's first step moves every number with a gradient by the rate.
    moves = torch.cat([(after[name] - before[name]).abs().flatten() for name in after])
    assert moves.max().item() == pytest.approx(3e-4, rel=1e-3)
    assert step.gradient_norm > CONFIG.clip
    gradients = [p.grad for p in learning.model.parameters()]
    assert total_norm(gradients).item() == pytest.approx(CONFIG.clip, rel=1e-4)


def test_the_optimiser_is_the_papers() -> None:
    (group,) = trainer().optimizer.param_groups
    assert isinstance(trainer().optimizer, torch.optim.Adam)
    assert (group["betas"], group["eps"], group["weight_decay"]) == ((0.9, 0.98), 1e-9, 0)
    assert TrainConfig().label_smoothing == 0.1


def test_the_rate_follows_the_schedule() -> None:
    curve = trainer().run(steps=40)
    wanted = [3e-3 * min(n / 10, math.sqrt(10 / n)) for n in range(1, 41)]
    assert [step.rate for step in curve] == pytest.approx(wanted)


@pytest.mark.parametrize("scale", [0.01, 100.0])
def test_clipping_equals_torch(scale: float) -> None:
    torch.manual_seed(0)
    models = []
    for _ in range(2):
        torch.manual_seed(0)
        module = nn.Sequential(nn.Linear(5, 7), nn.Linear(7, 3), nn.Linear(3, 3))
        (module[:2](torch.randn(4, 5)) * scale).square().sum().backward()  # the last has none
        models.append(module)
    norm = clip_gradients(models[0], 1.0)
    expected = nn.utils.clip_grad_norm_(models[1].parameters(), 1.0)
    assert_close(norm, expected)
    for ours, theirs in zip(*(module.parameters() for module in models), strict=True):
        assert_close(ours.grad, theirs.grad)


def test_the_average_equals_its_closed_form() -> None:
    learning = trainer(ema_decay=0.5)
    name = "decoder.blocks.0.feed_forward.expand.weight"
    weights = [named_weights(learning.model)[name].clone()]
    for _ in range(13):
        learning.run(steps=learning.steps_done + 1)
        weights.append(named_weights(learning.model)[name].clone())
    mean = weights[0]
    for n in range(1, 14):
        decay = min(0.5, n / (n + 10))
        mean = decay * mean + (1 - decay) * weights[n]
    assert_close(learning.mean[name], mean)
    assert_close(named_weights(learning.averaged())[name], mean)
    assert torch.equal(named_weights(learning.model)[name], weights[-1])


def test_without_averaging_the_weights_themselves_are_kept() -> None:
    learning = trainer(ema_decay=0.0)
    learning.run(steps=3)
    weights = named_weights(learning.averaged())
    assert all(torch.equal(weights[n], w) for n, w in named_weights(learning.model).items())
    assert not learning.averaged().training


def test_the_same_seed_gives_the_same_weights_and_another_does_not() -> None:
    one = trainer()
    curve = timeless(one.run(steps=20))
    again = trainer()
    assert timeless(again.run(steps=20)) == curve
    assert_same_state(one, again)
    other = trainer(seed=4)
    assert timeless(other.run(steps=20)) != curve


def test_every_epoch_shows_every_pair_once() -> None:
    learning, seen = trainer(), []
    per_epoch = learning.batches.count()
    for (batch,), epoch, done in islice(learning.upcoming(), per_epoch):
        seen.append(batch.source.shape[0])
        assert (epoch, done) == (0, len(seen))
    assert sum(seen) == len(PAIRS)
    learning.run(steps=per_epoch + 1)
    assert (learning.epoch, learning.batches_done) == (1, 1)


def test_batches_learnt_from_in_turn_are_one_step_on_all_of_them() -> None:
    """In doubles, to 1e-12; a batch of few tokens must not count as much as one of many."""
    parts = [PAIRS[:2], PAIRS[2:7], PAIRS[7:]]
    tokens = [collate(part).n_tokens for part in parts]
    assert max(tokens) > 2 * min(tokens)
    joint, turns = trainer(dropout=0.0), trainer(dropout=0.0, grad_accum_steps=3)
    apart = []
    for part in parts:
        alone = trainer(dropout=0.0)
        alone.model.double()
        apart.append(alone.step(collate(part)).loss)
    for training in (joint, turns):
        training.model.double()
    expected = joint.step(collate(PAIRS))
    step = turns.step(*map(collate, parts))
    assert step.tokens == expected.tokens == sum(tokens)
    for name in ("loss", "gradient_norm", "weight_norm"):
        assert getattr(step, name) == pytest.approx(getattr(expected, name), rel=1e-12)
    weighted = sum(n * loss for n, loss in zip(tokens, apart, strict=True)) / sum(tokens)
    assert step.loss == pytest.approx(weighted, rel=1e-12)
    assert abs(step.loss - sum(apart) / 3) > 1e-3  # what equal weights would give
    gradients = [p.grad for p in turns.model.parameters()]
    assert_close(gradients, [p.grad for p in joint.model.parameters()], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(("accumulate", "size"), [(1, 2), (2, 2), (3, 1), (5, 3)])
def test_the_processes_share_all_batches_of_every_epoch(accumulate: int, size: int) -> None:
    """Together, from any point on, they see what one process sees alone, each batch once."""
    alone = trainer()
    n, start = alone.batches.count(), 2
    steps = 7
    wanted = [batch for k in range(40) for batch in alone.batches.epoch(k)]
    worlds = [trainer(grad_accum_steps=accumulate) for _ in range(size)]
    turns = []
    for rank, training in enumerate(worlds):
        training.world = World(rank=rank, size=size)
        training.batches_done = start
        turns.append(list(islice(training.upcoming(), steps)))
    for number, shares in enumerate(zip(*turns, strict=True), start=1):
        seen = [share[0][turn] for turn in range(accumulate) for share in shares]
        end = start + number * accumulate * size
        for batch, other in zip(seen, wanted[end - len(seen) : end], strict=True):
            assert torch.equal(batch.source, other.source)
            assert torch.equal(batch.target_out, other.target_out)
        for _, epoch, done in shares:
            assert epoch * n + done == end
            assert 0 < done <= n


@settings(max_examples=10, deadline=None)
@given(
    stops=st.lists(st.integers(1, 13), max_size=3, unique=True),
    grad_accum_steps=st.integers(1, 4),
    precision=st.sampled_from(["fp32", "bf16"]),
)
def test_wherever_it_stops_it_goes_on_as_if_it_had_not(
    stops: list[int], accumulate: int, precision: str
) -> None:
    changed = {"accumulate": accumulate, "precision": precision}
    straight = trainer(dropout=0.3, **changed)
    curve = straight.run(steps=14)
    assert straight.epoch >= 2
    training, begun = trainer(dropout=0.3, **changed), []
    for number, stop in enumerate(sorted(stops)):
        begun += training.run(steps=stop)
        state = training.state()
        training.run(steps=stop + 1)  # what is done after the state was taken is forgotten
        training = trainer(seed=50 + number, dropout=0.3, **changed)
        training.restore(*state)
    begun += training.run(steps=14)
    assert timeless(begun) == timeless(curve)
    assert_same_state(training, straight)


@pytest.mark.parametrize("stop", [1, 15])
@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_going_on_from_a_file_equals_never_having_stopped(
    tmp_path: Path, dropout: float, stop: int
) -> None:
    straight = trainer(dropout=dropout)
    curve = straight.run(steps=30)

    first = trainer(dropout=dropout)
    begun = first.run(steps=stop)
    tensors, facts = first.state()
    vocabulary = Tokenizer("words", [f"w{n}" for n in range(26)])
    checkpoint.save(
        tmp_path / "run",
        Checkpoint(first.model.config, vocabulary, named_weights(first.model), tensors, facts),
    )
    del first
    torch.manual_seed(99)

    saved = checkpoint.load(tmp_path / "run")
    second = trainer(seed=77, dropout=dropout)
    second.restore(saved.state, saved.facts)
    rest = second.run(steps=30)
    assert timeless(begun + rest) == timeless(curve)
    assert second.seconds > saved.facts["seconds"]
    for name, weight in named_weights(straight.model).items():
        assert torch.equal(named_weights(second.model)[name], weight)
        assert torch.equal(second.mean[name], straight.mean[name])


def test_random_numbers_drawn_between_two_steps_change_nothing() -> None:
    one, other = trainer(dropout=0.3), trainer(dropout=0.3)
    one.run(steps=8)
    other.run(steps=8, on_step=lambda _: torch.rand(3))
    assert_same_state(one, other)


def test_every_batch_has_its_own_random_numbers() -> None:
    learning = trainer(dropout=0.3, peak_lr=1e-30, grad_accum_steps=2)
    (batch, *_) = learning.batches.epoch(0)
    losses = {learning.step(batch).loss for _ in range(5)}
    assert len(losses) == 5
    both = [trainer(dropout=0.3).step(batch).loss, trainer(dropout=0.3).step(batch, batch).loss]
    assert both[0] != pytest.approx(both[1])


def test_a_state_that_lacks_something() -> None:
    tensors, facts = trainer().state()  # before the first step Adam has no moments
    with pytest.raises(TfmrError, match=r"lacks 'adam\.step\..*made to translate with"):
        trainer().restore(tensors, facts)


def test_an_interrupted_step_is_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    straight, broken = trainer(dropout=0.0), trainer(dropout=0.0)
    straight.run(steps=6)
    broken.run(steps=2)
    plain = broken.step
    monkeypatch.setattr(broken, "step", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        broken.run(steps=6)
    monkeypatch.setattr(broken, "step", plain)
    broken.run(steps=6)
    assert_same_state(straight, broken)


def test_ctrl_c_lets_the_step_end(monkeypatch: pytest.MonkeyPatch) -> None:
    straight, broken = trainer(), trainer()
    straight.run(steps=6)
    plain = broken.optimizer.step

    def press() -> None:
        if broken.steps_done == 3:
            os.kill(os.getpid(), signal.SIGINT)
        plain()

    monkeypatch.setattr(broken.optimizer, "step", press)
    with pytest.raises(KeyboardInterrupt):
        broken.run(steps=6)
    assert broken.steps_done == 4
    broken.run(steps=6)
    assert_same_state(straight, broken)


def test_divergence_is_an_error_and_leaves_the_weights_alone() -> None:
    learning = trainer(peak_lr=1e30)
    before = {}

    def remember(_: Step) -> None:
        before.update({name: w.clone() for name, w in named_weights(learning.model).items()})

    with pytest.raises(TfmrError, match=r"diverged at step \d+: loss .*lower peak_lr") as error:
        learning.run(steps=50, on_step=remember)
    assert "\n" not in str(error.value)
    assert before
    for name, weight in named_weights(learning.model).items():
        assert torch.equal(weight, before[name])


def test_time_is_a_limit_too() -> None:
    learning = trainer()
    learning.run(seconds=0.2)
    assert learning.seconds >= 0.2
    done = learning.steps_done
    assert learning.run(seconds=0.2, steps=1000) == []
    assert learning.steps_done == done
    with pytest.raises(TfmrError, match="say when to stop"):
        learning.run()


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"peak_lr": 0.0}, "peak_lr must be positive: got 0.0"),
        ({"warmup": 0}, "at least one step: got 0"),
        ({"clip": 0.0}, "gradient norm must be positive: got 0.0"),
        ({"label_smoothing": 1.0}, r"label_smoothing lies in \[0, 1\): got 1.0"),
        ({"ema_decay": -0.1}, r"ema_decay lies in \[0, 1\): got -0.1"),
        ({"accumulate": 0}, "at least one batch: got 0"),
        ({"betas": (0.9, 1.0)}, r"decay rates lie in \[0, 1\): got \[0.9, 1.0\]"),
        ({"eps": -1.0}, "eps must not be negative: got -1.0"),
        ({"seed": 2**64}, "a seed lies in 0 … 2\\^63 - 1: got 18446744073709551616"),
        ({"precision": "fp16"}, "one of auto, fp32, bf16: got 'fp16'"),
    ],
)
def test_a_setting_out_of_range(unchecked: None, changed: dict, message: str) -> None:
    with pytest.raises(TfmrError, match=message):
        TrainConfig(**changed)
