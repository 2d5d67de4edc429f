"""Answers to the exercises of chapter 7: right ones, each written differently, and wrong ones."""

import math

import numpy as np
import torch
import torch.nn.functional as F


def with_var(x, gain, bias, eps):
    variance, mean = torch.var_mean(x, dim=-1, correction=0, keepdim=True)
    return (x - mean) * torch.rsqrt(variance + eps) * gain + bias


def with_squares(x, gain, bias, eps):
    x = x.double()
    mean = x.mean(-1)[..., None]
    variance = (x * x).mean(-1)[..., None] - mean * mean
    return gain * ((x - mean) / torch.sqrt(variance + eps)) + bias


def with_sums(x, gain, bias, eps):
    d = x.size(-1)
    x = x - x.sum(-1, keepdim=True) / d
    return torch.addcmul(bias, gain, x / ((x**2).sum(-1, keepdim=True) / d + eps) ** 0.5)


def in_numpy(x, gain, bias, eps):
    x, gain, bias = x.numpy(), gain.numpy(), bias.numpy()
    x = x - x.mean(axis=-1, keepdims=True)
    return gain * x / np.sqrt(x.var(axis=-1, keepdims=True) + eps) + bias


def by_kernel(x, gain, bias, eps):
    return F.layer_norm(x, (x.shape[-1],), gain, bias, eps)


def in_two_steps(x, attention, feed_forward, norm_1, norm_2):
    after_attention = norm_1(attention(x) + x)
    return norm_2(after_attention + feed_forward(after_attention))


def in_a_loop(x, attention, feed_forward, norm_1, norm_2):
    for sublayer, norm in ((attention, norm_1), (feed_forward, norm_2)):
        x = norm(x + sublayer(x))
    return x


def with_function(x, attention, feed_forward, norm_1, norm_2):
    def add_and_norm(x, sublayer, norm):
        return norm(torch.add(x, sublayer(x)))

    return add_and_norm(add_and_norm(x, attention, norm_1), feed_forward, norm_2)


def with_copies(x, attention, feed_forward, norm_1, norm_2):
    residual = x.clone()
    x = norm_1(residual + attention(x))
    residual = x.clone()
    return norm_2(residual + feed_forward(x))


def with_sum(x, attention, feed_forward, norm_1, norm_2):
    x = norm_1(torch.stack([x, attention(x)]).sum(0))
    return norm_2(sum([x, feed_forward(x)]))


def pre_in_two_steps(x, attention, feed_forward, norm_1, norm_2):
    after_attention = x + attention(norm_1(x))
    return after_attention + feed_forward(norm_2(after_attention))


def pre_in_a_loop(x, attention, feed_forward, norm_1, norm_2):
    for sublayer, norm in ((attention, norm_1), (feed_forward, norm_2)):
        x = sublayer(norm(x)) + x
    return x


def pre_with_names(x, attention, feed_forward, norm_1, norm_2):
    h = norm_1(x)
    x = x + attention(h)
    h = norm_2(x)
    x = x + feed_forward(h)
    return x


def pre_with_residual(x, attention, feed_forward, norm_1, norm_2):
    residual = x
    x = norm_1(x)
    x = residual + attention(x)
    residual = x
    x = norm_2(x)
    return residual + feed_forward(x)


def pre_with_function(x, attention, feed_forward, norm_1, norm_2):
    def add(x, sublayer):
        return x + sublayer(x)

    x = add(x, lambda y: attention(norm_1(y)))
    return add(x, lambda y: feed_forward(norm_2(y)))


def against_torch(normalise):
    x = torch.randn(4, 3, 6) * 3 + 2
    torch.testing.assert_close(normalise(x), F.layer_norm(x, (6,)), atol=1e-3, rtol=1e-3)


def by_vector(normalise):
    x = torch.rand(2, 3, 5) * 10
    y = normalise(x)
    for i in range(2):
        for j in range(3):
            vector = x[i, j]
            expected = (vector - vector.mean()) / vector.std(correction=0)
            assert torch.allclose(y[i, j], expected, atol=1e-3)


