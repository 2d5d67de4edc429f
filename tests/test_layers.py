"""Layer norm, feed-forward network, dropout, residual connection: formulas and torch.nn."""

import re

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.testing import assert_close

from tfmr.errors import TfmrError
from tfmr.layers import (
    Dropout,
    FeedForward,
    LayerNorm,
    Residual,
    RMSNorm,
    final_norm,
    layer_norm,
    rms_norm,
)


def test_layer_norm_by_hand() -> None:
    x = torch.tensor([[1.0, 3.0, 5.0, 7.0]])  # mean 4, variance (9 + 1 + 1 + 9) / 4 = 5
    out = layer_norm(x, torch.tensor([1.0, 1.0, 2.0, 1.0]), torch.tensor([0.0, 0, 0, 10]), eps=0.0)
    assert_close(out, torch.tensor([[-3.0, -1.0, 2.0, 3 + 10 * 5**0.5]]) / 5**0.5)


def test_layer_norm_equals_torch(assert_parity) -> None:
    torch.manual_seed(0)
    call = nn.Module.__call__
    assert_parity(LayerNorm(8), nn.LayerNorm(8), [torch.randn(2, 3, 8)], call, call)


def test_layer_norm_formula_and_module_agree_forward_and_gradient() -> None:
    torch.manual_seed(0)
    module = LayerNorm(8).double()
    nn.init.normal_(module.weight)
    nn.init.normal_(module.bias)
    x = torch.randn(2, 3, 8, dtype=torch.double, requires_grad=True)
    both = [layer_norm(x, module.weight, module.bias), module(x)]
    assert_close(both[0], both[1])
    leaves = [x, module.weight, module.bias]
    assert_close(*(torch.autograd.grad(out.square().sum(), leaves) for out in both))


def test_the_readable_rms_norm_equals_the_kernel() -> None:
    torch.manual_seed(0)
    x, norm = torch.randn(2, 3, 8), RMSNorm(8, eps=0.1)
    nn.init.normal_(norm.weight)
    assert_close(rms_norm(x, norm.weight, 0.1), norm(x))
    assert_close(norm(torch.zeros(1, 8)), torch.zeros(1, 8))


def test_the_defaults_of_epsilon() -> None:
    x = torch.full((1, 4), 1e-3)
    expected = torch.full((1, 4), 0.5**0.5)  # of 1e-6 / (1e-6 + 1e-6)
    assert_close(rms_norm(x, torch.ones(4)), expected)
    assert_close(RMSNorm(4)(x), expected)
    x = torch.tensor([[1e-3, -1e-3]]) * 10**0.5
    assert_close(layer_norm(x, torch.ones(2), torch.zeros(2)), x / x.abs() * 0.5**0.5)
    assert_close(LayerNorm(2)(x), x / x.abs() * 0.5**0.5)
    assert_close(LayerNorm(4)(torch.full((2, 4), 3.0)), torch.zeros(2, 4))


def test_rms_norm_is_layer_norm_without_a_mean() -> None:
    """For vectors of mean 0 they are equal; only layer norm removes a constant."""
    torch.manual_seed(0)
    x = torch.randn(5, 8)
    centred = x - x.mean(dim=-1, keepdim=True)
    assert_close(RMSNorm(8)(centred), LayerNorm(8, eps=1e-6)(centred))
    assert not torch.allclose(RMSNorm(8)(centred + 1), RMSNorm(8)(centred))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_norms_in_half_precision_do_not_overflow(dtype: torch.dtype) -> None:
    """The squares exceed 65504, the largest number in fp16."""
    x = torch.tensor([[300.0, -300.0, 300.0, -300.0]], dtype=dtype)
    weight, bias = torch.ones(4, dtype=dtype), torch.zeros(4, dtype=dtype)
    assert_close(rms_norm(x, weight), x.sign())
    assert_close(layer_norm(x, weight, bias), x.sign())
    torch.manual_seed(0)
    x = torch.randn(3, 4, dtype=dtype)
    assert_close(layer_norm(x, weight, bias), LayerNorm(4).to(dtype)(x))
    assert_close(rms_norm(x, weight), RMSNorm(4).to(dtype)(x))


def test_the_hyperparameters_are_printed() -> None:
    text = repr(Residual(8, 0.3, "pre", 1e-6))
    assert "LayerNorm(8, eps=1e-06)" in text
    assert "Dropout(p=0.3)" in text
    assert "norm=pre" in text
    assert "RMSNorm(4, eps=1e-05)" in repr(Residual(4, norm_class=RMSNorm))


@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_feed_forward_equals_its_formula(activation: str) -> None:
    torch.manual_seed(0)
    module = FeedForward(4, 16, activation)
    x = torch.randn(2, 3, 4)
    inner = x @ module.expand.weight.T + module.expand.bias
    bent = (
        inner.clamp(min=0) if activation == "relu" else inner * (1 + torch.erf(inner / 2**0.5)) / 2
    )
    assert_close(module(x), bent @ module.contract.weight.T + module.contract.bias)
    assert_close(module(x[:, 1]), module(x)[:, 1])  # position by position


def test_swiglu_is_its_formula() -> None:
    torch.manual_seed(0)
    x, network = torch.randn(3, 4), FeedForward(4, 6, F.silu, gated=True, bias=False)
    gate = x @ network.gate.weight.T
    expected = (gate * gate.sigmoid() * (x @ network.expand.weight.T)) @ network.contract.weight.T
    assert_close(network(x), expected)
    assert len(list(network.parameters())) == 3


