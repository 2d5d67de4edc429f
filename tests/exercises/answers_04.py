"""Answers to the exercises of chapter 4: right ones, each written differently, and wrong ones."""

import math

import numpy as np
import torch
import torch.nn.functional as F
from einops import einsum
from torch import nn

from tfmr.attention import (
    causal_mask,
    combine_masks,
    padding_mask,
    scaled_dot_product_attention,
)


def with_exponentials(q, k, v):
    scores = torch.matmul(q, k.mT) * q.size(-1) ** -0.5
    exponentials = torch.exp(scores - scores.max(dim=-1, keepdim=True).values)
    return exponentials / exponentials.sum(-1, keepdim=True) @ v


def with_einsum(q, k, v):
    scores = einsum(q, k, "... i d, ... j d -> ... i j") / math.sqrt(k.shape[-1])
    return einsum(F.softmax(scores, -1), v, "... i j, ... j d -> ... i d")


def in_double_precision(q, k, v):
    q = q.double() / math.sqrt(q.shape[-1])
    return (q @ k.double().transpose(-1, -2)).softmax(-1) @ v.double()


def in_numpy(q, k, v):
    q, k, v = (each.numpy() for each in (q, k, v))
    scores = q @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1])
    scores = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return scores / scores.sum(axis=-1, keepdims=True) @ v


class AsModule(nn.Module):
    def forward(self, q, k, v):
        return F.scaled_dot_product_attention(q, k, v)


def by_comparison(ids):
    positions = torch.arange(ids.shape[1])
    return (positions[None, :] <= positions[:, None]) & (ids != 0).unsqueeze(1)


def by_package(ids):
    return combine_masks(causal_mask(ids.shape[1]), padding_mask(ids))  # with an axis for heads


def by_filling(ids):
    batch, length = ids.shape
    mask = torch.ones(batch, length, length, dtype=torch.bool)
    mask.masked_fill_(torch.ones(length, length, dtype=torch.bool).triu(1), False)
    return mask.masked_fill(ids.eq(0)[:, None, :], False)


def by_multiplication(ids):
    length = ids.shape[1]
    return (torch.tril(torch.ones(length, length)) * (ids > 0).float()[:, None, :]).bool()


def by_logical_not(ids):
    hidden = torch.triu(torch.ones(1, *ids.shape[-1:] * 2), diagonal=1) == 1
    return torch.logical_not(hidden | (ids == 0).view(len(ids), 1, -1))


def as_lists(ids):
    rows = range(ids.shape[1])
    return [[[j <= i and row[j] != 0 for j in rows] for i in rows] for row in ids.tolist()]


def with_bias(q, k, v, mask):
    bias = torch.zeros(mask.shape).masked_fill(~mask, -torch.inf)
    return torch.softmax(q @ k.mT * q.shape[-1] ** -0.5 + bias, dim=-1) @ v


def with_where(q, k, v, mask):
    scores = q @ k.mT / math.sqrt(k.shape[-1])
    weights = torch.where(mask, scores, torch.tensor(-torch.inf)).softmax(-1)
    return weights @ v, weights


def with_large_number(q, k, v, mask):
    scores = q @ k.mT / math.sqrt(k.shape[-1])
    return scores.masked_fill(mask == 0, -1e9).softmax(-1) @ v


def with_fused_kernel(q, k, v, mask):
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


def with_assignment(q, k, v, mask):
    scores = (q @ k.mT / math.sqrt(k.shape[-1])).double()
    scores[~mask.expand(scores.shape)] = float("-inf")
    return F.softmax(scores, dim=-1) @ v.double()


def renormalised(q, k, v, mask):
    weights = (q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])).softmax(dim=-1) * mask
    return weights / weights.sum(dim=-1, keepdim=True) @ v


def masked_exponentials(q, k, v, mask):
    weights = (q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])).exp() * mask
    return weights / weights.sum(dim=-1, keepdim=True) @ v


def by_jacobian(weights, grad):
    jacobian = torch.diag_embed(weights) - weights[..., :, None] * weights[..., None, :]
    return (jacobian @ grad[..., None])[..., 0]


def by_two_terms(weights, grad):
    product = weights * grad
    return product - weights * product.sum(-1, keepdim=True)


def by_einsum(weights, grad):
    return weights * grad - weights * torch.einsum("...i,...i->...", weights, grad)[..., None]


def by_autograd(weights, grad):
    scores = weights.log().requires_grad_()
    return torch.autograd.grad(scores.softmax(-1), scores, grad)[0]


def by_arrays(weights, grad):
    a, g = weights.double().numpy(), grad.double().numpy()
    return a * (g - (a * g).sum(axis=-1, keepdims=True))


def one_position(attend):
    x = torch.randn(2, 6, 8)
    for i in range(5):
        changed = x.clone()
        changed[:, i + 1] += 1
        torch.testing.assert_close(attend(changed)[:, : i + 1], attend(x)[:, : i + 1])


def all_later_positions(attend):
    x = torch.rand(4, 7, 3, generator=torch.Generator().manual_seed(5))
    for end in range(1, 7):
        other = torch.cat([x[:, :end], torch.rand(4, 7 - end, 3)], dim=1)
        difference = (attend(x) - attend(other))[:, :end].abs().max()
        assert difference < 1e-5, difference


def prefixes_alone(attend):
    x = torch.randn(2, 5, 4).double()
    whole = attend(x)
    for end in range(1, 6):
        np.testing.assert_allclose(whole[:, :end], attend(x[:, :end]), atol=1e-8)


