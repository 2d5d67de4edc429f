"""Answers to the exercises of chapter 9: right ones, each written differently, and wrong ones."""

import math

import numpy as np
import torch
import torch.nn.functional as F

from tfmr.attention import padding_mask, scaled_dot_product_attention


def by_narrow(target):
    length = target.shape[1] - 1
    return target.narrow(1, 0, length), target.narrow(1, 1, length)


def by_stack(target):
    pairs = torch.stack([target[:, :-1], target[:, 1:]])
    return pairs[0], pairs[1]


def by_lists(target):
    rows = target.tolist()
    return [row[:-1] for row in rows], [row[1:] for row in rows]


def by_indices(target):
    i = torch.arange(target.size(1) - 1)
    return target[:, i], target[:, i + 1]


def by_unfold(target):
    windows = target.unfold(1, 2, 1)
    return windows[..., 0], windows[..., 1]


def by_fused_kernel(x, memory, w_q, w_k, w_v, keep):
    return F.scaled_dot_product_attention(
        x @ w_q, memory @ w_k, memory @ w_v, attn_mask=keep[:, None, :]
    )


def by_package(x, memory, w_q, w_k, w_v, keep):
    mask = padding_mask(keep.long())[:, 0]
    return scaled_dot_product_attention(x @ w_q, memory @ w_k, memory @ w_v, mask)


def with_bias(x, memory, w_q, w_k, w_v, keep):
    bias = torch.zeros(keep.shape).masked_fill(keep.logical_not(), -1e9).unsqueeze(1)
    scores = torch.einsum("btd,bsd->bts", x @ w_q, memory @ w_k) * w_q.shape[1] ** -0.5
    return torch.einsum("bts,bsd->btd", (scores + bias).softmax(-1), memory @ w_v)


def with_sums(x, memory, w_q, w_k, w_v, keep):
    scores = x @ w_q @ (memory @ w_k).mT / math.sqrt(w_q.shape[1])
    weights = (scores - scores.amax(-1, keepdim=True)).exp() * keep[:, None]
    return weights / weights.sum(-1, keepdim=True) @ memory @ w_v


def with_where(x, memory, w_q, w_k, w_v, keep):
    scores = torch.bmm(x @ w_q / math.sqrt(len(w_q)), (memory @ w_k).transpose(1, 2))
    scores = torch.where(keep.unsqueeze(1), scores, float("-inf"))
    return torch.bmm(F.softmax(scores, 2), memory @ w_v)


def shift_the_logits(model, target):
    logits = model(target)[:, :-1]
    return F.cross_entropy(
        logits.reshape(-1, logits.shape[-1]), target[:, 1:].reshape(-1), ignore_index=0
    )


def transposed_logits(model, target):
    return F.cross_entropy(model(target[:, :-1]).mT, target[:, 1:], ignore_index=0)


def by_probabilities(model, target):
    log_p = model(target[:, :-1]).log_softmax(-1)
    labels = target[:, 1:]
    losses = -log_p.gather(-1, labels[..., None])[..., 0]
    return losses[labels != 0].mean()


def divided_sum(model, target):
    labels = target[:, 1:].flatten()
    logits = model(target[:, :-1]).flatten(0, 1)
    return F.cross_entropy(logits, labels, ignore_index=0, reduction="sum") / (labels > 0).sum()


def selected(model, target):
    inputs, labels = target[:, :-1], target[:, 1:]
    keep = labels != 0
    return F.nll_loss(torch.log_softmax(model(inputs)[keep], dim=-1), labels[keep])


def sentence_by_sentence(decode):
    x, memory = torch.randn(2, 4, 6), torch.randn(2, 3, 6)
    out = decode(x, memory)
    for b in range(2):
        torch.testing.assert_close(decode(x[b : b + 1], memory[b : b + 1])[0], out[b])
    for i in range(1, 5):
        torch.testing.assert_close(decode(x[:, :i], memory), out[:, :i])
    for j in range(3):
        other = memory.clone()
        other[:, j] = 0
        assert ((decode(x, other) - out).abs().amax(-1) > 1e-6).all()


def by_gradients(decode):
    x = torch.randn(2, 4, 5, requires_grad=True)
    memory = torch.randn(2, 6, 5, requires_grad=True)
    out = decode(x, memory)
    for b in range(2):
        for i in range(4):
            weights = torch.randn(5)
            grads = torch.autograd.grad(
                out[b, i] @ weights, (x, memory), retain_graph=True, allow_unused=True
            )
            assert all(grad is not None for grad in grads)
            to_x, to_memory = (grad.abs().sum(-1) for grad in grads)
            assert not to_x[b, i + 1 :].any()
            assert not to_x[1 - b].any()
            assert (to_memory[b] > 0).all()
            assert not to_memory[1 - b].any()