@pytest.mark.parametrize("gated", [False, True])
@pytest.mark.parametrize("bias", [False, True])
def test_a_feed_forward_network_with_any_function(gated: bool, bias: bool) -> None:
    torch.manual_seed(0)
    module, x = FeedForward(4, 16, torch.sin, gated=gated, bias=bias), torch.randn(3, 4)
    assert len(list(module.parameters())) == (3 if gated else 2) * (2 if bias else 1)
    expanded = module.expand(x)
    inner = module.gate(x).sin() * expanded if gated else expanded.sin()
    assert_close(module(x), module.contract(inner))


@pytest.mark.parametrize("p", [0.1, 0.3, 0.5, 0.001, 0.999])
def test_dropout_zeroes_a_fraction_p_and_scales_the_rest(p: float) -> None:
    torch.manual_seed(0)
    rounded = round(2**16 * p) / 2**16
    out = Dropout(p)(torch.ones(1003, 1001))
    kept = out[out != 0]
    assert torch.equal(kept, torch.full_like(kept, 1 / (1 - rounded)))  # the expected value is 1
    deviation = (p * (1 - p) / out.numel()) ** 0.5
    assert abs((out == 0).double().mean() - p) < 5 * deviation
    assert abs(rounded - p) < 1e-4


@pytest.mark.parametrize(("p", "largest"), [(1e-9, 2**16 / (2**16 - 1)), (1 - 1e-9, 2.0**16)])
def test_dropout_at_its_limits(p: float, largest: float) -> None:
    torch.manual_seed(0)
    assert Dropout(p)(torch.ones(1000, 1000)).unique().tolist() == [0.0, pytest.approx(largest)]


def test_dropout_is_uniform_independent_and_new_in_every_call() -> None:
    torch.manual_seed(0)
    dropout = Dropout(0.25)
    zeros = torch.stack([dropout(torch.ones(64, 16)) == 0 for _ in range(200)]).double()
    assert not torch.equal(zeros[0], zeros[1])
    for axis_kept in (1, 2):
        others = [axis for axis in range(3) if axis != axis_kept]
        means = zeros.mean(dim=others)
        assert (means - 0.25).abs().max() < 5 * (0.25 * 0.75 / (zeros.numel() / len(means))) ** 0.5
    neighbours = (zeros[..., 1:] * zeros[..., :-1]).mean()
    assert abs(neighbours - 0.0625) < 0.003  # independent of each other


def test_dropout_masks_the_gradient_like_the_signal() -> None:
    torch.manual_seed(0)
    x = torch.ones(40, 50, requires_grad=True)
    out = Dropout(0.3)(x)
    out.sum().backward()
    assert torch.equal(x.grad, out.detach())
    assert 0 < int((out == 0).sum()) < out.numel()


def test_dropout_does_nothing_in_evaluation_or_at_zero() -> None:
    x = torch.randn(3, 4)
    assert Dropout(0.5).eval()(x) is x
    assert Dropout(0.0)(x) is x


def test_dropout_follows_the_seed() -> None:
    dropout, x = Dropout(0.5), torch.ones(100)
    torch.manual_seed(3)
    first = dropout(x)
    torch.manual_seed(3)
    assert torch.equal(dropout(x), first)


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_the_residual_connection(norm: str) -> None:
    torch.manual_seed(0)
    residual = Residual(8, 0.0, norm)
    nn.init.normal_(residual.norm.weight)
    x, sublayer = torch.randn(2, 3, 8) + 5, nn.Linear(8, 8)
    weight, bias = residual.norm.weight, residual.norm.bias
    expected = {
        "post": layer_norm(x + sublayer(x), weight, bias),
        "pre": x + sublayer(layer_norm(x, weight, bias)),
    }
    assert_close(residual(x, sublayer), expected[norm])


def test_dropout_applies_to_the_sublayer_output_only() -> None:
    torch.manual_seed(0)
    x = torch.full((2, 3, 64), 7.0)
    out = Residual(64, 0.5, "pre")(x, lambda y: torch.ones_like(y))
    assert set(out.flatten().tolist()) == {7.0, 9.0}


def test_only_a_pre_norm_stack_ends_with_a_norm() -> None:
    x = torch.randn(2, 3, 8)
    assert_close(final_norm(8, "pre")(x), F.layer_norm(x, (8,)))
    assert final_norm(8, "post")(x) is x
    rms = final_norm(8, "pre", 0.1, RMSNorm)
    assert_close(rms(x), F.rms_norm(x, (8,), eps=0.1))


@pytest.mark.parametrize(
    "call",
    [LayerNorm(4), FeedForward(4, 8), lambda x: layer_norm(x, torch.ones(4), torch.zeros(4))],
    ids=["LayerNorm", "FeedForward", "layer_norm"],
)
def test_vectors_of_another_size_or_type_are_rejected(unchecked, call) -> None:
    assert call(torch.zeros(4)).shape == (4,)
    for shape in ((2, 5), (2, 1), ()):
        message = re.escape(f"x must be (..., d_model=4), like the weights: got {shape}; use ")
        with pytest.raises(TfmrError, match=f"^{message}[^\n]*$"):
            call(torch.zeros(shape))
    with pytest.raises(TfmrError, match=r"^x must be torch\.float32, .*: got torch\.int64"):
        call(torch.zeros(4, dtype=torch.int64))


@pytest.mark.parametrize("p", [-0.1, 1.0])
def test_an_invalid_dropout_probability(p: float) -> None:
    with pytest.raises(TfmrError, match=rf"lie in \[0, 1\): got {p}"):
        Dropout(p)


def test_an_unknown_activation_or_norm(unchecked) -> None:
    with pytest.raises(TfmrError, match=r"activation.*relu, gelu.*got 'tanh'"):
        FeedForward(4, 16, "tanh")
    with pytest.raises(TfmrError, match=r"norm.*post, pre.*got 'mid'"):
        Residual(4, 0.1, "mid")
