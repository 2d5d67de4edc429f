"""The mean of the weights of a run's last checkpoints."""

import dataclasses
import os
import re
from collections.abc import Sequence
from pathlib import Path

from torch import Tensor

from tfmr.checkpoint import Checkpoint, load, save
from tfmr.errors import require


def average_checkpoints(paths: Sequence[str | os.PathLike[str]]) -> Checkpoint:
    """The mean of the weights of several checkpoints of one run, for inference.

    Vaswani et al. (2017), section 6.1. The metadata and the version are those of the last path.

    Raises:
        TfmrError: if there is no path, a file cannot be read, or the checkpoints differ in
            configuration or vocabulary.
    """
    require(bool(paths), "expected at least one checkpoint to average, got none")
    last = load(paths[0])
    sums = {name: weight.double() for name, weight in last.weights.items()}
    for path in paths[1:]:
        current = load(path)
        same_vocabulary = current.tokenizer.to_json() == last.tokenizer.to_json()
        require(
            current.config == last.config and same_vocabulary,
            f"{path} has another configuration or vocabulary than {paths[0]}: average checkpoints "
            "of one run",
        )
        last = current
        for name, weight in current.weights.items():
            sums[name] += weight
    means = {name: (total / len(paths)).float() for name, total in sums.items()}
    return dataclasses.replace(last, weights=means)


class CheckpointAverager:
    """Keeps the last checkpoints of a run and averages their weights.

    Args:
        folder: where the checkpoints are, named by their step.
        size: the maximum number of checkpoints; older ones are deleted.
    """

    def __init__(self, folder: str | os.PathLike[str], size: int) -> None:
        self.folder = Path(folder)
        self.size = size
        self._average: tuple[list[Path], dict[str, Tensor]] = ([], {})

    def paths(self, step: int) -> list[Path]:
        """The last ``size`` checkpoints up to ``step``, in order.

        After a resume, the folder may hold checkpoints of later steps. They are not included.
        """
        paths = [path for path in self._all() if int(path.stem) <= step]
        return paths[max(0, len(paths) - self.size) :]

    def add(self, step: int, saved: Checkpoint) -> None:
        """Save a checkpoint and delete those that are no longer among the last ``size``."""
        save(self.folder / f"{step:08d}.safetensors", saved)
        self._average = ([], {})
        for path in set(self._all()) - set(self.paths(step)):
            path.unlink()

    def _all(self) -> list[Path]:
        paths = sorted(self.folder.glob("*.safetensors"))
        return [path for path in paths if re.fullmatch("[0-9]{8,}", path.stem)]

    def average(self, step: int) -> dict[str, Tensor]:
        """The mean weights of :meth:`paths`; empty if there are none. The result is cached."""
        paths = self.paths(step)
        if paths and self._average[0] != paths:
            self._average = (paths, average_checkpoints(paths).weights)
        return self._average[1] if paths else {}
