"""The mean of the last checkpoints: what translates in the paper (Vaswani et al., 2017, 6.1)."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path

from torch import Tensor

from tfmr.errors import require
from tfmr.train import checkpoint
from tfmr.train.checkpoint import Checkpoint


def average_checkpoints(paths: Sequence[Path]) -> Checkpoint:
    """The mean of the weights of several checkpoints of one run, ready to translate.

    Facts and version are those of the last.

    Raises:
        TfmrError: if there is none, one cannot be read, or they are not of one model and
            vocabulary.
    """
    require(bool(paths), "a mean is taken of one checkpoint at least: got none")
    last = checkpoint.load(paths[0])
    sums = {name: weight.double() for name, weight in last.weights.items()}
    for path in paths[1:]:
        this = checkpoint.load(path)
        require(
            (this.config, this.tokenizer.to_json()) == (last.config, last.tokenizer.to_json()),
            f"{path} holds another model or vocabulary than {paths[0]}: only checkpoints of one "
            "run have a mean",
        )
        last = this
        for name, weight in this.weights.items():
            sums[name] += weight
    mean = {name: (total / len(paths)).float() for name, total in sums.items()}
    return dataclasses.replace(last, weights=mean, state={})


class Kept:
    """The last few checkpoints of a run, kept apart for their mean.

    Args:
        folder: where they are.
        most: how many there are at most.
    """

    def __init__(self, folder: Path, most: int) -> None:
        self.folder = folder
        self.most = most
        self._mean: tuple[list[Path], dict[str, Tensor]] = ([], {})

    def paths(self, step: int) -> list[Path]:
        """The last of them up to ``step``, in order.

        A run that goes on from an earlier step finds some of its own future, and leaves it out.
        """
        paths = sorted(self.folder.glob("[0-9]*.safetensors"))
        paths = [path for path in paths if int(path.stem) <= step]
        return paths[max(0, len(paths) - self.most) :]

    def add(self, step: int, saved: Checkpoint) -> None:
        """Keep one more, and drop what is too much then."""
        checkpoint.save(self.folder / f"{step:08d}.safetensors", saved)
        self._mean = ([], {})
        for path in set(self.folder.glob("[0-9]*.safetensors")) - set(self.paths(step)):
            path.unlink()

    def mean(self, step: int) -> dict[str, Tensor]:
        """Their mean weights; nothing where none is kept. Read once for each one added."""
        paths = self.paths(step)
        if paths and self._mean[0] != paths:
            self._mean = (paths, average_checkpoints(paths).weights)
        return self._mean[1] if paths else {}
