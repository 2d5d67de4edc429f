"""Encoder blocks and stacks against torch.nn, and what they may and may not read."""

from itertools import product

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from tfmr.attention import padding_mask
from tfmr.encoder import Encoder, EncoderBlock
from tfmr.errors import TfmrError
from tfmr.position import RotaryPosition

IDS = torch.tensor([[4, 5, 6, 7, 8], [4, 5, 6, 0, 0]])
KINDS = list(product(["post", "pre"], ["relu", "gelu"]))


def torch_layer(norm: str, activation: str) -> nn.TransformerEncoderLayer:
    return nn.TransformerEncoderLayer(
        12, 3, 32, 0.0, activation, norm_first=norm == "pre", batch_first=True
    )


def run(module, x):
    return module(x, padding_mask(IDS))


def other(module, x):
    return module(x, src_key_padding_mask=IDS == 0)


@pytest.mark.parametrize(("norm", "activation"), KINDS)
def test_a_block_equals_torch(assert_parity, norm: str, activation: str) -> None:
    torch.manual_seed(0)
    own = EncoderBlock(12, 3, 32, dropout=0.0, norm=norm, activation=activation)
    assert_parity(own, torch_layer(norm, activation), [torch.randn(2, 5, 12)], run, other)


@pytest.mark.parametrize(("norm", "activation"), KINDS)
def test_a_stack_equals_torch(assert_parity, norm: str, activation: str) -> None:
    torch.manual_seed(0)
    own = Encoder(3, 12, 3, 32, dropout=0.0, norm=norm, activation=activation)
    last = nn.LayerNorm(12) if norm == "pre" else None
    theirs = nn.TransformerEncoder(
        torch_layer(norm, activation), 3, last, enable_nested_tensor=False
    )
    assert_parity(own, theirs, [torch.randn(2, 5, 12)], run, other)


def test_every_position_reads_every_other_but_no_padding() -> None:
    torch.manual_seed(0)
    encoder = Encoder(1, 12, 3, 32, dropout=0.0).double()
    x = torch.randn(2, 5, 12, dtype=torch.double, requires_grad=True)
    for row, length in ((0, 5), (1, 3)):
        for position in range(length):
            out = run(encoder, x)[row, position].square().sum()
            (reach,) = torch.autograd.grad(out, x)
            read = reach.abs().sum(dim=-1) > 0
            assert read[row].tolist() == [i < length for i in range(5)]
            assert not read[1 - row].any()


def test_without_positions_order_means_nothing_and_with_rotary_it_does() -> None:
    torch.manual_seed(0)
    x, order = torch.randn(1, 5, 12), torch.tensor([3, 1, 4, 0, 2])
    bag = Encoder(2, 12, 3, 32, dropout=0.0)
    assert_close(bag(x[:, order]), bag(x)[:, order])
    rotary = Encoder(2, 12, 3, 32, dropout=0.0, rotate=RotaryPosition(4, 5))
    assert not torch.allclose(rotary(x[:, order]), rotary(x)[:, order], atol=1e-3)


def test_blocks_share_no_weights() -> None:
    names = [id(parameter) for parameter in Encoder(3, 12, 3, 32).parameters()]
    assert len(set(names)) == len(names) == 3 * 16


def test_d_model_must_be_divisible_by_the_heads() -> None:
    with pytest.raises(TfmrError, match="divisible by n_heads"):
        Encoder(1, 10, 3, 32)
