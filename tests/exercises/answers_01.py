"""Answers to the exercises of chapter 1: right ones, each written differently, and wrong ones."""

import math
from itertools import pairwise

import numpy as np
import torch
from torch import nn

from tfmr.recurrent import RNN


def with_index(x, h, w_x, w_h, b):
    states = torch.zeros(len(x), x.shape[1], len(b))
    for t in range(x.shape[1]):
        h = (x[:, t] @ w_x + h @ w_h + b).tanh()
        states[:, t] = h
    return states


def by_pytorch(x, h, w_x, w_h, b):
    rnn = nn.RNN(*w_x.shape, batch_first=True)
    with torch.no_grad():
        rnn.weight_ih_l0.copy_(w_x.T), rnn.weight_hh_l0.copy_(w_h.T)
        rnn.bias_ih_l0.copy_(b), rnn.bias_hh_l0.zero_()
        return rnn(x, h[None])[0]


def by_package(x, h, w_x, w_h, b):
    rnn = RNN(*w_x.shape)
    with torch.no_grad():
        rnn.cells[0].w_x.weight.copy_(w_x.T), rnn.cells[0].w_x.bias.copy_(b)
        rnn.cells[0].w_h.weight.copy_(w_h.T)
        return rnn(x, (h,))[0]


def in_numpy(x, h, w_x, w_h, b):
    x, h, w_x, w_h, b = (each.double().numpy() for each in (x, h, w_x, w_h, b))
    states = [h := np.tanh(each @ w_x + h @ w_h + b) for each in x.swapaxes(0, 1)]
    return np.stack(states, axis=1)


def sentence_by_sentence(x, h, w_x, w_h, b):
    rows = []
    for inputs, state in zip(x @ w_x + b, h, strict=True):
        row = []
        for each in inputs:
            state = torch.tanh(each + state @ w_h)
            row.append(state)
        rows.append(torch.stack(row))
    return torch.stack(rows)


def with_autograd(w, h0, x, y):
    w = w.clone().requires_grad_()
    h, total = h0, 0
    for x_t, y_t in zip(x, y, strict=True):
        h = torch.tanh(w * h + x_t)
        total = total + 0.5 * (h - y_t) ** 2
    total.backward()
    return w.grad


def with_floats(w, h0, x, y):
    w, h, states = float(w), float(h0), []
    for each in x.tolist():
        states.append((h, h := math.tanh(w * h + each)))
    total = arriving = 0.0
    for (old, new), target in reversed(list(zip(states, y.tolist(), strict=True))):
        delta = (arriving + new - target) * (1 - new * new)
        total, arriving = total + delta * old, delta * w
    return total


def with_difference(w, h0, x, y):
    def loss(w):
        h, total = h0.double(), 0
        for x_t, y_t in zip(x.double(), y.double(), strict=True):
            h = torch.tanh(w * h + x_t)
            total += (h - y_t) ** 2 / 2
        return total

    return (loss(w.double() + 1e-6) - loss(w.double() - 1e-6)) / 2e-6


def with_products(w, h0, x, y):
    states = [h0]
    for each in x:
        states.append((w * states[-1] + each).tanh())
    total = 0
    for t in range(1, len(states)):  # a loss, and each use of the weight before it
        path = states[t] - y[t - 1]
        for i in range(t, 0, -1):
            path = path * (1 - states[i] ** 2)
            total += path * states[i - 1]
            path = path * w
    return total


def gradient_in_numpy(w, h0, x, y):
    states, w = [h0.item()], w.item()
    for each in x.numpy():
        states.append(np.tanh(w * states[-1] + each))
    h, arriving = np.array(states), 0.0
    deltas = np.zeros(len(x))
    for t in range(len(x) - 1, -1, -1):
        deltas[t] = (h[t + 1] - y[t].item() + arriving) * (1 - h[t + 1] ** 2)
        arriving = w * deltas[t]
    return deltas @ h[:-1]


def with_cat(d_w, d_b, limit):
    norm = torch.cat([d_w.flatten(), d_b]).norm()
    return [each * min(1, limit / norm) for each in (d_w, d_b)]


def by_utils(d_w, d_b, limit):
    parameters = [nn.Parameter(torch.zeros_like(each)) for each in (d_w, d_b)]
    for parameter, gradient in zip(parameters, (d_w, d_b), strict=True):
        parameter.grad = gradient.clone()
    nn.utils.clip_grad_norm_(parameters, limit)
    return tuple(parameter.grad for parameter in parameters)


