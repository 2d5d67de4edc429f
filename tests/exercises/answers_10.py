"""Answers to the exercises of chapter 10: right ones, each written differently, and wrong ones."""

import math

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from tfmr.train.loss import cross_entropy_naive


def by_embedding(ids, matrix, table):
    return F.embedding(ids, matrix) * matrix.shape[-1] ** 0.5 + table[: ids.shape[-1]].unsqueeze(0)


def by_one_hot(ids, matrix, table):
    one_hot = F.one_hot(ids, len(matrix)).to(matrix.dtype)
    return one_hot @ (matrix * math.sqrt(matrix.size(1))) + table[torch.arange(ids.size(1))]


def by_module(ids, matrix, table):
    embedding = nn.Embedding.from_pretrained(matrix)
    return torch.add(table.narrow(0, 0, ids.shape[1]), embedding(ids), alpha=matrix.shape[1] ** 0.5)


def by_index_select(ids, matrix, table):
    rows = matrix.index_select(0, ids.flatten()).view(*ids.shape, -1)
    return rows.mul(math.sqrt(table.shape[1])) + table[None, : ids.shape[1]]


def in_numpy(ids, matrix, table):
    ids, matrix, table = ids.numpy(), matrix.numpy(), table.numpy()
    return np.sqrt(matrix.shape[1]) * matrix[ids] + table[: ids.shape[1]]


def embedding_assigned(vocab, d_model):
    output = nn.Linear(d_model, vocab, bias=False)
    embedding = nn.Embedding(vocab, d_model)
    embedding.weight = output.weight
    return embedding, output


def with_bias(vocab, d_model):
    embedding, output = nn.Embedding(vocab, d_model), nn.Linear(d_model, vocab)
    output.weight = embedding.weight
    return [embedding, output]


def with_parameter(vocab, d_model):
    matrix = nn.Parameter(torch.randn(vocab, d_model) * d_model**-0.5)
    embedding, output = nn.Embedding(vocab, d_model), nn.Linear(d_model, vocab)
    embedding.weight = output.weight = matrix
    return embedding, output


def registered(vocab, d_model):
    embedding = nn.Embedding(vocab, d_model)
    output = nn.Linear(d_model, vocab, bias=False)
    output.register_parameter("weight", embedding.weight)
    return embedding, output


def with_setattr(vocab, d_model):
    modules = nn.Embedding(vocab, d_model, padding_idx=0), nn.Linear(d_model, vocab)
    setattr(modules[1], "weight", modules[0].weight)  # noqa: B010
    return modules


def without_softmax(u, matrix, labels):
    return F.cross_entropy((u @ matrix.mT).mT, labels, ignore_index=0)


def with_log_softmax(u, matrix, labels):
    log_p = F.linear(u, matrix).log_softmax(-1)
    return F.nll_loss(log_p.flatten(0, 1), labels.flatten(), ignore_index=0)


def with_log(u, matrix, labels):
    probs = (u @ matrix.T).softmax(dim=-1)
    return F.cross_entropy(probs.log().flatten(0, 1), labels.flatten(), ignore_index=0)


def selected(u, matrix, labels):
    keep = labels != 0
    return F.cross_entropy(u[keep] @ matrix.T, labels[keep])


def by_package(u, matrix, labels):
    return cross_entropy_naive(torch.einsum("bld,vd->blv", u, matrix), labels)


def against_torch(loss):
    logits = 2 * torch.randn(3, 5, 7)
    labels = torch.tensor([[3, 4, 5, 6, 2], [1, 2, 0, 0, 0], [4, 6, 2, 0, 0]])
    expected = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=0)
    torch.testing.assert_close(loss(logits, labels), expected)


def by_example(loss):
    logits = torch.tensor(
        [[[0.1, 0.6, 0.3], [0.2, 0.3, 0.5]], [[0.25, 0.25, 0.5], [0.6, 0.2, 0.2]]]
    )
    labels = torch.tensor([[1, 2], [2, 0]])
    expected = -(math.log(0.6) + math.log(0.5) + math.log(0.5)) / 3
    assert math.isclose(float(loss(logits.log(), labels)), expected, rel_tol=1e-4)


