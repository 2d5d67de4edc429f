"""Answers to the exercises of chapter 15: right ones, each written differently, and wrong ones."""

import math

import numpy as np
import torch
import torch.nn.functional as F
from einops import rearrange, repeat

from tfmr.attention import causal_mask


def both_in_prefix(length, k):
    inside = torch.arange(length) < k
    return causal_mask(length) | (inside[:, None] & inside)


def filled(length, k):
    mask = torch.ones(length, length, dtype=torch.bool).tril()
    mask[:k, :k] = True
    return mask


def mask_in_numpy(length, k):
    mask = np.tri(length, dtype=bool)
    mask[:, :k] = True
    return mask


def as_lists(length, k):
    return [[j <= i or j < k for j in range(length)] for i in range(length)]


def with_last(length, k):
    last = torch.arange(length).clamp(min=k - 1)
    return last[:, None] >= torch.arange(length)[None]


def with_silu(x, w_g, w_1, w_2):
    return (F.silu(x @ w_g) * (x @ w_1)) @ w_2


def with_linear(x, w_g, w_1, w_2):
    gate, up = F.linear(x, w_g.T), F.linear(x, w_1.T)
    return F.linear(gate.sigmoid().mul(gate).mul(up), w_2.T)


def gated_in_numpy(x, w_g, w_1, w_2):
    x, w_g, w_1, w_2 = (each.double().numpy() for each in (x, w_g, w_1, w_2))
    gate = x.dot(w_g)
    return (gate / (1 + np.exp(-gate)) * x.dot(w_1)).dot(w_2)


def with_one_product(x, w_g, w_1, w_2):
    gate, up = (x @ torch.cat([w_g, w_1], dim=1)).chunk(2, dim=-1)
    return torch.einsum("lf,fd->ld", gate * up / (1 + torch.exp(-gate)), w_2)


def by_module(x, w_g, w_1, w_2):
    return torch.mm(torch.nn.SiLU()(x.mm(w_g)).multiply(x.mm(w_1)), w_2)


def with_unfold(images, size):
    parts = F.unfold(images, size, stride=size)
    return parts.transpose(1, 2)


