"""Answers to the exercises of chapter 8: right ones, each written differently, and wrong ones."""

import functools

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn


def with_matmul(memory, keep):
    weights = keep.float() / keep.sum(dim=1, keepdim=True)
    return (weights[:, None] @ memory)[:, 0]


def with_einsum(memory, keep):
    return torch.einsum("bld,bl->bd", memory, keep.float()) / keep.sum(-1)[:, None]


def with_nanmean(memory, keep):
    return memory.masked_fill(keep.logical_not()[..., None], torch.nan).nanmean(dim=1)


def in_numpy(memory, keep):
    real = keep.numpy()[..., None]
    return np.where(real, memory.numpy(), 0).sum(1) / real.sum(1)


def with_softmax(memory, keep):
    weights = torch.zeros(keep.shape).masked_fill(~keep, -torch.inf).softmax(-1)
    return (memory * weights.unsqueeze(-1)).sum(-2)


def by_pytorch(x, keep, w_q, w_k, w_v, w_o, w_1, w_2):
    attended = F.scaled_dot_product_attention(x @ w_q, x @ w_k, x @ w_v, keep[:, None])
    x = F.layer_norm(x + attended @ w_o, x.shape[-1:])
    return F.layer_norm(x + F.relu(x @ w_1) @ w_2, x.shape[-1:])


def by_layer(x, keep, w_q, w_k, w_v, w_o, w_1, w_2):
    layer = nn.TransformerEncoderLayer(len(w_q), 1, w_1.shape[1], 0.0, batch_first=True, bias=False)
    with torch.no_grad():
        layer.self_attn.in_proj_weight.copy_(torch.cat([w_q.T, w_k.T, w_v.T]))
        layer.self_attn.out_proj.weight.copy_(w_o.T)
        layer.linear1.weight.copy_(w_1.T)
        layer.linear2.weight.copy_(w_2.T)
    return layer(x, src_key_padding_mask=~keep)


def with_large_number(x, keep, w_q, w_k, w_v, w_o, w_1, w_2):
    def norm(t):
        return (t - t.mean(-1, keepdim=True)) / (
            t.var(-1, unbiased=False, keepdim=True) + 1e-5
        ) ** 0.5

    scores = torch.einsum("bid,bjd->bij", x @ w_q, x @ w_k) / w_q.shape[0] ** 0.5
    weights = (scores + (keep[:, None].float() - 1) * 1e9).softmax(2)
    x = norm(x + torch.bmm(weights, x @ (w_v @ w_o)))
    return norm(x + (x @ w_1).clamp(min=0) @ w_2)


def in_double(x, keep, *matrices):
    return by_pytorch(x.double(), keep, *(each.double() for each in matrices))


def with_exponentials(x, keep, w_q, w_k, w_v, w_o, w_1, w_2):
    e = torch.exp((x @ w_q @ w_k.T @ x.mT) / len(w_q) ** 0.5) * keep[:, None, :]
    e = e / e.sum(dim=-1, keepdim=True)
    x = torch.layer_norm(e @ x @ w_v @ w_o + x, [x.size(-1)])
    return nn.LayerNorm(x.size(-1), elementwise_affine=False)(torch.relu(x @ w_1) @ w_2 + x)


def with_reduce(x, keep, blocks):
    return functools.reduce(lambda y, block: block(y, keep), blocks, x)


def recursive(x, keep, blocks):
    return recursive(blocks[0](x, keep), keep, blocks[1:]) if blocks else x


def with_memory(x, keep, blocks):
    memory = x
    for block in blocks:
        memory = block(memory, keep)
    return memory


def with_index(x, keep, blocks):
    outputs = [x]
    for i in range(len(blocks)):
        outputs.append(blocks[i](outputs[i], keep))
    return outputs[-1]


def with_while(x, keep, blocks):
    rest = list(blocks)
    while rest:
        x = rest.pop(0)(x, keep)
    return x


def real_parts(encode, lengths, filling, width=6):
    """The outputs at the real tokens, from sentences that are padded with `filling`."""
    generator = torch.Generator().manual_seed(3)
    x = torch.full((len(lengths), width, 3), filling)
    for i, length in enumerate(lengths):
        x[i, :length] = torch.randn(length, 3, generator=generator)
    out = encode(x, torch.arange(width) < torch.tensor(lengths)[:, None])
    return [row[:length] for row, length in zip(out, lengths, strict=True)]


def padding_wider(encode):
    for a, b in zip(
        real_parts(encode, [2, 4, 3], 5.0), real_parts(encode, [2, 4, 3], -7.0, 9), strict=True
    ):
        torch.testing.assert_close(a, b)
    x = torch.randn(2, 3, 4)
    keep = torch.tensor([[True, True, False], [True, True, True]])
    both = encode(x, keep)
    torch.testing.assert_close(both[1:], encode(x[1:], keep[1:]))
    other = encode(x.index_fill(1, torch.tensor([0]), 2.0), keep)
    assert (other != both)[0, :2].any(-1).all()