def by_mean_and_variance(normalise):
    x = 2 * torch.randn(3, 4, 5) + 1
    y = normalise(x)
    assert y.mean(-1).abs().max() < 1e-3
    assert (y.std(-1, correction=0) - 1).abs().max() < 1e-3


def by_properties(normalise):
    x = torch.randn(3, 4, 5) + 1
    y = normalise(x)
    by_mean_and_variance(normalise)
    assert torch.allclose((x * y).mean(-1), x.std(-1, correction=0), atol=1e-2)


def by_examples(normalise):
    y = normalise(torch.tensor([[[1.0, 1, 4, 2], [0, 0, 0, 4]], [[8.0, 8, -8, -8], [1, 2, 3, 4]]]))
    np.testing.assert_allclose(y[0, 0], [-0.8165, -0.8165, 1.633, 0], atol=1e-3)
    np.testing.assert_allclose(y[0, 1], [-0.5774, -0.5774, -0.5774, 1.7321], atol=1e-3)
    np.testing.assert_allclose(y[1, 0], [1, 1, -1, -1], atol=1e-3)


def as_a_boolean(normalise):
    x = torch.randn(2, 2, 3).exp()
    centred = x - x.mean(-1, keepdim=True)
    expected = centred / (centred**2).mean(-1, keepdim=True).sqrt()
    return bool(((normalise(x) - expected).abs() < 1e-2).all())


RIGHT = {
    "q1": [
        [-0.816, 0.184, 3.266, 1],
        (-0.82, 0.18, 3.27, 1.0),
        torch.tensor([-0.8165, 0.1835, 3.266, 1.0]),
        np.array([-0.816, 0.184, 3.265, 1.0]),
        [-1 / 1.225, 1 - 1 / 1.225, 4 / 1.225, 1],
    ],
    "q2": [with_var, with_squares, with_sums, in_numpy, by_kernel],
    "q3": [in_two_steps, in_a_loop, with_function, with_copies, with_sum],
    "q4": [
        pre_in_two_steps,
        pre_in_a_loop,
        pre_with_names,
        pre_with_residual,
        pre_with_function,
    ],
    "q5": [against_torch, by_vector, by_properties, by_examples, as_a_boolean],
    "q6": ["c", "C", "c ", "(c)", "c."],
}
"""For each exercise, answers that are right without a remark."""


def in_place(x, attention, feed_forward, norm_1, norm_2):
    x += attention(norm_1(x))
    x += feed_forward(norm_2(x))
    return x


REMARKS = {"q4": [(in_place, "changes its argument x in place")]}
"""For each exercise, answers that are right, and what could be better."""


def with_std(x, gain, bias, eps):
    return gain * (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + eps) + bias


def batch_norm(x, gain, bias, eps):
    return gain * (x - x.mean(0)) / (x.var(0, correction=0) + eps).sqrt() + bias


def sigmoid_instead(x, gain, bias, eps):
    return torch.sigmoid(x) * gain + bias


def pre_norm(x, attention, feed_forward, norm_1, norm_2):
    x = x + attention(norm_1(x))
    return x + feed_forward(norm_2(x))


def no_residual(x, attention, feed_forward, norm_1, norm_2):
    return norm_2(feed_forward(norm_1(attention(x))))


def one_norm(x, attention, feed_forward, norm_1, norm_2):
    x = norm_1(x)
    return x + attention(x) + feed_forward(norm_2(x + attention(x)))


def doubled(x, attention, feed_forward, norm_1, norm_2):
    return 2 * pre_norm(x, attention, feed_forward, norm_1, norm_2)


WRONG = {
    "q1": [([-0.816, -0.816, 1.633, 0], ""), ([math.sqrt(1.5)] * 4, "")],
    "q2": [
        (with_std, "the variance is divided by d − 1"),
        (batch_norm, "over the first axis"),
        (sigmoid_instead, ""),
    ],
    "q3": [(pre_norm, "pre-norm"), (no_residual, "residual connection around the attention")],
    "q4": [(one_norm, "the first residual connection still adds"), (doubled, "")],
    "q5": [(by_mean_and_variance, "")],
}
"""For each exercise, answers that are wrong, and part of the name of the mistake; without a name
if no known mistake explains them."""
