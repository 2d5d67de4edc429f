"""The translator's benchmark: the page and Python translate the same sentences."""

from benchmarks.translator_page import measure, open_page, table
from tfmr.data import corpora
from tfmr.widgets.translator import find_model


def test_the_page_is_compared_with_python_and_timed() -> None:
    pairs = corpora.load("pocket", "en-fr").test[:3]
    with open_page() as (page, version):
        rows = list(measure(find_model("pocket-en-fr"), list(pairs), page))
    assert [row["system"] for row in rows] == ["Python", "Python, rounded", "page"] * 2
    assert [row["beam"] for row in rows] == [1, 1, 1, 4, 4, 4]
    assert all(row["test_exact"] == 1 for row in rows)
    assert all(row["same"] == 3 for row in rows if row["system"] != "Python")
    timed = rows[2]
    assert 0 < timed["bytes_gzip"] < timed["bytes"]
    assert timed["tokens_per_second"] > 0
    assert 0.85 < timed["probability_of_95_percent"] < 1
    assert 0 < timed["seconds_to_first_token"] < 10
    text = "\n".join(table(rows, {"browser": f"Chromium {version}"}))
    assert "| pocket-en-fr, greedy | page | 3 | 100.00 | 1.000 | 3 |" in text
    assert f"by the page in Chromium {version}." in text
    assert "| pocket-en-fr, beam 4 | 0.39 | 0.29 | " in text
