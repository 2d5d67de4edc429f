"""Attention maps, norms and gradients as seen from outside, and parts that are taken away; looking
changes nothing, and what was taken away comes back.
"""

import math
from typing import Any

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from tfmr.analysis import (
    ablate_head,
    ablate_sublayer,
    entropy,
    record_attention,
    record_norms,
    uniform_attention,
)
from tfmr.attention import MultiHeadAttention
from tfmr.decode import greedy_search, greedy_search_naive
from tfmr.encoder import EncoderBlock
from tfmr.errors import TfmrError
from tfmr.layers import FeedForward, LayerNorm
from tfmr.model import Transformer, TransformerConfig
from tfmr.special_tokens import BOS, PAD

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


def test_greedy_decoding_leaves_one_map_per_step(model: Transformer) -> None:
    with record_attention(model) as maps:
        (said,) = greedy_search(model, SOURCE[:1])
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


@pytest.fixture
def attention() -> MultiHeadAttention:
    torch.manual_seed(1)
    attention = MultiHeadAttention(12, 3)
    for parameter in attention.parameters():
        nn.init.normal_(parameter)
    return attention


@pytest.mark.parametrize("head", range(3))
def test_without_a_head_its_share_is_missing_and_nothing_else(
    attention: MultiHeadAttention, head: int
) -> None:
    x = torch.randn(2, 5, 12)
    whole = attention(x)
    joined: list[torch.Tensor] = []
    handle = attention.w_o.register_forward_pre_hook(lambda _, args: joined.append(args[0].clone()))
    attention(x)
    handle.remove()
    joined[0][..., 4 * head : 4 * head + 4] = 0
    with ablate_head(attention, head):
        assert_close(attention(x), attention.w_o(joined[0]))
        one_less = attention(x)
    assert_close(attention.w_o(joined[0]), one_less)
    assert not torch.allclose(one_less, whole)
    assert torch.equal(attention(x), whole)


@pytest.mark.parametrize("head", range(3))
def test_without_its_question_a_head_reads_all_alike(
    attention: MultiHeadAttention, head: int
) -> None:
    x = torch.randn(2, 4, 12)
    mask = torch.ones(4, 4).tril().bool()
    with record_attention(attention) as maps:
        whole = attention(x, mask=mask)
        with uniform_attention(attention, head):
            attention(x, mask=mask)
    before, after = maps[""]
    even = mask / mask.sum(dim=-1, keepdim=True)
    assert_close(after[:, head], even.expand(2, 4, 4))
    others = [k for k in range(3) if k != head]
    assert torch.equal(after[:, others], before[:, others])
    assert_close(attention(x, mask=mask), whole)


def test_without_a_sublayer_the_stream_passes_by() -> None:
    block = EncoderBlock(12, 3, 24, dropout=0.0, norm="pre")
    for parameter in block.parameters():
        nn.init.normal_(parameter)
    x = torch.randn(2, 5, 12)
    whole = block(x)
    with ablate_sublayer(block.attention):
        assert_close(block(x), block.residuals[1](x, block.feed_forward))
    with ablate_sublayer(block.feed_forward):
        assert_close(block(x), block.residuals[0](x, block.attention))
        with ablate_sublayer(block.attention):
            assert torch.equal(block(x), x)
    assert isinstance(block.feed_forward, FeedForward)
    assert torch.equal(block(x), whole)


def test_decoding_goes_without_it_too(model: Transformer) -> None:
    blocks = model.decoder.blocks
    with ablate_sublayer(blocks[0].cross_attention), ablate_head(blocks[1].self_attention, 1):
        assert greedy_search(model, SOURCE[:1])[0] == greedy_search_naive(model, SOURCE[:1])


def test_a_part_comes_back_after_an_error(attention: MultiHeadAttention) -> None:
    before = {name: weight.clone() for name, weight in attention.state_dict().items()}
    with pytest.raises(KeyError), ablate_sublayer(attention):
        raise KeyError
    assert all(torch.equal(w, before[n]) for n, w in attention.state_dict().items())


@pytest.mark.parametrize("take_away", [ablate_head, uniform_attention])
def test_a_head_that_is_not_there(attention: MultiHeadAttention, take_away: Any) -> None:
    for head in (3, -1):
        with (
            pytest.raises(TfmrError, match=f"heads 0 to 2: got head {head}"),
            take_away(attention, head),
        ):
            pass


def test_a_recording_within_another_leaves_the_outer_one_as_it_was(model: Transformer) -> None:
    with record_attention(model) as outer:
        with record_attention(model.encoder) as inner:
            model(SOURCE, TARGET)
        model(SOURCE, TARGET)
    assert [len(calls) for calls in inner.values()] == [1, 1]
    assert len(outer["encoder.blocks.0.attention"]) == 1
    assert len(outer["decoder.blocks.0.self_attention"]) == 2
    model(SOURCE, TARGET)
    assert len(outer["encoder.blocks.0.attention"]) == 1
