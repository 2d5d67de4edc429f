"""Answers to the exercises of chapter 3: right ones, each written differently, and wrong ones."""

import math

import numpy as np
import torch
import torch.nn.functional as F


def with_matmul(s, memory, w, u, v):
    scores = torch.tanh((s @ w).unsqueeze(1) + memory @ u) @ v
    return (F.softmax(scores, dim=1).unsqueeze(1) @ memory).squeeze(1)


def with_einsum(s, memory, w, u, v):
    hidden = (
        torch.einsum("bi,ih->bh", s, w)[:, None] + torch.einsum("bsd,dh->bsh", memory, u)
    ).tanh()
    weights = torch.einsum("bsh,h->bs", hidden, v).softmax(-1)
    return torch.einsum("bs,bsd->bd", weights, memory), weights


def sentence_by_sentence(s, memory, w, u, v):
    rows = []
    for state, outputs in zip(s, memory, strict=True):
        scores = torch.tanh(state @ w + outputs @ u) @ v
        rows.append(scores.softmax(0) @ outputs)
    return torch.stack(rows)


def in_numpy(s, memory, w, u, v):
    s, memory, w, u, v = (each.double().numpy() for each in (s, memory, w, u, v))
    scores = np.exp(np.tanh((s @ w)[:, None] + memory @ u) @ v)
    weights = scores / scores.sum(-1, keepdims=True)
    return (weights[..., None] * memory).sum(1)


def with_exponentials(s, memory, w, u, v):
    keys = memory @ u
    scores = (torch.tanh(keys + (s @ w).view(len(s), 1, -1)) * v).sum(-1)
    e = (scores - scores.amax(1, keepdim=True)).exp()
    return torch.bmm((e / e.sum(1, keepdim=True))[:, None], memory)[:, 0]


def with_where(scores, keep):
    return torch.where(keep, scores, float("-inf")).softmax(-1)


def with_large_number(scores, keep):
    return F.softmax(scores + (keep.float() - 1) * 1e9, dim=1)


def with_sums(scores, keep):
    e = scores.exp() * keep
    return e / e.sum(1, keepdim=True)


def with_assignment(scores, keep):
    scores = scores.clone()
    scores[keep == 0] = -torch.inf
    return torch.softmax(scores, -1)


def with_log(scores, keep):
    return (scores + keep.double().log()).softmax(dim=-1)


def renormalised(attend):
    scores, keep = torch.randn(3, 5), torch.tensor([[1] * 5, [1, 1, 1, 0, 0], [1, 0, 0, 0, 0]]) > 0
    e = scores.exp() * keep
    torch.testing.assert_close(attend(scores, keep), e / e.sum(-1, keepdim=True))


def without_padding(attend):
    scores = torch.randn(1, 4)
    alone = attend(scores, torch.ones(1, 4).bool())
    np.testing.assert_allclose(alone, scores.softmax(-1), rtol=1e-4)
    batch = torch.cat([torch.randn(1, 6), F.pad(scores, (0, 2), value=0.7)])
    keep = torch.tensor([[True] * 6, [True] * 4 + [False] * 2])
    weights = attend(batch, keep)
    assert torch.allclose(weights[1:, :4], alone, atol=1e-5)
    assert not weights[1, 4:].any()


def by_example(attend):
    scores = torch.tensor([[1.0, 2, 3], [math.log(3), 0, 5]])
    keep = torch.tensor([[True, False, False], [True, True, False]])
    assert torch.allclose(attend(scores, keep), torch.tensor([[1, 0, 0], [0.75, 0.25, 0]]))


def by_sentence(attend):
    scores = torch.rand(4, 3)
    keep = torch.arange(3) < torch.tensor([[3], [1], [2], [2]])
    for row, values, real in zip(attend(scores, keep), scores, keep, strict=True):
        assert torch.allclose(row[real], values[real].softmax(0))
        assert row[~real].sum() == 0


def as_a_boolean(attend):
    scores, keep = torch.randn(2, 4), torch.tensor([[True] * 4, [True, True, False, False]])
    expected = scores.masked_fill(~keep, -1e9).softmax(-1)
    return torch.allclose(attend(scores, keep), expected, atol=1e-6)


def with_index(y, s, memory, attend, cell, w_t):
    result = torch.zeros_like(y)
    for i in range(y.shape[1]):
        c = attend(s, memory)
        s = cell(torch.cat((y[:, i], c), 1), s)
        result[:, i] = (torch.cat((s, c, y[:, i]), 1) @ w_t).tanh()
    return result


