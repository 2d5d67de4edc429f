"""Encoder blocks and stacks: parity with torch.nn, and which positions they attend to."""

from dataclasses import replace
from itertools import product

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from tfmr.attention import padding_mask
from tfmr.config import BlockConfig
from tfmr.encoder import Encoder
from tfmr.position import RotaryPosition

IDS = torch.tensor([[4, 5, 6, 7, 8], [4, 5, 6, 0, 0]])
KINDS = list(product(["post", "pre"], ["relu", "gelu"]))
SMALL = BlockConfig(12, 3, 32, dropout=0.0)


def torch_layer(norm: str, activation: str) -> nn.TransformerEncoderLayer:
    return nn.TransformerEncoderLayer(
        12, 3, 32, 0.0, activation, norm_first=norm == "pre", batch_first=True
    )


def run(module, x):
    return module(x, padding_mask(IDS))


def other(module, x):
    return module(x, src_key_padding_mask=IDS == 0)


@pytest.mark.parametrize(("norm", "activation"), KINDS)
def test_a_stack_equals_torch(assert_parity, norm: str, activation: str) -> None:
    torch.manual_seed(0)
    own = Encoder(replace(SMALL, norm=norm, activation=activation), 3)
    last = nn.LayerNorm(12) if norm == "pre" else None
    theirs = nn.TransformerEncoder(
        torch_layer(norm, activation), 3, last, enable_nested_tensor=False
    )
    assert_parity(own, theirs, [torch.randn(2, 5, 12)], run, other)


def test_every_position_attends_to_every_real_position() -> None:
    torch.manual_seed(0)
    encoder = Encoder(SMALL, 1).double()
    x = torch.randn(2, 5, 12, dtype=torch.double, requires_grad=True)
    for row, length in ((0, 5), (1, 3)):
        for position in range(length):
            out = run(encoder, x)[row, position].square().sum()
            (gradient,) = torch.autograd.grad(out, x)
            attended = gradient.abs().sum(dim=-1) > 0
            assert attended[row].tolist() == [i < length for i in range(5)]
            assert not attended[1 - row].any()


def test_without_positions_the_encoder_is_permutation_equivariant() -> None:
    torch.manual_seed(0)
    x, order = torch.randn(1, 5, 12), torch.tensor([3, 1, 4, 0, 2])
    no_positions = Encoder(SMALL, 2)
    assert_close(no_positions(x[:, order]), no_positions(x)[:, order])
    rotary = Encoder(SMALL, 2, rotary=RotaryPosition(4, 5))
    assert not torch.allclose(rotary(x[:, order]), rotary(x)[:, order], atol=1e-3)


def test_blocks_share_no_weights() -> None:
    names = [id(parameter) for parameter in Encoder(SMALL, 3).parameters()]
    assert len(set(names)) == len(names) == 3 * 16
