"""Answers to the exercises of chapter 17: right ones, each written differently, and wrong ones."""

import math

import numpy as np
import torch
import torch.nn.functional as F

from tfmr.scaling_law import ScalingLaw


def best_tokens_in_logs(a, alpha, b, beta, budget):
    log_power = math.log(alpha * a) - math.log(beta * b) + beta * math.log(budget / 6)
    return math.exp(math.log(budget / 6) - 2 * log_power / (alpha + beta))


def by_bisection(a, alpha, b, beta, budget):
    low, high = 0.0, math.log(budget)
    for _ in range(200):
        n = math.exp((low + high) / 2)
        slope = beta * b * (6 * n / budget) ** beta - alpha * a * n**-alpha
        low, high = (low, math.log(n)) if slope > 0 else (math.log(n), high)
    return budget / 6 / n**2


def by_search(a, alpha, b, beta, budget):
    law = ScalingLaw(0.0, a, alpha, b, beta)
    low, high = 0.0, math.log10(budget)
    for _ in range(6):
        steps = [low + i * (high - low) / 40 for i in range(41)]
        best = min(range(41), key=lambda i: law(10 ** steps[i], budget / 6 / 10 ** steps[i]))
        low, high = steps[max(best - 1, 0)], steps[min(best + 1, 40)]
    n = 10 ** ((low + high) / 2)
    return budget / (6 * n**2)


def through_the_tokens(a, alpha, b, beta, budget):
    d = (beta * b / (alpha * a) * (budget / 6) ** alpha) ** (1 / (alpha + beta))
    return 6 * d**2 / budget


def in_numpy(a, alpha, b, beta, budget):
    total = np.float64(alpha) + beta
    g = np.power(alpha * a / (beta * b), 1 / total)
    n = g * np.power(budget / 6, beta / total)
    d = np.power(budget / 6, alpha / total) / g
    return d / n


def rounds_by_roll(x):
    p, states = len(x), []
    for step in range(p - 1):
        sent = torch.zeros_like(x)
        i = torch.arange(p)
        sent[i, (i - step) % p] = x[i, (i - step) % p]
        x = x + sent.roll(1, dims=0)
        states.append(x)
    return torch.stack(states)


def rounds_as_lists(x):
    rows, states = x.tolist(), []
    p = len(rows)
    for step in range(p - 1):
        messages = [rows[i][(i - step) % p] for i in range(p)]
        for i, message in enumerate(messages):
            rows[(i + 1) % p][(i - step) % p] += message
        states.append([list(row) for row in rows])
    return states


def rounds_of_receivers(x):
    p = x.size(0)
    out = x.repeat(p, 1, 1)
    for step in range(1, p):
        out[step:] = out[step - 1]
        for i in range(p):
            chunk = (i - step) % p
            out[step:, i, chunk] = x[i, chunk] + out[step - 1, i - 1, chunk]
    return out[1:]


def rounds_by_sums(x):
    p = len(x)
    states = x.expand(p - 1, p, p).clone()
    for r in range(p - 1):
        for i in range(p):
            for k in range(p):
                distance = (i - k) % p
                if 0 < distance <= r + 1:
                    states[r, i, k] = sum(x[(i - j) % p, k] for j in range(distance + 1))
    return states


def rounds_in_numpy(x):
    state, p, states = x.numpy().copy(), len(x), []
    index = np.arange(p)
    for _ in range(p - 1):
        state[(np.arange(p) + 1) % p, index] += state[np.arange(p), index]
        index = (index - 1) % p
        states.append(state.copy())
    return np.stack(states)


def on_the_first_device(x, w1, b1, w2, b2, p):
    output = 0
    parts = zip(w1.chunk(p, dim=1), b1.chunk(p), w2.chunk(p), strict=True)
    for device, (columns, bias, rows) in enumerate(parts):
        part = torch.relu(x @ columns + bias) @ rows
        output = output + (part + b2 if device == 0 else part)
    return output


