"""What the doctor reports: one finding per probe, and all of them as a table."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

Verdict = Literal["ok", "fault", "undecided"]
MARKS = {"ok": "ok", "fault": "FAULT", "undecided": "?"}


@dataclass(frozen=True)
class Finding:
    """The result of one probe."""

    name: str
    """The fault that the probe searches for, such as ``sees the future``."""
    verdict: Verdict
    """Whether the fault was found; ``undecided`` if the probe cannot tell."""
    text: str
    """What was measured, and with a fault, what to do; or why the probe cannot decide."""

    def __str__(self) -> str:
        return f"{MARKS[self.verdict]:5}  {self.name:26}  {self.text}"


class UndecidedError(Exception):
    """Raised in a probe that cannot decide; the message is the reason."""


@dataclass(frozen=True, repr=False)
class Report:
    """The findings of all probes, in the order of the probes."""

    findings: tuple[Finding, ...]

    @property
    def faults(self) -> list[Finding]:
        """The findings that are faults."""
        return [each for each in self.findings if each.verdict == "fault"]

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.findings)

    def __getitem__(self, name: str) -> Finding:
        """The finding of the probe with this name."""
        return {each.name: each for each in self.findings}[name]

    def __repr__(self) -> str:
        count = {kind: sum(each.verdict == kind for each in self.findings) for kind in MARKS}
        faults = f"{count['fault']} fault{'' if count['fault'] == 1 else 's'}"
        return "\n".join(
            [
                *map(str, self.findings),
                f"{faults}, {count['undecided']} undecided, {count['ok']} ok",
            ]
        )
