"""The reference of the package: one section a module, from the bottom of the package up."""

import re
import sys
from pathlib import Path

from sphinx.application import Sphinx

import tfmr

PAGE = "book/api"
MARK = "<!-- modules -->"
ORDER = tuple(re.findall(r"\w+", (tfmr.__doc__ or "").partition("::")[2].partition("Axis")[0]))
"""As the package itself says it."""
DEFINITION = re.compile(r"^(class|def) ", re.MULTILINE)
SECTION = """## {module}

```{{eval-rst}}
.. automodule:: {module}
   :members:
   :ignore-module-all:
   :no-value:
   :exclude-members: set
```
"""
"""``set`` is a method that matplotlib writes, in its own markup, for every class of figures."""


def modules(package: Path) -> list[str]:
    """Dotted names of the modules below ``package``, in the order in which the book needs them.

    A package is one of them if it defines something itself.
    """
    found = []
    for file in package.rglob("*.py"):
        parts = file.relative_to(package.parent).with_suffix("").parts
        if parts[-1] == "__init__" and DEFINITION.search(file.read_text("utf-8")):
            parts = parts[:-1]
        if not any(part.startswith("_") for part in parts):
            found.append(parts)

    def rank(parts: tuple[str, ...]) -> tuple[int, tuple[str, ...]]:
        return (ORDER.index(parts[1]) if parts[1] in ORDER else len(ORDER), parts)

    return [".".join(parts) for parts in sorted(found, key=rank)]


def fill(app: Sphinx, docname: str, source: list[str]) -> None:
    """Put a section for every module where the page marks their place."""
    if docname == PAGE:
        names = modules(Path(app.srcdir, "tfmr"))
        source[0] = source[0].replace(
            MARK, "\n".join(SECTION.format(module=name) for name in names)
        )


def keep_whole(
    app: Sphinx | None, what: str, name: str, value: object, options: object, lines: list[str]
) -> None:
    """Keep what is said of a value, or of a property, in one piece.

    Napoleon takes the words before the first colon of its first line for a type. It finds none in a
    comment of no words.
    """
    if what in ("attribute", "data", "property"):
        lines[:0] = ["..", ""]


def setup(app: Sphinx) -> dict[str, bool]:
    """Connect this extension to Sphinx."""
    sys.path.insert(0, str(app.srcdir))
    app.connect("source-read", fill)
    app.connect("autodoc-process-docstring", keep_whole, priority=400)  # napoleon's is 500
    return {"parallel_read_safe": True, "parallel_write_safe": True}
