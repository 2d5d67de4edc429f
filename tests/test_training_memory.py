"""The formulas of the memory of a training step, compared with the counted bytes."""

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tfmr.attention import SHORT, MultiHeadAttention
from tfmr.config import BlockConfig, TransformerConfig
from tfmr.decoder import DecoderBlock
from tfmr.encoder import EncoderBlock
from tfmr.layers import FeedForward, Residual
from tfmr.model import Transformer
from tfmr.training_memory import (
    activation_bytes,
    cross_attention_formula,
    decoder_block_formula,
    encoder_block_formula,
    feed_forward_formula,
    residual_formula,
    self_attention_formula,
    state_bytes,
    transformer_formula,
)

B, D, H, D_FF, V = 3, 12, 2, 40, 31
LENGTHS = (1, 7, SHORT, SHORT + 1, SHORT + 9)
CONFIG = BlockConfig(D, H, D_FF)


def x(length: int) -> Tensor:
    return torch.randn(B, length, D)


def ids(length: int) -> Tensor:
    return torch.randint(3, V, (B, length))


def counted(model: nn.Module, loss: Callable[[], object]) -> int:
    return activation_bytes(loss, model.train())


@pytest.mark.parametrize("length", LENGTHS)
def test_self_attention(length: int) -> None:
    layer, inputs = MultiHeadAttention(D, H), x(length)
    assert counted(layer, lambda: layer(inputs)) == self_attention_formula(B, length, D, H)


@pytest.mark.parametrize(("query", "key"), [(5, 7), (7, 5), (5, SHORT + 1), (SHORT + 1, 5)])
def test_cross_attention_without_the_encoder_output(query: int, key: int) -> None:
    layer, inputs, memory = MultiHeadAttention(D, H), x(query), x(key)
    found = counted(layer, lambda: layer(inputs, memory)) - 4 * memory.numel()
    assert found == cross_attention_formula(B, query, key, D, H)


@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_feed_forward_network(activation) -> None:
    layer, inputs = FeedForward(D, D_FF, activation), x(7)
    expected = feed_forward_formula(B, 7, D, D_FF, activation)
    assert counted(layer, lambda: layer(inputs)) == expected


@pytest.mark.parametrize("dropout", [0.0, 0.1])
@pytest.mark.parametrize("norm", ["post", "pre"])
def test_residual_connection(norm, dropout: float) -> None:
    layer, inputs = Residual(D, dropout, norm), x(7).requires_grad_()
    expected = residual_formula(B, 7, D, dropout=dropout > 0)
    assert counted(layer, lambda: layer(inputs, lambda y: y)) == expected


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("changes", [{}, {"norm": "pre"}, {"activation": "gelu", "dropout": 0.0}])
def test_blocks(changes, length: int) -> None:
    config = replace(CONFIG, **changes)
    inputs, memory = x(length).requires_grad_(), x(9)
    encoder = EncoderBlock(config)
    assert counted(encoder, lambda: encoder(inputs)) == encoder_block_formula(config, B, length)
    decoder = DecoderBlock(config)
    found = counted(decoder, lambda: decoder(inputs, memory, is_causal=True)) - 4 * memory.numel()
    assert found == decoder_block_formula(config, B, length, 9)


@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize(("source", "target"), [(7, 5), (SHORT + 1, 5), (SHORT + 1, SHORT + 2)])
def test_transformer(norm, source: int, target: int) -> None:
    config = TransformerConfig(
        D, H, D_FF, norm=norm, source_vocab=V, target_vocab=V, n_encoder=2, n_decoder=3
    )
    model, s, t, labels = Transformer(config), ids(source), ids(target), ids(target)

    def loss() -> Tensor:
        return F.cross_entropy(model.scores(model.hidden(s, t)).flatten(0, 1), labels.flatten())

    assert counted(model, loss) == transformer_formula(config, B, source, target)


def test_a_tensor_that_two_operations_store_counts_once() -> None:
    a, b = x(3).requires_grad_(), x(3)
    assert activation_bytes(lambda: (a * b, a * b, a * b[:]), nn.Identity()) == 4 * b.numel()
    assert activation_bytes(lambda: (a * b, a * b.clone()), nn.Identity()) == 8 * b.numel()


def test_no_address_counts_once_for_two_tensors() -> None:
    """A tensor that is discarded at once would leave its address to the next one."""
    a = x(3).requires_grad_()
    many = activation_bytes(lambda: [bool((a * x(3)).sum()) for _ in range(50)], nn.Identity())
    assert many == 50 * 4 * a.numel()


def test_weights_gradients_and_the_state_of_adam() -> None:
    model = Transformer(TransformerConfig(D, H, D_FF, source_vocab=V, target_vocab=V))
    adam = torch.optim.Adam(model.parameters())
    weights = 4 * model.count_parameters()
    assert state_bytes(model, adam) == {"weights": weights, "gradients": 0, "optimiser": 0}
    model.hidden(ids(5), ids(4)).sum().backward()
    model.output.weight.grad = torch.zeros_like(model.output.weight)
    adam.step()
    expected = {"weights": weights, "gradients": weights, "optimiser": 2 * weights}
    assert state_bytes(model, adam) == expected
    adam.zero_grad()
    assert state_bytes(model, adam)["gradients"] == 0
