"""What a run writes down besides its model: a row for each step, for each look, and samples."""

import csv
import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tfmr.errors import TfmrError, require
from tfmr.train.evaluate import sentence_chrf
from tfmr.train.trainer import Step

SAMPLES = 20
"""Translations kept for a person to read."""


@dataclass(frozen=True)
class Look:
    """What the validation part said about the model on the way."""

    step: int
    """After so many steps."""
    seconds: float
    """Training time so far."""
    loss: float
    """Cross-entropy in nats per token, unsmoothed."""
    bleu: float | None
    """Of greedy translations; ``None`` where the loss decides and nothing was translated."""

    def better_than(self, other: "Look") -> bool:
        """Whether this look found a better model: by BLEU where it is known, then by the loss."""
        if self.bleu is not None and other.bleu is not None and self.bleu != other.bleu:
            return self.bleu > other.bleu
        return self.loss < other.loss


def best_look(looks: Sequence[Look]) -> int | None:
    """The place of the best look, the first of equals; ``None`` if there is none."""
    best: int | None = None
    for place, look in enumerate(looks):
        if best is None or look.better_than(looks[best]):
            best = place
    return best


def curve_text(curve: Sequence[Step]) -> str:
    """The curve as CSV: a header and a row per step."""
    names = [field.name for field in dataclasses.fields(Step)]
    rows = [names, *([_cell(getattr(step, name)) for name in names] for step in curve)]
    return "".join(",".join(row) + "\n" for row in rows)


def read_curve(path: Path) -> list[Step]:
    """The curve that a run wrote, a :class:`Step` per row.

    Raises:
        TfmrError: if there is no such file or it is no curve.
    """
    require(path.is_file(), f"no curve at {path}: it is written beside a run's checkpoint")
    names = [field.name for field in dataclasses.fields(Step)]
    try:
        with path.open(newline="", encoding="utf-8") as file:
            return [
                Step(
                    step=int(row.pop("step")),
                    tokens=int(row.pop("tokens")),
                    **{k: float(v) for k, v in row.items()},
                )
                for row in csv.DictReader(file)
            ]
    except (KeyError, TypeError, ValueError) as error:
        raise TfmrError(
            f"{path} is no curve: expected the columns {', '.join(names)} ({error!r})"
        ) from error


def looks_text(looks: Sequence[Look]) -> str:
    """The looks at the validation part as CSV, with a column that marks each best one so far."""
    lines = ["step,seconds,loss,bleu,best"]
    for place, look in enumerate(looks):
        bleu = "" if look.bleu is None else f"{look.bleu:.2f}"
        best = int(best_look(looks[: place + 1]) == place)
        lines.append(f"{look.step},{_cell(look.seconds)},{look.loss:.6f},{bleu},{best}")
    return "\n".join(lines) + "\n"


def samples_text(sources: Sequence[str], references: Sequence[str], outputs: Sequence[str]) -> str:
    r"""Twenty translations at even distances, so that nobody picked them, each with its chrF.

    A young model may say tabs and ends of lines: here they are spaces.

    >>> samples_text(["a"], ["b"], ["c\td\u2028e"]).splitlines()[1]
    'a\tb\tc d e\t0.0'
    """
    rows = ["source\treference\ttranslation\tchrF"]
    for index in range(0, len(outputs), max(1, len(outputs) // SAMPLES)):
        texts = (sources[index], references[index], outputs[index])
        score = sentence_chrf(outputs[index], references[index])
        rows.append("\t".join([*(" ".join(text.split()) for text in texts), f"{score:.1f}"]))
    return "\n".join(rows) + "\n"


def _cell(value: int | float) -> str:
    """A number as a table holds it: whole, or to nine digits, which tell any two fp32 apart."""
    return str(value) if isinstance(value, int) else f"{value:.9g}"
