"""TensorBoard, for those who have it: the same numbers as in the folder's tables, as events."""

import importlib
from pathlib import Path
from types import TracebackType
from typing import Any

from tfmr.train.evaluation import ValidationResult
from tfmr.train.trainer import StepRecord


class Board:
    """Writes a run's numbers for TensorBoard, or nothing where TensorBoard is not installed.

    Args:
        folder: where the event files go.
        step: the step that the run goes on from; what an earlier process wrote after it is void.
        first: whether this process writes at all.
    """

    def __init__(self, folder: Path, step: int, first: bool = True) -> None:
        self.writer: Any = None
        if not first:
            return
        try:
            events = importlib.import_module("torch.utils.tensorboard")
        except ImportError:
            return
        self.writer = events.SummaryWriter(str(folder), purge_step=step + 1)

    def step(self, step: StepRecord) -> None:
        """Add a training step."""
        if self.writer is not None:
            for name in ("loss", "grad_norm", "weight_norm", "learning_rate"):
                self.writer.add_scalar(f"train/{name}", getattr(step, name), step.step)

    def look(self, look: ValidationResult) -> None:
        """Add a look at the validation part."""
        if self.writer is not None:
            self.writer.add_scalar("valid/loss", look.loss, look.step)
            if look.bleu is not None:
                self.writer.add_scalar("valid/bleu", look.bleu, look.step)

    def __enter__(self) -> "Board":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.writer is not None:
            self.writer.close()
