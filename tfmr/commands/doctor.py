"""``doctor``: examine a model for common faults."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro


@dataclass(frozen=True)
class Doctor:
    """Examine your own model for common faults.

    The subject is a Python file that defines `subject`, a tfmr.doctor.Subject.

    Example: python -m tfmr doctor my_model.py

    The file is run, so examine only files that you trust. The exit status is 1 if a fault is found.
    """

    subject: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="FILE.py")]
    """The file."""

    def __call__(self) -> None:
        """Print the report.

        Raises:
            SystemExit: with status 1, if a fault is found.
        """
        from tfmr.doctor import examine
        from tfmr.doctor.files import load_subject

        report = examine(load_subject(self.subject))
        print(report)
        if report.faults:
            sys.exit(1)