def padding_alone(encode):
    x, keep = torch.randn(4, 5, 2), torch.arange(5) < torch.tensor([[3], [1], [5], [2]])
    out = encode(x, keep)
    for i in range(4):
        n = int(keep[i].sum())
        alone = encode(x[i : i + 1, :n], keep[i : i + 1, :n])
        np.testing.assert_allclose(out[i, :n], alone[0], atol=1e-5)
    x[0, 0] += 1
    assert (encode(x, keep) - out)[0, 1:3].abs().min() > 0


def padding_by_gradient(encode):
    x = torch.randn(3, 4, 3, requires_grad=True)
    keep = torch.arange(4) < torch.tensor([[2], [4], [3]])
    for i, n in enumerate((2, 4, 3)):
        for j in range(n):
            (g,) = torch.autograd.grad(encode(x, keep)[i, j].sum(), x)
            used = g.abs().amax(-1) > 1e-7
            expected = torch.zeros(3, 4, dtype=torch.bool)
            expected[i, :n] = True
            assert torch.equal(used, expected)
    wide = F.pad(x.detach(), (0, 0, 0, 2)), F.pad(keep, (0, 2))
    assert torch.allclose(encode(*wide)[:, :4][keep], encode(x.detach(), keep)[keep], atol=1e-5)


def padding_as_a_boolean(encode):
    x, keep = torch.randn(2, 5, 4), torch.ones(2, 5).bool()
    keep[0, 3:] = False
    out, first, second = encode(x, keep), encode(x[:1, :3], keep[:1, :3]), encode(x[1:], keep[1:])
    y = x.clone()
    y[1, 4] = 0
    return (
        torch.allclose(out[0, :3], first[0], atol=1e-5)
        and torch.allclose(out[1], second[0], atol=1e-5)
        and not torch.allclose(encode(y, keep)[1, 0], out[1, 0], atol=1e-5)
    )


def padding_in_a_loop(encode):
    for seed in range(3):
        torch.manual_seed(seed)
        x = torch.randn(1, 4, 3)
        expected = encode(x, torch.ones(1, 4) > 0)
        for extra in (1, 2, 5):
            padded = torch.cat([x, torch.randn(1, extra, 3)], dim=1)
            batch = torch.cat([torch.randn(1, 4 + extra, 3), padded])
            keep = torch.arange(4 + extra) < torch.tensor([[4 + extra], [4]])
            assert (encode(batch, keep)[1, :4] - expected[0]).abs().max() < 1e-4
        x[0, 2] = 1
        assert ((encode(x, torch.ones(1, 4) > 0) - expected).norm(dim=-1) > 1e-4).all()


RIGHT = {
    "q1": [
        [4, 2.4, 1.5],
        (12 / 3, 12 / 5, 12 / 8),
        torch.tensor([4.0, 2.4, 1.5]),
        np.array([4, 2.4, 1.5]),
        [4.001, 2.4, 1.499],
    ],
    "q2": [with_matmul, with_einsum, with_nanmean, in_numpy, with_softmax],
    "q3": [by_pytorch, by_layer, with_large_number, in_double, with_exponentials],
    "q4": [with_reduce, recursive, with_memory, with_index, with_while],
    "q5": [
        padding_wider,
        padding_alone,
        padding_by_gradient,
        padding_as_a_boolean,
        padding_in_a_loop,
    ],
    "q6": ["c", "C", " c", "c.", "(c)"],
}
"""For each exercise, answers that are right without a remark."""


def sentence_by_sentence(memory, keep):
    return torch.stack([vectors[real].mean(0) for vectors, real in zip(memory, keep, strict=True)])


REMARKS = {"q2": [(sentence_by_sentence, "loops over sentences")]}
"""For each exercise, answers that are right, and what could be better."""


def mean_of_all(memory, keep):
    return (memory * keep[..., None]).mean(1)


def last_real(memory, keep):
    return memory[torch.arange(len(memory)), keep.sum(1) - 1]


def unscaled(x, keep, w_q, w_k, w_v, w_o, w_1, w_2):
    attended = F.scaled_dot_product_attention(x @ w_q, x @ w_k, x @ w_v, keep[:, None], scale=1.0)
    x = F.layer_norm(x + attended @ w_o, x.shape[-1:])
    return F.layer_norm(x + F.relu(x @ w_1) @ w_2, x.shape[-1:])


def with_gelu(x, keep, w_q, w_k, w_v, w_o, w_1, w_2):
    attended = F.scaled_dot_product_attention(x @ w_q, x @ w_k, x @ w_v, keep[:, None])
    x = F.layer_norm(x + attended @ w_o, x.shape[-1:])
    return F.layer_norm(x + F.gelu(x @ w_1) @ w_2, x.shape[-1:])


def summed(x, keep, blocks):
    total = 0
    for block in blocks:
        total = total + block(x, keep)
    return total


def without_mask(x, keep, blocks):
    for block in blocks:
        x = block(x, torch.ones_like(keep))
    return x


WRONG = {
    "q1": [([4, 4, 4], "the padding changes nothing"), ([4, 2, 1], "")],
    "q2": [(mean_of_all, "divided by the number of all positions"), (last_real, "")],
    "q3": [(unscaled, "the scores are not divided"), (with_gelu, "")],
    "q4": [(summed, "the outputs of all blocks are added"), (without_mask, "")],
}
"""For each exercise, answers that are wrong, and part of the name of the mistake; without a name
if no known mistake explains them."""
