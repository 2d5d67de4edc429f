"""Sentence pairs in a user's files: two aligned text files, or one TSV or CSV file.

Two text files have one sentence per line. A TSV file separates its columns by tabs and has no
quotes; a CSV file is read as RFC 4180 describes. Both have two columns, source and target, or a
header that names the columns. All files may be gzipped.
"""

import csv
import os
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

from tfmr.data.corpus import SentencePair
from tfmr.data.lines import read_lines, text_lines
from tfmr.data.text import canonical
from tfmr.errors import TfmrError, require


class Row(NamedTuple):
    """A sentence pair, in canonical spelling; a side may be empty."""

    line: int
    """The number of the line on which the pair ends, from 1."""
    pair: SentencePair


class Table:
    """The rows of two aligned text files, or of one file with the ending .tsv or .csv.

    Args:
        paths: the files.
        columns: source and target language, which name the columns of a file with a header.
        header: whether the first line of a TSV or CSV file has the names of the columns. The
            columns ``columns`` are read then. Without a header, a file must have two columns.

    Raises:
        TfmrError: unless there are two text files, or one TSV or CSV file.
    """

    def __init__(
        self,
        paths: Sequence[str | os.PathLike[str]],
        columns: tuple[str, str] = ("source", "target"),
        *,
        header: bool = False,
    ) -> None:
        self.paths = [Path(path) for path in paths]
        self.columns = columns
        self.header = header
        names = ", ".join(map(str, self.paths))
        endings = [path.name.lower().removesuffix(".gz")[-4:] for path in self.paths]
        self.delimiter = "\t" if ".tsv" in endings else "," if ".csv" in endings else ""
        """What separates the columns; empty for two text files."""
        require(
            len(self.paths) == (1 if self.delimiter else 2),
            "expected two text files, source and target, or one file that ends in .tsv or .csv, "
            f"got {names or 'none'}",
        )
        require(
            bool(self.delimiter) or not header,
            f"expected a TSV or CSV file with --header, got the text files {names}; omit it",
        )

    def __iter__(self) -> Iterator[Row]:
        """Read the files once, from the start.

        Raises:
            TfmrError: if a file cannot be read, is empty or is not UTF-8; if the numbers of lines
                differ, or a row has another number of columns.
        """
        rows = self._cells() if self.delimiter else self._lines()
        row = None
        for row in rows:
            yield row
        require(row is not None, f"expected one sentence pair per line, found none in {self}")

    def __str__(self) -> str:
        return " and ".join(map(str, self.paths))

    def place(self, row: Row | None, line: int = 0) -> str:
        """Where a row is: the file and the number of the line.

        If only the target is empty, the file is that of the target.
        """
        at_target = row is not None and bool(row.pair[0]) and not row.pair[1]
        return f"{self.paths[-1 if at_target else 0]}:{line if row is None else row.line}"

    def _lines(self) -> Iterator[Row]:
        sides = [text_lines(read_lines(path), str(path)) for path in self.paths]
        for number, (source, target) in enumerate(zip_longest(*sides), start=1):
            if source is None or target is None:
                shorter, longer = number - 1, number + sum(1 for side in sides for _ in side)
                counts = (shorter, longer) if source is None else (longer, shorter)
                for path, count in zip(self.paths, counts, strict=True):
                    require(count > 0, f"expected one sentence per line, but {path} is empty")
                raise TfmrError(
                    f"expected files with the same number of lines, but {self.paths[0]} has "
                    f"{counts[0]} lines and {self.paths[1]} has {counts[1]}; align them first"
                )
            yield Row(number, (source, target))

    def _cells(self) -> Iterator[Row]:
        [path] = self.paths
        source, target, width = 0, 1, 2
        lines = text_lines(read_lines(path), str(path), str)
        is_header = self.header
        for number, cells in self._split(lines):
            if is_header:
                is_header = False
                names = [canonical(cell) for cell in cells]
                missing = [name for name in self.columns if name not in names]
                require(
                    not missing,
                    f"expected columns named {' and '.join(self.columns)} in the header of {path}, "
                    f"got {', '.join(names)}; name two of them in --direction, such as de-en",
                )
                source, target = map(names.index, self.columns)
                width = len(names)
            elif any(map(canonical, cells)):
                require(
                    len(cells) == width,
                    f"expected {width} columns in {path}, but line {number} has {len(cells)}; "
                    "quote cells that contain the separator, or name the columns of a wider file "
                    "in a first line and add --header",
                )
                yield Row(number, (canonical(cells[source]), canonical(cells[target])))
            else:
                yield Row(number, ("", ""))

    def _split(self, lines: Iterator[str]) -> Iterator[tuple[int, list[str]]]:
        """The number of the last line of each row, and its cells."""
        if self.delimiter == "\t":
            yield from ((n, line.split("\t")) for n, line in enumerate(lines, start=1))
            return
        reader = csv.reader(lines, strict=True)
        try:
            for cells in reader:
                yield reader.line_num, cells
        except csv.Error as error:
            raise TfmrError(
                f"line {reader.line_num} of {self} is not valid CSV ({error}); is a quotation mark "
                "missing or not doubled?"
            ) from None
