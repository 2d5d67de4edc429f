"""Additive attention compared with the naive version and with numbers worked out by hand."""

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


def test_equals_the_naive_version_in_outputs_and_gradients() -> None:
    attention, query, memory = build()
    result = attention(query, attention.project_keys(memory), memory, MASK)
    expected = additive_attention_naive(attention, query, memory, MASK)
    assert_close(result, expected)
    inputs = [query, memory, *attention.parameters()]
    direction = torch.randn_like(result[0])
    gradients = [
        torch.autograd.grad((context * direction).sum() + weights.square().sum(), inputs)
        for context, weights in (result, expected)
    ]
    assert_close(*gradients)


def test_weights_computed_by_hand() -> None:
    attention = AdditiveAttention(1, 1, 1)
    with torch.no_grad():
        attention.w.weight.fill_(2.0)
        attention.u.weight.fill_(3.0)
        attention.v.fill_(1.5)
    memory = torch.tensor([[[0.1], [-0.2]]])
    mask = torch.ones(1, 2, dtype=torch.bool)
    keys = attention.project_keys(memory)
    context, weights = attention(torch.tensor([[[0.4]]]), keys, memory, mask)
    first, second = (math.exp(1.5 * math.tanh(0.8 + 3 * h)) for h in (0.1, -0.2))
    weight = first / (first + second)
    assert_close(weights.flatten().tolist(), [weight, 1 - weight])
    assert context.item() == pytest.approx(0.1 * weight - 0.2 * (1 - weight), rel=1e-5)


def test_padding_has_weight_zero_and_no_gradient() -> None:
    attention, query, memory = build()
    context, weights = attention(query, attention.project_keys(memory), memory, MASK)
    assert_close(weights.sum(dim=-1), torch.ones(BATCH, QUERY, dtype=torch.double))
    assert torch.equal(weights > 0, MASK[:, None].expand(-1, QUERY, -1))
    changed = torch.where(MASK[..., None], memory, 1e3).detach().requires_grad_()
    context_changed, _ = attention(query, attention.project_keys(changed), changed, MASK)
    assert torch.equal(context_changed, context)
    context_changed.square().sum().backward()
    assert changed.grad is not None
    assert torch.equal(changed.grad != 0, MASK[..., None].expand_as(memory))


def test_initial_weights_are_uniform() -> None:
    attention = AdditiveAttention(D_QUERY, D_MEMORY, D_HIDDEN).double()
    _, query, memory = build()
    _, weights = attention(query, attention.project_keys(memory), memory, MASK)
    assert_close(weights[:, 0], MASK / MASK.sum(dim=1, keepdim=True).double())


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda a, q, m: AdditiveAttention(4, 0, 2), "d_memory.*positive.*got 0"),
        (lambda a, q, m: a.project_keys(m[..., 1:]), r"d_memory=6\).*got \(3, 5, 5\)"),
        (lambda a, q, m: a.project_keys(m[0]), r"d_memory=6\).*got \(5, 6\)"),
        (lambda a, q, m: a(q[..., 1:], a.project_keys(m), m, MASK), r"d_query=4\).*got \(3, 2, 3"),
        (lambda a, q, m: a(q[0], a.project_keys(m), m, MASK), r"d_query=4\).*got \(2, 4\)"),
        (lambda a, q, m: a(q, a.project_keys(m), m, MASK[:, 1:]), r"mask \(3, 4\).*keys"),
        (lambda a, q, m: a(q, m, m, MASK), r"keys \(3, 5, 6\)"),
        (lambda a, q, m: a(q, a.project_keys(m), m, MASK.int()), r"boolean.*got torch\.int32"),
        (lambda a, q, m: a(q, a.project_keys(m), m, MASK.tolist()), "mask must be a tensor: got"),
        (lambda a, q, m: a(q[1:], a.project_keys(m), m, MASK), r"\(2, 2, 4\), keys \(3, 5"),
        (lambda a, q, m: additive_attention_naive(a, q, m, MASK[:, 1:]), r"mask \(3, 4\)"),
        (
            lambda a, q, m: additive_attention_naive(a, q, m, MASK & (MASK.sum(1) > 1)[:, None]),
            "hides a whole sentence",
        ),
    ],
)
def test_invalid_inputs_raise_tfmr_error(unchecked, call, message: str) -> None:
    with pytest.raises(TfmrError, match=message):
        call(*build())
