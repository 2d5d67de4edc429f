"""Whether a prediction depends on later tokens."""

import torch

from tfmr.doctor.finding import Finding
from tfmr.doctor.subject import Subject, change, limit

NAMES = ("sees the future",)
LENGTH = 8


def probe(subject: Subject) -> list[Finding]:
    """Change each target token in turn; the logits at earlier positions must stay the same."""
    source, target = subject.sources(1, LENGTH), subject.tokens(1, LENGTH, 1)
    target[:, 0] = subject.bos
    edited = target.repeat(LENGTH, 1)  # row t: token t is changed, except in row 0
    for t in range(1, LENGTH):
        edited[t, t] = subject.other(target)[0, t]
    logits = subject.predict(None if source is None else source.repeat(LENGTH, 1), edited)
    effects = change(logits[:1].expand_as(logits), logits)
    earlier = torch.ones(LENGTH, LENGTH).tril(-1).bool()
    leaks = effects.masked_fill(~earlier, 0)
    allowed = float(effects.masked_fill(earlier, 0).fill_diagonal_(0).max())
    largest = float(leaks.max())
    threshold = limit(max(largest, allowed))
    if largest < threshold:
        return [Finding(NAMES[0], "ok", "no logits depend on a later token")]
    t, position = divmod(int(leaks.argmax()), LENGTH)
    far = bool((leaks[-1] > threshold)[:2].any())
    cause = "is there a causal mask?" if far else "is the causal mask one position too wide?"
    return [
        Finding(
            NAMES[0],
            "fault",
            f"the logits at position {position} change by {largest:.2g} standard deviations if "
            f"the token at position {t} changes; {cause}",
        )
    ]
