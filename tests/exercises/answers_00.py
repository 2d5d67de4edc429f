"""Answers to the exercises of the primer: right ones, each written differently, and wrong ones."""

import math
import random

import numpy as np
import torch
import torch.nn.functional as F


def with_logsumexp(logits):
    return (logits - logits.logsumexp(dim=1, keepdim=True)).exp()


def with_transposes(logits):
    exponentials = torch.exp(logits.T - logits.max(dim=1).values)
    return (exponentials / exponentials.sum(0)).T


def softmax_in_numpy(logits):
    logits = logits.double().numpy()
    powers = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def by_pytorch(logits):
    return logits.softmax(dim=-1)


def with_differences(logits):
    return 1 / (logits[:, None, :] - logits[:, :, None]).exp().sum(dim=-1)


def by_autograd(logits, correct):
    logits = logits.clone().requires_grad_()
    F.cross_entropy(logits, correct).backward()
    return logits.grad


def with_index(logits, correct):
    gradient = torch.softmax(logits, dim=1)
    gradient[range(len(correct)), correct] -= 1
    return gradient / len(logits)


def gradient_in_numpy(logits, correct):
    logits, correct = logits.double().numpy(), correct.numpy()
    probs = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    return (probs - np.eye(logits.shape[1])[correct]) / logits.shape[0]


def with_scatter(logits, correct):
    n = len(correct)
    target = torch.zeros_like(logits).scatter(1, correct[:, None], 1 / n)
    return logits.softmax(-1).div(n).sub(target)


def with_comparison(logits, correct):
    one_hot = correct[:, None] == torch.arange(logits.shape[1])
    return ((logits - logits.logsumexp(1, keepdim=True)).exp() - one_hot.float()) / len(correct)


def by_formula(w, examples, lr, steps):
    mean = examples.mean()
    return mean + (w - mean) * (1 - 2 * lr) ** steps


def with_derivative(w, examples, lr, steps):
    for _ in range(steps):
        w = w - lr * 2 * (w - examples).mean()
    return w


def with_zero_grad(w, examples, lr, steps):
    w = torch.nn.Parameter(w.clone())
    for _ in range(steps):
        ((w - examples) ** 2).mean().backward()
        with torch.no_grad():
            w.sub_(w.grad, alpha=lr)
        w.grad.zero_()
    return w.data


def with_autograd(w, examples, lr, steps):
    w = w.clone().requires_grad_()
    for _ in range(steps):
        [gradient] = torch.autograd.grad(F.mse_loss(w.expand_as(examples), examples), w)
        w = (w - lr * gradient).detach().requires_grad_()
    return w


def in_plain_python(w, examples, lr, steps):
    w, examples = float(w), examples.tolist()
    for _ in range(steps):
        w -= lr * sum(2 * (w - each) for each in examples) / len(examples)
    return w


def split_by_sets(split):
    sentences = [str(i) for i in range(100)]
    train, valid = split(list(sentences), 30, 7)
    assert len(train) == 70
    assert len(valid) == 30
    assert not set(train) & set(valid)
    assert set(train) | set(valid) == set(sentences)
    assert split(list(sentences), 30, 7) == (train, valid)
    assert set(split(list(sentences), 30, 8)[1]) != set(valid)
    given = list(sentences)
    split(given, 30, 1)
    assert given == sentences


def split_as_a_boolean(split):
    text = list("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMN")
    copy = tuple(text)
    results = [split(text, 10, seed) for seed in (1, 1, 2, 3)]
    same = results[0] == results[1]
    different = any(set(each[1]) != set(results[0][1]) for each in results[2:])
    complete = all(sorted(a + b) == sorted(copy) and len(b) == 10 for a, b in results)
    return same and different and complete and tuple(text) == copy


def split_of_three_sizes(split):
    for n, n_valid in ((50, 5), (40, 20), (60, 45)):
        sentences = [f"{i}." for i in range(n)]
        train, valid = split(sentences, n_valid, 3)
        assert sentences == [f"{i}." for i in range(n)]
        assert len(valid) == n_valid
        assert len(set(valid)) == n_valid
        assert not set(train) & set(valid)
        assert len(train) + len(valid) == n
        assert split(sentences, n_valid, 3)[0] == train
        chosen = {frozenset(split(sentences, n_valid, seed)[1]) for seed in range(4)}
        assert len(chosen) > 1


