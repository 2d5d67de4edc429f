"""Answers to the exercises of chapter 11: right ones, each written differently, and wrong ones."""

import math

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from tfmr.train.loss import cross_entropy_naive
from tfmr.train.schedule import learning_rate


def with_dot(losses, tokens):
    return (losses @ tokens.float() / tokens.sum()).exp()


def in_numpy(losses, tokens):
    return np.exp(np.average(losses.numpy(), weights=tokens.numpy()))


def with_repeat(losses, tokens):
    return losses.repeat_interleave(tokens).mean().exp()


def with_loop(losses, tokens):
    total = count = 0.0
    for loss, n in zip(losses.tolist(), tokens.tolist(), strict=True):
        total, count = total + loss * n, count + n
    return math.exp(total / count)


def with_product(losses, tokens):
    return torch.prod(losses.double().exp() ** (tokens / tokens.sum()))


def by_pytorch(logits, labels, epsilon):
    return F.cross_entropy(logits, labels, ignore_index=0, label_smoothing=epsilon)


def by_package(logits, labels, epsilon):
    return cross_entropy_naive(logits[None], labels[None], epsilon)


def with_target(logits, labels, epsilon):
    q = torch.full_like(logits, epsilon / logits.shape[1])
    q[torch.arange(len(labels)), labels] += 1 - epsilon
    losses = -(q * torch.log_softmax(logits, 1)).sum(1)
    return (losses * (labels > 0)).sum() / (labels > 0).sum()


def with_one_hot(logits, labels, epsilon):
    logits, labels = logits[labels != 0], labels[labels != 0]
    q = F.one_hot(labels, logits.shape[1]) * (1 - epsilon) + epsilon / logits.shape[1]
    return torch.einsum("pv,pv->", -q, logits.log_softmax(-1)) / len(labels)


def with_logsumexp(logits, labels, epsilon):
    total = logits.logsumexp(dim=-1)
    plain = total - logits[range(len(labels)), labels]
    losses = (1 - epsilon) * plain + epsilon * (total - logits.mean(-1))
    return losses.masked_select(labels.bool()).mean()


def by_optimiser(w, g, m, v, t, lr):
    parameter = nn.Parameter(w.clone())
    adam = torch.optim.Adam([parameter], lr=lr, betas=(0.9, 0.98), eps=1e-9)
    state = {"step": torch.tensor(t - 1.0), "exp_avg": m.clone(), "exp_avg_sq": v.clone()}
    adam.state[parameter] = state
    parameter.grad = g
    adam.step()
    return parameter.detach(), state["exp_avg"], state["exp_avg_sq"]


def with_lerp(w, g, m, v, t, lr):
    m, v = torch.lerp(m, g, 0.1), torch.lerp(v, g * g, 0.02)
    rate = lr * math.sqrt(1 - 0.98**t) / (1 - 0.9**t)
    return w - rate * m / (v.sqrt() + 1e-9 * math.sqrt(1 - 0.98**t)), m, v


def adam_in_numpy(w, g, m, v, t, lr):
    w, g, m, v = (each.double().numpy() for each in (w, g, m, v))
    m, v = m + 0.1 * (g - m), v + 0.02 * (g**2 - v)
    return w - lr * (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.98**t)) + 1e-9), m, v


def as_a_list(w, g, m, v, t, lr):
    betas = (0.9, 0.98)
    m, v = betas[0] * m + (1 - betas[0]) * g, betas[1] * v + (1 - betas[1]) * g.pow(2)
    step = (m / (1 - betas[0] ** t)).div((v / (1 - betas[1] ** t)).sqrt().add(1e-9))
    return [w.sub(step, alpha=lr), m, v]


def weight_by_weight(w, g, m, v, t, lr):
    rows = []
    for a, b, c, d in zip(w.tolist(), g.tolist(), m.tolist(), v.tolist(), strict=True):
        c, d = 0.9 * c + 0.1 * b, 0.98 * d + 0.02 * b * b
        step = c / (1 - 0.9**t) / (math.sqrt(d / (1 - 0.98**t)) + 1e-9)
        rows.append((a - lr * step, c, d))
    return tuple(torch.tensor(each) for each in zip(*rows, strict=True))


def with_weights(gradients, real):
    total = torch.zeros(gradients.shape[-1])
    for part, mask in zip(gradients, real, strict=True):
        total = total + part[mask].mean(dim=0) * mask.sum() / real.sum()
    return total


def at_once(gradients, real):
    return gradients[real].mean(dim=0)


def with_einsum(gradients, real):
    return torch.einsum("ptn,pt->n", gradients, real / real.sum())


def with_mask(gradients, real):
    return (gradients * real[..., None]).sum((0, 1)) / real.sum()


def with_counts(gradients, real):
    total, count = 0, 0
    for part, mask in zip(gradients.numpy(), real.numpy(), strict=True):
        total, count = total + part[mask].sum(0), count + mask.sum()
    return total / count


def schedule_by_package(schedule):
    for t in range(1, 60):
        assert math.isclose(schedule(t, 0.01, 7), learning_rate(t, 0.01, 7), rel_tol=1e-5)


