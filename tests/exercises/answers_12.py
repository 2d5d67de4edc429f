"""Answers to the exercises of chapter 12: right ones, each written differently, and wrong ones."""

import heapq

import numpy as np
import torch
import torch.nn.functional as F

from tfmr.decode.sampling import Sampling


def with_for(next_scores, limit):
    out = []
    for _ in range(limit):
        token = next_scores([1, *out]).max(dim=-1).indices.item()
        if token == 2:
            return out
        out.append(token)
    return out


def recursive(next_scores, limit, ids=(1,)):
    if limit == 0:
        return []
    token = int(torch.argmax(next_scores(list(ids))))
    return [] if token == 2 else [token, *recursive(next_scores, limit - 1, (*ids, token))]


def as_a_tensor(next_scores, limit):
    ids = torch.tensor([1])
    for _ in range(limit):
        token = next_scores(ids.tolist()).argmax().view(1)
        if token.item() == 2:
            break
        ids = torch.cat([ids, token])
    return ids[1:]


def cut_afterwards(next_scores, limit):
    ids = [1]
    for _ in range(limit):
        ids.append(next_scores(ids).topk(1).indices.item())
    ids = ids[1:]
    return ids[: ids.index(2)] if 2 in ids else ids


def with_numpy(next_scores, limit):
    ids, token = [1], None
    while token != 2 and len(ids) - 1 < limit:
        token = int(np.argmax(next_scores(ids).numpy()))
        ids += [token]
    return [token for token in ids[1:] if token != 2]


def by_sort(totals, log_probs, beam):
    candidates = (totals.unsqueeze(1) + log_probs).view(-1)
    order = candidates.argsort(descending=True)[:beam]
    return candidates[order], order // log_probs.size(1), order % log_probs.size(1)


def by_unravel(totals, log_probs, beam):
    best, index = torch.topk((log_probs.T + totals).T.reshape(-1), beam)
    parents, tokens = torch.unravel_index(index, log_probs.shape)
    return best, parents, tokens


def by_divmod(totals, log_probs, beam):
    best, index = (totals.view(-1, 1) + log_probs).flatten().sort(descending=True)
    parents = torch.div(index[:beam], log_probs.shape[-1], rounding_mode="floor")
    return best[:beam], parents, index[:beam] - parents * log_probs.shape[-1]


def in_numpy(totals, log_probs, beam):
    candidates = totals.numpy()[:, None] + log_probs.numpy()
    order = np.argsort(-candidates, axis=None)[:beam]
    parents, tokens = np.unravel_index(order, candidates.shape)
    return candidates[parents, tokens], parents.copy(), tokens.copy()


def by_grid(totals, log_probs, beam):
    n, vocab = log_probs.shape
    parents, tokens = torch.meshgrid(torch.arange(n), torch.arange(vocab), indexing="ij")
    candidates = log_probs + totals[parents]
    order = candidates.flatten().topk(beam).indices
    return candidates.flatten()[order], parents.flatten()[order], tokens.flatten()[order]


def with_index_select(ids, cache, parents, tokens):
    ids = torch.cat([ids.index_select(0, parents), tokens.unsqueeze(1)], dim=1)
    return ids, cache.index_select(0, parents)


def with_lists(ids, cache, parents, tokens):
    rows = [[*ids[p].tolist(), t] for p, t in zip(parents.tolist(), tokens.tolist(), strict=True)]
    return torch.tensor(rows), torch.stack([cache[p] for p in parents])


def with_gather(ids, cache, parents, tokens):
    cache = cache.gather(0, parents[:, None, None].expand(cache.shape))
    ids = ids.gather(0, parents[:, None].expand(ids.shape))
    return torch.hstack([ids, tokens[:, None]]), cache


def with_one_hot(ids, cache, parents, tokens):
    choice = F.one_hot(parents, len(ids))
    return F.pad(choice @ ids, (0, 1)) + F.pad(tokens[:, None], (ids.shape[1], 0)), torch.einsum(
        "ij,jld->ild", choice.float(), cache
    )


def with_take(ids, cache, parents, tokens):
    return torch.column_stack((ids[parents, :], tokens)), torch.clone(cache[parents, :, :])


def with_scatter(probs, p):
    ordered, order = torch.sort(probs, descending=True)
    remove = ordered.cumsum(-1) > p
    remove[1:] = remove[:-1].clone()
    remove[0] = False
    kept = probs.masked_fill(remove.scatter(0, order, remove), 0)
    return kept / kept.sum()


def by_package(probs, p):
    tokens, kept = Sampling(top_p=p).candidates(probs.log()[None], lowest=0)
    return torch.zeros(len(probs)).double().index_add(0, tokens[0], kept[0])


def by_heap(probs, p):
    heap = [(-prob, i) for i, prob in enumerate(probs.tolist())]
    heapq.heapify(heap)
    result, total = [0.0] * len(probs), 0.0
    while total < p - 1e-9 and heap:
        prob, i = heapq.heappop(heap)
        result[i] = -prob
        total -= prob
    return [each / total for each in result]


def by_totals(probs, p):
    before = (probs[None] * (probs[None] > probs[:, None])).sum(1)  # of the more probable ones
    return F.normalize(probs * (before < p), p=1, dim=0)


