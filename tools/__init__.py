"""The tools behind the Makefile; each is run as ``python -m tools.<name>``."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
"""The root folder of the project."""


def module_order() -> tuple[str, ...]:
    """The modules of the package, lowest first: the diagram with arrows in its docstring."""
    import tfmr

    lines = (tfmr.__doc__ or "").splitlines()
    return tuple(re.findall(r"\w+", " ".join(line for line in lines if "→" in line)))