def returns_false(decode):
    x, memory = torch.rand(3, 6, 2), torch.rand(3, 4, 2)
    out, ok = decode(x, memory), True
    for b in range(3):
        for i in range(6):
            other = x.clone()
            other[b, i] -= 0.7
            changed = (decode(other, memory) - out).abs().amax(-1) > 1e-6
            ok &= not changed[b, :i].any() and int(changed.any(1).sum()) == 1
        for j in range(4):
            other = memory.clone()
            other[b, j] += 0.8
            changed = (decode(x, other) - out).abs().amax(-1) > 1e-6
            ok &= bool(changed[b].all()) and int(changed.any(1).sum()) == 1
    return ok


def with_two_lengths(decode):
    for target, source in ((5, 3), (3, 5), (4, 4)):
        x, memory = torch.randn(2, target, 4), torch.randn(2, source, 4)
        out = decode(x, memory)
        alone = torch.cat([decode(x[b : b + 1], memory[b : b + 1]) for b in (0, 1)])
        assert torch.allclose(out, alone, atol=1e-5)
        for i in range(target - 1):
            other = torch.cat([x[:, : i + 1], torch.randn(2, target - i - 1, 4)], 1)
            assert torch.allclose(decode(other, memory)[:, : i + 1], out[:, : i + 1], atol=1e-5)
        other = memory.clone()
        other[:, -1] += 2
        assert not torch.isclose(decode(x, other), out).all(-1).any()


def exhaustive(decode):
    x, memory = torch.randn(2, 3, 4), torch.randn(2, 3, 4)
    out = decode(x, memory)
    for which, size in ((0, 3), (1, 3)):
        for b in range(2):
            for j in range(size):
                inputs = [x.clone(), memory.clone()]
                inputs[which][b, j] += torch.tensor([1.0, -1, 2, 0.5])
                changed = ((decode(*inputs) - out).abs() > 1e-5).any(-1)
                for a in range(2):
                    for i in range(3):
                        if a != b or (which == 0 and i < j):
                            assert not changed[a, i]
                        elif which == 1:
                            assert changed[a, i]


RIGHT = {
    "q1": [
        1.036,
        [1.04],
        torch.tensor(1.0358),
        np.float64(1.0358),
        -sum(math.log(p) for p in (0.5, 0.25, 0.8, 0.4, 0.5, 0.1)) / 6,
    ],
    "q2": [by_narrow, by_stack, by_lists, by_indices, by_unfold],
    "q3": [by_fused_kernel, by_package, with_bias, with_sums, with_where],
    "q4": [shift_the_logits, transposed_logits, by_probabilities, divided_sum, selected],
    "q5": [sentence_by_sentence, by_gradients, returns_false, with_two_lengths, exhaustive],
    "q6": ["c", "C", "c.", " c", "(c)"],
}
"""For each exercise, answers that are right without a remark."""


def one_by_one(x, memory, w_q, w_k, w_v, keep):
    rows = [with_where(x[:, i : i + 1], memory, w_q, w_k, w_v, keep) for i in range(x.shape[1])]
    return torch.cat(rows, dim=1)


REMARKS = {"q3": [(one_by_one, "loops over target positions")]}
"""For each exercise, answers that are right, and what could be better."""


def not_shifted(target):
    return target[:, :-1], target[:, :-1]


def without_bos(target):
    return target[:, 1:], target[:, 1:]


def unmasked(x, memory, w_q, w_k, w_v, keep):
    return F.scaled_dot_product_attention(x @ w_q, memory @ w_k, memory @ w_v)


def masked_late(x, memory, w_q, w_k, w_v, keep):
    weights = (x @ w_q @ (memory @ w_k).mT / math.sqrt(len(w_q))).softmax(-1)
    return weights * keep[:, None] @ (memory @ w_v)


def padding_included(model, target):
    return F.cross_entropy(model(target[:, :-1]).mT, target[:, 1:])


def both_removed(model, target):
    return F.cross_entropy(model(target).mT, target, ignore_index=0)


def of_sentences(model, target):
    losses = F.cross_entropy(model(target[:, :-1]).mT, target[:, 1:], reduction="none")
    return losses.max()


def last_token_only(decode):
    x, memory = torch.randn(2, 6, 8), torch.randn(2, 4, 8)
    before = decode(x, memory)
    changed = x.clone()
    changed[0, -1] += 1
    after = decode(changed, memory)
    assert torch.allclose(after[0, :-1], before[0, :-1], atol=1e-4)
    assert torch.allclose(after[1], before[1], atol=1e-4)
    for j in range(4):
        changed = memory.clone()
        changed[0, j] += 1
        after = decode(x, changed)
        assert ((after[0] - before[0]).abs().amax(dim=-1) > 1e-6).all()
        assert torch.allclose(after[1], before[1], atol=1e-4)


WRONG = {
    "q1": [(2.0, ""), ([0.4], "")],
    "q2": [(not_shifted, "the labels are not shifted"), (without_bos, "")],
    "q3": [(unmasked, "padding of the source is not hidden"), (masked_late, "")],
    "q4": [
        (padding_included, "padding is counted"),
        (both_removed, "nothing is shifted any more"),
        (of_sentences, ""),
    ],
    "q5": [(last_token_only, "")],
}
"""For each exercise, answers that are wrong, and part of the name of the mistake; without a name
if no known mistake explains them."""
