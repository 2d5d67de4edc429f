"""The formulas of table 1, compared with what is counted and measured."""

import pytest
import torch
from torch import Tensor

from tfmr.complexity import (
    attention_flops,
    contiguous_path_length,
    convolution_flops,
    counted_flops,
    counted_training_flops,
    dilated_path_length,
    feed_forward_flops,
    layers_to_connect,
    local_attention_flops,
    longest_chain,
    projection_flops,
    recurrent_flops,
    saved_bytes,
    steps_to_connect,
    transformer_flops,
    window_scores,
)
from tfmr.config import TransformerConfig
from tfmr.errors import TfmrError
from tfmr.layers import FeedForward
from tfmr.local_attention import MIN_CHUNK, local_attention_mask
from tfmr.model import Transformer
from tfmr.sequence_layers import (
    ConvolutionalLayer,
    RecurrentLayer,
    SelfAttentionLayer,
    SequenceLayer,
)

D = 8
LENGTHS = (1, 7, MIN_CHUNK, MIN_CHUNK + 1, 3 * MIN_CHUNK - 5)
CASES = (False, True)


def x(length: int) -> Tensor:
    return torch.randn(1, length, D, generator=torch.Generator().manual_seed(length))


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize(("cell", "gates"), [("rnn", 1), ("lstm", 4), ("gru", 3)])
def test_flops_of_a_recurrent_layer(cell, gates: int, length: int) -> None:
    layer = RecurrentLayer(D, cell)
    assert counted_flops(layer, x(length)) == recurrent_flops(length, D, gates)


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize(("kernel", "dilation"), [(1, 1), (3, 1), (3, 4), (5, 2)])
def test_flops_of_a_convolution(kernel: int, dilation: int, length: int) -> None:
    layer = ConvolutionalLayer(D, kernel, dilation=dilation)
    assert counted_flops(layer, x(length)) == convolution_flops(length, D, kernel)


@pytest.mark.parametrize("causal", CASES)
@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("heads", [1, 2])
def test_flops_of_attention(heads: int, length: int, causal: bool) -> None:
    layer = SelfAttentionLayer(D, heads, causal=causal)
    expected = projection_flops(length, D) + attention_flops(length, D)
    assert counted_flops(layer, x(length)) == expected


@pytest.mark.parametrize("causal", CASES)
@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("radius", [0, 5, MIN_CHUNK, MIN_CHUNK + 3, 4 * MIN_CHUNK])
def test_flops_of_local_attention(radius: int, length: int, causal: bool) -> None:
    layer = SelfAttentionLayer(D, 2, radius=radius, causal=causal)
    expected = projection_flops(length, D) + local_attention_flops(length, D, radius, causal=causal)
    assert counted_flops(layer, x(length)) == expected


def test_flops_of_a_feed_forward_network() -> None:
    assert counted_flops(FeedForward(D, 24), x(9)) == feed_forward_flops(9, D, 24)


@pytest.mark.parametrize("causal", CASES)
def test_window_scores_is_the_size_of_the_mask(causal: bool) -> None:
    for length in (1, 2, 9):
        for radius in range(12):
            mask = local_attention_mask(length, radius, causal=causal)
            assert window_scores(length, radius, causal=causal) == int(mask.sum())


@pytest.mark.parametrize(("cell", "per_step"), [("rnn", 3), ("lstm", 7), ("gru", 8)])
def test_a_recurrent_layer_has_a_chain_that_grows_with_the_length(cell, per_step: int) -> None:
    layer = RecurrentLayer(D, cell)
    assert [longest_chain(layer, x(n)) for n in (1, 2, 30)] == [per_step * n for n in (1, 2, 30)]


@pytest.mark.parametrize(
    ("layer", "expected"),
    [
        (ConvolutionalLayer(D, 3), 2),
        (ConvolutionalLayer(D, 5, dilation=3, causal=True), 2),
        (SelfAttentionLayer(D, 2), 6),
        (SelfAttentionLayer(D, 2, causal=True), 7),
        (SelfAttentionLayer(D, 2, radius=3), 7),
    ],
    ids=["convolution", "dilated", "attention", "causal", "local"],
)
def test_the_other_layers_have_a_chain_of_constant_length(
    layer: SequenceLayer, expected: int
) -> None:
    assert {longest_chain(layer, x(n)) for n in (2, 30, MIN_CHUNK + 1, 200)} == {expected}


