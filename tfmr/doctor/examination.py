"""Run all probes on a subject."""

from collections.abc import Callable
from types import ModuleType

from tfmr.doctor import batch, future, padding, randomness
from tfmr.doctor.finding import Finding, Report, UndecidedError
from tfmr.doctor.subject import Subject, evaluation
from tfmr.errors import TfmrError

PROBES: dict[ModuleType, tuple[ModuleType, ...]] = {
    randomness: (),
    batch: (randomness,),
    future: (),
    padding: (randomness, batch, future),
}
"""The probes in their order, and for each the probes whose faults it would confuse with its own."""


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
            blocking = [each.NAME for each in needed if found[each.NAME].verdict == "fault"]
            found[module.NAME] = _finding(module.NAME, module.probe, subject, blocking)
    return Report(tuple(found.values()))


def _finding(
    name: str, probe: Callable[[Subject], Finding], subject: Subject, blocking: list[str]
) -> Finding:
    if blocking:
        return Finding(name, "undecided", f"first repair: {', '.join(blocking)}")
    try:
        return probe(subject)
    except (UndecidedError, TfmrError) as reason:
        return Finding(name, "undecided", str(reason))