def divided_bias(x, w1, b1, w2, b2, p):
    output = torch.zeros_like(x)
    for columns, bias, rows in zip(w1.chunk(p, dim=1), b1.chunk(p), w2.chunk(p), strict=True):
        output = output + torch.relu(x @ columns + bias) @ rows + b2 / p
    return output


def whole(x, w1, b1, w2, b2, p):
    return (x @ w1 + b1).clamp(min=0) @ w2 + b2


def starting_from_the_bias(x, w1, b1, w2, b2, p):
    output = b2.expand_as(x)
    for columns, bias, rows in zip(w1.chunk(p, dim=1), b1.chunk(p), w2.chunk(p), strict=True):
        output = output + F.linear(F.relu(F.linear(x, columns.T, bias)), rows.T)
    return output


def with_einsum(x, w1, b1, w2, b2, p):
    hidden = (torch.einsum("td,dpf->tpf", x, w1.unflatten(1, (p, -1))) + b1.view(p, -1)).relu()
    return torch.einsum("tpf,pfd->td", hidden, w2.unflatten(0, (p, -1))) + b2


def with_logsumexp(outputs, log_sums):
    weights = (log_sums - log_sums.logsumexp(dim=0)).exp()
    return torch.einsum("pqd,pq->qd", outputs, weights)


def one_after_the_other(outputs, log_sums):
    output, total = outputs[0], log_sums[0]
    for other, log_sum in zip(outputs[1:], log_sums[1:], strict=True):
        new = torch.logaddexp(total, log_sum)
        output = output * (total - new).exp()[:, None] + other * (log_sum - new).exp()[:, None]
        total = new
    return output


def with_sigmoid(outputs, log_sums):
    output, total = outputs[0], log_sums[0]
    for other, log_sum in zip(outputs[1:], log_sums[1:], strict=True):
        output = output + torch.sigmoid(log_sum - total)[:, None] * (other - output)
        total = torch.logaddexp(total, log_sum)
    return output


def merged_in_numpy(outputs, log_sums):
    weights = np.exp(log_sums.double().numpy() - log_sums.amax(dim=0).double().numpy())
    return (weights[..., None] * outputs.numpy()).sum(0) / weights.sum(0)[:, None]


def query_by_query(outputs, log_sums):
    return torch.stack([log_sums[:, i].softmax(0) @ outputs[:, i] for i in range(len(outputs[0]))])


def reduced_by_example(all_reduce):
    tensors = [torch.tensor([1, 2, 3, 4]) * 10**i for i in range(3)]
    copies = [tensor.clone() for tensor in tensors]
    for result in all_reduce(tensors):
        assert result.tolist() == [111, 222, 333, 444]
    assert [tensor.tolist() for tensor in tensors] == [copy.tolist() for copy in copies]


def reduced_in_numpy(all_reduce):
    tensors = torch.randint(0, 50, (4, 5))
    expected = tensors.numpy().sum(0)
    kept = tensors.clone()
    for result in all_reduce(list(tensors)):
        np.testing.assert_array_equal(result.numpy(), expected)
    np.testing.assert_array_equal(tensors.numpy(), kept.numpy())


def reduced_as_a_boolean(all_reduce):
    right = []
    for p in (2, 3, 5):
        tensors = [torch.full((7,), 2.0**i) for i in range(p)]
        results = all_reduce(tensors)
        right += [bool((result == 2**p - 1).all()) for result in results]
        right += [bool((tensor == 2**i).all()) for i, tensor in enumerate(tensors)]
    return all(right)


def reduced_with_assert_close(all_reduce):
    for size in range(1, 9):
        rows = torch.randint(1, 9, (3, size)).float()
        before = rows.clone()
        results = torch.stack(list(all_reduce(list(rows))))
        torch.testing.assert_close(results, before.sum(0).expand(3, size))
        torch.testing.assert_close(rows, before)


def reduced_one_at_a_time(all_reduce):
    for active in range(3):
        tensors = [torch.arange(1.0, 6.0) * (i == active) for i in range(3)]
        results = all_reduce(tensors)
        assert all(result.tolist() == [1, 2, 3, 4, 5] for result in results)
        assert all(float(each.sum()) == 15 * (i == active) for i, each in enumerate(tensors))


