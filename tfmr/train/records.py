"""What a run writes down besides its model: a row for each step, for each look, and samples."""

import csv
import dataclasses
from collections.abc import Sequence
from pathlib import Path

from tfmr.errors import TfmrError, require
from tfmr.train.evaluation import ValidationResult, best_validation, sentence_chrf
from tfmr.train.trainer import StepRecord

SAMPLES = 20
"""Translations kept for a person to read."""


def curve_text(curve: Sequence[StepRecord]) -> str:
    """The curve as CSV: a header and a row per step."""
    names = [field.name for field in dataclasses.fields(StepRecord)]
    rows = [names, *([_cell(getattr(step, name)) for name in names] for step in curve)]
    return "".join(",".join(row) + "\n" for row in rows)


def read_curve(path: Path) -> list[StepRecord]:
    """The curve that a run wrote, a :class:`StepRecord` per row.

    Raises:
        TfmrError: if there is no such file or it is no curve.
    """
    require(path.is_file(), f"no curve at {path}: it is written beside a run's checkpoint")
    names = [field.name for field in dataclasses.fields(StepRecord)]
    try:
        with path.open(newline="", encoding="utf-8") as file:
            return [
                StepRecord(
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


def looks_text(looks: Sequence[ValidationResult]) -> str:
    """The looks at the validation part as CSV, with a column that marks each best one so far."""
    lines = ["step,seconds,loss,bleu,best"]
    for place, look in enumerate(looks):
        bleu = "" if look.bleu is None else f"{look.bleu:.2f}"
        best = int(best_validation(looks[: place + 1]) == place)
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
