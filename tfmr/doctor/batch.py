"""Whether a result depends on the other sentences of the batch."""

import torch

from tfmr.doctor.finding import Finding
from tfmr.doctor.subject import CHANGED, Subject, change

NAMES = ("depends on the batch",)


def probe(subject: Subject) -> list[Finding]:
    """Replace the other sentences of a batch, all of the same length, and compare one result."""
    source, target = subject.sources(3, 8), subject.tokens(3, 8, 1)
    first = subject.predict(source, target)[:1]
    others = target.clone()
    others[1:] = subject.other(target[1:])
    other_sources = None
    if source is not None:
        other_sources = torch.cat([source[:1], subject.other(source[1:], source=True)])
    alone = subject.predict(None if source is None else source[:1], target[:1])
    replaced = subject.predict(other_sources, others)[:1]
    effects = [float(change(first, each).max()) for each in (replaced, alone)]
    if max(effects) < 10 * CHANGED:
        return [Finding(NAMES[0], "ok", "a sentence has the same logits alone and in a batch")]
    what = "replaced" if effects[0] >= 10 * CHANGED else "removed"
    return [
        Finding(
            NAMES[0],
            "fault",
            f"the logits of a sentence change by {max(effects):.2g} standard deviations if the "
            f"other sentences of the batch are {what}; check which axis is the batch in every "
            "attention and layer norm (torch.nn: batch_first=True for (batch, length, d_model))",
        )
    ]
