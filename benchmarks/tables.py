"""``python -m benchmarks.tables``: render every record into README.md, and check what it shows.

A record is rendered and checked by the module that measured it, which its command names:
``table(rows, settings)`` returns the paragraphs and tables of the record, and ``claims(rows,
settings, records)``, if it is defined, yields the statements of README.md and the book about it.
This module has the code that these modules share.
"""

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from statistics import mean
from types import ModuleType
from typing import Any

from benchmarks.record import Record, Row, read_all, run
from tfmr.errors import TfmrError, require
from tfmr.records import FOLDER
from tfmr.train.run_dir import write_text

README = Path(__file__).parent / "README.md"
BEGIN = "<!-- Rendered by python -m benchmarks.tables; edits below are lost. -->"
END = "<!-- End of the rendered tables. -->"
NOTHING = "–"
RANGE = "with the lowest and the highest in parentheses"
UNSEEDED = (
    *(
        "attention",
        "beams",
        "decoding",
        "diagnosis",
        "doctor",
        "heads",
        "inside",
        "layer_cost",
        "memory",
    ),
    *("previous_token", "translator_page"),
)
"""The measurements whose results do not depend on a seed."""

Claims = Iterator[tuple[str, bool]]
"""Statements, and whether they hold."""


@dataclass(frozen=True)
class Tables:
    """Render the records into benchmarks/README.md."""

    check: bool = False
    """Do not write; fail if the file differs from the rendering or a statement does not hold."""
    folder: Path = FOLDER
    """The folder of the records."""
    readme: Path = README
    """The file that contains the tables."""

    def __call__(self) -> None:
        """Render or check."""
        if self.check:
            failed = check(self.folder, self.readme)
            for claim in failed:
                print(f"benchmarks.tables: not true: {claim}", file=sys.stderr)
            require(not failed, f"statements that differ from the records: {len(failed)}")
        else:
            text = self.readme.read_text("utf-8")
            write_text(self.readme, render(text, read_all(self.folder)))


def render(text: str, records: dict[str, Record]) -> str:
    """``text`` with the tables of ``records`` between its two marks.

    Raises:
        TfmrError: unless ``text`` has each mark exactly once.
    """
    require(
        text.count(BEGIN) == text.count(END) == 1,
        f"README.md must contain each of these lines exactly once: {BEGIN} and {END}",
    )
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    sections = [section(name, record) for name, record in records.items()]
    middle = "\n".join(sections or ["There are no records yet.\n"])
    return f"{before}{BEGIN}\n\n{middle}\n{END}{after}"


def section(name: str, record: Record) -> str:
    """Heading, provenance and tables of one record."""
    tables = measurement(name, record).table(record["rows"], record["settings"])
    return "\n\n".join([f"### {name}.json", provenance(record), *tables]) + "\n"


def measurement(name: str, record: Record) -> ModuleType:
    """The module that measured a record, named by its command or, in a subfolder, by its path.

    Raises:
        TfmrError: if there is no such module.
    """
    command = record["metadata"]["command"]
    found = re.match(r"python -m (benchmarks\.\w+)", command)
    module = f"benchmarks.{name.replace('/', '.')}" if "/" in name else found and found[1]
    if not (found and module and find_spec(module)):
        raise TfmrError(f"{name}.json: expected a command of benchmarks, got {command!r}")
    return import_module(module)


def provenance(record: Record) -> str:
    """Command, date, commit, machine and versions in a sentence."""
    metadata = record["metadata"]
    hardware = metadata["hardware"]
    used = sorted({row["threads"] for row in record["rows"] if "threads" in row})
    used = used or [record["settings"].get("threads", hardware["threads"])]
    threads = f"{' or '.join(map(str, used))} thread{'s' * (used != [1])}"
    machine = hardware["processor"] if hardware["device"] == "cpu" else hardware["device"]
    versions = ", ".join(f"{name} {version}" for name, version in metadata["versions"].items())
    return (
        f"`{metadata['command']}` on {metadata['date']}, commit {metadata['commit'] or 'unknown'}: "
        f"{machine}, {threads}; {versions}."
    )


def check(folder: Path = FOLDER, readme: Path = README) -> list[str]:
    """The statements that do not hold; empty if all do.

    A failure means that a record was measured again, and that a sentence or a model no longer
    matches the record. It does not mean an error in the code.
    """
    records = read_all(folder)
    text = readme.read_text("utf-8")
    same = render(text, records) == text
    failed = [] if same else ["README.md is up to date: run python -m benchmarks.tables"]
    for name, record in records.items():
        rows, settings, metadata = record["rows"], record["settings"], record["metadata"]
        module = measurement(name, record)
        complete = metadata["commit"] and metadata["hardware"]["processor"]
        columns = {*settings, *(key for row in rows for key in row)}
        seeded = columns & {"seed", "seeds"} or module.__name__.endswith(UNSEEDED)
        claims = [("the metadata name commit and processor", bool(complete))]
        claims += [("the record has its seeds", bool(seeded))]
        if hasattr(module, "claims"):
            claims += module.claims(rows, settings, records)
        failed += [f"{name}: {claim}" for claim, holds in claims if not holds]
    return failed


def select(rows: Iterable[Row], **values: object) -> list[Row]:
    """The rows with these values."""
    return [row for row in rows if values.items() <= row.items()]


def only(rows: Iterable[Row], **values: object) -> Row:
    """The only row with these values."""
    (row,) = select(rows, **values)
    return row


def grouped(rows: Iterable[Row], *columns: str) -> dict[Any, list[Row]]:
    """The rows by their value of one column, or values of several, in order of appearance."""
    groups: dict[Any, list[Row]] = {}
    for row in rows:
        values = tuple(row[column] for column in columns)
        groups.setdefault(values if len(columns) > 1 else values[0], []).append(row)
    return groups


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


def spread(
    numbers: Sequence[float],
    form: str = ".1f",
    middle: Callable[[Sequence[float]], float] = mean,
) -> str:
    """The mean, or another ``middle``, and the range."""
    if not numbers:
        return NOTHING
    average, *ends = (f"{f(numbers):{form}}" for f in (middle, min, max))
    return average if len(numbers) == 1 else f"{average} ({'–'.join(ends)})"


def count(number: int, noun: str) -> str:
    """A number and its noun.

    >>> count(1, "seed"), count(2, "seed")
    ('1 seed', '2 seeds')
    """
    return f"{number} {noun}{'s' * (number != 1)}"


if __name__ == "__main__":
    run(Tables)
