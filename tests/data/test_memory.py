"""Batches of a large corpus are made in memory that does not grow with its tokens."""

import shutil
from pathlib import Path

import pytest

from benchmarks.memory import generate, measure

PAIRS = 300_000
"""A fifteenth of WMT 2014 English-German, of which benchmarks/memory.py measures all."""


def allowed(pairs: int) -> float:
    """The bound in MB: 20, plus 20 bytes for each pair of any length; 110 for WMT."""
    return 20 + 20 * pairs / 1e6


@pytest.fixture
def corpus(tmp_path):
    """A path for a large token file, removed at once: pytest keeps files for three sessions."""
    path = tmp_path / "corpus"
    yield path
    shutil.rmtree(path)


def test_memory_depends_on_the_tokens_of_lists_only(corpus: Path) -> None:
    rows = {}
    for length in (10, 50):
        generate(corpus, PAIRS, length)
        rows[length] = row = measure(corpus, "token file", batches=100)
        assert row["pairs"] == PAIRS
        assert row["opened"] < 2
        assert max(row["planned"], row["read"]) < allowed(PAIRS)
        assert row["read"] - row["planned"] < 10
        assert row["peak"] < 3 * allowed(PAIRS), "during sorting"
    assert rows[50]["tokens"] > 4 * rows[10]["tokens"]
    assert rows[50]["file"] > 2 * allowed(PAIRS)
    assert abs(rows[50]["read"] - rows[10]["read"]) < 5

    generate(corpus, PAIRS // 10, 50)
    assert measure(corpus, "list", batches=100)["read"] > 3 * allowed(PAIRS // 10)