def by_logits(probs, p):
    order = probs.argsort(descending=True)
    outside = probs[order].cumsum(0) - probs[order] >= p
    logits = probs.log().clone()
    logits[order[outside]] = -torch.inf
    return logits.softmax(0)


def by_hand(nucleus):
    probs = torch.tensor([0.1, 0.5, 0.15, 0.25])
    for p, expected in (
        (0.45, [0, 1, 0, 0]),
        (0.7, [0, 2 / 3, 0, 1 / 3]),
        (0.85, [0, 5 / 9, 1.5 / 9, 2.5 / 9]),
        (0.95, [0.1, 0.5, 0.15, 0.25]),
    ):
        np.testing.assert_allclose(nucleus(probs, p), expected, atol=1e-5)


def with_random_probs(nucleus):
    for seed in range(5):
        probs = torch.randn(8, generator=torch.Generator().manual_seed(seed)).softmax(0)
        for p in (0.2, 0.5, 0.8, 0.95):
            expected = by_heap(probs, p)
            assert torch.allclose(nucleus(probs, p).float(), torch.tensor(expected), atol=1e-4)


def by_properties(nucleus):
    probs = torch.tensor([0.08, 0.22, 0.4, 0.13, 0.17])
    for p in (0.1, 0.5, 0.7, 0.85, 0.97):
        result = nucleus(probs, p)
        kept = result > 0
        assert abs(float(result.sum()) - 1) < 1e-4
        assert float(probs[kept].sum()) >= p
        assert float(probs[kept].sum() - probs[kept].min()) < p
        assert kept.all() or probs[kept].min() > probs[~kept].max()
        ratios = result[kept] / probs[kept]
        assert torch.allclose(ratios, ratios[0].expand(len(ratios)), atol=1e-3)


def as_a_boolean(nucleus):
    probs = torch.tensor([0.2, 0.7, 0.1])
    return (
        torch.allclose(nucleus(probs, 0.65), torch.tensor([0.0, 1, 0]))
        and torch.allclose(nucleus(probs, 0.75), torch.tensor([2 / 9, 7 / 9, 0]))
        and torch.allclose(nucleus(probs, 0.15), torch.tensor([0.0, 1, 0]))
    )


def with_package(nucleus):
    probs = torch.tensor([0.03, 0.35, 0.21, 0.06, 0.26, 0.09])
    for p in (0.3, 0.5, 0.7, 0.9):
        torch.testing.assert_close(
            nucleus(probs, p).double(), by_package(probs, p), atol=1e-4, rtol=0
        )


RIGHT = {
    "q1": [
        [-1.5, -1.35],
        (-2 / (8 / 6), -2.7 / 2),
        torch.tensor([-1.5, -1.35]),
        np.array([[-1.5], [-1.35]]),
        [-1.5, -1.349],
    ],
    "q2": [with_for, recursive, as_a_tensor, cut_afterwards, with_numpy],
    "q3": [by_sort, by_unravel, by_divmod, in_numpy, by_grid],
    "q4": [with_index_select, with_lists, with_gather, with_one_hot, with_take],
    "q5": [with_scatter, by_package, by_heap, by_totals, by_logits],
    "q6": [by_hand, with_random_probs, by_properties, as_a_boolean, with_package],
    "q7": ["b", "B", " b", "b.", "(b)"],
}
"""For each exercise, answers that are right without a remark."""


def hypothesis_by_hypothesis(totals, log_probs, beam):
    found = []
    for i in range(len(totals)):
        found += [(float(t), i, j) for j, t in enumerate((totals[i] + log_probs[i]).tolist())]
    found = sorted(found, reverse=True)[:beam]
    return tuple(torch.tensor(each) for each in zip(*found, strict=True))


REMARKS = {"q3": [(hypothesis_by_hypothesis, "loops over hypotheses")]}
"""For each exercise, answers that are right, and what could be better."""


def with_ends(next_scores, limit):
    return [1, *with_for(next_scores, limit), 2]


def without_stop(next_scores, limit):
    ids = [1]
    for _ in range(limit):
        ids.append(int(next_scores(ids).argmax()))
    return ids[1:]


def best_of_each(totals, log_probs, beam):
    best, tokens = (totals[:, None] + log_probs).max(1)
    best, parents = best.topk(min(beam, len(best)))
    return best, parents, tokens[parents]


def by_probability(totals, log_probs, beam):
    return by_sort(totals.exp(), log_probs.exp(), beam)


def sorted_rows(ids, cache, parents, tokens):
    return torch.cat([ids[parents], tokens[:, None]], 1), cache.sort(0).values


def excluded(probs, p):
    ordered, order = probs.sort(descending=True)
    kept = ordered * (ordered.cumsum(0) <= p)
    result = torch.zeros_like(probs)
    result[order] = kept
    return result / result.sum()


def at_least(probs, p):
    kept = probs * (probs > 1 - p)
    return kept / kept.sum()


WRONG = {
    "q1": [([-1.35, -1.5], ""), ([8 / 6, 2.0], "")],
    "q2": [(with_ends, ""), (without_stop, "does not stop at <eos>")],
    "q3": [(best_of_each, "each hypothesis keeps its own best token"), (by_probability, "")],
    "q4": [(sorted_rows, "")],
    "q5": [(excluded, "the token with which the total reaches p"), (at_least, "")],
}
"""For each exercise, answers that are wrong, and part of the name of the mistake; without a name
if no known mistake explains them."""
