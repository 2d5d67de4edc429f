"""Sentence pairs in text files, TSV and CSV: what is a row, and which errors are reported."""

import gzip
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tfmr.data.tables import Row, Table
from tfmr.errors import TfmrError


def rejects(call: Callable[[], object], *parts: str) -> None:
    with pytest.raises(TfmrError) as caught:
        call()
    message = str(caught.value)
    assert "\n" not in message
    assert all(part in message for part in parts), message


@pytest.fixture
def rows(tmp_path: Path) -> Callable[..., list[Row]]:
    """Write files with these contents and read them."""

    def read(contents: dict[str, str | bytes], **options: object) -> list[Row]:
        for name, content in contents.items():
            data = content if isinstance(content, bytes) else content.encode()
            (tmp_path / name).write_bytes(data)
        return list(Table([tmp_path / name for name in contents], **options))

    return read


def numbered(word: str, n: int) -> str:
    return "".join(f"{word} {i}\n" for i in range(n))


# ---------------------------------------------------------------- two text files


def test_windows_line_endings_and_rare_separators(rows) -> None:
    found = rows({"a": "\ufeffa\r\nb\u2028b\r\nc\x0cc\r\n", "b": "x\r\ny\r\nz"})
    assert found == [Row(1, ("a", "x")), Row(2, ("b b", "y")), Row(3, ("c c", "z"))]


def test_empty_lines_are_rows(rows) -> None:
    found = rows({"a": "a\n \n\n", "b": "x\ny\n\n"})
    assert found == [Row(1, ("a", "x")), Row(2, ("", "y")), Row(3, ("", ""))]


def test_files_are_read_on_demand(tmp_path: Path) -> None:
    (tmp_path / "a").write_text(numbered("eins", 10**5))
    stream = iter(Table([tmp_path / "a", tmp_path / "a"]))
    assert next(stream) == Row(1, ("eins 0", "eins 0"))
    os.truncate(tmp_path / "a", 0)
    assert sum(1 for _ in stream) < 10**5 / 2, "the files were not read to the end at once"


@pytest.mark.parametrize(("a", "b"), [(7, 9), (9, 7), (1, 3), (9, 8)])
def test_both_line_counts_are_in_the_message(rows, a: int, b: int) -> None:
    files = {"a": numbered("eins", a), "b": numbered("one", b)}
    rejects(lambda: rows(files), f"a has {a} lines and ", f"b has {b}; align")


def test_files_that_cannot_be_read(rows, tmp_path: Path) -> None:
    rejects(lambda: rows({"a": "", "b": "x\n"}), "a is empty")
    rejects(lambda: rows({"a": "a\n", "b": ""}), "b is empty")
    rejects(lambda: rows({"a": "", "b": ""}), "found none in ", "a and ")
    latin = "eins\nzwölf\n".encode("latin-1")
    rejects(lambda: rows({"a": "a\nb\n", "b": latin}), "line 2 of", "b is not UTF-8")
    packed = gzip.compress(numbered("eins", 10**4).encode())
    rejects(lambda: rows({"a": packed[:5000], "b": packed[:5000]}), "cannot read")
    rejects(lambda: list(Table([tmp_path / "no", tmp_path / "no"])), "cannot read", "no")
    rejects(lambda: list(Table([tmp_path, tmp_path])), "cannot read")


@pytest.mark.parametrize("names", [(), ("a",), ("a", "b", "c"), ("a.tsv", "b.tsv"), ("a", "b.csv")])
def test_wrong_numbers_of_files(names: tuple[str, ...]) -> None:
    rejects(lambda: Table(names), "two text files", ".tsv or .csv", ", ".join(names) or "none")


# ---------------------------------------------------------------- tables


def test_a_tsv_file_has_no_quotes(rows) -> None:
    found = rows({"a.tsv": 'a "b\tx\n\n c \t\r\n'})
    assert found == [Row(1, ('a "b', "x")), Row(2, ("", "")), Row(3, ("c", ""))]


def test_a_csv_file_has_quotes(rows) -> None:
    found = rows({"a.CSV": '"a, ""b"" c",x\n"two\nlines",y\n\n'})
    assert found == [Row(1, ('a, "b" c', "x")), Row(3, ("two lines", "y")), Row(4, ("", ""))]
    packed = gzip.compress("é,ü\n".encode())
    assert rows({"a.csv.gz": packed}) == [Row(1, ("é", "ü"))]


def test_a_header_names_the_columns(rows) -> None:
    text = "\ufeffid\ten\tde\n1\tone\teins\n"
    options = {"columns": ("de", "en"), "header": True}
    assert rows({"a.tsv": text}, **options) == [Row(2, ("eins", "one"))]
    rejects(
        lambda: rows({"a.tsv": text}, columns=("de", "fr"), header=True),
        "columns named de and fr in the header of ", "got id, en, de", "--direction",
    )  # fmt: skip
    rejects(lambda: rows({"a": "x\n", "b": "y\n"}, header=True), "--header, got the text files")
    rejects(lambda: rows({"a.csv": "de,en\n"}, **options), "found none in ", "a.csv")


@pytest.mark.parametrize(
    ("content", "header", "parts"),
    [
        ("a,b\nc\n", False, ("2 columns in ", "line 2 has 1")),
        ("a,b,c\n", False, ("2 columns in ", "line 1 has 3", "add --header")),
        ("id,de,en\n1,a,b\n2,a, and b\n3,a,b,c\n", True, ("3 columns in ", "line 4 has 4")),
        ('a,b\n"c,d\n', False, ("line 2 of ", "is not valid CSV")),
        ('"a"b,c\n', False, ("line 1 of ", "is not valid CSV", "quotation mark")),
    ],
)
def test_rows_that_are_no_pair(rows, content: str, header: bool, parts: tuple[str, ...]) -> None:
    rejects(lambda: rows({"a.csv": content}, columns=("de", "en"), header=header), *parts)


def test_the_place_of_a_row_is_the_file_with_the_empty_side() -> None:
    table = Table(["a", "b"])
    assert table.place(Row(3, ("x", ""))) == "b:3"
    assert table.place(Row(3, ("", "y"))) == "a:3"
    assert table.place(Row(3, ("", ""))) == "a:3"
    assert Table(["t.tsv"]).place(Row(3, ("x", ""))) == "t.tsv:3"
