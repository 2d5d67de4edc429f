"""Name what is wrong with a training run from its curve.

The limits of the probes separate the recorded runs of ``benchmarks/curves.py``.
"""

import csv
import json
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from typing import Any

from matplotlib.figure import Figure

from tfmr.doctor.events import read_events
from tfmr.doctor.finding import Finding, Report, UndecidedError
from tfmr.errors import TfmrError, require
from tfmr.figures.training import loss_gallery
from tfmr.records import record_path

COLUMNS = {
    "step": ("step", "steps", "iteration", "iter"),
    "loss": ("loss", "train_loss", "training_loss", "loss_train"),
    "valid_loss": ("valid_loss", "val_loss", "validation_loss", "eval_loss", "loss_valid"),
    "learning_rate": ("learning_rate", "lr", "train_learning_rate", "train_lr"),
    "weight_norm": ("weight_norm", "train_weight_norm"),
}
"""The columns that are used, and the names under which they are found (see :func:`_find`)."""
Number = int | float
ROWS = 8
"""The smallest number of rows."""


@dataclass(frozen=True)
class Curve:
    """The columns of a training curve; those that the table lacks are empty.

    Raises:
        TfmrError: unless the steps increase.
    """

    step: Sequence[Number]
    loss: Sequence[Number]
    """Mean training loss per token."""
    valid_loss: Sequence[tuple[Number, Number]] = ()
    """Steps and validation losses."""
    learning_rate: Sequence[Number] = ()
    weight_norm: Sequence[Number] = ()

    def __post_init__(self) -> None:
        for before, after in pairwise(self.step):
            require(
                before < after,
                f"expected increasing steps, got {after:g} after {before:g}; keep one run only",
            )

    def between(self, start: float, end: float) -> float:
        """The mean training loss between two fractions of the run.

        If the table has no row there, the loss of the row that is nearest to the middle.
        """
        points = list(zip(self.step, self.loss, strict=True))
        inside = self._inside(points, start, end)
        middle = (start + end) / 2 * self.step[-1]
        return fmean(inside or [min(points, key=lambda point: abs(point[0] - middle))[1]])

    def valid_between(self, start: float, end: float) -> float:
        """The mean validation loss between two fractions of the run.

        Raises:
            UndecidedError: if the curve has none there.
        """
        inside = self._inside(self.valid_loss, start, end)
        if not inside:
            raise UndecidedError(f"no validation loss between {start:.0%} and {end:.0%} of the run")
        return fmean(inside)

    def _inside(
        self, points: Sequence[tuple[Number, Number]], start: float, end: float
    ) -> list[Number]:
        last = self.step[-1]
        return [y for x, y in points if start <= x / last <= end]


