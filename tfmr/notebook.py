"""An IPython extension for the chapters: ``%load_ext tfmr.notebook``.

A failing ``assert`` of a cell prints what differs from the book on stderr instead of raising an
exception, so that the notebook continues when a reader changes something. A
:class:`~tfmr.errors.TfmrError` is shown with its message and the reader's own line, without the
frames of the package. :func:`show_source` displays the package's source code, and
:func:`show_script` that of the live figures.

When the book is verified, an output on stderr is an error, and so is a failing ``assert``.
"""

import ast
import inspect
import linecache
import operator
import re
import reprlib
import sys
import textwrap
import traceback
from collections.abc import Callable, Sequence
from importlib.resources import files
from types import TracebackType
from typing import Any, cast

from tfmr.errors import TfmrError

COMPARISONS: dict[type[ast.cmpop], tuple[str, Callable[[Any, Any], Any]]] = {
    ast.Eq: ("==", operator.eq),
    ast.NotEq: ("!=", operator.ne),
    ast.Lt: ("<", operator.lt),
    ast.LtE: ("<=", operator.le),
    ast.Gt: (">", operator.gt),
    ast.GtE: (">=", operator.ge),
}
OPERATORS = dict(COMPARISONS.values())
EXPLANATION = (
    "This is expected if you changed something above; otherwise restart the kernel and run all "
    "cells."
)


class Source:
    """The source code of objects of the package, displayed as Markdown."""

    def __init__(self, *objects: Any) -> None:
        self.objects = objects

    def __repr__(self) -> str:
        return "source code of " + ", ".join(each.__qualname__ for each in self.objects)

    def _repr_markdown_(self) -> str:
        return "\n\n".join(_fenced(each) for each in self.objects)


def show_source(*objects: Any) -> Source:
    """The source code of functions, methods or classes, for display as the output of a cell.

    Docstrings are shortened to their first paragraph.

    >>> show_source(show_source)
    source code of show_source

    Raises:
        TfmrError: if an object is not a function, a method or a class.
    """
    for each in objects:
        if not (inspect.isfunction(each) or inspect.isclass(each)):
            raise TfmrError(f"expected functions, methods or classes, got {type(each).__name__}")
    return Source(*objects)


class Script:
    """The source code of functions in JavaScript, or of a whole file, displayed as Markdown."""

    def __init__(self, file: str, code: str, names: Sequence[str]) -> None:
        self.file, self.code, self.names = file, code, names

    def __repr__(self) -> str:
        functions = f"{', '.join(self.names)} in " if self.names else ""
        return f"source code of {functions}{self.file}"

    def _repr_markdown_(self) -> str:
        listing = f"```javascript\n{self.code}\n```"
        if self.names:
            return f"*{self.file}:*\n\n{listing}"
        title = f"{self.file} ({len(self.code.splitlines())} lines)"
        return f"<details>\n<summary>{title}</summary>\n\n{listing}\n\n</details>"


def show_script(name: str, *functions: str) -> Script:
    """The source code of functions of the live figures, for display as the output of a cell.

    >>> show_script("transformer.js", "softmax")
    source code of softmax in tfmr/widgets/transformer.js

    Args:
        name: a file in ``tfmr/widgets``.
        functions: names that the file exports; each is shown with the comment before it. Without
            names, the whole file is shown, folded.

    Raises:
        TfmrError: if there is no such file or function.
    """
    file = files("tfmr") / "widgets" / name
    if not file.is_file():
        raise TfmrError(f"expected a file in tfmr/widgets, such as transformer.js, got {name!r}")
    text = file.read_text(encoding="utf-8")
    parts = []
    for function in functions:
        comment = r"(?:/\*\*(?:(?!\*/).)*\*/\n)?"
        name_of = rf"{re.escape(function)}\b"
        definition = rf"(?:function\*? {name_of}.*?^\}}$|const {name_of}.*?;$(?=\n\n|\n*\Z))"
        found = re.search(f"^{comment}export {definition}", text, re.MULTILINE | re.DOTALL)
        if found is None:
            raise TfmrError(f"expected a function that {name} exports, got {function!r}")
        parts.append(found[0])
    code = "\n\n".join(parts) if functions else text.rstrip()
    return Script(f"tfmr/widgets/{name}", code, functions)


