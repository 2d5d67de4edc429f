"""Whether a prediction depends on later tokens."""

import torch

from tfmr.doctor.finding import Finding
from tfmr.doctor.subject import Subject, change, limit

NAME = "sees the future"
LENGTH = 8


def probe(subject: Subject) -> Finding:
    """Change each target token in turn; the logits at earlier positions must stay the same."""
    source, target = subject.sources(2, LENGTH), subject.tokens(2, LENGTH, 1)
    target[:, 0] = subject.bos
    before = subject.predict(source, target)
    changed = subject.other(target)
    effects = torch.zeros(LENGTH, LENGTH)
    for t in range(1, LENGTH):
        edited = target.clone()
        edited[:, t] = changed[:, t]
        effects[t] = change(before, subject.predict(source, edited)).amax(dim=0)
    earlier = torch.ones(LENGTH, LENGTH).tril(-1).bool()  # row: the changed token; column: position
    leaks = effects.masked_fill(~earlier, 0)
    allowed = float(effects.masked_fill(earlier, 0).fill_diagonal_(0).max())
    largest = float(leaks.max())
    threshold = limit(max(largest, allowed))
    if largest < threshold:
        return Finding(NAME, "ok", "no logits depend on a later token")
    t, position = divmod(int(leaks.argmax()), LENGTH)
    far = bool((leaks[-1] > threshold)[:2].any())
    cause = "is there a causal mask?" if far else "is the causal mask one position too wide?"
    return Finding(
        NAME,
        "fault",
        f"the logits at position {position} change by {largest:.2g} standard deviations if the "
        f"token at position {t} changes; {cause}",
    )
