"""The layer types compared with torch.nn, the naive versions, and one another."""

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.testing import assert_close

from tfmr.errors import TfmrError
from tfmr.local_attention import MIN_CHUNK, local_attention_mask
from tfmr.recurrent import copy_from_torch
from tfmr.sequence_layers import (
    ConvolutionalLayer,
    LinearAttentionLayer,
    RecurrentLayer,
    SelfAttentionLayer,
    SequenceLayer,
    convolve,
    convolve_naive,
    linear_attention,
    linear_attention_naive,
)

BATCH, LENGTH, D = 2, 11, 6


def layers(causal: bool) -> dict[str, SequenceLayer]:
    """One layer of each type."""
    made: dict[str, SequenceLayer] = {
        "convolution": ConvolutionalLayer(D, 3, causal=causal),
        "dilated": ConvolutionalLayer(D, 3, dilation=2, causal=causal),
        "attention": SelfAttentionLayer(D, 2, causal=causal),
        "local": SelfAttentionLayer(D, 2, radius=2, causal=causal),
    }
    if causal:
        made |= {cell: RecurrentLayer(D, cell) for cell in ("rnn", "lstm", "gru")}
        made["linear attention"] = LinearAttentionLayer(D, 2)
    return made


def inputs(length: int = LENGTH) -> tuple[Tensor, Tensor]:
    """The same random vectors twice, for two gradients."""
    x = torch.randn(BATCH, length, D, dtype=torch.double)
    return x.clone().requires_grad_(), x.clone().requires_grad_()


def assert_same_backward(out: Tensor, expected: Tensor, x: Tensor, other: Tensor) -> None:
    """Outputs and the gradients of the inputs are equal."""
    assert_close(out, expected)
    direction = torch.randn_like(out)
    (out * direction).sum().backward()
    (expected * direction).sum().backward()
    assert_close(x.grad, other.grad)


@pytest.mark.parametrize(("cell", "torch_class"), [("rnn", nn.RNN), ("lstm", nn.LSTM),
                                                   ("gru", nn.GRU)])  # fmt: skip
def test_recurrent_equals_torch(cell, torch_class) -> None:
    torch.manual_seed(0)
    layer = RecurrentLayer(D, cell).double()
    module = torch_class(D, D, batch_first=True).double()
    copy_from_torch(layer.stack, module)
    x, other = inputs()
    assert_same_backward(layer(x), module(other)[0], x, other)
    own = layer.stack.cells[0]
    assert_close(own.w_h.weight.grad, module.weight_hh_l0.grad)
    assert_close(own.w_x.weight.grad, module.weight_ih_l0.grad)
    assert_close(own.w_x.bias.grad, module.bias_ih_l0.grad)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("dilation", [1, 2, 5])