def read_curve(path: Path) -> Curve:
    """Read a CSV table with the columns ``step`` and ``loss``, and others of :data:`COLUMNS`.

    Raises:
        TfmrError: if the file cannot be read, or lacks a column or rows.
    """
    try:
        with path.open(newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise TfmrError(f"cannot read the curve {path}: {error}") from error
    names = _find(rows[0] if rows else {})
    require(
        None not in (names["step"], names["loss"]),
        f"expected the columns step and loss in {path}, with a row for every measurement",
    )

    def column(name: str | None) -> list[float]:
        try:
            return [float(row[name]) if row[name] else math.nan for row in rows] if name else []
        except (ValueError, TypeError) as error:
            raise TfmrError(f"expected numbers in the column {name} of {path}: {error}") from error

    values = {key: column(name) for key, name in names.items()}
    valid = [
        (x, y)
        for x, y in zip(values["step"], values["valid_loss"], strict=False)
        if not math.isnan(y)
    ]
    require(
        len(rows) >= ROWS,
        f"expected at least {ROWS} rows in {path}, got {len(rows)}; log the loss more often",
    )
    return Curve(**{**values, "valid_loss": valid})  # type: ignore[arg-type]


def read_tensorboard(path: Path) -> Curve:
    """Read a training curve from an event file of TensorBoard, or from a folder with such files.

    The tags are those of :data:`COLUMNS`, for example ``train/loss`` and ``eval/loss``.

    Raises:
        TfmrError: if there is no event file, or it cannot be read, or has no training loss, or too
            few values.
    """
    scalars = read_events(path)
    names = _find(scalars)
    found = {key: scalars[name] for key, name in names.items() if name is not None}
    require(
        "loss" in found,
        f"expected a tag such as train/loss in {path}, got: {', '.join(sorted(scalars)) or 'none'}",
    )
    steps = sorted(found["loss"])
    require(
        len(steps) >= ROWS,
        f"expected at least {ROWS} training losses in {path}, got {len(steps)}; log more often",
    )
    values = {
        key: [found[key][step] for step in steps]
        for key in ("loss", "learning_rate", "weight_norm")
        if found.get(key, {}).keys() >= set(steps)
    }
    return Curve(steps, valid_loss=sorted(found.get("valid_loss", {}).items()), **values)


def _find(names: Iterable[str]) -> dict[str, str | None]:
    """For each of :data:`COLUMNS`, the first of ``names`` that is one of its names.

    Upper case is the same as lower case, and a slash the same as an underscore.
    """
    plain = {name.lower().replace("/", "_"): name for name in names}
    return {
        column: next((plain[name] for name in known if name in plain), None)
        for column, known in COLUMNS.items()
    }


def read_validations(path: Path) -> list[tuple[float, float]]:
    """The steps and losses in the ``valid.csv`` of a run directory."""
    with path.open(newline="", encoding="utf-8") as file:
        return [(float(row["step"]), float(row["loss"])) for row in csv.DictReader(file)]


def diagnose(curve: Curve) -> Report:
    """Probe a training curve for common faults."""
    findings: list[Finding] = []
    for name, probe in PROBES.items():
        try:
            if any(each.name == "rate too high" and each.verdict == "fault" for each in findings):
                raise UndecidedError("this depends on another finding: rate too high")
            text, is_fault = probe(curve)
            findings.append(Finding(name, "fault" if is_fault else "ok", text))
        except UndecidedError as reason:
            findings.append(Finding(name, "undecided", str(reason)))
    return Report(tuple(findings))


def _rate(curve: Curve) -> tuple[str, bool]:
    if not all(map(math.isfinite, curve.loss)):
        return "the loss is not finite; lower the learning rate, and clip the gradient", True
    start, end = float(curve.loss[0]), curve.between(0.9, 1.0)
    lowest = min(curve.between(k / 10, (k + 1) / 10) for k in range(10))
    if end > lowest + 0.3 * (start - lowest) and end > 1.1 * lowest:
        text = f"the loss rises from {lowest:.2f} to {end:.2f}; lower the learning rate"
        return text, True
    if not curve.weight_norm:
        raise UndecidedError("the loss does not diverge, and no weight norm is recorded")
    growth = curve.weight_norm[-1] / curve.weight_norm[0]
    stalls = curve.between(0.25, 0.35) > 0.5 * start
    if growth > 2 and stalls:
        return (
            f"the weight norm grows {growth:.1f}-fold while the loss stalls at "
            f"{end:.2f}; lower the learning rate",
            True,
        )
    return f"the loss does not rise, and the weight norm grows {growth:.2f}-fold", False


def _warmup(curve: Curve) -> tuple[str, bool]:
    if not curve.learning_rate:
        raise UndecidedError("no learning rate is recorded")
    if max(curve.learning_rate) > 1.01 * curve.learning_rate[0]:
        return "the learning rate rises at the beginning", False
    start, early, later = float(curve.loss[0]), curve.between(0.06, 0.1), curve.between(0.2, 0.3)
    if later > 0.6 * start and early - later < 0.5 * (start - early):
        return (
            f"the learning rate is highest at the first step, and the loss stalls at {later:.2f} "
            "after a short fall; increase the learning rate over the first few hundred steps",
            True,
        )
    return "the learning rate is highest at the first step, and the loss falls steadily", False


def _overfitting(curve: Curve) -> tuple[str, bool]:
    train, valid = curve.between(0.9, 1.0), curve.valid_between(0.9, 1.0)
    lowest, at = min((y, x / curve.step[-1]) for x, y in curve.valid_loss)
    rises = (
        at < 0.8
        and valid > max(1.05 * lowest, lowest + 0.1)
        and train < 0.95 * curve.between(at - 0.05, at + 0.05)
    )
    half = curve.valid_between(0.45, 0.55)
    stays = valid > max(1.3 * train, train + 0.3) and valid > 0.9 * half
    if rises or stays:
        return (
            f"the validation loss ends at {valid:.2f}; its lowest value is {lowest:.2f}, and the "
            f"training loss falls to {train:.2f}; stop at the lowest value, or use more data "
            "or dropout",
            True,
        )
    return (
        f"at the end, the training loss is {train:.2f} and the validation loss {valid:.2f}",
        False,
    )


def _leak(curve: Curve) -> tuple[str, bool]:
    early = curve.valid_between(0.15, 0.3) if curve.valid_loss else curve.between(0.15, 0.3)
    if early < 0.2:
        return (
            f"the loss is {early:.2f} nats after a quarter of the run; unless the task is as easy "
            "as copying, the input contains the labels: examine the model (sees the future, labels "
            "not shifted)",
            True,
        )
    return f"the loss is {early:.2f} nats after a quarter of the run", False


def _not_learning(curve: Curve) -> tuple[str, bool]:
    start, end = float(curve.loss[0]), curve.between(0.9, 1.0)
    if end < 0.9 * start:
        return f"the loss falls from {start:.2f} to {end:.2f}", False
    if start < 3:
        raise UndecidedError(f"the loss starts at {start:.2f} nats, as for a trained model")
    return (
        f"the loss stays near its first value, {start:.2f} (last: {end:.2f}); raise the learning "
        "rate, and check that the optimiser has the parameters of this model",
        True,
    )


PROBES: dict[str, Callable[[Curve], tuple[str, bool]]] = {
    "rate too high": _rate,
    "no warm-up": _warmup,
    "overfitting": _overfitting,
    "leak": _leak,
    "not learning": _not_learning,
}
"""The probes of a curve, by the fault that each finds."""


def healthy_curve() -> Curve:
    """The recorded curve of a healthy run, for comparison."""
    rows = json.loads(record_path("curves.json").read_text("utf-8"))["rows"]
    return recorded_curve([row for row in rows if (row["run"], row["seed"]) == ("healthy", 1)])


def recorded_curve(rows: Sequence[dict[str, Any]]) -> Curve:
    """The curve of one run of ``curves.json``."""
    columns = {name: [row[name] for row in rows] for name in COLUMNS}
    valid = list(zip(columns["step"], columns["valid_loss"], strict=True))
    return Curve(**{**columns, "valid_loss": valid})


def compare(curve: Curve) -> Figure:
    """The curve beside that of a healthy run."""

    def points(each: Curve) -> list[tuple[int, float, float]]:
        valid = dict(each.valid_loss)
        steps = [x for x in each.step if x in valid] or each.step
        loss = dict(zip(each.step, each.loss, strict=True))
        return [(int(x), float(loss[x]), float(valid.get(x, math.nan))) for x in steps]

    return loss_gallery({"your run": [points(curve)], "a healthy run": [points(healthy_curve())]})
