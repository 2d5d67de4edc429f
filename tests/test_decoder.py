"""Decoder blocks and stacks: parity with torch.nn, masks and caches."""

from dataclasses import replace
from itertools import product

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from tfmr.attention import causal_mask, padding_mask
from tfmr.config import BlockConfig
from tfmr.decoder import Decoder
from tfmr.position import RotaryPosition

IDS = torch.tensor([[4, 5, 6, 7, 8], [4, 5, 6, 0, 0]])
TARGET = 4
KINDS = list(product(["post", "pre"], ["relu", "gelu"]))
SMALL = BlockConfig(12, 3, 32, dropout=0.0)


def torch_layer(norm: str, activation: str) -> nn.TransformerDecoderLayer:
    return nn.TransformerDecoderLayer(
        12, 3, 32, 0.0, activation, norm_first=norm == "pre", batch_first=True
    )


def run(module, x, memory):
    return module(x, memory, mask=causal_mask(x.shape[1]), memory_mask=padding_mask(IDS))


def other(module, x, memory):
    future = ~causal_mask(x.shape[1])
    return module(x, memory, tgt_mask=future, memory_key_padding_mask=IDS == 0)


def inputs() -> list[torch.Tensor]:
    torch.manual_seed(1)
    return [torch.randn(2, TARGET, 12), torch.randn(2, 5, 12)]


@pytest.mark.parametrize(("norm", "activation"), KINDS)
def test_a_stack_equals_torch(assert_parity, norm: str, activation: str) -> None:
    own = Decoder(replace(SMALL, norm=norm, activation=activation), 3)
    last = nn.LayerNorm(12) if norm == "pre" else None
    theirs = nn.TransformerDecoder(torch_layer(norm, activation), 3, last)
    assert_parity(own, theirs, inputs(), run, other)


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_a_position_attends_to_its_prefix_and_the_whole_source(norm: str) -> None:
    decoder = Decoder(replace(SMALL, norm=norm), 2).double()
    x, memory = (tensor.double().requires_grad_() for tensor in inputs())
    for row, length in ((0, 5), (1, 3)):
        for position in range(TARGET):
            out = run(decoder, x, memory)[row, position].pow(3).sum()
            back, across = torch.autograd.grad(out, [x, memory])
            assert (back[row].abs().sum(-1) > 0).tolist() == [i <= position for i in range(TARGET)]
            assert (across[row].abs().sum(-1) > 0).tolist() == [i < length for i in range(5)]


@pytest.mark.parametrize("rotary", [False, True])
@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize("pieces", [(1, 1, 1, 1), (2, 1, 1)])
def test_with_caches_equals_without(norm: str, rotary: bool, pieces: tuple[int, ...]) -> None:
    decoder = Decoder(
        replace(SMALL, norm=norm), 2, rotary=RotaryPosition(4, TARGET) if rotary else None
    ).double()
    x, memory = (tensor.double() for tensor in inputs())
    whole = run(decoder, x, memory)
    caches, outs, decoded = decoder.new_caches(TARGET, 5), [], 0
    for piece in x.split(pieces, dim=1):
        decoded += piece.shape[1]
        masks = {"mask": causal_mask(piece.shape[1], decoded), "memory_mask": padding_mask(IDS)}
        outs.append(decoder(piece, memory, caches=caches, **masks))
    assert_close(torch.cat(outs, dim=1), whole)
    assert [(cache.self_attention.length, cache.cross_attention.length) for cache in caches] == [
        (TARGET, 5)
    ] * 2


def test_a_cache_continues_with_the_selected_rows() -> None:
    decoder = Decoder(SMALL, 2).double()
    x, memory = (tensor.double() for tensor in inputs())
    caches = decoder.new_caches(TARGET, 5)
    decoder(x[:, :2], memory, mask=causal_mask(2), caches=caches)
    rows = torch.tensor([1])
    for cache in caches:
        cache.select(rows)
    last = decoder(x[rows, 2:3], memory[rows], mask=causal_mask(1, 3), caches=caches)
    assert_close(last, decoder(x, memory, mask=causal_mask(TARGET))[rows, 2:3])


@pytest.mark.parametrize("pieces", [(4,), (1, 1, 1, 1), (2, 1, 1)])
def test_is_causal_equals_the_causal_mask(pieces: tuple[int, ...]) -> None:
    decoder = Decoder(SMALL, 2).double()
    x, memory = (tensor.double() for tensor in inputs())
    whole = decoder(x, memory, mask=causal_mask(TARGET))
    caches = decoder.new_caches(TARGET, 5)
    outs = [decoder(x, memory, is_causal=True, caches=caches) for x in x.split(pieces, dim=1)]
    assert_close(torch.cat(outs, dim=1), whole)


def test_a_source_of_one_token_with_caches_equals_without() -> None:
    decoder = Decoder(SMALL, 2).double()
    x, memory = (tensor.double() for tensor in inputs())
    whole = decoder(x, memory[:, :1], is_causal=True)
    caches = decoder.new_caches(TARGET, 1)
    # Only the first step may project the memory: later steps are given another one.
    outs = [decoder(x[:, :1], memory[:, :1], is_causal=True, caches=caches)]
    for t in range(1, TARGET):
        outs.append(decoder(x[:, t : t + 1], memory[:, 1:2], is_causal=True, caches=caches))
    assert_close(torch.cat(outs, dim=1), whole)