@pytest.mark.parametrize("kernel", [1, 3, 5])
def test_convolution_equals_torch(kernel: int, dilation: int, causal: bool) -> None:
    torch.manual_seed(1)
    layer = ConvolutionalLayer(D, kernel, dilation=dilation, causal=causal).double()
    span = dilation * (kernel - 1)
    module = nn.Conv1d(D, D, kernel, dilation=dilation, padding=span if causal else span // 2)
    module.double()
    with torch.no_grad():
        module.weight.copy_(layer.weight.permute(2, 1, 0))  # (d_out, d_in, kernel)
        module.bias.copy_(layer.bias)
    x, other = inputs()
    # With padding on both sides, the first outputs are those of a causal convolution.
    expected = module(other.transpose(1, 2))[..., :LENGTH].transpose(1, 2)
    assert_same_backward(layer(x), expected, x, other)
    assert_close(layer.weight.grad, module.weight.grad.permute(2, 1, 0))
    assert_close(layer.bias.grad, module.bias.grad)


@settings(max_examples=40)
@given(
    length=st.integers(1, 9), kernel=st.integers(1, 5), dilation=st.integers(1, 4),
    causal=st.booleans(),
)  # fmt: skip
def test_fast_and_naive_convolution_agree(
    length: int, kernel: int, dilation: int, causal: bool
) -> None:
    kernel = kernel if causal else 2 * (kernel // 2) + 1
    results = []
    for function in (convolve, convolve_naive):
        torch.manual_seed(length)
        x = torch.randn(2, length, 3, dtype=torch.double, requires_grad=True)
        weight = torch.randn(kernel, 3, 4, dtype=torch.double, requires_grad=True)
        y = function(x, weight, dilation=dilation, causal=causal)
        results.append([y, *torch.autograd.grad(y.square().sum(), (x, weight))])
    assert_close(results[0], results[1])


def expected_attention(layer: SelfAttentionLayer, x: Tensor, mask: Tensor | None) -> Tensor:
    """The layer by PyTorch's scaled_dot_product_attention."""
    module = layer.attention
    q, k, v = (
        w(x).unflatten(-1, (module.n_heads, -1)).transpose(1, 2)
        for w in (module.w_q, module.w_k, module.w_v)
    )
    heads = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    return module.w_o(heads.transpose(1, 2).flatten(2))


@pytest.mark.parametrize("length", [LENGTH, MIN_CHUNK + 9])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("radius", [None, 0, 2, 70])
def test_attention_equals_torch(radius: int | None, causal: bool, length: int) -> None:
    torch.manual_seed(2)
    layer = SelfAttentionLayer(D, 2, radius=radius, causal=causal).double()
    x, other = inputs(length)
    wide = length if radius is None else radius
    mask = local_attention_mask(length, wide, causal=causal)
    expected = expected_attention(layer, other, mask)
    assert_same_backward(layer(x), expected, x, other)


def test_full_attention_equals_multi_head_attention_of_torch(assert_parity) -> None:
    torch.manual_seed(3)
    layer = SelfAttentionLayer(D, 2, causal=True)
    hidden = nn.Transformer.generate_square_subsequent_mask(LENGTH, dtype=torch.double)
    assert_parity(
        layer.attention,
        nn.MultiheadAttention(D, 2, batch_first=True),
        [torch.randn(BATCH, LENGTH, D)],
        lambda _, x: layer(x),
        lambda theirs, x: theirs(x, x, x, attn_mask=hidden, need_weights=False)[0],
    )


@pytest.mark.parametrize("name", layers(causal=True))
def test_a_causal_layer_ignores_later_positions(name: str) -> None:
    torch.manual_seed(4)
    layer = layers(causal=True)[name]
    x = torch.randn(BATCH, LENGTH, D)
    changed = x.clone()
    changed[:, 5:] += 1
    before, after = layer(x), layer(changed)
    assert torch.equal(before[:, :5], after[:, :5])
    assert (before[:, 5] != after[:, 5]).any()


@pytest.mark.parametrize("name", layers(causal=False))
def test_a_layer_that_is_not_causal_uses_both_sides(name: str) -> None:
    torch.manual_seed(5)
    layer = layers(causal=False)[name]
    x = torch.randn(1, LENGTH, D)
    for side in (slice(0, 5), slice(6, None)):
        changed = x.clone()
        changed[:, side] += torch.randn_like(changed[:, side])
        assert (layer(x)[:, 5] != layer(changed)[:, 5]).any()


def test_the_interface(unchecked: None) -> None:
    for layer in [*layers(True).values(), *layers(False).values()]:
        assert layer(torch.randn(BATCH, 1, D)).shape == (BATCH, 1, D)
        with pytest.raises(TfmrError, match=r"d_model=6.*got \(11, 6\).*unsqueeze"):
            layer(torch.randn(LENGTH, D))
        with pytest.raises(TfmrError, match=r"d_model=6.*got \(2, 11, 5\)"):
            layer(torch.randn(BATCH, LENGTH, D - 1))
        with pytest.raises(TfmrError, match=r"got \(2, 0, 6\)"):
            layer(torch.randn(BATCH, 0, D))


def test_invalid_arguments(unchecked: None) -> None:
    with pytest.raises(TfmrError, match=r"cell.*rnn, lstm, gru.*got 'elman'"):
        RecurrentLayer(D, "elman")
    with pytest.raises(TfmrError, match=r"kernel.*got kernel=4.*causal=True"):
        ConvolutionalLayer(D, 4)
    with pytest.raises(TfmrError, match=r"kernel.*got kernel=0"):
        ConvolutionalLayer(D, 0, causal=True)
    with pytest.raises(TfmrError, match=r"dilation.*1.*got 0"):
        ConvolutionalLayer(D, 3, dilation=0)
    with pytest.raises(TfmrError, match=r"radius.*0.*got -1"):
        SelfAttentionLayer(D, 2, radius=-1)
    with pytest.raises(TfmrError, match=r"d_model.*1.*got 0"):
        ConvolutionalLayer(0, 3)
    with pytest.raises(NotImplementedError):
        SequenceLayer(D, causal=False)(torch.randn(1, 2, D))


def test_parallel_and_recurrent_linear_attention_agree() -> None:
    results = []
    for function in (linear_attention, linear_attention_naive):
        torch.manual_seed(5)
        q, k = torch.randn(2, 2, 3, LENGTH, 4, dtype=torch.double, requires_grad=True)
        v = torch.randn(2, 3, LENGTH, 5, dtype=torch.double, requires_grad=True)
        y = function(q, k, v)
        results.append([y, *torch.autograd.grad(y.square().sum(), (q, k, v))])
    assert_close(results[0], results[1])


def test_linear_attention_of_equal_scores_is_the_mean_so_far() -> None:
    q, v = torch.zeros(3, 2), torch.tensor([[3.0], [6.0], [9.0]])
    assert_close(linear_attention(q, q, v), torch.tensor([[3.0], [4.5], [6.0]]))