def with_if(d_w, d_b, limit):
    norm = math.hypot(d_w.norm(), d_b.norm())
    if norm <= limit:
        return d_w, d_b
    return limit * d_w / norm, limit * d_b / norm


def with_maximum(d_w, d_b, limit):
    norm = nn.utils.get_total_norm([d_w, d_b])
    return d_w / torch.clamp(norm / limit, min=1), d_b / torch.clamp(norm / limit, min=1)


def clip_in_numpy(d_w, d_b, limit):
    both = np.concatenate([d_w.numpy().ravel(), d_b.numpy()])
    both = both * min(1.0, limit / np.linalg.norm(both))
    return both[: d_w.numel()].reshape(d_w.shape), both[d_w.numel() :]


def check_autograd(gradient):
    given = torch.tensor(0.9), torch.tensor(0.4), torch.randn(6), torch.randn(6)
    torch.testing.assert_close(torch.as_tensor(gradient(*given)), with_autograd(*given))


def check_difference(gradient):
    given = torch.tensor(-0.8), torch.tensor(1.0), torch.randn(4), torch.randn(4)
    assert abs(float(gradient(*given)) - float(with_difference(*given))) < 1e-3


def check_seeds(gradient):
    for seed in range(3):
        torch.manual_seed(seed)
        given = torch.randn(()), torch.randn(()), torch.randn(3), torch.randn(3)
        assert math.isclose(gradient(*given), with_floats(*given), rel_tol=1e-3, abs_tol=1e-4)


def check_boolean(gradient):
    given = torch.tensor(0.5), torch.tensor(-1.0), torch.ones(3) / 3, torch.zeros(3)
    return bool(abs(gradient(*given) - with_products(*given)) < 1e-4)


def check_gradcheck(gradient):
    w = torch.tensor(0.6, dtype=torch.double)
    given = torch.tensor(0.3).double(), torch.randn(5).double(), torch.randn(5).double()
    np.testing.assert_allclose(gradient(w, *given), with_difference(w, *given), rtol=1e-4)


def window_by_autograd(w, h0, x, y, k):
    states = [h0]
    for each in x:
        states.append(torch.tanh(w * states[-1] + each))
    total = 0
    for t in range(len(x)):
        start = max(0, t + 1 - k)
        weight, h = w.clone().requires_grad_(), states[start].clone()
        for i in range(start, t + 1):
            h = torch.tanh(weight * h + x[i])
        (gradient,) = torch.autograd.grad((h - y[t]) ** 2 / 2, weight)
        total = total + gradient
    return total


def window_forwards(w, h0, x, y, k):
    w, h, total = w.item(), h0.item(), 0.0
    terms = []  # of the derivative of the state, one for each use in the window
    for each, target in zip(x.tolist(), y.tolist(), strict=True):
        old, h = h, math.tanh(w * h + each)
        terms = [(1 - h * h) * w * term for term in terms] + [(1 - h * h) * old]
        terms = terms[-k:]
        total += (h - target) * sum(terms)
    return total


def window_by_difference(w, h0, x, y, k):
    w, h, total = w.item(), [h0.item()], 0.0
    for each in x.tolist():
        h.append(math.tanh(w * h[-1] + each))

    def loss(weight, t):
        start = max(t + 1 - k, 0)
        state = h[start]
        for each in x[start : t + 1].tolist():
            state = math.tanh(weight * state + each)
        return (state - y[t].item()) ** 2 / 2

    for t in range(len(x)):
        total += (loss(w + 1e-5, t) - loss(w - 1e-5, t)) / 2e-5
    return torch.tensor(total)


def window_of_full_gradients(w, h0, x, y, k):
    states = [h0]
    for each in x:
        states.append(torch.tanh(w * states[-1] + each))
    total = torch.tensor(0.0)
    for t in range(len(x)):
        start = max(0, t - k + 1)
        total += last_loss_only(w, states[start], x[start : t + 1], y[t])
    return total


def last_loss_only(w, h0, x, target):
    states = [h0]
    for each in x:
        states.append((w * states[-1] + each).tanh())
    d = states[-1] - target
    total = 0
    for old, new in reversed(list(pairwise(states))):
        d = d * (1 - new.square())
        total, d = total + d * old, d * w
    return total


