"""Batches of a corpus of WMT size are made in memory that does not grow with its tokens."""

import shutil
from pathlib import Path

import pytest

from benchmarks.memory import PAIRS, generate, measure


def allowed(pairs: int) -> float:
    """The bound in MB: 20, plus 20 bytes for each pair of any length; 110 for WMT."""
    return 20 + 20 * pairs / 1e6


@pytest.fixture
def corpus(tmp_path):
    """A path for a large token file, removed at once: pytest keeps files for three sessions."""
    path = tmp_path / "corpus"
    yield path
    shutil.rmtree(path)


def test_a_corpus_of_wmt_size_is_read_in_bounded_memory(corpus: Path) -> None:
    generate(corpus, PAIRS, length=25)
    row = measure(corpus, "token file", batches=1000)
    assert row["pairs"] == PAIRS
    assert row["tokens"] > 2e8
    assert row["file"] > 500
    assert row["opened"] < 2
    assert row["planned"] < allowed(PAIRS)
    assert row["read"] < allowed(PAIRS)
    assert row["read"] - row["planned"] < 10
    assert row["peak"] < 3 * allowed(PAIRS), "during sorting"


def test_memory_depends_on_the_tokens_of_lists_only(corpus: Path) -> None:
    pairs = 50_000
    rows = {}
    for length in (10, 50):
        generate(corpus, pairs, length)
        rows[length] = measure(corpus, "token file", batches=100)
    assert rows[50]["tokens"] > 4 * rows[10]["tokens"]
    assert abs(rows[50]["read"] - rows[10]["read"]) < 5
    assert max(rows[10]["read"], rows[50]["read"]) < allowed(pairs)

    lists = measure(corpus, "list", batches=100)
    assert lists["read"] > 5 * allowed(pairs)
    assert lists["padding_share"] == rows[50]["padding_share"]
