"""Attention maps, norms and gradients as seen from outside, and that looking changes nothing."""

import math

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from tfmr.decode import greedy_naive
from tfmr.encoder import EncoderBlock
from tfmr.errors import TfmrError
from tfmr.ids import BOS, PAD
from tfmr.layers import LayerNorm
from tfmr.model import Transformer, TransformerConfig
from tfmr.probe import entropy, gradient_norms, record_attention, record_norms

SOURCE = torch.tensor([[4, 5, 6, 7], [8, 9, PAD, PAD]])
TARGET = torch.tensor([[BOS, 10, 11], [BOS, 12, 13]])


@pytest.fixture
def model() -> Transformer:
    torch.manual_seed(0)
    config = TransformerConfig(
        20, 20, d_model=16, n_heads=2, d_ff=32, n_encoder=2, n_decoder=2, dropout=0.0, max_length=12
    )
    return Transformer(config).eval()


def test_every_map_is_recorded_by_the_name_of_its_attention(model: Transformer) -> None:
    plain = model(SOURCE, TARGET)
    with record_attention(model) as maps:
        assert_close(model(SOURCE, TARGET), plain)
    shapes = {name: [tuple(weights.shape) for weights in calls] for name, calls in maps.items()}
    assert shapes == {
        **{f"encoder.blocks.{n}.attention": [(2, 2, 4, 4)] for n in range(2)},
        **{f"decoder.blocks.{n}.self_attention": [(2, 2, 3, 3)] for n in range(2)},
        **{f"decoder.blocks.{n}.cross_attention": [(2, 2, 3, 4)] for n in range(2)},
    }
    for name, (weights,) in maps.items():
        assert_close(weights.sum(dim=-1), torch.ones(weights.shape[:-1]))
        assert not weights.requires_grad
        if "self" in name:
            assert torch.equal(weights, weights.tril())
        else:
            assert not weights[1, :, :, 2:].any()  # the padding


def test_recording_ends_with_the_block_even_after_an_error(model: Transformer) -> None:
    with pytest.raises(TfmrError, match="target ids"), record_attention(model) as maps:
        model(SOURCE, model(SOURCE, TARGET).argmax(dim=-1) + 20)
    model(SOURCE, TARGET)
    assert [len(calls) for calls in maps.values()] == [2, 2, 1, 1, 1, 1]


def test_decoding_as_it_is_read_leaves_one_map_per_step(model: Transformer) -> None:
    with record_attention(model) as maps:
        said = greedy_naive(model, SOURCE[:1])
    calls = maps["decoder.blocks.0.self_attention"]
    assert [weights.shape[-1] for weights in calls] == list(range(1, len(calls) + 1))
    assert len(calls) in (len(said), len(said) + 1)


def test_norms_are_those_of_the_outputs(model: Transformer) -> None:
    with record_norms(model, EncoderBlock, LayerNorm) as norms:
        memory, _ = model.encode(SOURCE)
    assert norms["encoder.blocks.1"] == [pytest.approx(memory.detach().norm(dim=-1).mean().item())]
    assert norms["encoder.blocks.0.residuals.1.norm"] == norms["encoder.blocks.0"]
    assert norms["decoder.blocks.0.residuals.0.norm"] == []
    model.encode(SOURCE)
    assert len(norms["encoder.blocks.1"]) == 1


def test_gradient_norms_are_those_of_each_parameter(model: Transformer) -> None:
    with pytest.raises(TfmrError, match=r"call loss.backward\(\) first"):
        gradient_norms(model)
    model(SOURCE, TARGET).square().mean().backward()
    norms = gradient_norms(model)
    assert list(norms) == [name for name, _ in model.named_parameters()]
    wanted = model.decoder.blocks[0].feed_forward.expand.weight.grad.square().sum().sqrt().item()
    assert norms["decoder.blocks.0.feed_forward.expand.weight"] == pytest.approx(wanted)


def test_entropy_is_zero_for_one_key_and_the_logarithm_for_all_alike() -> None:
    weights = torch.stack([torch.eye(5)[2], torch.full((5,), 0.2)])
    assert_close(entropy(weights), torch.tensor([0.0, math.log(5)]))
    two = torch.tensor([[0.5, 0.25, 0.25]])
    assert_close(entropy(two), torch.tensor([1.5 * math.log(2)]))


def test_a_model_without_attention() -> None:
    with (
        pytest.raises(TfmrError, match="no multi-head attention in a Linear"),
        record_attention(nn.Linear(2, 2)),
    ):
        pass
