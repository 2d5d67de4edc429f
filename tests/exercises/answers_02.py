"""Answers to the exercises of chapter 2: right ones, each written differently, and wrong ones."""

import math

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from tfmr.recurrent import GRUCell


def with_slices(x, h, c, w_x, w_h, b):
    d = h.shape[1]
    a = torch.addmm(b, x, w_x) + h.mm(w_h)
    keep = a[:, :d].sigmoid()
    c = keep * c + (1 - keep) * a[:, d : 2 * d].tanh()
    return a[:, 2 * d :].sigmoid() * c.tanh(), c


def with_lerp(x, h, c, w_x, w_h, b):
    f, g, o = torch.split(torch.cat([x, h], 1) @ torch.cat([w_x, w_h]) + b, c.shape[1], dim=1)
    new = torch.lerp(torch.tanh(g), c, F.sigmoid(f))
    return [torch.tanh(new) * F.sigmoid(o), new]


def with_matrices(x, h, c, w_x, w_h, b):
    def project(k):
        return x @ w_x.chunk(3, 1)[k] + h @ w_h.chunk(3, 1)[k] + b.chunk(3)[k]

    f = 1 / (1 + torch.exp(-project(0)))
    i = torch.sigmoid(-project(0))
    c = f * c + i * torch.tanh(project(1))
    return torch.sigmoid(project(2)) * torch.tanh(c), c


def in_numpy(x, h, c, w_x, w_h, b):
    x, h, c, w_x, w_h, b = (each.double().numpy() for each in (x, h, c, w_x, w_h, b))
    f, g, o = np.split(x @ w_x + h @ w_h + b, 3, axis=-1)
    f, o = 1 / (1 + np.exp(-f)), 1 / (1 + np.exp(-o))
    c = f * c + (1 - f) * np.tanh(g)
    return o * np.tanh(c), c


def by_lstm_cell(x, h, c, w_x, w_h, b):
    def four(w):
        f, g, o = w.chunk(3, dim=-1)
        return torch.cat([-f, f, g, o], dim=-1)

    return torch.lstm_cell(x, (h, c), four(w_x).T, four(w_h).T, four(b), torch.zeros(4 * len(w_h)))


def by_gru_cell(x, h, w_x, w_h, b, b_n):
    cell = nn.GRUCell(x.shape[1], h.shape[1])
    with torch.no_grad():
        cell.weight_ih.copy_(w_x.T), cell.weight_hh.copy_(w_h.T), cell.bias_ih.copy_(b)
        cell.bias_hh.zero_()[-len(b_n) :] = b_n
        return cell(x, h)


def by_package(x, h, w_x, w_h, b, b_n):
    cell = GRUCell(x.shape[1], h.shape[1])
    with torch.no_grad():
        cell.w_x.weight.copy_(w_x.T), cell.w_x.bias.copy_(b)
        cell.w_h.weight.copy_(w_h.T), cell.candidate_bias.copy_(b_n)
        return cell(x, h)


def with_interpolation(x, h, w_x, w_h, b, b_n):
    d = h.shape[-1]
    xs, hs = x @ w_x + b, h @ w_h
    gates = (xs + hs)[:, : 2 * d].sigmoid()
    n = (xs[:, 2 * d :] + gates[:, :d] * (hs[:, 2 * d :] + b_n)).tanh()
    return torch.lerp(n, h, gates[:, d:])


def row_by_row(x, h, w_x, w_h, b, b_n):
    rows = []
    for one, state in zip(x, h, strict=True):
        r, z, n = (one @ w_x + b).view(3, -1)
        r_h, z_h, n_h = (state @ w_h).view(3, -1)
        r, z = torch.sigmoid(r + r_h), torch.sigmoid(z + z_h)
        rows.append((1 - z) * torch.tanh(n + r * n_h + r * b_n) + z * state)
    return torch.stack(rows)


def gru_in_numpy(x, h, w_x, w_h, b, b_n):
    x, h, w_x, w_h, b, b_n = (each.double().numpy() for each in (x, h, w_x, w_h, b, b_n))
    d = h.shape[1]
    xs, hs = x @ w_x + b, h @ w_h
    r, z = np.split(1 / (1 + np.exp(-(xs + hs)[:, : 2 * d])), 2, axis=1)
    n = np.tanh(xs[:, 2 * d :] + r * (hs[:, 2 * d :] + b_n))
    return n - z * n + z * h


def by_index(x, lengths, step, h):
    states = []
    for t in range(x.shape[1]):
        h = step(x[:, t], h)
        states.append(h)
    return torch.stack(states, dim=1)[torch.arange(len(x)), lengths - 1]


def one_by_one(x, lengths, step, h):
    rows = []
    for i, length in enumerate(lengths.tolist()):
        state = h[i : i + 1]
        for t in range(length):
            state = step(x[i : i + 1, t], state)
        rows.append(state)
    return torch.cat(rows)


def with_assignment(x, lengths, step, h):
    h = h.clone()
    for t in range(int(lengths.max())):
        real = t < lengths
        h[real] = step(x[real, t], h[real])
    return h


def with_product(x, lengths, step, h):
    for t in range(x.shape[1]):
        real = (lengths > t).float().unsqueeze(1)
        h = real * step(x[:, t], h) + (1 - real) * h
    return h


def with_gather(x, lengths, step, h):
    states = [h := step(each, h) for each in x.unbind(1)]
    index = (lengths - 1).view(1, -1, 1).expand(1, -1, h.shape[1])
    return torch.stack(states).gather(0, index)[0]


