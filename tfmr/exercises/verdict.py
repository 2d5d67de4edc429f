"""What a check reports about an answer."""

from dataclasses import dataclass
from typing import Literal

Kind = Literal["right", "right, but", "mistake", "wrong", "raised", "not attempted"]


@dataclass(frozen=True, repr=False)
class Verdict:
    """The result of a check: its kind, one sentence, and what helps to continue."""

    kind: Kind
    headline: str
    """One line."""
    details: str = ""

    @property
    def solved(self) -> bool:
        """Whether the answer is right."""
        return self.kind in ("right", "right, but")

    def __repr__(self) -> str:
        return f"{self.headline}\n{self.details}".rstrip()
