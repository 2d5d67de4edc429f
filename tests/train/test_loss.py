"""The loss against its formula and against the library's, padding and smoothing included."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from tfmr.special_tokens import PAD
from tfmr.train import loss as loss_module
from tfmr.train.loss import (
    cross_entropy,
    cross_entropy_naive,
    linear_cross_entropy,
)

TARGET = torch.tensor([[4, 5, 2, PAD, PAD], [6, 1, 3, 7, 2]])


def test_the_loss_by_hand() -> None:
    logits = torch.tensor([[[0.0, math.log(3), 0.0, math.log(3)]]])  # p = 1/8, 3/8, 1/8, 3/8
    target = torch.tensor([[1]])
    assert_close(cross_entropy(logits, target), torch.tensor(math.log(8 / 3)))
    # q = 0.9 [k = 1] + 0.1 / 4
    wanted = 0.925 * math.log(8 / 3) + 0.025 * (2 * math.log(8) + math.log(8 / 3))
    assert_close(cross_entropy_naive(logits, target, 0.1), torch.tensor(wanted))
    assert_close(cross_entropy(logits, target, 0.1), torch.tensor(wanted))


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.5])
def test_naive_fast_and_library_agree_forward_and_gradient(smoothing: float) -> None:
    torch.manual_seed(0)
    logits = torch.randn(2, 5, 9, dtype=torch.double, requires_grad=True)
    losses = [
        cross_entropy_naive(logits, TARGET, smoothing),
        cross_entropy(logits, TARGET, smoothing),
        F.cross_entropy(logits[TARGET != PAD], TARGET[TARGET != PAD], label_smoothing=smoothing),
    ]
    gradients = [torch.autograd.grad(loss, logits)[0] for loss in losses]
    for loss, gradient in zip(losses[1:], gradients[1:], strict=True):
        assert_close(loss, losses[0])
        assert_close(gradient, gradients[0])
    assert not gradients[1][TARGET == PAD].any()


@pytest.mark.parametrize("rows", [3, 512])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_loss_without_the_scores_equals_the_loss_of_the_scores(
    monkeypatch: pytest.MonkeyPatch, smoothing: float, rows: int
) -> None:
    monkeypatch.setattr(loss_module, "ROWS", rows)
    torch.manual_seed(0)
    x = torch.randn(2, 5, 4, dtype=torch.double, requires_grad=True)
    weight = torch.randn(9, 4, dtype=torch.double, requires_grad=True)
    losses = [
        linear_cross_entropy(x, weight, TARGET, smoothing),
        cross_entropy(x @ weight.T, TARGET, smoothing),
    ]
    assert_close(losses[0], losses[1])
    gradients = [torch.autograd.grad(3 * loss, [x, weight]) for loss in losses]
    assert_close(gradients[0], gradients[1])


@pytest.mark.parametrize("rows", [4, 256])
def test_under_autocast_only_the_products_are_rounded(
    monkeypatch: pytest.MonkeyPatch, rows: int
) -> None:
    monkeypatch.setattr(loss_module, "ROWS", rows)
    torch.manual_seed(0)
    x, weight = torch.randn(3, 5, 8, requires_grad=True), torch.randn(9, 8, requires_grad=True)
    target = torch.randint(4, 9, (3, 5))
    exact = linear_cross_entropy(x, weight, target, 0.1)
    with torch.autocast("cpu", torch.bfloat16):
        rough = linear_cross_entropy(x, weight, target, 0.1)
    assert rough.dtype == torch.float32
    assert 0 < abs(rough.item() - exact.item()) < 0.01 * exact.item(), "bfloat16 keeps 8 bits"
    pairs = zip(*(torch.autograd.grad(loss, [x, weight]) for loss in (rough, exact)), strict=True)
    for found, wanted in pairs:
        assert found.dtype == torch.float32
        assert float((found - wanted).norm() / wanted.norm()) < 0.02


def test_a_hopeless_token_has_a_finite_loss() -> None:
    x, weight = torch.ones(1, 1, 1), torch.tensor([[0.0], [0.0], [300.0], [0.0], [-300.0]])
    assert float(linear_cross_entropy(x, weight, torch.tensor([[4]]))) == 600.0


def test_what_is_scored_at_padding_does_not_matter() -> None:
    torch.manual_seed(0)
    logits = torch.randn(2, 5, 9)
    changed = logits.clone()
    changed[TARGET == PAD] = 100 * torch.randn(2, 9)
    assert torch.equal(cross_entropy(changed, TARGET, 0.1), cross_entropy(logits, TARGET, 0.1))
