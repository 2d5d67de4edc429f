"""Additive attention against the loops of its equations, and against a pencil."""

import math

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from tfmr.additive_attention import AdditiveAttention, additive_attention_naive
from tfmr.errors import TfmrError

BATCH, QUERY, KEY, D_QUERY, D_MEMORY, D_HIDDEN = 3, 2, 5, 4, 6, 7
MASK = torch.arange(KEY) < torch.tensor([[5], [3], [1]])


def build() -> tuple[AdditiveAttention, Tensor, Tensor]:
    torch.manual_seed(0)
    attention = AdditiveAttention(D_QUERY, D_MEMORY, D_HIDDEN).double()
    with torch.no_grad():
        attention.v.normal_()
    query = torch.randn(BATCH, QUERY, D_QUERY, dtype=torch.double, requires_grad=True)
    memory = torch.randn(BATCH, KEY, D_MEMORY, dtype=torch.double, requires_grad=True)
    return attention, query, memory


def test_equal_to_the_loops_of_the_equations_forward_and_gradient() -> None:
    attention, query, memory = build()
    found = attention(query, attention.project(memory), memory, MASK)
    expected = additive_attention_naive(attention, query, memory, MASK)
    assert_close(found, expected)
    learnt = [query, memory, *attention.parameters()]
    direction = torch.randn_like(found[0])
    gradients = [
        torch.autograd.grad((context * direction).sum() + weights.square().sum(), learnt)
        for context, weights in (found, expected)
    ]
    assert_close(*gradients)


def test_one_number_by_hand() -> None:
    attention = AdditiveAttention(1, 1, 1)
    with torch.no_grad():
        for parameter, value in ((attention.w.weight, 2.0), (attention.u.weight, 3.0)):
            parameter.fill_(value)
        attention.v.fill_(1.5)
    memory = torch.tensor([[[0.1], [-0.2]]])
    query = torch.tensor([[[0.4]]])
    context, weights = attention(
        query, attention.project(memory), memory, torch.ones(1, 2, dtype=torch.bool)
    )
    first, second = (math.exp(1.5 * math.tanh(0.8 + 3 * h)) for h in (0.1, -0.2))
    share = first / (first + second)
    assert_close(weights.flatten().tolist(), [share, 1 - share])
    assert context.item() == pytest.approx(0.1 * share - 0.2 * (1 - share), rel=1e-5)


def test_the_weights_of_each_query_sum_to_one_and_padding_has_none() -> None:
    attention, query, memory = build()
    _, weights = attention(query, attention.project(memory), memory, MASK)
    assert_close(weights.sum(dim=-1), torch.ones(BATCH, QUERY, dtype=torch.double))
    assert (weights[~MASK[:, None].expand(-1, QUERY, -1)] == 0).all()
    assert (weights[MASK[:, None].expand(-1, QUERY, -1)] > 0).all()


def test_padding_is_never_read() -> None:
    attention, query, memory = build()
    context, _ = attention(query, attention.project(memory), memory, MASK)
    changed = torch.where(MASK[..., None], memory, 1e3).detach().requires_grad_()
    others, _ = attention(query, attention.project(changed), changed, MASK)
    assert torch.equal(others, context)
    others.square().sum().backward()
    assert changed.grad is not None
    assert (changed.grad[~MASK] == 0).all()
    assert (changed.grad[MASK] != 0).all()


def test_before_it_has_learnt_it_reads_all_words_alike() -> None:
    attention = AdditiveAttention(D_QUERY, D_MEMORY, D_HIDDEN).double()
    _, query, memory = build()
    _, weights = attention(query, attention.project(memory), memory, MASK)
    assert_close(weights[:, 0], MASK / MASK.sum(dim=1, keepdim=True).double())


def test_a_query_reads_the_same_alone_as_beside_others() -> None:
    attention, query, memory = build()
    keys = attention.project(memory)
    _, weights = attention(query, keys, memory, MASK)
    for i in range(QUERY):
        _, alone = attention(query[:, i : i + 1], keys, memory, MASK)
        assert_close(alone[:, 0], weights[:, i])


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda a, q, m: AdditiveAttention(4, 0, 2), "d_query=4, d_memory=0, d_hidden=2"),
        (lambda a, q, m: a.project(m[..., 1:]), r"d_memory=6 numbers .* got \(3, 5, 5\)"),
        (lambda a, q, m: a(q[..., 1:], a.project(m), m, MASK), r"d_query=4 numbers.*\(3, 2, 3\)"),
        (lambda a, q, m: a(q, a.project(m), m, MASK[:, 1:]), r"mask \(3, 4\); the keys are"),
        (lambda a, q, m: a(q[1:], a.project(m), m, MASK), r"query \(2, 2, 4\), keys \(3, 5, 7\)"),
        (
            lambda a, q, m: additive_attention_naive(a, q, m, MASK & (MASK.sum(1) > 1)[:, None]),
            "hides a whole sentence",
        ),
    ],
)
def test_a_mistake_says_what_was_expected(unchecked, wrong, message: str) -> None:
    with pytest.raises(TfmrError, match=message) as caught:
        wrong(*build())
    assert "\n" not in str(caught.value)
