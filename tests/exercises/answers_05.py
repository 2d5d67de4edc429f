"""Answers to the exercises of chapter 5: right ones, each written differently, and wrong ones."""

import math

import numpy as np
import torch
import torch.nn.functional as F
from einops import rearrange

from tfmr.attention import scaled_dot_product_attention


def by_unflatten(x, n_heads):
    return x.unflatten(-1, (n_heads, -1)).transpose(1, 2)


def by_einops(x, n_heads):
    return rearrange(x, "b l (h d) -> b h l d", h=n_heads)


def by_chunk(x, n_heads):
    return torch.stack(torch.chunk(x, n_heads, dim=2), dim=1)


def by_slices(x, n_heads):
    d_k = x.shape[-1] // n_heads
    return torch.stack([x[:, :, i * d_k : (i + 1) * d_k] for i in range(n_heads)], 1)


def by_numpy(x, n_heads):
    return np.stack(np.split(x.numpy(), n_heads, axis=-1), axis=1)


def head_by_head(x, w_q, w_k, w_v, w_o, n_heads):
    d_k = x.shape[-1] // n_heads
    outputs = []
    for i in range(n_heads):
        columns = slice(i * d_k, (i + 1) * d_k)
        q, k, v = (x @ w[:, columns] for w in (w_q, w_k, w_v))
        outputs.append((q @ k.mT / math.sqrt(d_k)).softmax(-1) @ v)
    return torch.cat(outputs, dim=-1) @ w_o


def sum_over_heads(x, w_q, w_k, w_v, w_o, n_heads):
    d_k = len(w_q) // n_heads
    total = 0
    for i in range(n_heads):
        rows = range(i * d_k, (i + 1) * d_k)
        z, _ = scaled_dot_product_attention(x @ w_q[:, rows], x @ w_k[:, rows], x @ w_v[:, rows])
        total = total + z @ w_o[rows]
    return total


def with_einops(x, w_q, w_k, w_v, w_o, n_heads):
    q, k, v = (rearrange(x @ w, "b l (h d) -> b h l d", h=n_heads) for w in (w_q, w_k, w_v))
    z = F.scaled_dot_product_attention(q, k, v)
    return rearrange(z, "b h l d -> b l (h d)") @ w_o


def with_einsum(x, w_q, w_k, w_v, w_o, n_heads):
    q, k, v = (
        torch.einsum("bld,dhe->bhle", x, w.unflatten(1, (n_heads, -1))) for w in (w_q, w_k, w_v)
    )
    a = torch.einsum("bhie,bhje->bhij", q, k).mul(q.shape[-1] ** -0.5).softmax(-1)
    out = torch.einsum("bhij,bhje,hed->bid", a, v, w_o.unflatten(0, (n_heads, -1)))
    return out, a


def with_linear(x, w_q, w_k, w_v, w_o, n_heads):
    batch, length, d_model = x.shape
    q, k, v = F.linear(x, torch.cat([w_q, w_k, w_v], dim=1).T).chunk(3, dim=-1)
    q, k, v = (y.view(batch, length, n_heads, -1).permute(0, 2, 1, 3) for y in (q, k, v))
    z = torch.softmax(q @ k.permute(0, 1, 3, 2) / (d_model / n_heads) ** 0.5, -1) @ v
    return F.linear(z.permute(0, 2, 1, 3).contiguous().view(batch, length, -1), w_o.T)


def zero_output(z, w_o, head):
    z = z.clone()
    z[:, head] = 0
    return z.transpose(1, 2).flatten(2) @ w_o


def other_heads(z, w_o, head):
    rows = w_o.unflatten(0, (z.shape[1], -1))
    return sum(z[:, i] @ rows[i] for i in range(z.shape[1]) if i != head)


def subtracted(z, w_o, head):
    d_k = z.shape[-1]
    return z.transpose(1, 2).flatten(2) @ w_o - z[:, head] @ w_o[head * d_k : head * d_k + d_k]


def with_mask(z, w_o, head):
    keep = torch.arange(z.shape[1]) != head
    return rearrange(z * keep[:, None, None], "b h l d -> b l (h d)") @ w_o


def rows_left_out(z, w_o, head):
    heads = [i for i in range(z.shape[1]) if i != head]
    parts = w_o.view(z.shape[1], -1, w_o.shape[1])[heads].flatten(0, 1)
    return z[:, heads].permute(0, 2, 1, 3).flatten(2) @ parts


