"""Which tokens the training loss predicts, and over which positions it is averaged.

The probe computes many losses from the logits, right ones and wrong ones, and searches for those
that equal the reader's loss on four batches. Label smoothing may be used: its strength is fitted to
the first batch.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from tfmr.doctor.finding import Finding, Verdict
from tfmr.doctor.subject import Subject, call_loss

SHIFT, TWICE, PADDING, SOFTMAX = NAMES = (
    "labels not shifted",
    "labels shifted twice",
    "padding in the loss",
    "softmax before the loss",
)
ADVICE = {
    SHIFT: "the loss compares each position with its own input token; the label of a position must "
    "be the next token",
    TWICE: "the label of a position is the token after the next; shift once, either in the data or "
    "in the loss (Hugging Face models shift internally)",
    PADDING: "the mean includes the padded positions; pass ignore_index=pad, and divide by the "
    "number of real tokens",
    SOFTMAX: "the loss is computed from softmax(logits), but F.cross_entropy expects logits",
}
LENGTHS = ((5, 9), (7, 4), (6, 11), (10, 8))
"""The lengths of the two sentences in each batch, special tokens included."""
TOLERANCE = 3e-5

_Terms = tuple[Tensor, Tensor]
"""The negative log-probability of the label, and its mean over the vocabulary, per position."""


@dataclass(frozen=True)
class Batch:
    """A batch, and the reader's loss on it."""

    source: Tensor | None
    target: Tensor
    loss: float


def probe(subject: Subject) -> list[Finding]:
    """Name what is wrong with the loss, if one of the known losses explains it."""
    if subject.loss is None:
        return _without_loss(subject)
    batches = [_batch(subject, lengths, seed) for seed, lengths in enumerate(LENGTHS)]
    faults = explanation(subject, batches)
    if faults is not None:
        return [
            Finding(name, "fault", ADVICE[name])
            if name in faults
            else _right(subject, name, faults)
            for name in NAMES
        ]
    reason = "the loss matches no known cross-entropy, with or without label smoothing"
    findings = [Finding(name, "undecided", reason) for name in NAMES]
    if subject.pad is not None:
        verdict: Verdict = "fault" if _counts_padding(subject, batches[0]) else "ok"
        text = ADVICE[PADDING] if verdict == "fault" else "more padding does not change the loss"
        findings[NAMES.index(PADDING)] = Finding(PADDING, verdict, text)
    return findings


def _right(subject: Subject, name: str, faults: frozenset[str]) -> Finding:
    if name == PADDING and subject.pad is None:
        return Finding(name, "undecided", "the subject has no padding: pad is None")
    right = "the loss is the cross-entropy of the next real token"
    return Finding(name, "ok", "another fault explains the loss" if faults else right)


def _without_loss(subject: Subject) -> list[Finding]:
    reason = "pass `loss` to examine the loss"
    findings = [Finding(name, "undecided", reason) for name in NAMES]
    logits = subject.predict(subject.sources(1, 6), subject.tokens(1, 6, 1))
    if _are_probabilities(logits):
        text = "`logits` returns probabilities, but F.cross_entropy expects logits"
        findings[NAMES.index(SOFTMAX)] = Finding(SOFTMAX, "fault", text)
    return findings


def _batch(subject: Subject, lengths: tuple[int, ...], seed: int) -> Batch:
    source = subject.sources(len(lengths), 6, seed)
    target = padded(subject, lengths, seed + 10)
    return Batch(source, target, call_loss(subject, source, target))


def padded(subject: Subject, lengths: tuple[int, ...], seed: int) -> Tensor:
    """Random target sentences from ``bos`` to ``eos``; of equal length if there is no padding."""
    longest = max(lengths)
    rows = subject.tokens(len(lengths), longest, seed)
    rows[:, 0] = subject.bos
    for row, length in zip(rows, lengths, strict=True):
        length = longest if subject.pad is None else length
        row[length - 1] = subject.eos
        row[length:] = subject.eos if subject.pad is None else subject.pad
    return rows


def _counts_padding(subject: Subject, batch: Batch) -> bool:
    """Whether more padding changes the loss."""
    wider = F.pad(batch.target, (0, 4), value=subject.pad)
    loss = call_loss(subject, batch.source, wider)
    return abs(loss - batch.loss) > 100 * TOLERANCE * abs(batch.loss)


