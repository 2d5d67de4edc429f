"""The tools behind the Makefile; each is run as ``python -m tools.<name>``."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
"""The root folder of the project."""


def module_order() -> tuple[str, ...]:
    """The modules of the package, lowest first: the diagram with arrows in its docstring."""
    import tfmr

    lines = (tfmr.__doc__ or "").splitlines()
    return tuple(re.findall(r"\w+", " ".join(line for line in lines if "→" in line)))


def published(name: str, root: Path = ROOT) -> str | None:
    """The project's published address ``name`` in ``[project.urls]``, or ``None`` if not published.

    ``Repository`` and ``Documentation`` are the only places where the addresses are set.
    """
    project = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["project"]
    address: str | None = project.get("urls", {}).get(name)
    return address
