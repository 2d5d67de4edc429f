"""Answers to the exercises of chapter 13: right ones, each written differently, and wrong ones."""

import math

import numpy as np
import torch
from einops import rearrange
from torch import nn

from tfmr.analysis import entropy


def by_package(weights, allowed):
    uniform = allowed / allowed.sum(dim=-1, keepdim=True)
    return entropy(weights).mean() / entropy(uniform).mean()


def with_xlogy(weights, allowed):
    return -torch.xlogy(weights, weights).sum() / allowed.sum(1).log().sum()


def with_where(weights, allowed):
    logs = torch.where(weights > 0, weights, 1).log2()
    return -(weights * logs).sum(-1).mean() / allowed.sum(-1).log2().mean()


def entropy_in_numpy(weights, allowed):
    w = weights.double().numpy()
    terms = w * np.log(np.maximum(w, 1e-300))
    return -terms.sum(1).mean() / np.log(allowed.numpy().sum(1)).mean()


def with_distribution(weights, allowed):
    nats = torch.distributions.Categorical(probs=weights.double()).entropy()
    return nats.mean() / allowed.sum(dim=1).double().log().mean()


def entropy_by_loop(weights, allowed):
    nats = largest = 0.0
    for row, mask in zip(weights.tolist(), allowed, strict=True):
        nats -= sum(w * math.log(w) for w in row if w > 0)
        largest += math.log(int(mask.sum()))
    return nats / largest


def with_einops(heads, real, w_o, head):
    heads = heads.clone()
    heads[:, head] = heads[:, head][real].mean(0)
    return rearrange(heads, "batch heads n d_v -> batch n (heads d_v)") @ w_o


def by_terms(heads, real, w_o, head):
    output = 0
    for i, rows in enumerate(w_o.chunk(heads.shape[1])):
        own = heads[:, i]
        if i == head:
            own = own[real].mean(dim=0).expand_as(own)
        output = output + own @ rows
    return output


def with_einsum(heads, real, w_o, head):
    weights = real / real.sum()
    mean = torch.einsum("bnd,bn->d", heads[:, head], weights)
    chosen = torch.arange(heads.shape[1]) == head
    heads = torch.where(chosen[:, None, None], mean, heads)
    rows = w_o.view(heads.shape[1], heads.shape[3], -1)
    return torch.einsum("bhnd,hdm->bnm", heads, rows)


def with_permute(heads, real, w_o, head):
    x = heads.permute(0, 2, 1, 3).clone()
    x[..., head, :] = (x[..., head, :] * real[..., None]).sum((0, 1)) / real.sum()
    return x.reshape(*real.shape, -1).matmul(w_o)


def corrected_afterwards(heads, real, w_o, head):
    d_v = heads.shape[-1]
    joined = torch.cat(heads.unbind(1), dim=-1)
    part = slice(head * d_v, head * d_v + d_v)
    mean = joined[real].mean(dim=0)[part]
    return joined @ w_o + (mean - joined[..., part]) @ w_o[part]


def with_clones(x, weights):
    x = x.clone()
    stream = [x.clone()]
    for w in weights:
        x += (x @ w).tanh()
        stream.append(x.clone())
    return torch.stack(stream)


def into_a_tensor(x, weights):
    stream = torch.empty(len(weights) + 1, *x.shape)
    stream[0] = x
    for depth, w in enumerate(weights):
        stream[depth + 1] = stream[depth] + torch.tanh(stream[depth] @ w)
    return stream


def from_the_last(x, weights):
    stream = [x]
    for w in weights:
        stream.append(stream[-1] + torch.tanh(stream[-1] @ w))
    return stream


def with_hooks(x, weights):
    class Block(nn.Module):
        def __init__(self, w):
            super().__init__()
            self.w = w

        def forward(self, x):
            return torch.tanh(x @ self.w).add(x)

    blocks, stream = nn.Sequential(*map(Block, weights)), [x]
    for block in blocks:
        block.register_forward_hook(lambda _, __, output: stream.append(output))
    blocks(x)
    return torch.stack(stream)


def stream_in_numpy(x, weights):
    stream = [x.double().numpy()]
    for w in weights.double().numpy():
        stream.append(stream[-1] + np.tanh(stream[-1] @ w))
    return np.stack(stream)


def patch_by_loop(patch):
    stream, values = torch.arange(24.0).view(2, 3, 4), -1 - torch.arange(24.0).view(2, 3, 4)
    before = stream.clone()
    for position in range(3):
        patched = patch(stream, values, position)
        for i in range(3):
            right = values if i == position else before
            assert (patched[:, i] == right[:, i]).all()
    assert (stream == before).all()


def patch_in_numpy(patch):
    stream, values = torch.randn(2, 3, 5, 4)
    kept = stream.numpy().copy()
    for position in (0, 1, 4):
        expected = kept.copy()
        expected[:, position] = values.numpy()[:, position]
        np.testing.assert_array_equal(patch(stream, values, position).numpy(), expected)
        np.testing.assert_array_equal(stream.numpy(), kept)


def patch_as_a_boolean(patch):
    stream, values = torch.randn(2, 2, 3, 2)
    before, right = stream.clone(), []
    for position in (0, 1):
        mask = torch.zeros(2, 3, 2, dtype=torch.bool)
        mask[:, position] = True
        patched = patch(stream, values, position)
        right += [torch.equal(patched[mask], values[mask])]
        right += [torch.equal(patched[~mask], before[~mask]), torch.equal(stream, before)]
    return all(right)


def patch_with_assert_close(patch):
    ones, values = torch.ones(3, 4, 2), torch.rand(3, 4, 2) + 2
    for position in range(4):
        given = ones.clone()
        expected = torch.where((torch.arange(4) == position)[:, None], values, ones)
        torch.testing.assert_close(patch(given, values, position), expected)
        torch.testing.assert_close(given, ones)


