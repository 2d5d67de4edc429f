"""The package reference: a page with the names that ``tfmr`` exports, and one page per module."""

import importlib
import inspect
import sys
from typing import Any

from sphinx.application import Sphinx

import tfmr
from tools import ROOT
from tools.api_pages import MODULE_MARK, PAGE, modules

EXPORTS_MARK = "<!-- exports -->"
MODULES_MARK = "<!-- modules -->"
MODULE = """```{{eval-rst}}
.. automodule:: {module}
   :members:
   :ignore-module-all:
   :no-value:
   :exclude-members: set
```
"""
"""``set`` is a method that matplotlib generates for every figure class, with its own markup."""


def summary(value: Any) -> str:
    """The first paragraph of a docstring, in one line."""
    return " ".join((inspect.getdoc(value) or "").partition("\n\n")[0].split())


def exports(package: Any) -> str:
    """A reStructuredText list of the classes and functions that ``package`` exports.

    Each item is a link to the entry of the object on the page of its module, and the first
    sentence of its docstring.
    """
    items = []
    for name in package.__all__:
        value = getattr(package, name)
        if inspect.isclass(value) or inspect.isfunction(value):
            target = f"{value.__module__}.{value.__qualname__}"
            items.append(f"* :py:obj:`{name} <{target}>`: {summary(value)}")
    return "\n".join(["```{eval-rst}", *items, "```"])


def contents(names: list[str]) -> str:
    """A reStructuredText list of links to the modules, with the first sentence of each."""
    items = (f"* :py:mod:`{name}`: {summary(importlib.import_module(name))}" for name in names)
    return "\n".join(["```{eval-rst}", *items, "```"])


def fill(app: Sphinx | None, docname: str, source: list[str]) -> None:
    """Replace the marks of the pages with the lists of exports and modules, or with a module."""
    if docname == PAGE:
        names = modules(ROOT / "tfmr")
        source[0] = source[0].replace(EXPORTS_MARK, exports(tfmr))
        source[0] = source[0].replace(MODULES_MARK, contents(names))
    elif docname.startswith(f"{PAGE}/"):
        module = source[0].splitlines()[0].removeprefix("# ")
        source[0] = source[0].replace(MODULE_MARK, MODULE.format(module=module))


def keep_first_line(
    app: Sphinx | None, what: str, name: str, value: object, options: object, lines: list[str]
) -> None:
    """Keep napoleon from splitting the docstrings of attributes and properties.

    Napoleon interprets the words before a colon in the first line as a type. An empty comment
    before that line prevents this.
    """
    if what in ("attribute", "data", "property"):
        lines[:0] = ["..", ""]


def setup(app: Sphinx) -> dict[str, bool]:
    """Connect this extension to Sphinx."""
    sys.path.insert(0, str(app.srcdir))
    app.connect("source-read", fill)
    app.connect("autodoc-process-docstring", keep_first_line, priority=400)  # napoleon's is 500
    return {"parallel_read_safe": True, "parallel_write_safe": True}
