"""Whether decoding with a cache gives the logits of the full pass."""

import torch

from tfmr.doctor.finding import Finding, UndecidedError
from tfmr.doctor.subject import CHANGED, Subject, change

NAMES = ("cache differs",)
LENGTH = 8


def probe(subject: Subject) -> list[Finding]:
    """Compare the logits at every position, with two sentences in the batch."""
    if subject.cached is None:
        raise UndecidedError("pass `cached` to examine the cache")
    source, target = subject.sources(2, 7), subject.tokens(2, LENGTH, 1)
    full = subject.predict(source, target)
    differences = change(full, subject.predict(source, target, function="cached")).amax(dim=0)
    wrong = (differences > 100 * CHANGED).nonzero().flatten().tolist()
    if not wrong:
        return [Finding(NAMES[0], "ok", "the cache gives the logits of the full pass")]
    cause = {
        0: "is the mask right for a single query?",
        1: "are positions counted from the cached length, and are keys and values appended?",
    }.get(wrong[0], "are keys and values appended to the cache in every step?")
    return [
        Finding(
            NAMES[0],
            "fault",
            f"from position {wrong[0]} on, the logits with the cache differ by up to "
            f"{float(torch.max(differences)):.2g} standard deviations from the full pass; {cause}",
        )
    ]