def window_in_numpy(w, h0, x, y, k):
    w, x, y = float(w), x.double().numpy(), y.double().numpy()
    h = np.zeros(len(x) + 1)
    h[0] = float(h0)
    for t in range(len(x)):
        h[t + 1] = np.tanh(w * h[t] + x[t])
    slope = 1 - h[1:] ** 2
    return sum(
        (h[t + 1] - y[t]) * slope[i : t + 1].prod() * w ** (t - i) * h[i]
        for t in range(len(x))
        for i in range(max(0, t - k + 1), t + 1)
    )


RIGHT = {
    "q1": [
        [0.083, 0.056],
        (1 / 12, 1 / 18),
        torch.tensor([0.0833, 0.0556]),
        np.array([0.083, 0.056]),
        [9 / 36 * 3 / 9, 9 / 36 * 2 / 9],
    ],
    "q2": [with_index, by_pytorch, by_package, in_numpy, sentence_by_sentence],
    "q3": [with_autograd, with_floats, with_difference, with_products, gradient_in_numpy],
    "q4": [with_cat, by_utils, with_if, with_maximum, clip_in_numpy],
    "q5": [check_autograd, check_difference, check_seeds, check_boolean, check_gradcheck],
    "q6": [
        window_by_autograd,
        window_forwards,
        window_by_difference,
        window_of_full_gradients,
        window_in_numpy,
    ],
}
"""For each exercise, answers that are right without a remark."""

REMARKS = {}


def final_only(x, h, w_x, w_h, b):
    for t in range(x.shape[1]):
        h = torch.tanh(x[:, t] @ w_x + h @ w_h + b)
    return h


def with_relu(x, h, w_x, w_h, b):
    states = []
    for t in range(x.shape[1]):
        h = torch.relu(x[:, t] @ w_x + h @ w_h + b)
        states.append(h)
    return torch.stack(states, 1)


def truncated(w, h0, x, y):
    states = [h0]
    for each in x:
        states.append(torch.tanh(w * states[-1] + each))
    old, new = torch.stack(states[:-1]), torch.stack(states[1:])
    return ((new - y) * (1 - new**2) * old).sum()


def loss_itself(w, h0, x, y):
    h, total = h0, 0
    for x_t, y_t in zip(x, y, strict=True):
        h = torch.tanh(w * h + x_t)
        total += (h - y_t) ** 2 / 2
    return total


def clamped(d_w, d_b, limit):
    return d_w.clamp(-limit, limit), d_b.clamp(-limit, limit)


def normalised(d_w, d_b, limit):
    return torch.nn.functional.normalize(d_w), d_b / d_b.norm()


def check_without_state(gradient):
    x, y = torch.randn(5), torch.randn(5)
    w, h0 = torch.tensor(0.7, requires_grad=True), torch.zeros(())
    (expected,) = torch.autograd.grad(loss_itself(w, h0, x, y), w)
    assert torch.allclose(gradient(w.detach(), h0, x, y), expected, atol=1e-4)


def detached_chunks(w, h0, x, y, k):
    weight, h, total = w.clone().requires_grad_(), h0, 0
    for t, (x_t, y_t) in enumerate(zip(x, y, strict=True)):
        if t % k == 0:
            h = torch.as_tensor(h).detach()
        h = torch.tanh(weight * h + x_t)
        total = total + (h - y_t) ** 2 / 2
    return torch.autograd.grad(total, weight)[0]


def window_from_the_start(w, h0, x, y, k):
    total = 0
    for t in range(len(x)):
        start = max(0, t - k + 1)
        total += last_loss_only(w, h0, x[start : t + 1], y[t])
    return total


def window_from_the_end(w, h0, x, y, k):
    return window_in_numpy(w, h0, x.flip(0), y.flip(0), k)


WRONG = {
    "q1": [([1 / 20, 0], "only the sentences that begin"), ([0.25, 0.2], "")],
    "q2": [(final_only, "only the last state is returned"), (with_relu, "")],
    "q3": [(truncated, "no gradient flows"), (loss_itself, "")],
    "q4": [(clamped, "each component is clamped"), (normalised, "")],
    "q5": [(check_without_state, "")],
    "q6": [
        (detached_chunks, "cut into chunks"),
        (window_from_the_start, "every window starts at the initial state"),
        (window_from_the_end, ""),
    ],
}
"""For each exercise, answers that are wrong, and part of the name of the mistake; without a name
if no known mistake explains them."""
