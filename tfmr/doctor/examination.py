"""Run all probes on a subject."""

from types import ModuleType

from tfmr.doctor import (
    accumulation,
    batch,
    cache,
    future,
    loss,
    padding,
    positions,
    randomness,
    scale,
    tying,
)
from tfmr.doctor.finding import Finding, Report, UndecidedError
from tfmr.doctor.subject import Subject, evaluation
from tfmr.errors import TfmrError

PROBES: dict[ModuleType, tuple[str, ...]] = {
    randomness: (),
    batch: randomness.NAMES,
    future: randomness.NAMES + batch.NAMES,
    padding: randomness.NAMES + batch.NAMES + future.NAMES,
    positions: randomness.NAMES + batch.NAMES,
    scale: (),
    cache: randomness.NAMES + batch.NAMES + future.NAMES,
    tying: (),
    loss: randomness.NAMES,
    accumulation: batch.NAMES + future.NAMES + padding.NAMES + loss.NAMES,
}
"""The probes in their order, and for each the faults that it would confuse with its own."""
NAMES: tuple[str, ...] = tuple(name for module in PROBES for name in module.NAMES)
"""The faults of a model that the doctor knows."""


def examine(subject: Subject) -> Report:
    """Probe a model for common faults.

    The model is in evaluation mode during the probes; afterwards its weights, buffers, gradients,
    mode and the global random state are as before.

    Raises:
        TfmrError: if the subject cannot compute the logits of two sentences of eight tokens.
    """
    found: dict[str, Finding] = {}
    with evaluation(subject.model):
        try:
            subject.predict(subject.sources(2, 8), subject.tokens(2, 8, 1))
        except UndecidedError as reason:
            raise TfmrError(f"expected finite logits: {reason}") from reason
        for module, needed in PROBES.items():
            blocking = [name for name in needed if _blocks(found[name])]
            found |= {each.name: each for each in _findings(module, subject, blocking)}
    return Report(tuple(found.values()))


def _blocks(finding: Finding) -> bool:
    """Whether the probes that need this one cannot interpret their measurements."""
    basic = randomness.NAMES + batch.NAMES + future.NAMES
    return finding.verdict == "fault" or (finding.verdict == "undecided" and finding.name in basic)


def _findings(module: ModuleType, subject: Subject, blocking: list[str]) -> list[Finding]:
    try:
        if blocking:
            raise UndecidedError(f"this depends on another finding: {', '.join(blocking)}")
        findings: list[Finding] = module.probe(subject)
    except (UndecidedError, TfmrError) as reason:
        return [Finding(name, "undecided", str(reason)) for name in module.NAMES]
    return findings