def schedule_by_ratios(schedule):
    for peak, warmup in ((2.0, 8), (0.5, 100)):
        assert abs(schedule(warmup, peak, warmup) / peak - 1) < 1e-6
        for t in range(1, warmup):
            ratio = schedule(t, peak, warmup) / schedule(1, peak, warmup)
            assert abs(ratio - t) < 1e-6
            assert abs(schedule(warmup + t, peak, warmup) - peak * (1 + t / warmup) ** -0.5) < 1e-6


def schedule_in_torch(schedule):
    t = torch.arange(1.0, 200)
    expected = 3 * torch.minimum(t / 40, (40 / t).sqrt())
    given = torch.tensor([schedule(int(each), 3.0, 40) for each in t])
    torch.testing.assert_close(given, expected)


def schedule_as_a_boolean(schedule):
    known = {1: 0.1, 5: 0.5, 9: 0.9, 10: 1.0, 40: 0.5, 90: 1 / 3, 1000: 0.1}
    return all(abs(schedule(t, 1.0, 10) - value) < 1e-6 for t, value in known.items())


def schedule_by_paper(schedule):
    for t in (1, 1000, 4000, 5000, 16000, 100_000):
        paper = 512**-0.5 * min(t**-0.5, t * 4000**-1.5)
        np.testing.assert_allclose(schedule(t, 1.0, 4000), paper * (512 * 4000) ** 0.5, rtol=1e-6)


RIGHT = {
    "q1": [
        [1.0, 0.857],
        (1, 0.86),
        torch.tensor([1.0, 0.857]),
        np.array([1.0, 0.857]),
        [4 / math.sqrt(16), 2.667 / 3.112],
    ],
    "q2": [with_dot, in_numpy, with_repeat, with_loop, with_product],
    "q3": [by_pytorch, by_package, with_target, with_one_hot, with_logsumexp],
    "q4": [by_optimiser, with_lerp, adam_in_numpy, as_a_list, weight_by_weight],
    "q5": [with_weights, at_once, with_einsum, with_mask, with_counts],
    "q6": [
        schedule_by_package,
        schedule_by_ratios,
        schedule_in_torch,
        schedule_as_a_boolean,
        schedule_by_paper,
    ],
    "q7": ["c", "C", " c", "c.", "(c)"],
}
"""For each exercise, answers that are right without a remark."""


def position_by_position(logits, labels, epsilon):
    losses = []
    for row, label in zip(logits, labels, strict=True):
        if label != 0:
            log_probs = row.log_softmax(0)
            losses.append(-(1 - epsilon) * log_probs[label] - epsilon * log_probs.mean())
    return torch.stack(losses).mean()


def in_place(w, g, m, v, t, lr):
    m.mul_(0.9).add_(g, alpha=0.1)
    v.mul_(0.98).add_(g**2, alpha=0.02)
    w -= lr * (m / (1 - 0.9**t)) / ((v / (1 - 0.98**t)).sqrt() + 1e-9)
    return w, m, v


REMARKS = {
    "q3": [(position_by_position, "loops over positions")],
    "q4": [(in_place, "changes its arguments m, v and w in place")],
}
"""For each exercise, answers that are right, and what could be better."""


def plain_mean(losses, tokens):
    return losses.mean().exp()


def largest(losses, tokens):
    return losses.max().exp()


def padding_counted(logits, labels, epsilon):
    return F.cross_entropy(logits, labels, label_smoothing=epsilon)


def smoothed_probability(logits, labels, epsilon):
    p = logits.softmax(-1).gather(-1, labels[:, None])[:, 0]
    return -((1 - epsilon) * p + epsilon / logits.shape[-1]).log()[labels != 0].mean()


def uncorrected(w, g, m, v, t, lr):
    m, v = 0.9 * m + 0.1 * g, 0.98 * v + 0.02 * g * g
    return w - lr * m / (v**0.5 + 1e-9), m, v


def root_of_sum(w, g, m, v, t, lr):
    m, v = m.lerp(g, 0.1), v.lerp(g * g, 0.02)
    return w - lr * (m / (1 - 0.9**t)) * torch.rsqrt(v / (1 - 0.98**t) + 1e-9), m, v


def gradient_descent(w, g, m, v, t, lr):
    return w - lr * g, m, v


def summed(gradients, real):
    return sum(part[mask].sum(0) for part, mask in zip(gradients, real, strict=True))


def first_part(gradients, real):
    return gradients[0][real[0]].mean(0)


WRONG = {
    "q1": [([1, 1], "as if they were the first"), ([4, 1], "")],
    "q2": [(plain_mean, "every batch has the same weight"), (largest, "")],
    "q3": [(padding_counted, "the padding is counted"), (smoothed_probability, "")],
    "q4": [
        (uncorrected, "the averages are not corrected"),
        (root_of_sum, "ε is added under the root"),
        (gradient_descent, ""),
    ],
    "q5": [(summed, "the sum is not divided"), (first_part, "")],
}
"""For each exercise, answers that are wrong, and part of the name of the mistake; without a name
if no known mistake explains them."""
