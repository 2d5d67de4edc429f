"""The package reference: a page with the names that ``tfmr`` exports, and one page per module.

The pages of the modules are written to ``book/api`` when the site is built; ``_toc.yml`` includes
all pages of the folder.
"""

import importlib
import inspect
import re
import shutil
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx
from sphinx.config import Config

import tfmr
from tools import module_order

PAGE = "book/api"
EXPORTS_MARK = "<!-- exports -->"
MODULES_MARK = "<!-- modules -->"
MODULE = """# {module}

```{{eval-rst}}
.. automodule:: {module}
   :members:
   :ignore-module-all:
   :no-value:
   :exclude-members: set
```
"""
"""``set`` is a method that matplotlib generates for every figure class, with its own markup."""
HIDDEN = re.compile(r"_|ch\d\d")
"""Private modules, and those that contain the exercises of a chapter and their solutions."""
DEFINITION = re.compile(r"^(class|def) (?!_)", re.MULTILINE)


def modules(package: Path) -> list[str]:
    """Dotted names of the modules below ``package``, in the order of the package.

    A subpackage is included if it defines a public class or function itself.
    """
    order = module_order()
    found = []
    for file in package.rglob("*.py"):
        parts = file.relative_to(package.parent).with_suffix("").parts
        if parts[-1] == "__init__" and DEFINITION.search(file.read_text("utf-8")):
            parts = parts[:-1]
        # The package itself is described at the top of the page, by its exports.
        if len(parts) > 1 and not any(HIDDEN.match(part) for part in parts):
            found.append(parts)

    def rank(parts: tuple[str, ...]) -> tuple[int, tuple[str, ...]]:
        return (order.index(parts[1]) if parts[1] in order else len(order), parts)

    return [".".join(parts) for parts in sorted(found, key=rank)]


def write_pages(app: Sphinx, config: Config) -> None:
    """Write a page for each module, and delete the pages of an earlier build."""
    folder = Path(app.srcdir, PAGE)
    shutil.rmtree(folder, ignore_errors=True)
    for module in modules(Path(app.srcdir, "tfmr")):
        page = folder / f"{module.partition('.')[2].replace('.', '-')}.md"
        page.parent.mkdir(exist_ok=True)
        page.write_text(MODULE.format(module=module), encoding="utf-8")


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


def fill_page(app: Sphinx, docname: str, source: list[str]) -> None:
    """Replace the marks of the first page by the lists of exports and of modules."""
    if docname == PAGE:
        names = modules(Path(app.srcdir, "tfmr"))
        source[0] = source[0].replace(EXPORTS_MARK, exports(tfmr))
        source[0] = source[0].replace(MODULES_MARK, contents(names))


def keep_first_line(
    app: Sphinx | None, what: str, name: str, value: object, options: object, lines: list[str]
) -> None:
    """Keep napoleon from splitting the docstrings of attributes and properties.

    Napoleon interprets the words before a colon in the first line as a type. An empty comment
    before that line prevents this.
    """
    if what in ("attribute", "data", "property"):
        lines[:0] = ["..", ""]
