"""Answers to the exercises of chapter 14: right ones, each written differently, and wrong ones."""

import math

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from tfmr.complexity import layers_to_connect
from tfmr.sequence_layers import ConvolutionalLayer, convolve


def by_cases(n, k, growth):
    if growth == 1:
        return math.ceil((n - 1) / (k - 1))
    layers = 1
    while (k - 1) * (growth**layers - 1) < (n - 1) * (growth - 1):
        layers += 1
    return layers


def by_recursion(n, k, growth, dilation=1):
    if n <= 1:
        return 0
    return 1 + by_recursion(n - dilation * (k - 1), k, growth, dilation * growth)


def by_perturbation(n, k, growth):
    def layer(depth):
        return ConvolutionalLayer(2, k, dilation=growth**depth, causal=True)

    return layers_to_connect(layer, n) if n < 40 else by_cases(n, k, growth)


def by_sums(n, k, growth):
    reach = np.cumsum([(k - 1) * growth**layer for layer in range(n if growth == 1 else 20)])
    return int((reach < n - 1).sum()) + 1


def by_positions(n, k, growth):
    earliest, dilation, layers = n, 1, 0
    while earliest > 1:
        earliest, dilation, layers = earliest - dilation * (k - 1), dilation * growth, layers + 1
    return torch.tensor(layers)


def with_scatter(keys, values, asked, n_keys, n_values):
    batch, pairs = keys.shape
    inputs = torch.zeros(batch, pairs + 1, n_keys + n_values)
    last = keys.gather(1, asked[:, None])
    inputs.scatter_(2, torch.cat([keys, last], dim=1)[..., None], 1)
    inputs[:, :-1].scatter_(2, values[..., None] + n_keys, 1)
    return inputs, values.gather(1, asked[:, None])[:, 0]


def with_loops(keys, values, asked, n_keys, n_values):
    inputs = torch.zeros(len(keys), keys.shape[1] + 1, n_keys + n_values)
    labels = []
    for i, pair in enumerate(asked.tolist()):
        for j in range(keys.shape[1]):
            inputs[i, j, keys[i, j]] = inputs[i, j, n_keys + values[i, j]] = 1
        inputs[i, -1, keys[i, pair]] = 1
        labels.append(values[i, pair])
    return inputs, torch.stack(labels)


def with_eye(keys, values, asked, n_keys, n_values):
    rows = range(len(keys))
    all_keys = torch.cat([keys, keys[rows, asked][:, None]], dim=1)
    right = F.pad(torch.eye(n_values)[values], (0, 0, 0, 1))
    return torch.cat([torch.eye(n_keys)[all_keys], right], dim=-1), values[rows, asked]


def in_numpy(keys, values, asked, n_keys, n_values):
    keys, values, asked = keys.numpy(), values.numpy(), asked.numpy()
    rows = np.arange(len(keys))
    inputs = np.zeros((len(keys), keys.shape[1] + 1, n_keys + n_values))
    inputs[:, :-1, :n_keys] = np.eye(n_keys)[keys]
    inputs[:, :-1, n_keys:] = np.eye(n_values)[values]
    inputs[rows, -1, keys[rows, asked]] = 1
    return inputs, values[rows, asked]


def with_extra_value(keys, values, asked, n_keys, n_values):
    last = keys.gather(1, asked.unsqueeze(1))
    hidden = torch.full_like(last, n_values)
    k = F.one_hot(torch.cat([keys, last], 1), n_keys)
    v = F.one_hot(torch.cat([values, hidden], 1), n_values + 1)[..., :n_values]
    return torch.cat([k, v], -1).float(), values.gather(1, asked.unsqueeze(1)).squeeze(1)


def by_package(x, weight, dilation):
    return convolve(x[None], weight, dilation=dilation, causal=True)[0]


def by_conv1d(x, weight, dilation):
    span = dilation * (len(weight) - 1)
    kernel = weight.permute(2, 1, 0)
    return F.conv1d(F.pad(x.T, (span, 0))[None], kernel, dilation=dilation)[0].T


