"""``export``: write a small checkpoint for inference only, or a page that translates."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tfmr.data.files import explain_os_error, write_atomic
from tfmr.errors import TfmrError, require

if TYPE_CHECKING:
    from tfmr.checkpoint import Checkpoint

EXAMPLES = 4
"""Maximum number of test sentences that a page offers."""


@dataclass(frozen=True)
class Export:
    """Write a checkpoint for inference only, or a web page that translates with the model.

    The checkpoint has the model in half precision and its tokenizer, and is about one eighth the
    size of the run's. The commands translate and evaluate accept it as --model; training cannot
    resume from it.

    The page is one HTML file with the model, whose weights are rounded to 8-bit integers. It opens
    in a browser with a double click, needs no network, and also shows the most probable
    alternatives and the attention weights.

    Example: python -m tfmr export --model runs/pocket-en-fr --out pocket.safetensors

    Example: python -m tfmr export --model runs/pocket-en-fr --page --out pocket.html
    """

    out: Path
    """The file to write; must not exist."""
    model: Path = Path("runs/pocket-en-fr")
    """A run directory, a checkpoint file, or the name of a model of the package: multi30k-de-en,
    pocket-en-fr or pocket-en-ko."""
    page: bool = False
    """Write a web page instead of a checkpoint."""

    def __call__(self) -> None:
        """Write the file and print its size."""
        from tfmr import checkpoint

        require(
            not self.out.exists(),
            f"{self.out} already exists: choose another file with --out, or delete it",
        )
        require(
            not self.page or self.out.suffix == ".html",
            f"expected --out with the ending .html for a page, got {self.out}",
        )
        path = checkpoint.find(self.model)
        saved = checkpoint.load(path)
        try:
            if self.page:
                text = self._page(saved, path)
                write_atomic(self.out, lambda file: file.write_text(text, encoding="utf-8"))
            else:
                checkpoint.save(self.out, checkpoint.strip_for_inference(saved))
        except OSError as error:
            raise TfmrError(
                f"cannot write {self.out}: {explain_os_error(error)}, or choose another file with "
                "--out"
            ) from error
        size = self.out.stat().st_size / 1e6
        use = "open it in a browser" if self.page else "for inference only"
        print(f"wrote {self.out}: {size:.1f} MB, {use}", file=sys.stderr)

    def _page(self, saved: "Checkpoint", path: Path) -> str:
        """The page, with some of the test sentences whose translations the run keeps."""
        from tfmr.widgets.translator_page import translator_page

        samples = path.with_name("samples.tsv")
        rows = samples.read_text(encoding="utf-8").splitlines() if samples.is_file() else []
        examples = [row.partition("\t")[0] for row in rows[1 : 1 + EXAMPLES]]
        name = self.model.resolve().name if self.model.exists() else self.model.name
        return translator_page(saved, name, examples)