def with_blocks(y, s, memory, attend, cell, w_t):
    for_s, for_c, for_y = w_t.chunk(3)
    ts = []
    for token in y.transpose(0, 1):
        context = attend(s, memory)
        s = cell(torch.hstack([token, context]), s)
        ts.append(s @ for_s + context @ for_c + token @ for_y)
    return torch.stack(ts).tanh().transpose(0, 1)


def all_outputs_at_once(y, s, memory, attend, cell, w_t):
    states, contexts = [], []
    for i in range(y.size(1)):
        contexts.append(attend(s, memory))
        s = cell(torch.cat([y[:, i], contexts[-1]], -1), s)
        states.append(s)
    joined = torch.cat([torch.stack(states, 1), torch.stack(contexts, 1), y], -1)
    return torch.tanh(joined @ w_t), states


def recursive(y, s, memory, attend, cell, w_t):
    if y.shape[1] == 0:
        return y
    first, context = y[:, 0], attend(s, memory)
    s = cell(torch.cat([first, context], dim=1), s)
    t = torch.tanh(torch.cat([s, context, first], dim=1) @ w_t)
    return torch.cat([t[:, None], recursive(y[:, 1:], s, memory, attend, cell, w_t)], dim=1)


def each_sentence(y, s, memory, attend, cell, w_t):
    rows = []
    for tokens, state, outputs in zip(y, s, memory, strict=True):
        row, state, outputs = [], state[None], outputs[None]
        for token in tokens:
            c = attend(state, outputs)
            state = cell(torch.cat([token, c[0]])[None], state)
            row.append(np.tanh(torch.cat([state[0], c[0], token]).numpy() @ w_t.numpy()))
        rows.append(row)
    return np.array(rows)


RIGHT = {
    "q1": [
        [0.023, 0.488, 0.488, 0.488, 0.488],
        (0.02, 0.49, 0.49, 0.49, 0.49),
        torch.tensor([0.0232, 0.4884, 0.4884, 0.4884, 0.4884]),
        np.array([0.023, 0.488, 0.488, 0.488, 0.488]),
        [1 / 43.08, 21.04 / 43.08, 21.04 / 43.08, 0.488, 0.488],
    ],
    "q2": [with_matmul, with_einsum, sentence_by_sentence, in_numpy, with_exponentials],
    "q3": [with_where, with_large_number, with_sums, with_assignment, with_log],
    "q4": [renormalised, without_padding, by_example, by_sentence, as_a_boolean],
    "q5": ["a", "A", " a", "a.", "(a)"],
    "q6": [with_index, with_blocks, all_outputs_at_once, recursive, each_sentence],
}
"""For each exercise, answers that are right without a remark."""


def position_by_position(s, memory, w, u, v):
    scores = [torch.tanh(s @ w + memory[:, j] @ u) @ v for j in range(memory.shape[1])]
    weights = torch.stack(scores, dim=1).softmax(1)
    return (weights[..., None] * memory).sum(1)


REMARKS = {"q2": [(position_by_position, "loops over source positions")]}
"""For each exercise, answers that are right, and what could be better."""


def linear(s, memory, w, u, v):
    weights = (((s @ w)[:, None] + memory @ u) @ v).softmax(-1)
    return (weights[..., None] * memory).sum(1)


def plain_mean(s, memory, w, u, v):
    return memory.mean(1)


def masked_late(scores, keep):
    return scores.softmax(-1) * keep


def halved(scores, keep):
    return with_where(scores / 2, keep)


def luong(y, s, memory, attend, cell, w_t):
    ts = []
    for i in range(y.shape[1]):
        s = cell(torch.cat([y[:, i], attend(s, memory)], -1), s)
        ts.append(torch.tanh(torch.cat([s, attend(s, memory), y[:, i]], -1) @ w_t))
    return torch.stack(ts, 1)


def generated(y, s, memory, attend, cell, w_t):
    ts, previous = [], y[:, 0]
    for _ in range(y.shape[1]):
        c = attend(s, memory)
        s = cell(torch.cat([previous, c], -1), s)
        previous = torch.tanh(torch.cat([s, c, previous], -1) @ w_t)
        ts.append(previous)
    return torch.stack(ts, 1)


def rolled(y, s, memory, attend, cell, w_t):
    return with_index(y.roll(1, dims=1), s, memory, attend, cell, w_t)


WRONG = {
    "q1": [([0.2, 0.4, 0.4, 0.4, 0.4], ""), ([1, 0, 0, 0, 0], "")],
    "q2": [(linear, "the tanh is missing"), (plain_mean, "")],
    "q3": [(masked_late, "after the softmax"), (halved, "")],
    "q6": [(luong, "computed from the new state"), (generated, "next input"), (rolled, "")],
}
"""For each exercise, answers that are wrong, and part of the name of the mistake; without a name
if no known mistake explains them."""
