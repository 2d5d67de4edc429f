"""The option ``--plot`` of several commands: the file of a picture."""

from pathlib import Path
from typing import TYPE_CHECKING

from tfmr.data.files import write_atomic
from tfmr.errors import require

if TYPE_CHECKING:
    from tfmr.figures.style import Figure


def check_plot(path: Path | None) -> None:
    """Raise :class:`TfmrError` unless the ending of the file names a format of pictures."""
    require(
        path is None or path.suffix in (".png", ".svg", ".pdf"),
        f"expected --plot with the ending .png, .svg or .pdf, got {path}",
    )


def save_plot(path: Path, figure: "Figure") -> None:
    """Write a figure in the format that the ending of the file names."""
    kind = path.suffix.removeprefix(".")
    write_atomic(path, lambda temporary: figure.savefig(temporary, format=kind, dpi=150))
