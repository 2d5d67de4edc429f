"""Answers to the exercises of chapter 16: right ones, each written differently, and wrong ones."""

import math

import numpy as np
import torch


def by_intensity(m, d_in, d_out, bytes_per_number, peak, bandwidth):
    flops = 2 * m * d_in * d_out
    moved = bytes_per_number * (d_in * d_out + m * (d_in + d_out))
    return flops / min(peak, flops / moved * bandwidth)


def with_maximum(m, d_in, d_out, bytes_per_number, peak, bandwidth):
    shapes = torch.tensor([[m, d_in], [d_in, d_out], [m, d_out]])
    moved = bytes_per_number * shapes.prod(dim=1).sum()
    return torch.maximum(torch.tensor(2 * m * d_in * d_out / peak), moved / bandwidth)


def sorted_times(m, d_in, d_out, bytes_per_number, peak, bandwidth):
    work = m * d_in * d_out
    bytes_ = (m * d_in + work / m + work / d_in) * bytes_per_number
    return sorted([(work + work) / peak, bytes_ / bandwidth])[-1]


def with_branches(m, d_in, d_out, bytes_per_number, peak, bandwidth):
    arithmetic = 2 * m * d_in * d_out / peak
    memory = (m * d_in + d_in * d_out + m * d_out) * bytes_per_number / bandwidth
    if arithmetic > memory:
        return arithmetic
    return memory


def roofline_in_numpy(m, d_in, d_out, bytes_per_number, peak, bandwidth):
    matrices = np.empty((m, d_in)), np.empty((d_in, d_out)), np.empty((m, d_out))
    moved = sum(each.size for each in matrices) * bytes_per_number
    return np.max([2 * matrices[0].size * d_out / peak, moved / bandwidth])


def as_new_tile(m_a, sum_a, o_a, m_b, sum_b, o_b):
    m = torch.max(m_a, m_b)
    factor, other = torch.exp(m_a - m), torch.exp(m_b - m)
    o = (o_a.T * factor + o_b.T * other).T
    return m, sum_a * factor + sum_b * other, o


def with_log_sums(m_a, sum_a, o_a, m_b, sum_b, o_b):
    m = torch.stack([m_a, m_b]).amax(dim=0)
    total = torch.logaddexp(m_a + sum_a.log(), m_b + sum_b.log())
    mean = (o_a * m_a.exp()[:, None] + o_b * m_b.exp()[:, None]) / total.exp()[:, None]
    total = (total - m).exp()
    return [m, total, mean * total[:, None]]


def merge_in_numpy(m_a, sum_a, o_a, m_b, sum_b, o_b):
    m_a, sum_a, o_a, m_b, sum_b, o_b = (
        each.double().numpy() for each in (m_a, sum_a, o_a, m_b, sum_b, o_b)
    )
    m = np.maximum(m_a, m_b)
    a, b = np.exp(m_a - m), np.exp(m_b - m)
    return m, a * sum_a + b * sum_b, a[:, None] * o_a + b[:, None] * o_b


def stacked(m_a, sum_a, o_a, m_b, sum_b, o_b):
    m, totals, o = (torch.stack(pair) for pair in ((m_a, m_b), (sum_a, sum_b), (o_a, o_b)))
    scales = (m - m.amax(dim=0)).exp()
    return m.amax(dim=0), (scales * totals).sum(dim=0), torch.einsum("pq,pqd->qd", scales, o)


def with_where(m_a, sum_a, o_a, m_b, sum_b, o_b):
    factor = (-(m_a - m_b).abs()).exp()
    one = torch.ones_like(factor)
    a, b = torch.where(m_a < m_b, factor, one), torch.where(m_a < m_b, one, factor)
    columns = [a[:, None] * o_a + b[:, None] * o_b]
    return torch.where(m_a < m_b, m_b, m_a)[:, None], (a * sum_a + b * sum_b)[:, None], *columns


def with_view(matrix, bits, group):
    parts = matrix.reshape(-1, group)
    scale = parts.abs().max(dim=1, keepdim=True).values / (2 ** (bits - 1) - 1)
    return (torch.round(parts / scale) * scale).view(matrix.shape)


def with_pooling(matrix, bits, group):
    largest = torch.nn.functional.max_pool1d(matrix.abs(), group).repeat_interleave(group, dim=1)
    levels = 2 ** (bits - 1) - 1
    return (matrix / largest * levels).round() * largest / levels


