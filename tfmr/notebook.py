"""An IPython extension for the chapters: ``%load_ext tfmr.notebook``.

A failing ``assert`` of a cell prints what differs from the book on stderr instead of raising an
exception, so that the notebook continues when a reader changes something; :class:`Claim` has the
forms that it reports with their values. A
:class:`~tfmr.errors.TfmrError` is shown with its message and the reader's own line, without the
frames of the package. :func:`approximate` prints a number whose last digits depend on the machine,
:func:`show_source` displays the package's source code, and :func:`show_script` that of the live
figures.

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
from tfmr.wording import joined

OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "Eq": operator.eq,
    "NotEq": operator.ne,
    "Lt": operator.lt,
    "LtE": operator.le,
    "Gt": operator.gt,
    "GtE": operator.ge,
    "Is": operator.is_,
    "IsNot": operator.is_not,
    "In": lambda left, right: left in right,
    "NotIn": lambda left, right: left not in right,
}
"""The comparisons, by the name of their class in :mod:`ast`."""
CLOSENESS = {"isclose", "math.isclose", "torch.allclose", "torch.equal", "torch.isclose"}
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


def approximate(measured: float, recorded: float, tolerance: float, spec: str = ".2f") -> str:
    """The text of a number that differs between machines, with a mark: ``≈ 0.38``.

    When the book is verified, every output is compared character by character, except the digits
    after this mark. In their place this function compares the number itself.

    Args:
        measured: the number; the text has its digits.
        recorded: the number with which the book was written.
        tolerance: the largest difference between the two. If it is exceeded, what differs is
            printed on stderr, as for a failing ``assert``.
        spec: how to format the number, as in a format string.
    """
    text = f"≈ {measured:{spec}}"
    if not abs(measured - recorded) <= tolerance:  # also if it is NaN
        book = f"{recorded:{spec}} ± {tolerance:g}"
        print(
            f"This differs from the book: {book}; here it is {text}.\n{EXPLANATION}",
            file=sys.stderr,
        )
    return text


class ReportFailedAsserts(ast.NodeTransformer):
    """Replace the ``assert`` statements of a cell by claims that report instead of raising.

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
        """Evaluate the claims in an ``if`` statement, whose value a notebook does not display."""
        statement = ast.If(_claims(node.test), [ast.Pass()], [])
        return ast.fix_missing_locations(ast.copy_location(statement, node))


def _claims(test: ast.expr, loops: str = "", names: Sequence[str] = ()) -> ast.expr:
    """``test`` with each part that can be reported separately replaced by a :class:`Claim`.

    Inside a generator, ``loops`` is its code, such as ``" for x in xs"``, and ``names`` are its
    variables.
    """

    def claim(form: str, *values: ast.expr, options: Sequence[ast.keyword] = ()) -> ast.expr:
        items = "".join(f", {name}={name}" for name in names)
        made = f"Claim({ast.unparse(test) + loops!r}{items})"
        method = f"__import__({__name__!r}, fromlist=['_']).{made}.{form}"
        return ast.Call(ast.parse(method, mode="eval").body, list(values), list(options))

    match test:
        case ast.BoolOp(ast.And(), values):
            return ast.BoolOp(ast.And(), [_claims(each, loops, names) for each in values])
        case ast.Call(ast.Name("all"), [ast.GeneratorExp(item, generators)], []):
            targets = [node for each in generators for node in ast.walk(each.target)]
            own = [node.id for node in targets if isinstance(node, ast.Name) and node.id != "_"]
            loops = "".join(map(ast.unparse, generators)) + loops
            item = _claims(item, loops, [*dict.fromkeys([*names, *own])])
            return ast.Call(test.func, [ast.GeneratorExp(item, generators)], [])
        case ast.Compare(left, operators, [right, *others]):
            # Python evaluates the other operands only if the comparisons before them hold.
            nothing = ast.arguments([], [], None, [], [], None, [])
            later = [ast.Lambda(nothing, each) for each in others]
            signs = " ".join(type(each).__name__ for each in operators)
            return claim("comparison", ast.Constant(signs), left, right, *later)
        case ast.Call(ast.Attribute(ast.Compare(left, [sign], [right]), "all"), [], []):
            return claim("elements", ast.Constant(type(sign).__name__), left, right)
        case ast.Call(function, [left, right], options) if ast.unparse(function) in CLOSENESS:
            return claim("closeness", function, left, right, options=options)
    return claim("condition", test)