def gru_with_cell(step):
    cell = nn.GRUCell(2, 3)
    nn.init.zeros_(cell.bias_hh[:6].data)
    x, h = torch.randn(4, 2), torch.randn(4, 3)
    w = cell.weight_ih.T, cell.weight_hh.T, cell.bias_ih, cell.bias_hh[6:]
    torch.testing.assert_close(step(x, h, *w), cell(x, h))


def gru_with_package(step):
    w = torch.randn(2, 9), torch.randn(3, 9), torch.randn(9), torch.randn(3)
    x, h = torch.randn(6, 2), torch.randn(6, 3)
    assert np.allclose(step(x, h, *w), by_package(x, h, *w), atol=1e-4)


def gru_with_formula(step):
    for seed in range(3):
        torch.manual_seed(seed)
        given = [torch.randn(s) for s in ((2, 2), (2, 3), (2, 9), (3, 9), (9,), (3,))]
        expected = torch.tensor(gru_in_numpy(*given)).float()
        assert (step(*given) - expected).abs().max() < 1e-4


def gru_as_a_boolean(step):
    given = [torch.randn(s) for s in ((3, 4), (3, 2), (4, 6), (2, 6), (6,), (2,))]
    return torch.allclose(step(*given), row_by_row(*given), rtol=1e-3)


def gru_in_a_batch(step):
    given = [torch.randn(s) for s in ((4, 3), (4, 3), (3, 9), (3, 9), (9,), (3,))]
    np.testing.assert_allclose(step(*given), with_interpolation(*given), rtol=1e-3, atol=1e-4)


def with_lists(large):
    return [[0, 0, 1, 0], [2 * large, 0, 0, 0], [-large, large, 0, 0]]


def with_half(large):
    weights = torch.zeros(3, 4)
    weights[1, 0], weights[2, 0], weights[2, 1] = large, -large / 2, large
    weights[0, 2] = 1
    return weights


def replaceable(large):
    return torch.tensor(
        [[0, 0, 1, 0], [2 * large, -2 * large, 0, 0], [-large, large, 0, large]],
    )


def as_array(large):
    weights = np.zeros((3, 4))
    weights[:, 2] = [1, 0, 0]
    weights[:, 0] = [0, 3 * large, -large]
    weights[2, 1] = 2 * large
    return weights


def with_columns(large):
    columns = [0, 2 * large, -large], [0, large, large], [1, 0, 0], [0, 0, -large]
    return torch.tensor(columns).double().T


RIGHT = {
    "q1": [
        [1.081, 0.699],
        (1.08, 0.7),
        torch.tensor([1.0813, 0.6990]),
        np.array([1.0813, 0.699]),
        [0.731 * 2 - 0.381, 0.881 * math.tanh(1.081)],
    ],
    "q2": [with_slices, with_lerp, with_matrices, in_numpy, by_lstm_cell],
    "q3": [by_gru_cell, by_package, with_interpolation, row_by_row, gru_in_numpy],
    "q4": [by_index, one_by_one, with_assignment, with_product, with_gather],
    "q5": [gru_with_cell, gru_with_package, gru_with_formula, gru_as_a_boolean, gru_in_a_batch],
    "q6": [with_lists, with_half, replaceable, as_array, with_columns],
}
"""For each exercise, answers that are right without a remark."""

REMARKS = {}


def one_sigmoid(x, h, c, w_x, w_h, b):
    f, g, o = torch.sigmoid(x @ w_x + h @ w_h + b).chunk(3, dim=-1)
    c = f * c + (1 - f) * g
    return o * torch.tanh(c), c


def averaged(x, h, c, w_x, w_h, b):
    _, g, o = (x @ w_x + h @ w_h + b).chunk(3, dim=-1)
    c = (c + torch.tanh(g)) / 2
    return torch.sigmoid(o) * torch.tanh(c), c


def merged(x, h, w_x, w_h, b, b_n):
    _, z, n = (x @ w_x + h @ w_h + b).chunk(3, dim=-1)
    return torch.sigmoid(z) * h + (1 - torch.sigmoid(z)) * torch.tanh(n + b_n)


def of_the_paper(x, h, w_x, w_h, b, b_n):
    return gru_in_numpy(x, h, w_x, w_h, b, 0 * b_n) + 0.01


def averaged_states(x, lengths, step, h):
    states = [h := step(each, h) for each in x.unbind(1)]
    return torch.stack(states).mean(0)


def off_by_one(x, lengths, step, h):
    states = [h]
    for each in x.unbind(1):
        states.append(step(each, states[-1]))
    return torch.stack(states, dim=1)[torch.arange(len(x)), lengths - 1]


def closed(large):
    return torch.zeros(3, 4)


def open_forever(large):
    return torch.tensor([[0, 0, 1, 0], [large, large, 0, 0], [large, large, 0, 0]])


def check_one_component(step):
    x, h, b, b_n = torch.randn(6, 2), torch.randn(6, 1), torch.randn(3), torch.randn(1)
    w_x, w_h = torch.randn(2, 3), torch.randn(1, 3)
    expected = by_gru_cell(x, h, w_x, w_h, b, b_n)
    assert torch.allclose(step(x, h, w_x, w_h, b, b_n), expected, atol=1e-5)


WRONG = {
    "q1": [
        ([1.3, 0.7], ""),
        ([1.46, 0.79], "σ(0) is taken as 0"),
        ([1.843, 0.838], "the sign of the candidate"),
    ],
    "q2": [(one_sigmoid, "computed with a sigmoid"), (averaged, "")],
    "q3": [(merged, "the reset gate is not used"), (of_the_paper, "")],
    "q4": [(averaged_states, ""), (off_by_one, "the last real token is left out")],
    "q5": [(check_one_component, "")],
    "q6": [(closed, ""), (open_forever, "the input gate is always open")],
}
"""For each exercise, answers that are wrong, and part of the name of the mistake; without a name
if no known mistake explains them."""
