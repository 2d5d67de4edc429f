"""``export``: a model to give away."""

import sys
from dataclasses import dataclass
from pathlib import Path

from tfmr.errors import TfmrError, require
from tfmr.train import checkpoint


@dataclass(frozen=True)
class Export:
    """Write a model for translating alone: its weights in half precision, and its vocabulary.

    The file is about a sixth to an eighth of the run's checkpoint. It is named to the other
    commands by --model; training cannot go on from it.
    """

    out: Path
    """The file to write, a .safetensors file."""
    model: Path = Path("runs/pocket-en-fr")
    """A run's folder or its model.safetensors."""

    def __call__(self) -> None:
        """Write, saying how large it has become."""
        require(
            not self.out.exists(),
            f"{self.out} exists already: name another file by --out, or remove it",
        )
        saved = checkpoint.slim(checkpoint.load(checkpoint.find(self.model)))
        try:
            checkpoint.save(self.out, saved)
        except OSError as error:
            raise TfmrError(f"cannot write {self.out}: {error}; name another by --out") from error
        size = self.out.stat().st_size / 1e6
        print(
            f"{self.out}: {size:.1f} MB, translates (--model {self.out}), cannot be resumed from",
            file=sys.stderr,
        )
