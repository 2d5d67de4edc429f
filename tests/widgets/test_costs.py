"""CostsFigure in Python: its costs are counted, and those of the example of chapter 14."""

from functools import partial

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from tfmr.complexity import Function, counted_flops, longest_chain, saved_bytes
from tfmr.local_attention import local_attention_mask
from tfmr.widgets import CostsFigure
from tfmr.widgets.costs import LENGTHS, QUANTITIES, WIDTHS, costs


def attention(x: Tensor) -> Tensor:
    return (x @ x.mT / x.shape[1] ** 0.5).softmax(dim=-1) @ x


def recurrent(x: Tensor) -> Tensor:
    d = x.shape[1]
    w, h, states = torch.eye(d, requires_grad=True) / 2, torch.zeros(1, d), []
    for x_t in x.split(1):
        h = torch.tanh(x_t @ w + h @ w)
        states.append(h)
    return torch.cat(states)


def convolution(x: Tensor) -> Tensor:
    kernel = torch.ones(x.shape[1], x.shape[1], 3, requires_grad=True)
    return F.conv1d(x.mT, kernel, padding=1)


LAYERS: dict[str, Function] = {
    "self-attention": attention,
    "recurrent": recurrent,
    "convolution": convolution,
}


@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize(("n", "d"), [(3, 2), (7, 4), (6, 6), (5, 16)])
def test_the_costs_are_those_of_a_layer(layer: str, n: int, d: int) -> None:
    operations, steps, kept = costs(n, d)[layer]
    x = torch.randn(n, d, requires_grad=True)
    assert counted_flops(LAYERS[layer], x) == operations
    assert longest_chain(LAYERS[layer], x) == steps
    # Autograd keeps the weights, too, and the first state, which is zero.
    weights = {"self-attention": 0, "recurrent": d * d + d, "convolution": 3 * d * d}[layer]
    assert saved_bytes(lambda: LAYERS[layer](x)) == 4 * (kept + weights)


def local(hidden: Tensor, x: Tensor) -> Tensor:
    scores = x @ x.mT / x.shape[1] ** 0.5
    return scores.masked_fill(hidden, -torch.inf).softmax(dim=-1) @ x


def test_local_attention_computes_the_pairs_of_its_windows() -> None:
    for n, radius in ((3, 1), (9, 2), (4, 7)):
        pairs = int(local_attention_mask(n, radius).sum())
        steps = longest_chain(
            partial(local, ~local_attention_mask(n, radius)), torch.randn(n, 6, requires_grad=True)
        )
        assert costs(n, 6, radius=radius)["local"] == (4 * 6 * pairs, steps, n * 6 + pairs)


def test_the_example_by_hand_of_the_chapter() -> None:
    by_hand = costs(3, 2, kernel=3, radius=1)
    assert [row[0] for row in by_hand.values()] == [72, 48, 72, 56]
    assert [row[1] for row in by_hand.values()] == [4, 9, 1, 5]


@pytest.mark.parametrize("d", WIDTHS)
def test_self_attention_and_the_recurrent_layer_are_equal_at_n_equals_d(d: int) -> None:
    assert d in LENGTHS
    for at in (0, 2):
        difference = {n: costs(n, d)["self-attention"][at] - costs(n, d)["recurrent"][at]
                      for n in LENGTHS}  # fmt: skip
        assert [n for n, found in difference.items() if found == 0] == [d]
        assert all((found > 0) == (n > d) for n, found in difference.items())


def test_the_summary_states_the_quantity_that_is_shown() -> None:
    assert CostsFigure().summary() == (
        "operations of layers at n = 32 and d = 512: self-attention 2,097,152, recurrent"
        " 33,554,432, convolution 50,331,648, local 1,605,632."
    )
    for at, quantity in enumerate(QUANTITIES):
        figure = CostsFigure(quantity=quantity)
        assert f"recurrent {costs(32, 512)['recurrent'][at]:,}, " in figure.summary()
