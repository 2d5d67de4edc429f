"""Stacks that differ in their connections only, and their training."""

import dataclasses
import math
from pathlib import Path

import pytest
import torch

from benchmarks import depth
from benchmarks.record import read
from tfmr.encoder import Encoder

TINY = depth.Experiment(stacks=("plain", "pre-norm"), blocks=1, peak_lrs=(1e-3, 1e-2), steps=12)


def stack_of(task: type[depth.Stack], name: str, n_blocks: int, seed: int = 0) -> depth.Stack:
    torch.manual_seed(seed)
    return task(name, n_blocks, matched=True)


@pytest.mark.parametrize("task", [depth.Addition, depth.PreviousToken])
def test_stacks_of_a_seed_have_the_same_weights(task: type[depth.Stack]) -> None:
    plain = dict(stack_of(task, "plain", 2).named_parameters())
    for name in ("residual", "residual, final norm", "post-norm", "pre-norm"):
        other = dict(stack_of(task, name, 2).named_parameters())
        assert plain.keys() <= other.keys()
        assert all(torch.equal(weight, other[key]) for key, weight in plain.items())
    different = dict(stack_of(task, "plain", 2, seed=1).named_parameters())
    assert not torch.equal(different["embedding.weight"], plain["embedding.weight"])


def test_a_pre_norm_stack_is_the_encoder_of_the_package() -> None:
    stack = stack_of(depth.PreviousToken, "pre-norm", 3)
    encoder = Encoder(dataclasses.replace(depth.CONFIG, norm="pre"), 3)
    weights = {
        name: weight
        for name, weight in stack.state_dict().items()
        if name.startswith(("blocks", "norm"))
    }
    encoder.load_state_dict(weights)
    ids, _ = stack.batch(depth.rng(0))
    x = torch.randn(2, 5, depth.CONFIG.d_model)
    expected, out = encoder(x), x
    for block in stack.blocks:
        out = block(out)
    assert torch.equal(stack.norm(out), expected)
    assert stack.stream(ids).shape == (8, 7, depth.CONFIG.d_model)


@pytest.mark.parametrize("name", depth.CONNECTIONS)
def test_the_output_layer_of_two_stacks_receives_a_normalised_stream(name: str) -> None:
    stack = stack_of(depth.Addition, name, 2)
    ids, classes = stack.batch(depth.rng(0))
    stream = stack.stream(ids).squeeze(1)
    if name in ("pre-norm", "residual, final norm"):
        stream = torch.nn.LayerNorm(16)(stream)
    expected = torch.nn.functional.cross_entropy(stack.output(stream), classes)
    assert torch.allclose(stack(ids, classes), expected)


def test_connections() -> None:
    x = torch.randn(2, 3, 8)
    results = {name: make(8)(x, torch.tanh) for name, make in depth.CONNECTIONS.items()}
    assert torch.equal(results["plain"], x.tanh())
    assert torch.equal(results["residual"], x + x.tanh())
    assert torch.equal(results["scaled residual"], x + x.tanh())
    assert torch.equal(results["residual, final norm"], x + x.tanh())
    for name in ("pre-norm", "pre-norm, no final norm"):
        assert torch.allclose(results[name] - x, (torch.nn.LayerNorm(8)(x)).tanh())
    assert torch.allclose(results["post-norm"], torch.nn.LayerNorm(8)(x + x.tanh()))


def test_the_initialisation_preserves_the_variance_unless_it_is_xaviers() -> None:
    def sizes(name: str, matched: bool = True) -> float:
        found = []
        for seed in range(20):
            torch.manual_seed(seed)
            stack = depth.Addition(name, 8, matched=matched)
            found.append(depth.initial_state(stack, *stack.batch(depth.rng(0)))["stream"])
        return sum(found) / len(found)

    assert sizes("plain") == pytest.approx(1, abs=0.15)
    assert sizes("plain", matched=False) == pytest.approx(
        0.32**4, rel=0.3
    )  # 0.32 per block in variance
    assert sizes("residual") == pytest.approx(math.sqrt(2) ** 8, rel=0.2)
    assert sizes("scaled residual") == pytest.approx((1 + 1 / 8) ** 4, rel=0.2)


def test_the_state_before_training() -> None:
    stack = stack_of(depth.Addition, "plain", 2)
    ids, classes = stack.batch(depth.rng(0))
    row = depth.initial_state(stack, ids, classes)
    for name, block in (("first_grad", stack.blocks[0]), ("last_grad", stack.blocks[1])):
        grads = torch.autograd.grad(stack(ids, classes), list(block.parameters()))
        norm = math.sqrt(sum(grad.square().sum().item() for grad in grads))
        assert row[name] == pytest.approx(norm, rel=1e-3)
    vectors = stack.stream(ids).squeeze(1)
    cosines = torch.nn.functional.cosine_similarity(vectors[:, None], vectors[None], dim=-1)
    others = ~torch.eye(len(vectors), dtype=torch.bool)
    assert row["cosine"] == pytest.approx(cosines[others].mean().item(), abs=1e-3)
    assert row["initial_loss"] == pytest.approx(stack(ids, classes).item(), rel=1e-3)