def test_a_chain_counts_operations_that_compute_and_depend_on_x() -> None:
    def function(x: Tensor) -> Tensor:
        constant = torch.ones(3).exp().exp().exp().exp()  # does not depend on x
        y = x.unsqueeze(0).transpose(0, 1).clone().reshape(-1)  # views and copies
        y += 1  # in place
        return torch.stack([y.exp(), y * constant, x]).sum()

    assert longest_chain(function, torch.zeros(3)) == 3
    with pytest.raises(TfmrError, match=r"function.*result depends.*x"):
        longest_chain(lambda _: torch.ones(2), torch.zeros(2))


@pytest.mark.parametrize("length", [2, 3, 10, 27, 28])
def test_path_length_of_stacks(length: int) -> None:
    torch.manual_seed(0)
    for kernel in (2, 3, 5):
        dilated = layers_to_connect(
            lambda depth, k=kernel: ConvolutionalLayer(2, k, dilation=k**depth, causal=True),
            length,
        )
        assert dilated == dilated_path_length(length, kernel)
        causal = layers_to_connect(
            lambda _, k=kernel: ConvolutionalLayer(2, k, causal=True), length
        )
        assert causal == contiguous_path_length(length, kernel - 1)
    for kernel in (3, 5):
        centred = layers_to_connect(lambda _, k=kernel: ConvolutionalLayer(2, k), length)
        assert centred == contiguous_path_length(length, (kernel - 1) // 2)
    for causal in CASES:
        for radius in (1, 4, 40):
            local = layers_to_connect(
                lambda _, r=radius, c=causal: SelfAttentionLayer(2, radius=r, causal=c), length
            )
            assert local == contiguous_path_length(length, radius)
        full = layers_to_connect(lambda _, c=causal: SelfAttentionLayer(2, causal=c), length)
        assert full == 1


@pytest.mark.parametrize("cell", ["rnn", "lstm", "gru"])
def test_a_recurrent_layer_needs_a_step_per_position(cell) -> None:
    torch.manual_seed(1)
    layer = RecurrentLayer(4, cell)
    assert [steps_to_connect(layer, n) for n in (1, 2, 300)] == [1, 2, 300]
    with torch.no_grad():
        layer.stack.cells[0].w_h.weight.zero_()
    if cell == "rnn":
        with pytest.raises(TfmrError, match="step 2"):
            steps_to_connect(layer, 3)


def test_a_layer_that_connects_nothing() -> None:
    with pytest.raises(TfmrError, match=r"layer 1.*change beyond 1.*5"):
        layers_to_connect(lambda _: ConvolutionalLayer(2, 1), 5)


def test_invalid_arguments() -> None:
    with pytest.raises(TfmrError, match=r"reach.*1.*got 0"):
        contiguous_path_length(5, 0)
    with pytest.raises(TfmrError, match="got kernel=1"):
        dilated_path_length(5, 1)


def test_saved_bytes_count_each_storage_once() -> None:
    weight = torch.randn(D, D, requires_grad=True)
    inputs = x(7)
    # The product keeps its first factor, for the gradient of the second one; exp keeps its result.
    assert saved_bytes(lambda: (inputs @ weight).exp()) == 4 * (7 * D + 7 * D)
    # A product keeps both factors, here two views of one tensor.
    assert saved_bytes(lambda: weight * weight.mT) == 4 * D * D
    assert saved_bytes(lambda: weight.detach() + 1) == 0


@pytest.mark.parametrize(("source", "target"), [(5, 7), (9, 4)])
def test_flops_of_the_transformer(source: int, target: int) -> None:
    config = TransformerConfig(
        8, 2, 24, source_vocab=13, target_vocab=13, n_encoder=2, n_decoder=3, dropout=0.0
    )
    model = Transformer(config)
    s, t = torch.ones(1, source).long(), torch.ones(1, target).long()
    forward = counted_flops(lambda s: model.scores(model.hidden(s, t)), s)
    assert forward == transformer_flops(config, source, target)
    trained = counted_training_flops(lambda: model.scores(model.hidden(s, t)).sum())
    assert trained == 3 * forward