def patch_by_two_patches(patch):
    stream, values = torch.randn(2, 2, 3, 2)
    before, patched = stream.clone(), stream
    for position in range(3):
        earlier = patched
        patched = patch(patched, values, position)
        assert torch.equal(patched[:, : position + 1], values[:, : position + 1])
        assert torch.equal(patched[:, position + 1 :], before[:, position + 1 :])
        assert not torch.equal(earlier, patched)
    assert torch.equal(stream, before)


def interval_in_numpy(intact, ablated, tokens, picks):
    change, n, rows = (ablated - intact).numpy(), tokens.numpy(), picks.numpy()
    return np.percentile(change[rows].sum(1) / n[rows].sum(1), [2.5, 97.5])


def by_sorting(intact, ablated, tokens, picks):
    costs = sorted(
        ((ablated[row].sum() - intact[row].sum()) / tokens[row].sum()).item() for row in picks
    )
    skipped = round(0.025 * (len(costs) - 1))
    return costs[skipped], costs[-1 - skipped]


def with_counts(intact, ablated, tokens, picks):
    counts = torch.stack([row.bincount(minlength=len(tokens)) for row in picks]).double()
    costs = counts @ (ablated - intact).double() / (counts @ tokens.double())
    return costs.quantile(0.025), costs.quantile(0.975)


def of_two_losses(intact, ablated, tokens, picks):
    n = tokens[picks].sum(1)
    first, second = intact[picks].sum(1) / n, ablated[picks].sum(1) / n
    return torch.quantile(second - first, torch.tensor([0.025, 0.975]))


def with_weights(intact, ablated, tokens, picks):
    drawn = tokens[picks].float()
    per_token = ((ablated - intact) / tokens)[picks]
    costs = (per_token * drawn / drawn.sum(1, keepdim=True)).sum(1)
    return [torch.quantile(costs, q).item() for q in (0.025, 0.975)]


RIGHT = {
    "q1": [
        [2, -2, 4, -1, 0.3],
        (2.0, -2.0, 4.0, -1.0, 3 / 10),
        torch.tensor([2, -2, 4, -1, 0.3]),
        np.array([2, -2, 4, -1, 0.3]),
        [2 * 1, 2 * -1, 2 + 2, -2 + 1, (-1 + 4) / (6 + 4)],
    ],
    "q2": ["c", "C", " c", "c.", "(c)"],
    "q3": [
        by_package,
        with_xlogy,
        with_where,
        entropy_in_numpy,
        with_distribution,
        entropy_by_loop,
    ],
    "q4": [with_einops, by_terms, with_einsum, with_permute, corrected_afterwards],
    "q5": [with_clones, into_a_tensor, from_the_last, with_hooks, stream_in_numpy],
    "q6": [
        patch_by_loop,
        patch_in_numpy,
        patch_as_a_boolean,
        patch_with_assert_close,
        patch_by_two_patches,
    ],
    "q7": [interval_in_numpy, by_sorting, with_counts, of_two_losses, with_weights],
}
"""For each exercise, answers that are right without a remark."""


def into_the_argument(heads, real, w_o, head):
    heads[:, head] = heads[:, head][real].mean(0)
    return heads.transpose(1, 2).flatten(2) @ w_o


def recorded_in_place(x, weights):
    stream = [x.clone()]
    for w in weights:
        x += torch.tanh(x @ w)
        stream.append(x.clone())
    return torch.stack(stream)


REMARKS = {
    "q4": [(into_the_argument, "changes its argument heads in place")],
    "q5": [(recorded_in_place, "changes its argument x in place")],
}
"""For each exercise, answers that are right, and what could be better."""


def plain_entropy(weights, allowed):
    return entropy(weights).mean()


def largest_weight(weights, allowed):
    return weights.max(dim=-1).values.mean()


def with_zeros(heads, real, w_o, head):
    heads = heads.clone()
    heads[:, head] = 0
    return heads.transpose(1, 2).flatten(2) @ w_o


def with_median(heads, real, w_o, head):
    heads = heads.clone()
    heads[:, head] = heads[:, head][real].median(dim=0).values
    return heads.transpose(1, 2).flatten(2) @ w_o


def sublayers_only(x, weights):
    stream = [x]
    for w in weights:
        stream.append(torch.tanh(stream[-1] @ w))
    return torch.stack(stream)


def without_tanh(x, weights):
    stream = [x]
    for w in weights:
        stream.append(stream[-1] + stream[-1] @ w)
    return torch.stack(stream)


def per_sentence(intact, ablated, tokens, picks):
    return torch.quantile((ablated - intact)[picks].mean(1), torch.tensor([0.025, 0.975]))


def of_half(intact, ablated, tokens, picks):
    costs = (ablated - intact)[picks].sum(1) / tokens[picks].sum(1)
    return torch.quantile(costs, torch.tensor([0.25, 0.75]))


WRONG = {
    "q1": [
        ([6, 3, 7, 2, 0.3], "the first head is ablated"),
        ([2, -2, 4, -1, 0.7], "that is left"),
        ([2, -2, 4, -1, 0.9], ""),
    ],
    "q3": [(plain_entropy, "not divided by its largest value"), (largest_weight, "")],
    "q4": [(with_zeros, "replaced by zero"), (with_median, "")],
    "q5": [(sublayers_only, "residual connection is missing"), (without_tanh, "")],
    "q7": [(per_sentence, "the increase per sentence"), (of_half, "")],
}
"""For each exercise, answers that are wrong, and part of the name of the mistake; without a name
if no known mistake explains them."""