def by_mask(loss):
    logits, labels = torch.randn(4, 6, 9), torch.randint(1, 9, (4, 6))
    labels[0, 2:], labels[1, 4:], labels[:, 1] = 0, 0, 2
    losses = F.cross_entropy(logits.mT, labels, reduction="none")
    np.testing.assert_allclose(loss(logits, labels), losses[labels > 0].mean(), rtol=1e-4)


def returns_a_boolean(loss):
    logits, labels = torch.randn(2, 3, 5), torch.tensor([[4, 3, 2], [2, 0, 0]])
    p = logits.softmax(-1)
    product = p[0, 0, 4] * p[0, 1, 3] * p[0, 2, 2] * p[1, 0, 2]
    return torch.isclose(loss(logits, labels), -product.log() / 4, atol=1e-4)


def with_package(loss):
    logits, labels = torch.randn(2, 4, 6), torch.tensor([[5, 3, 2, 0], [2, 0, 0, 0]])
    assert torch.allclose(loss(logits, labels), cross_entropy_naive(logits, labels))


RIGHT = {
    "q1": [
        [4.243, 1.414, 0.265, 0.013, 0.721],
        (3 * 2**0.5, 2**0.5, 2.718 / 10.243, 0.135 / 10.243, 7.389 / 10.243),
        torch.tensor([4.243, 1.414, 0.265, 0.013, 0.721]),
        np.array([4.24, 1.41, 0.27, 0.013, 0.72]),
        [4.2426, 1.4142, 0.2654, 0.0132, 0.7214],
    ],
    "q2": [by_embedding, by_one_hot, by_module, by_index_select, in_numpy],
    "q3": [embedding_assigned, with_bias, with_parameter, registered, with_setattr],
    "q4": [without_softmax, with_log_softmax, with_log, selected, by_package],
    "q5": [against_torch, by_example, by_mask, returns_a_boolean, with_package],
    "q6": ["c", "C", " c", "c)", "(c)"],
}
"""For each exercise, answers that are right without a remark."""


def token_by_token(ids, matrix, table):
    rows = [matrix[ids[:, i]] * matrix.shape[1] ** 0.5 + table[i] for i in range(ids.shape[1])]
    return torch.stack(rows, dim=1)


REMARKS = {"q2": [(token_by_token, "loops over positions")]}
"""For each exercise, answers that are right, and what could be better."""


def factor_on_both(ids, matrix, table):
    return (matrix[ids] + table[: ids.shape[1]]) * math.sqrt(matrix.shape[1])


def reversed_table(ids, matrix, table):
    return matrix[ids] * math.sqrt(matrix.shape[1]) + table[: ids.shape[1]].flip(0)


def copied(vocab, d_model):
    embedding, output = nn.Embedding(vocab, d_model), nn.Linear(d_model, vocab)
    output.weight = nn.Parameter(embedding.weight.detach().clone())
    return embedding, output


def through_data(vocab, d_model):
    embedding, output = nn.Embedding(vocab, d_model), nn.Linear(d_model, vocab)
    embedding.weight.data = output.weight.data
    return embedding, output


def raw_probabilities(u, matrix, labels):
    probs = (u @ matrix.T).softmax(dim=-1)
    return F.nll_loss(probs.flatten(0, 1), labels.flatten(), ignore_index=0)


def scaled(u, matrix, labels):
    return 2 * without_softmax(u, matrix, labels)


WRONG = {
    "q1": [([1.414, 4.243, 0.265, 0.013, 0.721], ""), ([1, 2, 3, 4, 5], "")],
    "q2": [(factor_on_both, "the positions are multiplied"), (reversed_table, "")],
    "q3": [
        (copied, "the values are copied once"),
        (through_data, "two parameters share the same numbers"),
    ],
    "q4": [(raw_probabilities, "without a logarithm"), (scaled, "")],
}
"""For each exercise, answers that are wrong, and part of the name of the mistake; without a name
if no known mistake explains them."""
