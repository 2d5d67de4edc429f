"""Whether gradients accumulated over small batches equal those of one large batch."""

import torch
from torch import Tensor

from tfmr.doctor.finding import Finding, UndecidedError
from tfmr.doctor.loss import padded
from tfmr.doctor.subject import Subject, call_backward

NAMES = ("wrong accumulation",)
LENGTHS = ((4,), (11, 9, 10))
"""The lengths of the sentences of two batches, which have different numbers of tokens."""
TOLERANCE = 1e-3


def probe(subject: Subject) -> list[Finding]:
    """Compare the accumulated gradient with that of one batch and with known wrong ones."""
    if subject.accumulate is None or subject.loss is None:
        raise UndecidedError("pass `loss` and `accumulate` to examine the accumulation")
    if subject.pad is None:
        raise UndecidedError("the subject has no padding: pad is None")
    sources = [subject.sources(len(lengths), 6, seed) for seed, lengths in enumerate(LENGTHS)]
    targets = [padded(subject, lengths, seed) for seed, lengths in enumerate(LENGTHS)]
    together = padded(subject, LENGTHS[0] + LENGTHS[1], 0)
    together[:] = subject.pad
    at = 0
    for each in targets:
        together[at : at + len(each), : each.shape[1]] = each
        at += len(each)
    merged = None if sources[0] is None else torch.cat([s for s in sources if s is not None])
    batches = list(zip(sources, targets, strict=True))

    expected = call_backward(subject, [(merged, together)])
    first, last = (call_backward(subject, [batch]) for batch in batches)
    given = call_backward(subject, batches, accumulate=True)
    known = {
        "the gradient is that of the last batch only; call zero_grad() once per step": last,
        "the gradient is that of the first batch only; call backward() for every batch": first,
        "all batches have the same weight; weight each by its token count": ((first + last) / 2),
        "the gradients of mean losses are added; multiply each mean loss by the fraction of all "
        "tokens that its batch has": first + last,
    }
    if _distance(given, expected) < TOLERANCE:
        text = "the accumulated gradient equals that of one large batch"
        return [Finding(NAMES[0], "ok", text)]
    for text, gradient in known.items():
        if _distance(given, gradient) < TOLERANCE:
            return [Finding(NAMES[0], "fault", text)]
    cosine = float(given @ expected / (given.norm() * expected.norm()))
    if cosine > 1 - TOLERANCE and given.norm() < expected.norm():
        text = (
            "the accumulated gradient has the direction of that of one large batch and a smaller "
            "norm, as after clipping"
        )
        return [Finding(NAMES[0], "ok", text)]
    text = f"the accumulated gradient differs from that of one large batch (cosine {cosine:.3f})"
    return [Finding(NAMES[0], "fault", text)]


def _distance(a: Tensor, b: Tensor) -> float:
    return float((a - b).norm() / b.norm()) if b.norm() > 0 else float("inf")