def with_view(images, size):
    b, c, height, width = images.shape
    parts = images.view(b, c, height // size, size, width // size, size)
    return parts.permute(0, 2, 4, 1, 3, 5).reshape(b, -1, c * size * size)


def in_two_steps(images, size):
    rows = rearrange(images, "b c (i h) width -> b i c h width", h=size)
    return rearrange(rows, "b i c h (j w) -> b (i j) (c h w)", w=size)


def patches_in_numpy(images, size):
    b, c, height, width = images.shape
    parts = images.numpy().reshape(b, c, height // size, size, width // size, size)
    return np.einsum("bcihjw->bijchw", parts).reshape(b, -1, c * size**2)


def with_windows(images, size):
    windows = images.unfold(2, size, size).unfold(3, size, size)
    return windows.movedim(1, 3).flatten(1, 2).flatten(2)


def by_repeat(q, k, v):
    k, v = (repeat(x, "g n d -> (g r) n d", r=len(q) // len(k)) for x in (k, v))
    return F.scaled_dot_product_attention(q, k, v)


def by_groups(q, k, v):
    q = q.unflatten(0, (len(k), -1))
    weights = (q @ k[:, None].mT).div(q.shape[-1] ** 0.5).softmax(dim=-1)
    return (weights @ v[:, None]).flatten(0, 1)


def by_index(q, k, v):
    head = torch.arange(len(q)) // (len(q) // len(k))
    weights = torch.softmax(torch.einsum("hid,hjd->hij", q, k[head]) / q.shape[-1] ** 0.5, -1)
    return torch.einsum("hij,hjd->hid", weights, v[head])


def by_option(q, k, v):
    output = F.scaled_dot_product_attention(q[None], k[None], v[None], enable_gqa=True)
    return output[0]


def by_expand(q, k, v):
    group = q.shape[0] // k.shape[0]
    k, v = (x[:, None].expand(-1, group, -1, -1).reshape(q.shape) for x in (k, v))
    scores = torch.bmm(q, k.transpose(1, 2)) * q.shape[2] ** -0.5
    return torch.bmm(torch.softmax(scores, dim=2), v)


TEXT = ["every", "fox", "sees", "a", "very", "old", "owl", "."]


def compared_with_lists(corrupt):
    source, target = corrupt(TEXT, [(1, 2), (4, 6)])
    assert source == ["every", "<0>", "sees", "a", "<1>", "owl", "."]
    assert target == ["<0>", "fox", "<1>", "very", "old", "<2>"]


def by_restoring(corrupt):
    for spans in ([(0, 2), (4, 5)], [(2, 3), (4, 6), (7, 8)]):
        source, target = corrupt(list(TEXT), spans)
        missing, name = {}, None
        for token in target:
            if token[0] == "<":
                name = token
                missing[name] = []
            else:
                missing[name].append(token)
        assert list(missing) == [f"<{k}>" for k in range(len(spans) + 1)]
        assert [len(each) for each in missing.values()] == [b - a for a, b in spans] + [0]
        assert [t for token in source for t in missing.get(token, [token])] == TEXT


def as_a_boolean(corrupt):
    source, target = corrupt(list("abcdefg"), [(1, 3), (4, 5)])
    return "".join(source) == "a<0>d<1>fg" and "".join(target) == "<0>bc<1>e<2>"


def by_reference(corrupt):
    spans = [(0, 1), (2, 5), (6, 7)]
    source, target = [], []
    for k, (start, end) in enumerate(spans):
        source += [f"<{k}>", TEXT[end]]
        target += [f"<{k}>", *TEXT[start:end]]
    np.testing.assert_array_equal(corrupt(TEXT, spans)[0], source)
    np.testing.assert_array_equal(corrupt(TEXT, spans)[1], [*target, "<3>"])


def by_pairs(corrupt):
    known = {
        ((0, 1), (3, 4)): ("<0> y z <1> v", "<0> x <1> w <2>"),
        ((1, 3),): ("x <0> w v", "<0> y z <1>"),
    }
    for spans, expected in known.items():
        source, target = corrupt(["x", "y", "z", "w", "v"], list(spans))
        assert (" ".join(source), " ".join(target)) == expected


RIGHT = {
    "q1": [
        [0.4, 1.4, 1.0, 3.0],
        (0.4, 1.4, 1, 3),
        torch.tensor([0.4, 1.4, 1.0, 3.0]),
        np.array([0.4, 1.4, 1.0, 3.0]),
        [2 / 5, 7 / math.sqrt(25), 1, 15 / 5],
    ],
    "q2": [both_in_prefix, filled, mask_in_numpy, as_lists, with_last],
    "q3": [with_silu, with_linear, gated_in_numpy, with_one_product, by_module],
    "q4": [with_unfold, with_view, in_two_steps, patches_in_numpy, with_windows],
    "q5": [by_repeat, by_groups, by_index, by_option, by_expand],
    "q6": [
        compared_with_lists,
        by_restoring,
        as_a_boolean,
        by_reference,
        by_pairs,
    ],
    "q7": ["c", "C", " c", "c.", "(c)"],
}
"""For each exercise, answers that are right without a remark."""


def entry_by_entry(length, k):
    mask = torch.zeros(length, length)
    for i in range(length):
        mask[i, : max(i + 1, k)] = 1
    return mask


def token_by_token(x, w_g, w_1, w_2):
    return torch.stack([F.silu(row @ w_g) * (row @ w_1) @ w_2 for row in x])


def patch_by_patch(images, size):
    height, width = images.shape[2:]
    parts = [
        images[:, :, i : i + size, j : j + size].flatten(1)
        for i in range(0, height, size)
        for j in range(0, width, size)
    ]
    return torch.stack(parts, dim=1)


def head_by_head(q, k, v):
    group = len(q) // len(k)
    outputs = []
    for i, query in enumerate(q):
        scores = query @ k[i // group].T / math.sqrt(q.shape[-1])
        outputs.append(scores.softmax(dim=-1) @ v[i // group])
    return torch.stack(outputs)


REMARKS = {
    "q2": [(entry_by_entry, "loops over positions")],
    "q3": [(token_by_token, "loops over tokens")],
    "q4": [(patch_by_patch, "loops over patches")],
    "q5": [(head_by_head, "loops over heads")],
}
"""For each exercise, answers that are right, and what could be better."""


def causal_only(length, k):
    return causal_mask(length)


def window(length, k):
    position = torch.arange(length)
    return (position - position[:, None]).abs() < k


def with_gelu(x, w_g, w_1, w_2):
    return (F.gelu(x @ w_g) * (x @ w_1)) @ w_2


def with_tanh(x, w_g, w_1, w_2):
    return (torch.tanh(x @ w_g) * (x @ w_1)) @ w_2


def reshaped(images, size):
    return images.reshape(len(images), -1, images.shape[1] * size * size)


def from_the_bottom(images, size):
    return with_view(images, size).flip(1)


def keys_only(q, k, v):
    group = len(q) // len(k)
    return F.scaled_dot_product_attention(q, k.repeat_interleave(group, 0), v.repeat(group, 1, 1))


def uniform(q, k, v):
    return v.repeat_interleave(len(q) // len(k), dim=0).mean(dim=1, keepdim=True).expand_as(q)


WRONG = {
    "q1": [([0.2, 0.7, 0.5, 1.5], "Euclidean norm"), ([0.2, 1.4, 1, 1], "γ is missing")],
    "q2": [(causal_only, "the prefix is causal"), (window, "")],
    "q3": [(with_gelu, "the gate has a GELU"), (with_tanh, "")],
    "q4": [(reshaped, "only reshaped"), (from_the_bottom, "")],
    "q5": [(keys_only, "the values are still in the old order"), (uniform, "")],
}
"""For each exercise, answers that are wrong, and part of the name of the mistake; without a name
if no known mistake explains them."""
