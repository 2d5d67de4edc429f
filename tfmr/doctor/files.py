"""A subject in a Python file."""

import sys
from pathlib import Path

from tfmr.doctor.subject import Subject
from tfmr.errors import require
from tfmr.exercises.files import run_file

SECONDS = 60.0
"""The time limit of the file, which may import large packages."""


def load_subject(path: Path) -> Subject:
    """Run a Python file; return its global ``subject``. It can import modules of its folder.

    Raises:
        TfmrError: if the file cannot be read or run, or defines no subject.
    """
    folder = str(path.parent.resolve())
    sys.path.insert(0, folder)
    try:
        names = run_file(path, SECONDS)
    finally:
        sys.path.remove(folder)
    subject = names.get("subject")
    require(
        isinstance(subject, Subject),
        f"expected a global variable `subject` in {path}, a tfmr.doctor.Subject; see "
        "`help(tfmr.doctor)`",
    )
    assert isinstance(subject, Subject)
    return subject