def by_gradients(attend):
    x = torch.randn(2, 5, 4, requires_grad=True)
    out = attend(x)
    for i in range(5):
        (grad,) = torch.autograd.grad(out[:, i].sum(), x, retain_graph=True)
        assert not grad[:, i + 1 :].any()


def returns_a_boolean(attend):
    x = torch.randn(3, 4, 2)
    for pos in (1, 2, 3):
        other = x.clone()
        other[:, pos] = -x[:, pos]
        if not torch.isclose(attend(x)[:, :pos], attend(other)[:, :pos], atol=1e-5).all():
            return False
    return True


RIGHT = {
    "q1": [
        [0.663, 2.229],
        (0.66, 2.23),
        torch.tensor([[0.6629, 2.2287]]),
        np.array([0.662, 2.23]),
        [0.108 * 2 + 0.446, 0.446 + 0.446 * 4],
    ],
    "q2": [
        with_exponentials,
        with_einsum,
        in_double_precision,
        in_numpy,
        AsModule(),
        scaled_dot_product_attention,  # returns the weights, too
    ],
    "q3": [by_comparison, by_package, by_filling, by_multiplication, by_logical_not, as_lists],
    "q4": [with_bias, with_where, with_large_number, with_fused_kernel, with_assignment],
    "q5": [by_jacobian, by_two_terms, by_einsum, by_autograd, by_arrays],
    "q6": [one_position, all_later_positions, prefixes_alone, by_gradients, returns_a_boolean],
}
"""For each exercise, answers that are right without a remark."""


def naive_exponentials(q, k, v):
    exponentials = (q @ k.mT / math.sqrt(q.shape[-1])).exp()
    return exponentials @ v / exponentials.sum(-1, keepdim=True)


def query_by_query(q, k, v):
    outputs = []
    for i in range(q.shape[-2]):
        scores = (k @ q[..., i, :, None]).squeeze(-1) / math.sqrt(q.shape[-1])
        outputs.append((scores.softmax(-1)[..., None, :] @ v).squeeze(-2))
    return torch.stack(outputs, dim=-2)


def in_place(q, k, v):
    q /= math.sqrt(q.shape[-1])
    return (q @ k.mT).softmax(-1) @ v


def integers(ids):
    return torch.ones(ids.shape[1], ids.shape[1]).tril().int() * (ids != 0)[:, None, :]


def sentence_by_sentence(ids):
    causal = torch.ones(ids.shape[1], ids.shape[1], dtype=torch.bool).tril()
    return torch.stack([causal & (row != 0) for row in ids])


def row_by_row(weights, grad):
    keys = grad.shape[-1]
    pairs = zip(weights.reshape(-1, keys), grad.reshape(-1, keys), strict=True)
    rows = [(torch.diag(a) - torch.outer(a, a)) @ g for a, g in pairs]
    return torch.stack(rows).reshape(grad.shape)


REMARKS = {
    "q2": [
        (naive_exponentials, "NaN for large scores"),
        (query_by_query, "loops over positions"),
        (in_place, "changes its argument q in place"),
    ],
    "q3": [
        (integers, "numbers instead of booleans"),
        (sentence_by_sentence, "loops over sentences or positions"),
    ],
    "q4": [(renormalised, "underflow to 0"), (masked_exponentials, "overflows")],
    "q5": [(row_by_row, "loops over rows")],
}
"""For each exercise, answers that are right, and what could be better."""


def with_reversed_axes(q, k, v):
    return (q @ k.permute(*range(k.dim() - 1, -1, -1)) / math.sqrt(q.shape[-1])).softmax(-1) @ v


def from_one_sentence(q, k, v):
    return (q @ k.transpose(0, 1) / math.sqrt(q.shape[1])).softmax(1) @ v


def element_by_element(q, k, v):
    return (q @ k.mT / math.sqrt(q.shape[-1])).softmax(-1) * v


def by_logarithms(q, k, v):
    return F.log_softmax(q @ k.mT / math.sqrt(q.shape[-1]), dim=-1) @ v


def square_of_d_k(q, k, v):
    return (q @ k.mT / q.shape[-1] ** 2).softmax(-1) @ v


def by_triangle_alone(ids):
    return torch.ones(ids.shape[1], ids.shape[1]).tril()


def from_both_sides(ids):
    keep = ids != 0
    return by_comparison(ids) & keep[:, :, None]


def values_masked(q, k, v, mask):
    return (q @ k.mT / math.sqrt(q.shape[-1])).softmax(-1) @ (v * mask[..., -1:, : v.shape[-1]])


def squared_weights(weights, grad):
    return grad * weights - (weights**2).sum(-1, keepdim=True) * grad


def without_keepdim(weights, grad):
    return weights * (grad - (weights * grad).sum(-1))


WRONG = {
    "q1": [([2.229, 0.663], ""), ([0.5, 0.5], "")],
    "q2": [
        (with_reversed_axes, "for a single sentence but not for a batch"),
        (from_one_sentence, "for a single sentence but not for a batch"),
        (element_by_element, ""),
        (by_logarithms, ""),
        (square_of_d_k, ""),
    ],
    "q3": [
        (by_triangle_alone, "the causal mask alone"),
        (from_both_sides, "the padding is hidden as rows of the mask"),
    ],
    "q4": [(values_masked, "")],
    "q5": [(squared_weights, ""), (without_keepdim, "for one row of weights")],
}
"""For each exercise, answers that are wrong, and part of the name of the mistake; without a name
if no known mistake explains them."""