class Claim:
    """The test of an ``assert``; its methods return whether it holds, and report it if not.

    Args:
        code: the code of the test.
        items: the variables of the generators around it.
    """

    def __init__(self, code: str, /, **items: Any) -> None:
        self.code, self.items = code, items

    def condition(self, holds: Any) -> bool:
        """Any other test: report its value."""
        return bool(holds) or self._report(f"it is {_short(holds)}")

    def comparison(self, signs: str, left: Any, right: Any, *later: Callable[[], Any]) -> bool:
        """``left < right < …``: report the values up to the first comparison that fails."""
        values = [left]
        for sign, operand in zip(signs.split(), [lambda: right, *later], strict=True):
            values.append(operand())
            if not OPERATORS[sign](*values[-2:]):
                texts = _distinct(values)
                if later:
                    return self._report(f"the compared values are {joined(texts)}")
                return self._report(f"the left side is {texts[0]} and the right side is {texts[1]}")
        return True

    def elements(self, sign: str, left: Any, right: Any) -> bool:
        """``(left < right).all()`` for tensors: report for how many elements it holds."""
        if not _broadcast(left, right):
            return self._report(_difference(left, right))
        each = OPERATORS[sign](left, right)
        if each.all():
            return True
        return self._report(f"it holds for {int(each.sum())} of {len(each.flatten())} elements")

    def closeness(
        self, function: Callable[..., Any], left: Any, right: Any, /, **options: Any
    ) -> bool:
        """``torch.allclose`` and the like: report how the two numbers or tensors differ."""
        if _broadcast(left, right) and function(left, right, **options):
            return True
        return self._report(_difference(left, right))

    def _report(self, values: str) -> bool:
        items = joined([f"{name} = {_short(value)}" for name, value in self.items.items()])
        here = f"here, for {items}, {values}" if items else f"here {values}"
        text = f"This differs from the book, where\n    {self.code}\nholds; {here}.\n{EXPLANATION}"
        print(text, file=sys.stderr)
        return False


def _shapes(left: Any, right: Any) -> list[tuple[int, ...]]:
    return [tuple(getattr(each, "shape", ())) for each in (left, right)]


def _broadcast(left: Any, right: Any) -> bool:
    """Whether two numbers or tensors can be compared element by element."""
    import torch  # here, because it takes seconds, and most cells compare no tensors

    try:
        torch.broadcast_shapes(*_shapes(left, right))
    except RuntimeError:
        return False
    return True


def _difference(left: Any, right: Any) -> str:
    """The values of two numbers; of two tensors the largest difference, and shapes that differ."""
    shapes = _shapes(left, right)
    if not any(shapes):
        return f"the values are {joined(_distinct([left, right]))}"
    parts = []
    if shapes[0] != shapes[1]:
        parts.append(f"the shapes are {shapes[0]} and {shapes[1]}")
    if _broadcast(left, right):
        import torch

        # The widest type: the other numbers, also booleans, can be converted to it.
        tensors = (torch.as_tensor(each).to("cpu", torch.cdouble) for each in (left, right))
        one, two = torch.broadcast_tensors(*tensors)
        gaps = (one - two)[one != two].abs()  # without equal infinities, whose difference is NaN
        if len(gaps):
            parts.append(f"the largest absolute difference is {_short(gaps.max())}")
    return " and ".join(parts)


def _distinct(values: Sequence[Any]) -> list[str]:
    """The values with six digits, or with all digits if two of them would look the same."""
    texts = [_short(value) for value in values]
    return texts if len(set(texts)) == len(texts) else [_short(value, repr) for value in values]


def _short(value: Any, of_float: Callable[[float], str] = "{:.6g}".format) -> str:
    if getattr(value, "shape", None) == ():  # a tensor with one number
        value = value.item()
    text = of_float(value) if isinstance(value, float) else reprlib.repr(value)
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
