"""RMSNorm, SwiGLU, grouped-query attention and the relative bias."""

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from tfmr.analysis import record_attention
from tfmr.attention import MultiHeadAttention
from tfmr.errors import TfmrError
from tfmr.family.blocks import (
    Block,
    GroupedQueryAttention,
    RelativeBias,
    RMSNorm,
    SwiGLU,
    T5Attention,
    rms_norm,
)
from tfmr.kv_cache import KVCache
from tfmr.layers import FeedForward, LayerNorm


def test_the_readable_rms_norm_equals_the_kernel() -> None:
    torch.manual_seed(0)
    x, norm = torch.randn(2, 3, 8), RMSNorm(8, eps=0.1)
    nn.init.normal_(norm.weight)
    assert_close(rms_norm(x, norm.weight, 0.1), norm(x))
    assert_close(norm(torch.zeros(1, 8)), torch.zeros(1, 8))


def test_rms_norm_is_layer_norm_without_a_mean() -> None:
    """For vectors of mean 0 they are equal; only layer norm removes a constant."""
    torch.manual_seed(0)
    x = torch.randn(5, 8)
    centred = x - x.mean(dim=-1, keepdim=True)
    assert_close(RMSNorm(8)(centred), LayerNorm(8, eps=1e-6)(centred))
    assert not torch.allclose(RMSNorm(8)(centred + 1), RMSNorm(8)(centred))


def test_swiglu_is_its_formula() -> None:
    torch.manual_seed(0)
    x, network = torch.randn(3, 4), SwiGLU(4, 6)
    gate = x @ network.gate.weight.T
    expected = (gate * gate.sigmoid() * (x @ network.expand.weight.T)) @ network.contract.weight.T
    assert_close(network(x), expected)
    assert len(list(network.parameters())) == 3


def test_as_many_key_heads_as_query_heads_is_multi_head_attention() -> None:
    torch.manual_seed(0)
    plain, grouped = MultiHeadAttention(12, 4), GroupedQueryAttention(12, 4, 4, bias=True)
    grouped.load_state_dict(plain.state_dict())
    x = torch.randn(2, 5, 12)
    assert_close(grouped(x, is_causal=True), plain(x, is_causal=True))


def test_a_group_of_query_heads_shares_a_key_head() -> None:
    """Equal to multi-head attention whose key and value matrices repeat those of the groups."""
    torch.manual_seed(0)
    grouped, plain = GroupedQueryAttention(12, 6, 2), MultiHeadAttention(12, 6)
    with torch.no_grad():
        for name in ("w_q", "w_k", "w_v", "w_o"):
            weight = getattr(grouped, name).weight
            if name in ("w_k", "w_v"):
                weight = weight.view(2, 2, 12).repeat_interleave(3, dim=0).reshape(12, 12)
            getattr(plain, name).weight.copy_(weight)
            getattr(plain, name).bias.zero_()
    x = torch.randn(2, 5, 12)
    assert_close(grouped(x), plain(x))

    cache = KVCache(5)
    grouped(x, is_causal=True, cache=cache)
    assert cache.read()[0].shape == (2, 2, 5, 2)  # two heads instead of six


def test_the_number_of_key_heads_must_divide_that_of_query_heads() -> None:
    with pytest.raises(TfmrError, match=r"n_heads=6, n_kv_heads=4"):
        GroupedQueryAttention(12, 6, 4)


def test_the_ranges_of_the_relative_bias() -> None:
    """One distance per range up to 3, then logarithmic ranges; the other half for later keys."""
    both = RelativeBias(1, bidirectional=True, n_buckets=16, max_distance=32)
    offset = torch.tensor([[0, -1, -3, -4, -8, -31, -32, -500, 1, 3, 500]])
    assert both.bucket(offset)[0].tolist() == [0, 1, 3, 4, 5, 7, 7, 7, 9, 11, 15]
    past = RelativeBias(1, bidirectional=False, n_buckets=8, max_distance=32)
    assert past.bucket(offset)[0].tolist() == [0, 1, 3, 4, 5, 7, 7, 7, 0, 0, 0]


def test_the_relative_bias_of_the_last_queries() -> None:
    relative = RelativeBias(3, bidirectional=False)
    assert_close(relative(2, 7), relative(7, 7)[:, -2:])


@pytest.mark.parametrize("is_causal", [True, False])
def test_t5_attention_is_its_formula(is_causal: bool) -> None:
    torch.manual_seed(0)
    attention = T5Attention(8, 2, 3, RelativeBias(2, bidirectional=True))
    x = torch.randn(1, 5, 8)
    q, k, v = (
        (x @ w.weight.T).view(1, 5, 2, 3).transpose(1, 2)
        for w in (attention.w_q, attention.w_k, attention.w_v)
    )
    scores = q @ k.transpose(2, 3) + attention.relative(5, 5)
    if is_causal:
        scores = scores.masked_fill(~torch.ones(5, 5).tril().bool(), -torch.inf)
    weights = scores.softmax(-1)
    expected = (weights @ v).transpose(1, 2).reshape(1, 5, 6) @ attention.w_o.weight.T
    with record_attention(attention) as maps:
        assert_close(attention(x, is_causal=is_causal), expected)
    assert_close(maps[""][0], weights)


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_a_block_with_a_cache_equals_one_call(norm: str) -> None:
    torch.manual_seed(0)
    block = Block(
        12,
        GroupedQueryAttention(12, 6, 2),
        FeedForward(12, 16),
        make_norm=lambda: RMSNorm(12),
        norm=norm,
    ).eval()
    x, cache = torch.randn(2, 5, 12), KVCache(5)
    whole = block(x, is_causal=True)
    parts = [block(part, is_causal=True, cache=cache) for part in x.split([3, 1, 1], dim=1)]
    assert_close(torch.cat(parts, dim=1), whole)