def _fenced(each: Any) -> str:
    code = shorten_docstrings(textwrap.dedent(inspect.getsource(each)).rstrip())
    path = each.__module__.replace(".", "/")
    return f"*{path}.py:*\n\n```python\n{code}\n```"


def shorten_docstrings(code: str) -> str:
    """``code`` with the first paragraph of each docstring; the API reference has the others."""
    lines = code.split("\n")
    definitions = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    found = [node for node in ast.walk(ast.parse(code)) if isinstance(node, definitions)]
    for node in sorted(found, key=lambda node: -node.lineno):
        text, first = ast.get_docstring(node), node.body[0]
        if text and "\n\n" in text:
            start, end = first.lineno - 1, cast(int, first.end_lineno)
            blank = next(n for n in range(start, end) if not lines[n].strip())
            lines[start:end] = [*lines[start : blank - 1], lines[blank - 1] + '"""']
    return "\n".join(lines)


class ReportFailedAsserts(ast.NodeTransformer):
    """Replace the ``assert`` statements of a cell by calls that report instead of raising.

    Asserts inside functions and classes stay: the code after them depends on them.
    """

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        """Leave a function as it is."""
        return node

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        """Leave a function as it is."""
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        """Leave a class as it is."""
        return node

    def visit_Assert(self, node: ast.Assert) -> ast.AST:
        """A comparison is reported with its two values, any other test with its code."""
        test = node.test
        if (
            isinstance(test, ast.Compare)
            and len(test.ops) == 1
            and type(test.ops[0]) in COMPARISONS
        ):
            sign, _ = COMPARISONS[type(test.ops[0])]
            arguments = [test.left, ast.Constant(sign), test.comparators[0]]
            called = "report_comparison"
        else:
            arguments, called = [test], "report_condition"
        module = ast.parse(f"__import__({__name__!r}, fromlist=['_']).{called}", mode="eval").body
        call = ast.Call(module, [ast.Constant(ast.unparse(test)), *arguments], [])
        return ast.fix_missing_locations(ast.copy_location(ast.Expr(call), node))


def report_comparison(code: str, left: Any, sign: str, right: Any) -> None:
    """Print a message on stderr unless ``left`` and ``right`` compare as the book states."""
    if not OPERATORS[sign](left, right):
        values = f"here the left side is {_short(left)} and the right side is {_short(right)}"
        _report(code, values)


def report_condition(code: str, holds: Any) -> None:
    """Print a message on stderr unless the condition holds."""
    if not holds:
        _report(code, f"here it is {_short(holds)}")


def _report(code: str, values: str) -> None:
    text = f"This differs from the book, where\n    {code}\nholds; {values}.\n{EXPLANATION}"
    print(text, file=sys.stderr)


def _short(value: Any) -> str:
    text = f"{value:.6g}" if isinstance(value, float) else reprlib.repr(value)
    return " ".join(text.split())


def show_error(
    shell: Any,
    kind: type[BaseException],
    error: BaseException,
    trace: TracebackType | None,
    tb_offset: int | None = None,
) -> list[str]:
    """Display an error of the package in IPython: its message and the lines of the cells."""
    sys.last_type, sys.last_value, sys.last_traceback = kind, error, trace
    lines = [f"{kind.__name__}: {error}", *_own_lines(trace), "The full traceback: %tb"]
    shell._showtraceback(kind, error, lines)
    return lines


def _own_lines(trace: TracebackType | None) -> Sequence[str]:
    """The lines of notebook cells in a traceback, outermost first."""
    found = []
    for frame, number in traceback.walk_tb(trace):
        name = frame.f_code.co_filename
        # Files of the package and of libraries exist; the code of a cell is only in the cache.
        if name in linecache.cache and frame.f_globals.get("__name__") == "__main__":
            found.append(f"line {number} of the cell: {linecache.getline(name, number).strip()}")
    return found


def load_ipython_extension(shell: Any) -> None:
    """Called by ``%load_ext tfmr.notebook``."""
    unload_ipython_extension(shell)
    shell.ast_transformers.append(ReportFailedAsserts())
    shell.set_custom_exc((TfmrError,), show_error)


def unload_ipython_extension(shell: Any) -> None:
    """Called by ``%unload_ext tfmr.notebook``: restore exceptions and tracebacks."""
    shell.ast_transformers[:] = [
        each for each in shell.ast_transformers if type(each) is not ReportFailedAsserts
    ]
    shell.set_custom_exc((), None)