def explanation(subject: Subject, batches: list[Batch]) -> frozenset[str] | None:
    """The faults of the first known loss that equals the reader's on every batch.

    A coincidence on all batches is so unlikely that the search ends with it.
    """
    given = [batch.loss for batch in batches]
    alignments = [_Alignments(subject, batch) for batch in batches]
    for is_smoothed in (False, True):
        for k in range(len(alignments[0])):
            first = list(alignments[0].losses(k))
            for j, (faults, (nll, uniform)) in enumerate(first):
                epsilon = (given[0] - nll) / (uniform - nll) if is_smoothed else 0.0
                if not -TOLERANCE < epsilon < 0.6 or not math.isfinite(epsilon):
                    continue
                if not _equal((1 - epsilon) * nll + epsilon * uniform, given[0]):
                    continue
                others = [list(each.losses(k))[j][1] for each in alignments[1:]]
                values = [(1 - epsilon) * a + epsilon * b for a, b in others]
                if all(map(_equal, values, given[1:])):
                    return faults
    return None


def _equal(value: float, given: float) -> bool:
    return abs(value - given) <= TOLERANCE * abs(given)


class _Alignments:
    """The known losses of one batch; the logits are computed when they are first needed."""

    def __init__(self, subject: Subject, batch: Batch) -> None:
        self._subject, self._source = subject, batch.source
        self._pairs = list(_alignments(subject, batch.target))
        self._logits: dict[int, Tensor] = {}

    def __len__(self) -> int:
        return len(self._pairs)

    def losses(self, k: int) -> Iterator[tuple[frozenset[str], tuple[float, float]]]:
        """The losses of one alignment: faults, and values without and with full smoothing."""
        shift, inputs, labels = self._pairs[k]
        if k not in self._logits:
            self._logits[k] = self._subject.predict(self._source, inputs)
        logits, labels = self._logits[k], labels.cpu()
        are_probabilities = _are_probabilities(logits)
        log_p = logits.log() if are_probabilities else logits.log_softmax(dim=-1)
        doubled = (logits if are_probabilities else logits.softmax(dim=-1)).log_softmax(dim=-1)
        for softmax, scores in ((frozenset[str](), log_p), (frozenset({SOFTMAX}), doubled)):
            nll = -scores.gather(-1, labels.unsqueeze(-1)).squeeze(-1)
            terms = nll, -scores.mean(dim=-1)
            real = torch.ones_like(labels, dtype=torch.bool)
            if self._subject.pad is not None:
                real = labels != self._subject.pad
            for padding, values in _reductions(terms, real):
                yield shift | softmax | padding, values


def _alignments(
    subject: Subject, target: Tensor
) -> Iterator[tuple[frozenset[str], Tensor, Tensor]]:
    """The known inputs and labels of a target, each with its faults."""
    right, unshifted, twice = frozenset[str](), frozenset({SHIFT}), frozenset({TWICE})
    start = torch.full_like(target[:, :1], subject.bos)
    after_start = torch.cat([start, target[:, 2:]], dim=1)  # only the first token is replaced
    yield from [
        (right, target[:, :-1], target[:, 1:]),
        (unshifted, target, target),
        (unshifted, target[:, :-1], target[:, :-1]),
        (unshifted, target[:, 1:], target[:, 1:]),
        (unshifted, target[:, 1:], target[:, :-1]),
        (unshifted, after_start, target[:, 1:]),
        (twice, target[:, :-2], target[:, 2:]),
    ]
    for first in sorted({subject.bos, subject.eos, subject.pad or 0}):
        start = torch.full_like(start, first)
        yield right, torch.cat([start, target[:, :-1]], dim=1), target
        yield twice, torch.cat([start, target[:, :-2]], dim=1), target[:, 1:]


def _reductions(
    terms: _Terms, real: Tensor
) -> Iterator[tuple[frozenset[str], tuple[float, float]]]:
    """The usual ways to reduce the terms of all positions to one number."""
    rows = len(real)
    for weights, faults in (
        (real.double(), frozenset[str]()),
        (torch.ones_like(real).double(), frozenset({PADDING})),
    ):
        if faults and bool(real.all()):
            continue
        total = weights.sum()
        for divisor in (total, torch.tensor(1.0), torch.tensor(float(rows)), weights.sum(1) * rows):
            a, b = ((term * weights / divisor.reshape(-1, 1)).sum().item() for term in terms)
            yield faults, (a, b)
    if not bool(real.all()):
        a, b = ((term * real).sum().item() / real.numel() for term in terms)
        yield frozenset({PADDING}), (a, b)


def _are_probabilities(logits: Tensor) -> bool:
    sums = logits.sum(dim=-1)
    return bool((logits >= 0).all()) and torch.allclose(sums, torch.ones_like(sums), atol=1e-4)