def against_slices(split):
    x = torch.randn(2, 3, 24)
    for h in (1, 2, 4, 6):
        heads = split(x, h)
        for i in range(h):
            torch.testing.assert_close(heads[:, i], x[:, :, i * 24 // h : (i + 1) * 24 // h])


def against_names(split):
    batch, length, d_model = 2, 3, 12
    x = torch.arange(batch * length * d_model).view(batch, length, d_model)
    for h in (2, 3, 6):
        result, d_k = split(x, h).tolist(), d_model // h
        for b in range(batch):
            for i in range(h):
                for j in range(length):
                    assert result[b][i][j] == x[b, j, i * d_k : (i + 1) * d_k].tolist()


def against_einops(split):
    x = torch.rand(3, 4, 8)
    for h in (1, 2, 4, 8):
        assert torch.equal(split(x, h), rearrange(x, "b l (h d) -> b h l d", h=h))


def against_torch(split):
    x = torch.rand(3, 5, 12)
    return all(torch.equal(split(x, h), x.unflatten(2, (h, -1)).transpose(1, 2)) for h in (2, 3, 4))


def with_inverse(split):
    x = torch.randn(4, 5, 6)
    for h in (2, 3):
        heads = split(x, h)
        assert heads.shape == (4, h, 5, 6 // h)
        np.testing.assert_array_equal(torch.cat(list(heads.unbind(1)), dim=-1), x)


RIGHT = {
    "q1": [
        [0.752, 0.497, 1.509, 0.491],
        (0.75, 0.5, 1.51, 0.49),
        torch.tensor([[0.752, 0.497], [1.509, 0.491]]),
        np.array([0.7517, 0.4965, 1.509, 0.491]),
        [0.503 + 0.248, 2 * 0.248, 2 * 0.673 + 0.164, 3 * 0.164],
    ],
    "q2": [by_unflatten, by_einops, by_chunk, by_slices, by_numpy],
    "q3": [head_by_head, sum_over_heads, with_einops, with_einsum, with_linear],
    "q4": [zero_output, other_heads, subtracted, with_mask, rows_left_out],
    "q5": [against_slices, against_names, against_einops, against_torch, with_inverse],
    "q6": ["b", "B", " b ", "b.", "(b)"],
}
"""For each exercise, answers that are right without a remark."""


def token_by_token(x, n_heads):
    return torch.stack([x[:, i].unflatten(-1, (n_heads, -1)) for i in range(x.shape[1])], dim=2)


def in_place(z, w_o, head):
    w_o[head * z.shape[-1] : (head + 1) * z.shape[-1]] = 0
    return z.transpose(1, 2).flatten(2) @ w_o


REMARKS = {
    "q2": [(token_by_token, "loops over positions")],
    "q4": [(in_place, "changes its argument w_o in place")],
}
"""For each exercise, answers that are right, and what could be better."""


def by_plain_view(x, n_heads):
    return x.view(x.size(0), n_heads, x.size(1), x.size(2) // n_heads)


def reversed_columns(x, n_heads):
    return by_unflatten(x.flip(-1), n_heads)


def viewed_twice(x, w_q, w_k, w_v, w_o, n_heads):
    q, k, v = (by_plain_view(x @ w, n_heads) for w in (w_q, w_k, w_v))
    return F.scaled_dot_product_attention(q, k, v).reshape(x.shape) @ w_o


def mean_over_heads(x, w_q, w_k, w_v, w_o, n_heads):
    q, k = (by_unflatten(x @ w, n_heads) for w in (w_q, w_k))
    a = (q @ k.mT / math.sqrt(q.shape[-1])).softmax(-1).mean(1)
    return a @ (x @ w_v) @ w_o


def as_linear_weights(x, w_q, w_k, w_v, w_o, n_heads):
    return with_linear(x, w_q.T, w_k.T, w_v.T, w_o.T, n_heads)


def both_removed(z, w_o, head):
    w_o = w_o.clone()
    rows = slice(head * z.shape[-1], (head + 1) * z.shape[-1])
    w_o[rows, rows] = 0
    return z.transpose(1, 2).flatten(2) @ w_o


WRONG = {
    "q1": [([0.497, 0.752, 0.491, 1.509], ""), ([1, 1, 1, 1], "")],
    "q2": [(by_plain_view, "only viewed in another shape"), (reversed_columns, "")],
    "q3": [
        (viewed_twice, "split by a view alone"),
        (mean_over_heads, ""),
        (as_linear_weights, "transposed"),
    ],
    "q4": [(both_removed, "")],
}
"""For each exercise, answers that are wrong, and part of the name of the mistake; without a name
if no known mistake explains them."""