def split_in_numpy(split):
    sentences = np.arange(80).astype(str).tolist()
    parts = split(sentences, 16, 0)
    np.testing.assert_array_equal([len(part) for part in parts], [64, 16])
    np.testing.assert_array_equal(
        np.sort(np.concatenate(parts)), np.sort(np.arange(80).astype(str))
    )
    np.testing.assert_array_equal(sentences, np.arange(80).astype(str))
    np.testing.assert_array_equal(split(sentences, 16, 0)[1], parts[1])
    assert sorted(split(sentences, 16, 5)[1]) != sorted(parts[1])


def split_by_counting(split):
    rng = random.Random(5)
    sentences = [str(rng.random()) for _ in range(70)]
    before = sentences.copy()
    counts = dict.fromkeys(sentences, 0)
    seen = []
    for seed in (0, 0, 1):
        train, valid = split(sentences, 25, seed)
        seen.append(sorted(valid))
        for each in train + valid:
            counts[each] += 1
        assert len(valid) == 25
    assert set(counts.values()) == {3}
    assert sentences == before
    assert seen[0] == seen[1] != seen[2]


RIGHT = {
    "q1": [
        [2.5, 1.733, 5.657, 1024],
        (2.5, 1.73, 5.66, 1024),
        torch.tensor([2.5, 1.733, 5.657, 1024.0]),
        np.array([2.5, 1.733, 5.657, 1024]),
        [10 / 4, 2.5 * math.log(2), 2**2.5, 2 * 8**3],
    ],
    "q2": [
        [8.0, 4.0, 2.2, 0.6],
        (8, 4, 2.2, 0.6),
        torch.tensor([8.0, 4.0, 2.2, 0.6]),
        np.array([8, 4, 2.2, 0.6]),
        [2 * 2 * 2, 2 * 2, 3 - 0.8, 1 - 0.4],
    ],
    "q3": [with_logsumexp, with_transposes, softmax_in_numpy, by_pytorch, with_differences],
    "q4": [by_autograd, with_index, gradient_in_numpy, with_scatter, with_comparison],
    "q5": [by_formula, with_derivative, with_zero_grad, with_autograd, in_plain_python],
    "q6": [
        split_by_sets,
        split_as_a_boolean,
        split_of_three_sizes,
        split_in_numpy,
        split_by_counting,
    ],
    "q7": ["b", "B", " b", "b.", "(b)"],
}
"""For each exercise, answers that are right without a remark."""


def row_by_row(logits):
    return torch.stack([(row - row.max()).exp() / (row - row.max()).exp().sum() for row in logits])


def position_by_position(logits, correct):
    gradient = logits.softmax(dim=-1)
    for i in range(len(correct)):
        gradient[i, correct[i]] -= 1
    return gradient / len(correct)


def in_place(w, examples, lr, steps):
    for _ in range(steps):
        w -= lr * 2 * (w - examples).mean()
    return w


REMARKS = {
    "q3": [(row_by_row, "loops over rows")],
    "q4": [(position_by_position, "loops over positions")],
    "q5": [(in_place, "changes its argument w in place")],
}
"""For each exercise, answers that are right, and what could be better."""


def by_the_formula(logits):
    return logits.exp() / logits.exp().sum(dim=1, keepdim=True)


def clamped(logits):
    logits = logits.clamp(max=50)
    return logits.exp() / logits.exp().sum(dim=1, keepdim=True)


def of_the_sum(logits, correct):
    return logits.softmax(-1) - F.one_hot(correct, logits.shape[1])


def squared(logits, correct):
    return 2 * (logits.softmax(-1) - F.one_hot(correct, logits.shape[1])) / len(correct)


def reset_too_early(w, examples, lr, steps):
    w = w.clone().requires_grad_()
    for _ in range(steps):
        ((w - examples) ** 2).mean().backward()
        w.grad.zero_()
        w.data -= lr * w.grad
    return w


def single_step(w, examples, lr, steps):
    return w - lr * 2 * (w - examples).mean()


def with_signs(w, examples, lr, steps):
    for _ in range(steps):
        w = w - lr * (w - examples).mean().sign()
    return w


WRONG = {
    "q1": [([2.5, 3.607, 5.657, 1024], "divided by ln 2"), ([2.5, 1.733, 2.5, 1024], "")],
    "q2": [([8, 4, 3.8, 1.4], "the step is added"), ([8, 4, 2.2, 1], "")],
    "q3": [(by_the_formula, "overflow"), (clamped, "are clamped"), (torch.sigmoid, "")],
    "q4": [(of_the_sum, "that of the sum"), (squared, "")],
    "q5": [
        (reset_too_early, "between the backward pass and the step"),
        (single_step, "only one step"),
        (with_signs, ""),
    ],
}
"""For each exercise, answers that are wrong, and part of the name of the mistake; without a name
if no known mistake explains them."""
