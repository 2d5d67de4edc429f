"""Decoder blocks and stacks against torch.nn, what they may read, and their caches."""

from itertools import product

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from tfmr.attention import causal_mask, padding_mask
from tfmr.decoder import Decoder, DecoderBlock
from tfmr.errors import TfmrError
from tfmr.position import RotaryPosition

IDS = torch.tensor([[4, 5, 6, 7, 8], [4, 5, 6, 0, 0]])
TARGET = 4
KINDS = list(product(["post", "pre"], ["relu", "gelu"]))


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
def test_a_block_equals_torch(assert_parity, norm: str, activation: str) -> None:
    own = DecoderBlock(12, 3, 32, dropout=0.0, norm=norm, activation=activation)
    assert_parity(own, torch_layer(norm, activation), inputs(), run, other)


@pytest.mark.parametrize(("norm", "activation"), KINDS)
def test_a_stack_equals_torch(assert_parity, norm: str, activation: str) -> None:
    own = Decoder(3, 12, 3, 32, dropout=0.0, norm=norm, activation=activation)
    last = nn.LayerNorm(12) if norm == "pre" else None
    theirs = nn.TransformerDecoder(torch_layer(norm, activation), 3, last)
    assert_parity(own, theirs, inputs(), run, other)


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_a_position_reads_its_past_and_the_whole_source(norm: str) -> None:
    decoder = Decoder(2, 12, 3, 32, dropout=0.0, norm=norm).double()
    x, memory = (tensor.double().requires_grad_() for tensor in inputs())
    for row, heard in ((0, 5), (1, 3)):
        for position in range(TARGET):
            out = run(decoder, x, memory)[row, position].pow(3).sum()
            back, across = torch.autograd.grad(out, [x, memory])
            assert (back[row].abs().sum(-1) > 0).tolist() == [i <= position for i in range(TARGET)]
            assert (across[row].abs().sum(-1) > 0).tolist() == [i < heard for i in range(5)]


@pytest.mark.parametrize("rotary", [False, True])
@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize("pieces", [(1, 1, 1, 1), (2, 1, 1)])
def test_with_caches_equals_without(norm: str, rotary: bool, pieces: tuple[int, ...]) -> None:
    rotate = RotaryPosition(4, TARGET) if rotary else None
    decoder = Decoder(2, 12, 3, 32, dropout=0.0, norm=norm, rotate=rotate).double()
    x, memory = (tensor.double() for tensor in inputs())
    whole = run(decoder, x, memory)
    caches, outs, said = decoder.new_caches(TARGET, 5), [], 0
    for piece in x.split(pieces, dim=1):
        said += piece.shape[1]
        masks = {"mask": causal_mask(piece.shape[1], said), "memory_mask": padding_mask(IDS)}
        outs.append(decoder(piece, memory, caches=caches, **masks))
    assert_close(torch.cat(outs, dim=1), whole)
    assert [(cache.target.length, cache.source.length) for cache in caches] == [(TARGET, 5)] * 2


def test_a_cache_goes_on_with_the_rows_kept() -> None:
    decoder = Decoder(2, 12, 3, 32, dropout=0.0).double()
    x, memory = (tensor.double() for tensor in inputs())
    caches = decoder.new_caches(TARGET, 5)
    decoder(x[:, :2], memory, mask=causal_mask(2), caches=caches)
    rows = torch.tensor([1])
    for cache in caches:
        cache.keep(rows)
    last = decoder(x[rows, 2:3], memory[rows], mask=causal_mask(1, 3), caches=caches)
    assert_close(last, decoder(x, memory, mask=causal_mask(TARGET))[rows, 2:3])


def test_d_model_must_be_divisible_by_the_heads() -> None:
    with pytest.raises(TfmrError, match="divisible by n_heads"):
        Decoder(1, 10, 3, 32)
