"""What the command examines: a Python file, a run directory, a table or TensorBoard's events."""

import sys
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from tfmr import checkpoint
from tfmr.doctor.curve import Curve, read_curve, read_tensorboard, read_validations
from tfmr.doctor.events import MARK
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
        f"expected a global variable `subject` of type tfmr.doctor.Subject in {path}; see "
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


def load_curve(path: Path) -> Curve | None:
    """The curve in a CSV table, in event files of TensorBoard, or in a run directory.

    ``None`` if ``path`` is a run directory without a curve, or another file.

    Raises:
        TfmrError: if the curve cannot be read.
    """
    if path.suffix == ".csv":
        return read_curve(path)
    if has_events(path):
        return read_tensorboard(path)
    if not (path / "curve.csv").is_file():
        return None
    curve = read_curve(path / "curve.csv")
    if not (path / "valid.csv").is_file():
        return curve
    return replace(curve, valid_loss=read_validations(path / "valid.csv"))


def load_model(path: Path) -> Subject | None:
    """The subject of a Python file or the translator of a run; ``None`` for a file with a curve."""
    if path.suffix == ".csv" or has_events(path):
        return None
    return run_subject(path) if path.is_dir() else load_subject(path)


def has_events(path: Path) -> bool:
    """Whether ``path`` is an event file of TensorBoard, or a folder with event files."""
    return any(path.glob(f"*{MARK}*")) if path.is_dir() else MARK in path.name