def test_tasks() -> None:
    ids, classes = stack_of(depth.Addition, "plain", 1).batch(depth.rng(0))
    assert ids[37].tolist() == [3, 17]
    assert classes[37] == 0
    assert len(classes) == 100
    ids, classes = stack_of(depth.PreviousToken, "plain", 1).batch(depth.rng(0))
    assert torch.equal(classes, ids[:, :-1])


@pytest.mark.parametrize("task", [depth.Addition, depth.PreviousToken])
def test_a_shallow_stack_learns_its_task(task: type[depth.Stack]) -> None:
    stack = stack_of(task, "pre-norm", 2)
    [losses] = depth.train([stack], [(3e-3, 0)], 0, 150)
    assert losses[0] > math.log(stack.classes) - 0.1
    assert sum(losses[-10:]) / 10 < 0.5 <= sum(losses[-20:-10]) / 10
    assert len(losses) % 10 == 0


def test_a_causal_stack_does_not_predict_from_the_token_itself() -> None:
    stack = stack_of(depth.PreviousToken, "plain", 2)
    ids, _ = stack.batch(depth.rng(0))
    changed = ids.clone()
    changed[:, -1] = (changed[:, -1] + 1) % stack.tokens
    before, after = stack.stream(ids), stack.stream(changed)
    assert torch.equal(before[:, :-1], after[:, :-1])
    assert not torch.allclose(before[:, -1], after[:, -1])


@pytest.mark.parametrize("task", [depth.Addition, depth.PreviousToken])
def test_stacks_trained_together_equal_a_plain_training_loop(task: type[depth.Stack]) -> None:
    runs = [(0.01, 3), (0.003, 4)]
    stacks = [stack_of(task, "post-norm", 2, seed) for _, seed in runs]
    for (rate, seed), losses in zip(runs, depth.train(stacks, runs, 4, 8), strict=True):
        stack, generator = stack_of(task, "post-norm", 2, seed), depth.rng(seed)
        adam = torch.optim.Adam(stack.parameters(), betas=(0.9, 0.98), eps=1e-9)
        for step, expected in enumerate(losses, start=1):
            adam.param_groups[0]["lr"] = rate * min(1, step / 4)
            loss = stack(*stack.batch(generator))
            assert loss.item() == pytest.approx(expected, rel=1e-3)
            adam.zero_grad()
            loss.backward()
            adam.step()


def test_a_stack_that_diverges_does_not_affect_the_others() -> None:
    stacks = [stack_of(depth.Addition, "plain", 1, seed) for seed in (0, 1)]
    with torch.no_grad():
        stacks[0].output.bias[0] = math.nan
    broken, intact = depth.train(stacks, [(1e-3, 0), (1e-3, 1)], 0, 15)
    [alone] = depth.train([stack_of(depth.Addition, "plain", 1, 1)], [(1e-3, 1)], 0, 15)
    assert len(broken) == 10
    assert all(math.isnan(loss) for loss in broken)
    assert intact == pytest.approx(alone, rel=1e-4)


def test_the_record_has_every_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(depth.EXPERIMENTS, "feed-forward", TINY)
    depth.Depth(("feed-forward",), seeds=2, out=tmp_path)()
    record = read(tmp_path / "depth-feed-forward.json")
    assert record["settings"]["steps"] == 12
    assert record["settings"]["uniform_loss"] == 2.3026
    names = [(row["stack"], row["peak_lr"], row["seed"]) for row in record["rows"]]
    assert names == [
        (stack, rate, seed) for stack in TINY.stacks for rate in TINY.peak_lrs for seed in (0, 1)
    ]
    assert record["rows"] == list(depth.measure("feed-forward", TINY, [0, 1]))
    assert len({row["loss"] for row in record["rows"]}) == len(names)


def test_a_run_that_diverges_has_no_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "benchmarks.depth.train", lambda *_: [[1.0, math.inf], [1.0, 2.0], [0.4] * 3]
    )
    experiment = dataclasses.replace(TINY, stacks=("plain",), peak_lrs=(1.0,))
    first, second, third = depth.measure("feed-forward", experiment, [0, 1, 2])
    assert (first["learned_at"], first["loss"]) == (None, None)
    assert (second["learned_at"], second["loss"]) == (None, 1.5)
    assert (third["learned_at"], third["loss"]) == (3, 0.4)
