"""Prepacked weights: equal to the linear layer, and to nothing but PyTorch's public functions."""

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from tfmr.fast import prepack
from tfmr.fast.prepack import concatenated, prepacked_linear

SHAPES = [(1, 6), (2, 6), (70, 6), (1, 5, 6), (1, 1, 6), (3, 5, 6)]


def linear(d_out: int = 8, bias: bool = True) -> nn.Linear:
    torch.manual_seed(0)
    return nn.Linear(6, d_out, bias=bias).requires_grad_(False)


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", SHAPES)
def test_equal_to_the_linear_layer(
    shape: tuple[int, ...], bias: bool, packed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not packed:
        monkeypatch.setattr(prepack, "has_prepacking", lambda dtype: False)
    layer, x = linear(bias=bias), torch.randn(shape)
    for dtype, tolerance in ((torch.float32, 1e-6), (torch.bfloat16, 0.03), (torch.float64, 1e-6)):
        y = prepacked_linear(layer.weight, layer.bias, dtype)(x)
        assert y.dtype == dtype
        assert_close(y.float(), layer(x), atol=tolerance, rtol=tolerance)


def test_this_build_of_pytorch_has_the_operations() -> None:
    """Where a newer PyTorch has moved them, this test says so before the speed does."""
    assert prepack.has_prepacking(torch.float32)
    assert not prepack.has_prepacking(torch.float64)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("rows", [1, 3])
def test_the_weight_is_copied(rows: int, dtype: torch.dtype) -> None:
    layer, x = linear(), torch.randn(rows, 6)
    apply = prepacked_linear(layer.weight, layer.bias, dtype)
    before = apply(x)
    layer.weight.mul_(2)
    layer.bias.mul_(2)
    assert torch.equal(apply(x), before)


def test_layers_are_concatenated_in_order() -> None:
    layers, x = [linear(8), linear(4)], torch.randn(3, 6)
    expected = torch.cat([layer(x) for layer in layers], dim=-1)
    assert_close(concatenated(layers, torch.float32)(x), expected)
