"""Markdown tables of the rows of a record."""

from collections.abc import Iterable, Sequence
from statistics import mean
from typing import Any

Row = dict[str, Any]
NOTHING = "–"


def markdown(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table whose columns, except the first, are aligned to the right.

    >>> print(markdown(["", "a"], [["x", "1"]]))
    |  | a |
    |---|--:|
    | x | 1 |
    """
    lines = [header, ["---", *["--:"] * (len(header) - 1)], *rows]
    body = ["| " + " | ".join(cells) + " |" for cells in lines]
    body[1] = body[1].replace(" ", "")
    return "\n".join(body)


def all_columns(rows: Sequence[Row]) -> str:
    """A table of every column of the rows."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    return markdown(names, [[str(row.get(name, NOTHING)) for name in names] for row in rows])


def spread(numbers: Sequence[float], digits: int = 1) -> str:
    """Mean and range."""
    if not numbers:
        return NOTHING
    average, *ends = (f"{x:.{digits}f}" for x in (mean(numbers), min(numbers), max(numbers)))
    return average if len(numbers) == 1 else f"{average} ({'–'.join(ends)})"
