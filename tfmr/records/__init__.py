"""The recorded results that the chapters read: runs that are too long for a page.

The modules of ``benchmarks`` write these files; ``benchmarks/README.md`` describes them.
"""

import difflib
from importlib.resources import files
from pathlib import Path

from tfmr.errors import TfmrError

FOLDER = Path(str(files("tfmr.records")))
"""The folder of the records in the installed package."""


def model_names() -> list[str]:
    """The names of the trained models of the package.

    >>> model_names()
    ['multi30k-de-en', 'pocket-en-fr', 'pocket-en-ko']
    """
    return sorted(path.parent.name for path in FOLDER.glob("*/model.safetensors"))


def record_path(name: str) -> Path:
    """The file or folder of a record.

    >>> record_path("cost/attention.json").name
    'attention.json'

    Args:
        name: path below the folder of the records, such as ``"architectures.json"`` or, for the
            recorded run with its model, ``"multi30k-de-en"``.

    Raises:
        TfmrError: if there is no such record; the message suggests a similar name.
    """
    path = FOLDER / name
    if not path.exists():
        existing = sorted(
            file.relative_to(FOLDER).as_posix()
            for file in FOLDER.rglob("*")
            if file.suffix not in ("", ".py", ".pyc")
        )
        near = difflib.get_close_matches(name, existing, n=1)
        hint = f"did you mean {near[0]}?" if near else "list that folder to see the records"
        raise TfmrError(f"expected the name of a record in {FOLDER}, got {name!r}; {hint}")
    return path
