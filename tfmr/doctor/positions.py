"""Whether the order of the tokens matters."""

import torch
from torch import Tensor

from tfmr.doctor.finding import Finding, UndecidedError
from tfmr.doctor.subject import CHANGED, Subject, change, limit
from tfmr.doctor.trace import attentions

NAMES = ("no positions",)
LENGTH = 8
ORDER = (2, 0, 3, 1, 6, 4, 5)
"""A permutation that is no reversal, which symmetric relative positions would not notice."""
ADVICE = "add positional encodings, or use relative or rotary positions"


def probe(subject: Subject) -> list[Finding]:
    """Permute the source; look at the first scores between the target tokens."""
    if not subject.is_language_model and _source_is_a_set(subject):
        text = f"the logits stay the same if the source tokens are permuted; {ADVICE}"
        return [Finding(NAMES[0], "fault", text)]
    if _target_is_a_set(subject):
        text = (
            "in the first self-attention over the target, the score of two tokens is the same at "
            f"all distances; {ADVICE}"
        )
        return [Finding(NAMES[0], "fault", text)]
    return [Finding(NAMES[0], "ok", "the order of the tokens changes the result")]


def _source_is_a_set(subject: Subject) -> bool:
    source, target = subject.sources(1, 7), subject.tokens(1, 6, 1)
    assert source is not None
    before = subject.predict(source, target)
    effect = change(before, subject.predict(subject.other(source, source=True), target)).max()
    permuted = subject.predict(source[:, ORDER], target)
    return float(change(before, permuted).max()) < limit(float(effect)) / 10


def _target_is_a_set(subject: Subject) -> bool:
    """Whether the first scores depend on the two tokens only, and not on their distance."""
    two = subject.tokens(1, 2, 1)
    target = two.repeat(1, LENGTH // 2)  # a b a b …
    source = subject.sources(1, LENGTH - 1)
    found = attentions(subject.model, lambda: subject.predict(source, target))
    square = [each.scores for each in found if each.scores.shape[-2:] == (LENGTH, LENGTH)]
    if not square:
        return _last_ignores_order(subject)
    scores = square[0].reshape(-1, LENGTH, LENGTH)
    rows, columns = torch.ones(LENGTH, LENGTH).tril().nonzero().T
    spreads = [
        _spread(scores[:, rows[kind], columns[kind]])
        for query in (0, 1)
        for key in (0, 1)
        for kind in ((rows % 2 == query) & (columns % 2 == key),)
    ]
    visible = scores[:, rows, columns]
    return max(spreads) < 100 * CHANGED * max(1.0, float(visible[visible.isfinite()].std()))


def _spread(scores: Tensor) -> float:
    """The largest difference of the scores that one head gives to the same two tokens."""
    finite = scores.masked_fill(scores < -1e4, -torch.inf)
    low = finite.masked_fill(finite.isinf(), torch.inf).amin(dim=1)
    difference = finite.amax(dim=1) - low
    return float(difference[difference.isfinite()].max()) if difference.isfinite().any() else 0.0


def _last_ignores_order(subject: Subject) -> bool:
    """Without attention, as in a recurrent decoder: whether earlier tokens may be exchanged."""
    source, target = subject.sources(1, 7), subject.tokens(1, LENGTH, 1)
    exchanged, other = target.clone(), target.clone()
    exchanged[:, :2] = target[:, :2].flip(1)
    other[:, :2] = subject.other(target)[:, :2]
    before = subject.predict(source, target)
    effects = [
        float(change(before, subject.predict(source, each))[:, -1].max())
        for each in (other, exchanged)
    ]
    if effects[0] < 100 * CHANGED:
        raise UndecidedError("the last position does not depend on the first ones")
    return effects[1] < limit(effects[0]) / 10