def with_zeros(x, weight, dilation):
    output = x @ weight[-1]
    for j, matrix in enumerate(weight.flip(0)[1:], start=1):
        shift = min(j * dilation, len(x))
        output[shift:] += x[: len(x) - shift] @ matrix
    return output


def position_by_position(x, weight, dilation):
    k, rows = len(weight), []
    for i in range(len(x)):
        row = torch.zeros(x.shape[1])
        for j in range(k):
            at = i - dilation * (k - 1 - j)
            if at >= 0:
                row = row + x[at] @ weight[j]
        rows.append(row)
    return torch.stack(rows)


def padded_on_both_sides(x, weight, dilation):
    k, n = weight.shape[0], x.shape[0]
    span = dilation * (k - 1)
    padded = F.pad(x, (0, 0, span, span))
    taps = torch.stack([padded[j * dilation : j * dilation + n] for j in range(k)])
    return torch.einsum("knd,kde->ne", taps, weight)


def by_insertion(a1, u1, a2, u2):
    zero = torch.zeros_like(u1)

    def both(h):
        return a2 @ (a1 @ h + u1) + u2

    vector = both(zero)
    columns = [both(e) - vector for e in torch.eye(len(u1))]
    return torch.stack(columns, dim=1), vector


def with_augmented(a1, u1, a2, u2):
    def square(a, u):
        d = len(u)
        m = torch.zeros(d + 1, d + 1)
        m[:d, :d], m[:d, d], m[d, d] = a, u, 1
        return m

    m = square(a2, u2) @ square(a1, u1)
    return m[:-1, :-1], m[:-1, -1]


def combined_by_einsum(a1, u1, a2, u2):
    return torch.einsum("ij,jk->ik", a2, a1), torch.einsum("ij,j->i", a2, u1) + u2


def combined_in_numpy(a1, u1, a2, u2):
    a1, u1, a2, u2 = (each.double().numpy() for each in (a1, u1, a2, u2))
    return a2.dot(a1), u2 + a2.dot(u1)


def with_rows(a1, u1, a2, u2):
    return [(a1.T @ a2.T).T, torch.addmv(u2, a2, u1)]


def window_by_slices(attend):
    q, k, v = torch.randn(3, 7, 4)
    for radius in (0, 1, 2, 6, 9):
        output = attend(q, k, v, radius)
        for i in range(7):
            window = slice(max(0, i - radius), i + radius + 1)
            weights = torch.softmax(k[window] @ q[i] / 2, dim=0)
            assert torch.allclose(output[i], weights @ v[window], atol=1e-5)


def window_by_pytorch(attend):
    q, k, v = torch.randn(3, 12, 8)
    for radius in (0, 2, 5):
        mask = torch.ones(12, 12).tril(radius).triu(-radius).bool()
        expected = F.scaled_dot_product_attention(q[None], k[None], v[None], mask)[0]
        torch.testing.assert_close(attend(q, k, v, radius), expected, atol=1e-5, rtol=1e-4)


def window_in_numpy(attend):
    q, k, v = torch.randn(3, 10, 2).double()
    at = np.arange(10)
    for radius in (1, 4):
        weights = np.exp((q @ k.T).numpy() / np.sqrt(2))
        weights *= np.abs(at[:, None] - at) <= radius
        expected = weights / weights.sum(1, keepdims=True) @ v.numpy()
        np.testing.assert_allclose(attend(q, k, v, radius).numpy(), expected, rtol=1e-6)


def window_by_weights(attend):
    n = 6
    q, k = torch.randn(2, n, n)
    for radius in (0, 1, 2, 3):
        weights = attend(q, k, torch.eye(n), radius)
        near = (torch.arange(n)[:, None] - torch.arange(n)).abs() <= radius
        assert ((weights > 0) == near).all()
        scores = (q @ k.T / n**0.5).exp() * near
        assert torch.allclose(weights, scores / scores.sum(1, keepdim=True), atol=1e-5)


