"""What the command examines: a Python file, a run directory, or a table with a curve."""

import sys
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from tfmr import checkpoint
from tfmr.doctor.curve import Curve, read_curve, read_validations
from tfmr.doctor.subject import Subject
from tfmr.errors import require
from tfmr.exercises.files import run_file
from tfmr.special_tokens import BOS, EOS, PAD
from tfmr.train.loss import cross_entropy

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


def run_subject(folder: Path) -> Subject:
    """The translator of a run directory.

    Raises:
        TfmrError: if there is none.
    """
    model, _ = checkpoint.load_translator(folder)

    def cached(source: Tensor, target: Tensor) -> Tensor:
        state = model.start(source, target.shape[1])
        return torch.stack([model.step(each, state) for each in target.unbind(1)], dim=1)

    def loss(source: Tensor, target: Tensor) -> Tensor:
        return cross_entropy(model(source, target[:, :-1]), target[:, 1:])

    return Subject(
        model=model,
        logits=model,
        cached=cached,
        loss=loss,
        vocab=model.config.target_vocab,
        source_vocab=model.config.source_vocab,
        parameters=model.count_parameters(),
        pad=PAD,
        bos=BOS,
        eos=EOS,
    )


def run_curve(folder: Path) -> Curve | None:
    """The training curve of a run directory with its validations; ``None`` if it has no curve."""
    if not (folder / "curve.csv").is_file():
        return None
    curve = read_curve(folder / "curve.csv")
    if not (folder / "valid.csv").is_file():
        return curve
    return replace(curve, valid_loss=read_validations(folder / "valid.csv"))
