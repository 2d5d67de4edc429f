"""Recall by learning rate: the networks that are trained at the same time, and the record."""

from pathlib import Path
from typing import cast

import pytest
import torch
from torch import nn

from benchmarks import recall_rates
from benchmarks.recall import D_HIDDEN, LEARNING_RATE, MAX_GRAD_NORM, SYMBOLS, draw
from benchmarks.recall_rates import COMPARED, ConstantGates, RecallRates, Runs
from benchmarks.record import read
from tfmr.errors import TfmrError
from tfmr.recurrent import LSTMCell, RNNCell


def recurrent_matrix(name: str) -> torch.Tensor:
    torch.manual_seed(1)
    return cast(RNNCell, COMPARED[name]().cells[0]).w_h.weight.detach()


def test_the_orthogonal_matrix_preserves_norms() -> None:
    weight = recurrent_matrix("RNN, orthogonal")
    torch.testing.assert_close(weight @ weight.T, torch.eye(D_HIDDEN), atol=1e-5, rtol=0)


@pytest.mark.parametrize(
    ("scaled", "unscaled", "other"),
    [
        ("RNN, radius 1", "RNN", "RNN, orthogonal"),
        ("RNN, orthogonal, small radius", "RNN, orthogonal", "RNN"),
    ],
)
def test_a_scaled_matrix_has_the_radius_of_the_other(
    scaled: str, unscaled: str, other: str
) -> None:
    factor = recurrent_matrix(scaled) / recurrent_matrix(unscaled)
    torch.testing.assert_close(factor, factor[0, 0].expand_as(factor))
    radii = [torch.linalg.eigvals(recurrent_matrix(name)).abs().max() for name in (scaled, other)]
    torch.testing.assert_close(*radii)


@pytest.mark.parametrize(("learned", "feedback"), [(False, 1), (True, 1), (False, 0)])
def test_constant_gates_depend_on_their_biases_only(learned: bool, feedback: int) -> None:
    torch.manual_seed(0)
    cell = ConstantGates(5.0, learned=learned, feedback=feedback)
    usual = LSTMCell(2 * SYMBOLS, D_HIDDEN)
    usual.load_state_dict(cell.state_dict())
    for layer in (usual.w_x, usual.w_h):
        layer.weight.detach().view(4, D_HIDDEN, -1)[[0, 1, 3]] = 0  # not the candidate
    usual.w_h.weight.detach().mul_(feedback)
    x, h, c = torch.randn(7, 2 * SYMBOLS), torch.randn(7, D_HIDDEN), torch.randn(7, D_HIDDEN)
    torch.testing.assert_close(cell(x, (h, c)), usual(x, (h, c)))
    cell(x, (h, c))[0].sum().backward()
    assert cell.w_x.bias.grad is not None
    moved = cell.w_x.bias.grad.view(4, D_HIDDEN).any(dim=1).tolist()
    assert moved == [learned, learned, True, learned]


@pytest.mark.parametrize("name", COMPARED)
def test_a_step_is_that_of_a_single_network(name: str) -> None:
    runs = Runs(COMPARED[name], (0.01, LEARNING_RATE), (3, 4))
    x, first = draw(6, 20)
    torch.manual_seed(4)
    stack, classify = COMPARED[name](), nn.Linear(D_HIDDEN, SYMBOLS)
    parameters = [*stack.parameters(), *classify.parameters()]
    optimizer = torch.optim.Adam(parameters, lr=LEARNING_RATE)
    for _ in range(4):
        logits = classify(stack(x)[0][:, -1])
        # The last of four: the second rate and the second seed.
        torch.testing.assert_close(runs.logits(x)[3], logits, atol=1e-4, rtol=1e-4)
        optimizer.zero_grad()
        nn.functional.cross_entropy(logits, first).backward()
        nn.utils.clip_grad_norm_(parameters, MAX_GRAD_NORM)
        optimizer.step()
        runs.step(x, first)


def test_gradients_are_clipped_for_each_network(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recall_rates, "MAX_GRAD_NORM", 0.01)
    runs = Runs(COMPARED["RNN"], (LEARNING_RATE,), (0, 1))
    runs.step(*draw(3, 20))
    gradients = [w.grad for w in runs.weights[LEARNING_RATE] if w.grad is not None]
    norms = torch.stack([g.flatten(1).norm(dim=1) for g in gradients]).norm(dim=0)
    torch.testing.assert_close(norms, torch.full((2,), 0.01))


def test_kept_rates_are_trained_on() -> None:
    runs = Runs(COMPARED["RNN"], (0.01, LEARNING_RATE, 0.02), (0, 1))
    runs.keep(LEARNING_RATE, 0.02)
    runs.step(*draw(3, 20))
    found = runs.accuracies(*draw(3, 40))
    assert list(found) == [LEARNING_RATE, 0.02]
    assert all(len(accuracies) == 2 for accuracies in found.values())


def test_the_record_has_every_network_rate_and_seed(tmp_path: Path) -> None:
    rates = (0.001, LEARNING_RATE, 0.01)
    measure = RecallRates(1, rates, (1, 2, 3), seeds=(0, 1), out=tmp_path / "x.json")
    measure()
    rows = read(tmp_path / "x.json")["rows"]
    assert {row["network"] for row in rows} == set(COMPARED)
    for name in COMPARED:
        own = [row for row in rows if row["network"] == name]
        first, *later = ([row for row in own if row["steps"] == steps] for steps in (1, 2, 3))
        expected = [(rate, seed) for rate in rates for seed in (0, 1)]
        assert [(row["learning_rate"], row["seed"]) for row in first] == expected
        for found in later:
            assert LEARNING_RATE in {row["learning_rate"] for row in found}
            assert len(found) in (2, 4)


def test_learned_tasks_are_not_trained_further(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recall_rates, "SOLVED", -1.0)
    measure = RecallRates(1, budgets=(1, 2, 3), seeds=(0,), out=tmp_path / "x.json")
    measure()
    assert {row["steps"] for row in read(tmp_path / "x.json")["rows"]} == {1}


def test_impossible_settings_raise(tmp_path: Path) -> None:
    with pytest.raises(TfmrError, match=r"--distance of 1.*got 0"):
        RecallRates(distance=0, out=tmp_path / "x.json")()
    with pytest.raises(TfmrError, match=r"--learning-rates with 0\.005.*\[0\.1\]"):
        RecallRates(learning_rates=(0.1,), out=tmp_path / "x.json")()