def window_as_a_boolean(attend):
    q, k, v = torch.randn(3, 8, 3)
    right = []
    for radius in (2, 3):
        bias = torch.zeros(8, 8)
        for i in range(8):
            for j in range(8):
                if abs(i - j) > radius:
                    bias[i, j] = -math.inf
        expected = torch.softmax(q @ k.T / math.sqrt(3) + bias, dim=-1) @ v
        right.append(torch.allclose(attend(q, k, v, radius), expected, atol=1e-5))
    return all(right)


RIGHT = {
    "q1": [
        [80, 200, 120, 152],
        (80.0, 200.0, 120.0, 152.0),
        torch.tensor([80, 200, 120, 152]),
        np.array([80, 200, 120, 152]),
        [5 * 2 * 8, 25 * 8, 5 * 3 * 8, 19 * 8],
    ],
    "q2": [by_cases, by_recursion, by_perturbation, by_sums, by_positions],
    "q3": [with_scatter, with_loops, with_eye, in_numpy, with_extra_value],
    "q4": [by_package, by_conv1d, with_zeros, position_by_position, padded_on_both_sides],
    "q5": [by_insertion, with_augmented, combined_by_einsum, combined_in_numpy, with_rows],
    "q6": [
        window_by_slices,
        window_by_pytorch,
        window_in_numpy,
        window_by_weights,
        window_as_a_boolean,
    ],
    "q7": ["c", "C", " c", "c.", "(c)"],
}
"""For each exercise, answers that are right without a remark."""


def shifted_in_place(a1, u1, a2, u2):
    u2 += a2 @ u1
    return a2 @ a1, u2


REMARKS = {"q5": [(shifted_in_place, "changes its argument u2 in place")]}
"""For each exercise, answers that are right, and what could be better."""


def one_step_more(n, k, growth):
    return path_with_distance(n, k, growth)


def path_with_distance(n, k, growth):
    layers, reach = 0, 0
    while reach < n:
        reach += (k - 1) * growth**layers
        layers += 1
    return layers


def square_root(n, k, growth):
    return math.isqrt(n)


def with_the_answer(keys, values, asked, n_keys, n_values):
    inputs = torch.cat([F.one_hot(keys, n_keys), F.one_hot(values, n_values)], -1)
    rows = torch.arange(len(keys))
    return torch.cat([inputs, inputs[rows, asked][:, None]], 1).float(), values[rows, asked]


def as_numbers(keys, values, asked, n_keys, n_values):
    rows = torch.arange(len(keys))
    return torch.stack([keys, values], dim=-1).float(), values[rows, asked]


def padded_at_the_end(x, weight, dilation):
    n, k = len(x), len(weight)
    padded = F.pad(x, (0, 0, 0, dilation * (k - 1)))
    return sum(padded[j * dilation : j * dilation + n] @ weight[j] for j in range(k))


def first_tap(x, weight, dilation):
    return x @ weight[0]


def inputs_added(a1, u1, a2, u2):
    return a2 @ a1, u1 + u2


def inverse(a1, u1, a2, u2):
    return a2 @ a1 - nn.functional.softplus(a1), a2 @ u1 + u2


def window_without_scores(attend):
    q, (k, v) = torch.zeros(7, 3), torch.randn(2, 7, 3)
    for radius in (0, 1, 4):
        for i, row in enumerate(attend(q, k, v, radius)):
            window = v[max(0, i - radius) : i + radius + 1]
            assert torch.allclose(row, window.mean(dim=0), atol=1e-5)


WRONG = {
    "q1": [
        ([40, 100, 60, 76], "only the multiplications"),
        ([80, 200, 120, 200], "every window has"),
        ([80, 200, 120, 150], ""),
    ],
    "q2": [(one_step_more, "is taken as n"), (square_root, "")],
    "q3": [(with_the_answer, "contains the value"), (as_numbers, "")],
    "q4": [(padded_at_the_end, "added at the end"), (first_tap, "")],
    "q5": [(inputs_added, "the first input is not multiplied"), (inverse, "")],
    "q6": [(window_without_scores, "")],
}
"""For each exercise, answers that are wrong, and part of the name of the mistake; without a name
if no known mistake explains them."""
