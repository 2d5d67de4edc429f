"""Answers to the exercises of chapter 6: right ones, each written differently, and wrong ones."""

import math

import numpy as np
import torch
from einops import rearrange

from tfmr.position import RotaryPosition, frequencies, rotate_naive, sinusoidal


def filled_columns(length, d_model, base):
    table = torch.zeros(length, d_model)
    pos = torch.arange(length).unsqueeze(1)
    factor = torch.exp(torch.arange(0, d_model, 2) * (-math.log(base) / d_model))
    table[:, 0::2] = torch.sin(pos * factor)
    table[:, 1::2] = torch.cos(pos * factor)
    return table


def shifted_cosine(length, d_model, base):
    columns = torch.arange(d_model)
    angles = torch.arange(length)[:, None] / base ** ((columns // 2 * 2) / d_model)
    return torch.sin(angles + (columns % 2) * math.pi / 2)


def in_double_precision(length, d_model, base):
    angles = torch.outer(torch.arange(length).double(), frequencies(d_model, base))
    return torch.stack((angles.sin(), angles.cos()), 2).flatten(1)


def in_numpy(length, d_model, base):
    columns = np.arange(d_model)
    angles = np.arange(length)[:, None] * base ** (-(columns - columns % 2) / d_model)
    return np.where(columns % 2 == 0, np.sin(angles), np.cos(angles))


def by_complex_numbers(length, d_model, base):
    omega = base ** (-torch.arange(0, d_model, 2) / d_model)
    turns = torch.exp(1j * torch.outer(torch.arange(length), omega))
    return rearrange(torch.view_as_real(turns).flip(-1), "l p two -> l (p two)")


def angles_for(x):
    d_k = x.shape[-1]
    return torch.arange(x.shape[-2])[:, None] / 10000 ** (torch.arange(0, d_k, 2) / d_k)


def as_complex(x):
    pairs = torch.view_as_complex(x.unflatten(-1, (-1, 2)).contiguous())
    turns = torch.polar(torch.ones(()), angles_for(x))
    return torch.view_as_real(pairs * turns).flatten(-2)


def with_neighbour(x):
    cos, sin = (each(angles_for(x)).repeat_interleave(2, dim=-1) for each in (torch.cos, torch.sin))
    other = torch.stack([-x[..., 1::2], x[..., 0::2]], dim=-1).flatten(-2)
    return x * cos + other * sin


def filled(x):
    out, t = torch.empty_like(x), angles_for(x)
    out[..., ::2] = x[..., ::2] * t.cos() - x[..., 1::2] * t.sin()
    out[..., 1::2] = x[..., ::2] * t.sin() + x[..., 1::2] * t.cos()
    return out


def by_matrix(x):
    t = angles_for(x)
    matrix = torch.stack([t.cos(), -t.sin(), t.sin(), t.cos()], -1).unflatten(-1, (2, 2))
    return torch.einsum("lpij,...lpj->...lpi", matrix, x.unflatten(-1, (-1, 2))).flatten(-2)


def by_package(x):
    return RotaryPosition(x.shape[-1], 100)(x)


def scores_by_package(q, k):
    rotary = RotaryPosition(q.shape[-1], 100)
    return rotary(q) @ rotary(k).T


def scores_by_matrices(q, k):
    return rotate_naive(q) @ rotate_naive(k).T


def query_conjugated(q, k):
    return torch.view_as_real(complex_pairs(q).conj() @ complex_pairs(k).mT)[..., 0]


def complex_pairs(x):
    return torch.view_as_complex(x.unflatten(-1, (-1, 2))) * torch.polar(
        torch.ones(()), angles_for(x)
    )


def hermitian(q, k):
    return (complex_pairs(q) @ complex_pairs(k).mH).real


def real_and_imaginary(q, k):
    q, k = complex_pairs(q), complex_pairs(k)
    return q.real @ k.real.T + q.imag @ k.imag.T


def two_starts(encode):
    q, k = torch.randn(5, 8), torch.randn(5, 8)
    a = encode(q, 0) @ encode(k, 0).T
    for start in (2, 9, 31):
        torch.testing.assert_close(a, encode(q, start) @ encode(k, start).T, atol=1e-3, rtol=0)
    b = encode(q, 4) @ encode(k, 0).T
    assert (a - b).abs().max() > 0.01
    far = encode(q[:1], 40) @ encode(k[:1], 31).T
    assert torch.allclose(far, encode(q[:1], 9) @ encode(k[:1], 0).T, atol=1e-3)
    for i in range(5):
        assert torch.allclose(encode(q, 3)[i], encode(q[i : i + 1], 3 + i)[0], atol=1e-3)


def every_pair(encode):
    q, k = torch.randn(1, 8), torch.randn(1, 8)

    def score(m, n):
        return float(encode(q, m) @ encode(k, n).T)

    by_distance = {}
    for m in range(12):
        for n in range(12):
            by_distance.setdefault(m - n, []).append(score(m, n))
    assert all(max(each) - min(each) < 1e-3 for each in by_distance.values())
    assert len({round(each[0], 3) for each in by_distance.values()}) > 1


def toeplitz(encode):
    q, k = torch.randn(1, 8).expand(16, 8), torch.randn(1, 8).expand(16, 8)
    scores = encode(q, 0) @ encode(k, 0).T
    assert torch.allclose(scores[1:, 1:], scores[:-1, :-1], atol=1e-3)
    assert not torch.allclose(scores[0], scores[1], atol=1e-3)
    assert torch.allclose(encode(q, 5), encode(torch.cat([q, q]), 0)[5:21], atol=1e-3)


def in_batches(encode):
    x = torch.randn(6, 8)
    ok = not torch.allclose(encode(x, 0) @ encode(x, 0).T, x @ x.T, atol=1e-3)
    for m in range(1, 20):
        ok &= torch.allclose(
            encode(x, m) @ encode(x, m).T, encode(x, 0) @ encode(x, 0).T, atol=1e-3
        )
        ok &= torch.allclose(encode(x, m)[1:], encode(x[1:], m + 1), atol=1e-3)
    return ok


def with_double_precision(encode):
    q, k = torch.randn(2, 4, 8).double()
    first = encode(q, 0) @ encode(k, 3).T
    for start in range(15):
        difference = encode(q, start) @ encode(k, start + 3).T - first
        assert difference.abs().max() < 1e-3
    assert (encode(q, 0) @ encode(k, 0).T - first).abs().max() > 1e-2


RIGHT = {
    "q1": [
        [0.141, -0.990, 0.296, 0.955],
        (0.14, -0.99, 0.296, 0.955),
        torch.tensor([0.1411, -0.99, 0.2955, 0.9553]),
        np.array([[0.141, -0.99], [0.2955, 0.9553]]),
        [math.sin(3), math.cos(3), math.sin(0.3), math.cos(0.3)],
    ],
    "q2": [
        filled_columns,
        shifted_cosine,
        in_double_precision,
        in_numpy,
        by_complex_numbers,
        sinusoidal,
    ],
    "q3": [as_complex, with_neighbour, filled, by_matrix, by_package],
    "q4": [scores_by_package, scores_by_matrices, query_conjugated, hermitian, real_and_imaginary],
    "q5": [two_starts, every_pair, toeplitz, in_batches, with_double_precision],
    "q6": ["a", "A", " a", "a)", "(A)"],
}
"""For each exercise, answers that are right without a remark."""


def position_by_position(length, d_model, base):
    rows = []
    for pos in range(length):
        angles = pos / base ** (torch.arange(0, d_model, 2) / d_model)
        rows.append(torch.stack([angles.sin(), angles.cos()], dim=-1).flatten())
    return torch.stack(rows)


def rotated_one_by_one(x):
    return torch.stack([as_complex_at(x[..., i, :], i) for i in range(x.shape[-2])], dim=-2)


def as_complex_at(x, pos):
    t = pos * frequencies(x.shape[-1]).float()
    a, b = x[..., ::2], x[..., 1::2]
    return torch.stack([a * t.cos() - b * t.sin(), a * t.sin() + b * t.cos()], -1).flatten(-2)


REMARKS = {
    "q2": [(position_by_position, "loops over positions")],
    "q3": [(rotated_one_by_one, "loops over positions")],
}
"""For each exercise, answers that are right, and what could be better."""


def every_column(length, d_model, base):
    table = torch.zeros(length, d_model)
    for pos in range(length):
        for i in range(d_model):
            angle = pos / base ** (i / d_model)
            table[pos, i] = math.sin(angle) if i % 2 == 0 else math.cos(angle)
    return table


def half_exponent(length, d_model, base):
    pos, i = torch.arange(length)[:, None], torch.arange(d_model // 2)
    angles = pos / base ** (i / d_model)
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)


def as_in_gpt_neox(x):
    a, b = x.chunk(2, dim=-1)
    t = angles_for(x)
    return torch.cat([a * t.cos() - b * t.sin(), a * t.sin() + b * t.cos()], dim=-1)


def clockwise(x):
    return torch.flip(as_complex(torch.flip(x, [-1])), [-1]) if x.shape[-1] == 2 else x


def scaled_scores(q, k):
    return scores_by_package(q, k) / math.sqrt(q.shape[-1])


WRONG = {
    "q1": [([0.141, 0.990, 0.296, 0.955], ""), ([3, 0.3, 3, 0.3], "")],
    "q2": [(every_column, "a frequency of its own"), (half_exponent, "i / d_model")],
    "q3": [(as_in_gpt_neox, "component i is paired with"), (clockwise, "")],
    "q4": [(scaled_scores, "")],
}
"""For each exercise, answers that are wrong, and part of the name of the mistake; without a name
if no known mistake explains them."""