def quantise_in_numpy(matrix, bits, group):
    w = matrix.double().numpy().reshape(len(matrix), -1, group)
    scale = np.abs(w).max(axis=-1, keepdims=True) / (2 ** (bits - 1) - 1)
    return (np.rint(w / scale) * scale).reshape(matrix.shape)


def with_half(matrix, bits, group):
    w = matrix.double().unflatten(-1, (matrix.shape[1] // group, group))
    scale = torch.linalg.vector_norm(w, math.inf, dim=-1, keepdim=True) / (2 ** (bits - 1) - 1)
    return torch.flatten(scale * torch.floor(w / scale + 0.5), start_dim=-2)


def with_extremes(matrix, bits, group):
    w = matrix.view(matrix.shape[0], -1, group)
    largest = torch.maximum(w.amax(-1), -w.amin(-1)).repeat_interleave(group, dim=1)
    scale = largest / ((1 << (bits - 1)) - 1)
    q = (matrix / scale).round().int()
    return q * scale


def with_minimum(p, q, draft):
    keep = min(1.0, float(p[draft] / q[draft]))
    rest = p - torch.minimum(p, q)
    result = rest / rest.sum() * (1 - keep)
    result[draft] = result[draft] + keep
    return result


def with_relu(p, q, draft):
    kept = torch.zeros_like(p)
    kept[draft] = torch.minimum(p, q)[draft] / q[draft]
    rest = torch.relu(p - q)
    return kept + (1 - kept.sum()) * rest / rest.sum()


def draft_in_numpy(p, q, draft):
    p, q = p.double().numpy(), q.double().numpy()
    rest = np.maximum(p - q, 0)
    keep = min(1, p[draft] / q[draft])
    return keep * np.eye(len(p))[draft] + (1 - keep) * rest / rest.sum()


def as_lists(p, q, draft):
    p, q = p.tolist(), q.tolist()
    rest = [max(a - b, 0) for a, b in zip(p, q, strict=True)]
    keep = min(1, p[draft] / q[draft])
    return [(1 - keep) * each / sum(rest) + keep * (i == draft) for i, each in enumerate(rest)]


def with_rejected(p, q, draft):
    rejected = max(0, 1 - p[draft] / q[draft])
    one_hot = torch.nn.functional.one_hot(torch.tensor(draft), len(p))
    missing = (p - q) * (p > q)
    return torch.lerp(one_hot.float(), torch.nn.functional.normalize(missing, p=1, dim=0), rejected)


def tested_at_random(attend):
    generator = torch.Generator().manual_seed(3)
    for keys, tile in ((7, 2), (8, 3), (5, 5)):
        scores = 60 * torch.randn(4, keys, generator=generator)
        values = torch.randn(keys, 3, generator=generator)
        torch.testing.assert_close(
            attend(scores, values, tile), scores.softmax(-1) @ values, atol=1e-3, rtol=1e-3
        )


def tested_with_growing_scores(attend):
    scores = torch.arange(11.0)[None] * torch.tensor([[1.0], [10.0]])
    values = torch.arange(22.0).view(11, 2)
    expected = scores.softmax(1) @ values
    return bool((attend(scores, values, 4) - expected).abs().max() < 1e-3)


def tested_by_hand(attend):
    scores = math.log(2) * torch.tensor([[1.0, 3, 2, 4, 2]])
    values = torch.tensor([[6.0], [3.0], [0.0], [3.0], [1.0]])
    given = attend(scores + 100, values, 2)
    assert math.isclose(float(given), (84 + 4) / 34, rel_tol=1e-4)


def tested_in_numpy(attend):
    rng = np.random.default_rng(0)
    scores, values = np.sort(rng.normal(size=(3, 9)), axis=1), rng.normal(size=(9, 2))
    weights = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    for shift in (0, 800):
        given = attend(torch.tensor(scores + shift), torch.tensor(values), 4)
        np.testing.assert_allclose(given.numpy(), weights @ values, atol=1e-4)


def tested_in_double(attend):
    scores = torch.linspace(-3, 1000, 13, dtype=torch.double).view(1, 13)
    scores = torch.cat([scores, scores / 500, -scores / 300])
    values = torch.eye(13, dtype=torch.double)
    for tile in (1, 2, 5, 13, 20):
        assert torch.allclose(attend(scores, values, tile), scores.softmax(dim=1), atol=1e-5)


RIGHT = {
    "q1": [
        [65.536, 0.655, 97],
        (65.54, 0.6554, 97),
        torch.tensor([65.536, 0.65536, 97]),
        np.array([65.5, 0.655, 97]),
        [2 * 32 * 8 * 128 / 1e3, 2 * 32 * 8 * 128 * 1e4 / 1e9, 97.0],
    ],
    "q2": [by_intensity, with_maximum, sorted_times, with_branches, roofline_in_numpy],
    "q3": [as_new_tile, with_log_sums, merge_in_numpy, stacked, with_where],
    "q4": [with_view, with_pooling, quantise_in_numpy, with_half, with_extremes],
    "q5": [with_minimum, with_relu, draft_in_numpy, as_lists, with_rejected],
    "q6": [
        tested_at_random,
        tested_with_growing_scores,
        tested_by_hand,
        tested_in_numpy,
        tested_in_double,
    ],
    "q7": ["c", "C", " c", "c.", "(c)"],
}
"""For each exercise, answers that are right without a remark."""


def query_by_query(m_a, sum_a, o_a, m_b, sum_b, o_b):
    rows = []
    for a, s, x, b, t, y in zip(m_a, sum_a, o_a, m_b, sum_b, o_b, strict=True):
        m = torch.maximum(a, b)
        left, right = torch.exp(a - m), torch.exp(b - m)
        rows.append((m, left * s + right * t, left * x + right * y))
    return tuple(torch.stack(each) for each in zip(*rows, strict=True))


def group_by_group(matrix, bits, group):
    result = torch.empty_like(matrix)
    for i in range(len(matrix)):
        for j in range(0, matrix.shape[1], group):
            w = matrix[i, j : j + group]
            scale = w.abs().max() / (2 ** (bits - 1) - 1)
            result[i, j : j + group] = (w / scale).round() * scale
    return result


def in_place(m_a, sum_a, o_a, m_b, sum_b, o_b):
    m = torch.maximum(m_a, m_b)
    o_a *= (m_a - m).exp()[:, None]
    sum_a *= (m_a - m).exp()
    scale = (m_b - m).exp()
    return m, sum_a + scale * sum_b, o_a + scale[:, None] * o_b


REMARKS = {
    "q3": [(query_by_query, "loops over queries"), (in_place, "changes its arguments o_a and")],
    "q4": [(group_by_group, "loops over groups")],
}
"""For each exercise, answers that are right, and what could be better."""


def weights_only(m, d_in, d_out, bytes_per_number, peak, bandwidth):
    return max(2 * m * d_in * d_out / peak, bytes_per_number * d_in * d_out / bandwidth)


def square(m, d_in, d_out, bytes_per_number, peak, bandwidth):
    return max(2 * m * d_in**2 / peak, bytes_per_number * (d_in**2 + 2 * m * d_in) / bandwidth)


def added(m_a, sum_a, o_a, m_b, sum_b, o_b):
    return torch.maximum(m_a, m_b), sum_a + sum_b, o_a + o_b


def larger_part(m_a, sum_a, o_a, m_b, sum_b, o_b):
    first = m_a > m_b
    return torch.maximum(m_a, m_b), sum_a.where(first, sum_b), o_a.where(first[:, None], o_b)


def scale_per_row(matrix, bits, group):
    scale = matrix.abs().amax(dim=1, keepdim=True) / (2 ** (bits - 1) - 1)
    return (matrix / scale).round() * scale


def from_minimum(matrix, bits, group):
    w = matrix.unflatten(1, (-1, group))
    low, high = w.amin(-1, keepdim=True), w.amax(-1, keepdim=True)
    scale = (high - low) / (2**bits - 1)
    return (((w - low) / scale).round() * scale + low).flatten(1)


def unnormalised(p, q, draft):
    keep = torch.clamp(p[draft] / q[draft], max=1)
    result = (1 - keep) * torch.relu(p - q)
    result[draft] += keep
    return result


def smaller_ones(p, q, draft):
    smaller = torch.minimum(p, q)
    return smaller / smaller.sum()


WRONG = {
    "q1": [
        ([131.072, 1.311, 48], "two bytes are counted"),
        ([65.536, 0.655, 98], "rounded up"),
        ([65.536, 0.655, 97.5], ""),
    ],
    "q2": [(weights_only, "only the weights"), (square, "")],
    "q3": [(added, "neither part is rescaled"), (larger_part, "")],
    "q4": [(scale_per_row, "a whole row shares one scale"), (from_minimum, "")],
    "q5": [(unnormalised, "not divided by its sum"), (smaller_ones, "")],
}
"""For each exercise, answers that are wrong, and part of the name of the mistake; without a name
if no known mistake explains them."""