RIGHT = {
    "q1": [
        [7, 5.5, 4, 133, 9.333],
        (7.0, 5.5, 4.0, 133, 9.33),
        torch.tensor([7.0, 5.5, 4.0, 133.0, 9.333]),
        np.array([7, 5.5, 4, 133, 28 / 3]),
        [4 + 12 / 4, 2 + 14 / 4, 16 / 4, 7 / 0.05 - 7, 7 * 4e14 / (6 * 50e9) / 1000],
    ],
    "q2": [best_tokens_in_logs, by_bisection, by_search, through_the_tokens, in_numpy],
    "q3": [
        rounds_by_roll,
        rounds_as_lists,
        rounds_of_receivers,
        rounds_by_sums,
        rounds_in_numpy,
    ],
    "q4": [on_the_first_device, divided_bias, whole, starting_from_the_bias, with_einsum],
    "q5": [with_logsumexp, one_after_the_other, with_sigmoid, merged_in_numpy, query_by_query],
    "q6": [
        reduced_by_example,
        reduced_in_numpy,
        reduced_as_a_boolean,
        reduced_with_assert_close,
        reduced_one_at_a_time,
    ],
    "q7": ["c", "C", " c", "c.", "(c)"],
}
"""For each exercise, answers that are right without a remark."""


def into_the_argument(x):
    p, states = len(x), []
    for step in range(p - 1):
        sent = [x[i, (i - step) % p].clone() for i in range(p)]
        for i in range(p):
            x[(i + 1) % p, (i - step) % p] += sent[i]
        states.append(x.clone())
    return torch.stack(states)


REMARKS = {"q3": [(into_the_argument, "changes its argument x in place")]}
"""For each exercise, answers that are right, and what could be better."""


def with_equal_terms(a, alpha, b, beta, budget):
    n = (a / b * (budget / 6) ** beta) ** (1 / (alpha + beta))
    return budget / 6 / n**2


def twenty(a, alpha, b, beta, budget):
    return 20.0


def sums_at_once(x):
    return x.sum(0).expand(len(x) - 1, len(x), len(x))


def never_passed_on(x):
    states, p = [], len(x)
    for _ in range(p - 1):
        after = x.clone()
        for i in range(p):
            after[(i + 1) % p, i] += x[i, i]
        x = after
        states.append(x)
    return torch.stack(states)


def mean_of_parts(x, w1, b1, w2, b2, p):
    output = 0
    for columns, bias, rows in zip(w1.chunk(p, dim=1), b1.chunk(p), w2.chunk(p), strict=True):
        output = output + torch.relu(x @ columns + bias) @ rows + b2
    return output / p


def biases_first(x, w1, b1, w2, b2, p):
    return torch.relu(x @ w1 + b1 + 1) @ w2 + b2


def unscaled(outputs, log_sums):
    return (log_sums.exp()[..., None] * outputs).sum(0) / log_sums.exp().sum(0)[:, None]


def base_two(outputs, log_sums):
    weights = torch.exp2(log_sums - log_sums.amax(dim=0))
    return ((weights / weights.sum(0))[..., None] * outputs).sum(0)


WRONG = {
    "q1": [
        ([7, 5.5, 4, 152, 9.333], "p instead of p − 1"),
        ([5.5, 4, 4, 133, 9.333], "shifted by one"),
        ([7, 5.5, 4, 133, 10], ""),
    ],
    "q2": [(with_equal_terms, "made equal"), (twenty, "")],
    "q3": [(never_passed_on, "number i in every round"), (sums_at_once, "")],
    "q4": [(mean_of_parts, "the partial outputs are averaged"), (biases_first, "")],
    "q5": [(unscaled, "overflow"), (base_two, "")],
}
"""For each exercise, answers that are wrong, and part of the name of the mistake; without a name
if no known mistake explains them."""
