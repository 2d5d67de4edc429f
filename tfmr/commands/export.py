"""``export``: write a small checkpoint for inference only."""

import sys
from dataclasses import dataclass
from pathlib import Path

from tfmr.data.files import explain_os_error
from tfmr.errors import TfmrError, require


@dataclass(frozen=True)
class Export:
    """Write a checkpoint for inference only: the model in half precision and its tokenizer.

    The file is about one eighth the size of the run's checkpoint. The commands translate and
    evaluate accept it as --model; training cannot resume from it.

    Example: python -m tfmr export --model runs/pocket-en-fr --out pocket.safetensors
    """

    out: Path
    """The file to write; must not exist."""
    model: Path = Path("runs/pocket-en-fr")
    """A run directory, a checkpoint file, or the name of a model of the package: multi30k-de-en,
    pocket-en-fr or pocket-en-ko."""

    def __call__(self) -> None:
        """Write the file and print its size."""
        from tfmr import checkpoint

        require(
            not self.out.exists(),
            f"{self.out} already exists: choose another file with --out, or delete it",
        )
        saved = checkpoint.strip_for_inference(checkpoint.load(checkpoint.find(self.model)))
        try:
            checkpoint.save(self.out, saved)
        except OSError as error:
            raise TfmrError(
                f"cannot write {self.out}: {explain_os_error(error)}, or choose another file with "
                "--out"
            ) from error
        size = self.out.stat().st_size / 1e6
        print(f"wrote {self.out}: {size:.1f} MB, for inference only", file=sys.stderr)
