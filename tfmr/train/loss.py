"""The loss: cross-entropy against a target that is not quite sure of itself."""

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd.function import FunctionCtx

from tfmr.special_tokens import PAD


def cross_entropy_naive(
    logits: Float[Tensor, "batch target vocab"],
    target: Int[Tensor, "batch target"],
    smoothing: float = 0.0,
) -> Float[Tensor, ""]:
    r"""Cross-entropy in nats per token, labels smoothed by :math:`\epsilon`, padding left out.

    .. math:: q(k) = (1 - \epsilon)\,[k = y] + \epsilon / |V|, \qquad
              L = -\sum_k q(k) \log p(k)

    Szegedy et al. (2016), section 7; Vaswani et al. (2017), section 5.4. The version to read;
    :func:`cross_entropy` computes the same with PyTorch's kernel.
    """
    vocab = logits.shape[-1]
    wanted = F.one_hot(target, vocab).to(logits.dtype) * (1 - smoothing) + smoothing / vocab
    per_token = -(wanted * logits.log_softmax(dim=-1)).sum(dim=-1)
    real = target != PAD
    return per_token[real].mean()


def cross_entropy(
    logits: Float[Tensor, "batch target vocab"],
    target: Int[Tensor, "batch target"],
    smoothing: float = 0.0,
) -> Float[Tensor, ""]:
    r"""Cross-entropy in nats per token, against labels smoothed by ``smoothing``, padding left out.

    Args:
        logits: scores ``(batch, target, vocab)``.
        target: the ids they should have favoured, padded with ``PAD``.
        smoothing: :math:`\epsilon`, the share of belief spread over the whole vocabulary; 0.1 in
            the paper.
    """
    return F.cross_entropy(
        logits.flatten(0, 1), target.flatten(), ignore_index=PAD, label_smoothing=smoothing
    )


ROWS = 256
"""Positions whose scores are held at once: few enough to stay in a processor's cache."""


class _LinearCrossEntropy(torch.autograd.Function):
    """Scores, loss and both gradients in one pass: see :func:`linear_cross_entropy`."""

    @staticmethod
    def forward(
        ctx: FunctionCtx, x: Tensor, weight: Tensor, target: Tensor, smoothing: float
    ) -> Tensor:
        n, vocab, device = len(x), len(weight), x.device.type
        exact = weight.dtype
        # Products in the type that autocast asks for; softmax, loss and sums stay exact.
        quick = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else exact
        x_quick, weight_quick = x.to(quick), weight.to(quick)
        total = weight.new_zeros(())
        d_x, d_weight = torch.empty_like(x), torch.zeros_like(weight)
        for first in range(0, n, ROWS):
            rows = slice(first, first + ROWS)
            wanted = target[rows, None]
            scores = x_quick[rows] @ weight_quick.T
            p = scores.softmax(dim=-1, dtype=exact)
            # log p = score - log_z; the likeliest token gives log_z without a second exponential.
            log_z = scores.amax(dim=-1, keepdim=True) - p.amax(dim=-1, keepdim=True).log()
            hit = scores.gather(-1, wanted) - log_z
            mean = scores.mean(dim=-1, keepdim=True, dtype=exact) - log_z
            total -= ((1 - smoothing) * hit + smoothing * mean).sum()
            d_scores = p.sub_(smoothing / vocab)
            d_scores.scatter_add_(-1, wanted, torch.full_like(hit, smoothing - 1))
            d_quick = d_scores.to(quick)
            d_x[rows] = d_quick @ weight_quick
            # One gradient is large enough: where the types allow it, none is made beside it to add.
            if quick == exact:
                d_weight.addmm_(d_quick.T, x_quick[rows])
            else:
                d_weight += d_quick.T @ x_quick[rows]
        ctx.save_for_backward(d_x.div_(n), d_weight.div_(n))
        return total / n

    @staticmethod
    def backward(ctx: FunctionCtx, d_loss: Tensor) -> tuple[Tensor, Tensor, None, None]:
        d_x, d_weight = ctx.saved_tensors  # type: ignore[attr-defined]
        return d_loss * d_x, d_loss * d_weight, None, None


def linear_cross_entropy(
    x: Float[Tensor, "batch target d_model"],
    weight: Float[Tensor, "vocab d_model"],
    target: Int[Tensor, "batch target"],
    smoothing: float = 0.0,
) -> Float[Tensor, ""]:
    """:func:`cross_entropy` of the scores ``x @ weight.T``, without ever holding them all.

    The scores of a batch are its largest tensor by far: tokens times vocabulary, needed once more
    for the gradient. Here they are made for a few positions at a time, turned into their own
    gradient on the spot, and dropped. Under :class:`torch.autocast` the products are taken in its
    type, everything else in that of the weights.

    Args:
        x: what the decoder returns ``(batch, target, d_model)``.
        weight: the output projection ``(vocab, d_model)``.
        target: the ids that the scores should have favoured, padded with ``PAD``.
        smoothing: the share of belief spread over the whole vocabulary.
    """
    real = target != PAD
    loss: Tensor = _LinearCrossEntropy.apply(  # type: ignore[no-untyped-call]
        x[real], weight, target[real], smoothing
    )
    return loss
