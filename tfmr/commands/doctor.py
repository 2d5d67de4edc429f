"""``doctor``: examine a model or a training curve for common faults."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro


@dataclass(frozen=True)
class Doctor:
    """Examine your own model, or the curve of its training, for common faults.

    The subject is a Python file that defines `subject`, a tfmr.doctor.Subject; or the directory of
    a run; or a CSV table with the columns step and loss and, if you have them, valid_loss,
    learning_rate and weight_norm; or an event file of TensorBoard, or a folder with such files,
    with tags such as train/loss and eval/loss.

    Model: python -m tfmr doctor my_model.py

    Curve: python -m tfmr doctor curve.csv --figure curve.png

    A Python file is run, so examine only files that you trust. The exit status is 1 if a fault is
    found.
    """

    subject: Annotated[
        tyro.conf.Positional[Path], tyro.conf.arg(metavar="FILE.py|RUN|CURVE.csv|EVENTS")
    ]
    """What to examine."""
    figure: Path | None = None
    """Draw the curve beside that of a healthy run, and write it to this file."""

    def __call__(self) -> None:
        """Print the report.

        Raises:
            SystemExit: with status 1, if a fault is found.
        """
        from tfmr.doctor import diagnose, examine
        from tfmr.doctor.curve import compare
        from tfmr.doctor.files import load_curve, load_model
        from tfmr.errors import require

        curve = load_curve(self.subject)
        require(
            curve is not None or self.figure is None,
            f"expected a curve for --figure, but {self.subject} has none",
        )
        model = load_model(self.subject)
        reports = [] if model is None else [examine(model)]
        if curve is not None:
            reports.append(diagnose(curve))
        print(*reports, sep="\n")
        if curve is not None and self.figure is not None:
            compare(curve).savefig(self.figure)
        if any(report.faults for report in reports):
            sys.exit(1)
