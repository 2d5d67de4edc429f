"""The runs of the scaling law and their record."""

from pathlib import Path

import pytest

from benchmarks import scaling_law
from benchmarks.family import Texts
from benchmarks.record import read
from benchmarks.scaling_law import MAX_LENGTH, ScalingLaw, run, tokens
from tfmr.data.tokenizer import Tokenizer
from tfmr.errors import TfmrError

TEXTS = [[5, 6, 7], [6], [7, 7, 5, 6, 5], [8, 5]]
DATA = Texts(Tokenizer.words(["a b c d e"]), TEXTS * 10, TEXTS, TEXTS)


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """A corpus of 40 texts instead of a download."""
    monkeypatch.setattr(scaling_law, "load_captions", lambda: DATA)


def test_no_run_sees_a_text_twice(tmp_path: Path) -> None:
    ScalingLaw(widths=(16,), divisors=(1, 2), seeds=(0,), out=tmp_path / "x.json")()
    rows = read(tmp_path / "x.json")["rows"]
    assert [row["steps"] for row in rows] == [5, 2]
    assert rows[0]["tokens"] == tokens(DATA.train)
    assert rows[1]["tokens"] < tokens(DATA.train)


def test_the_weights_exclude_the_embeddings() -> None:
    row = run(DATA, width=16, steps=1, seed=0)
    vocab = DATA.tokenizer.vocab_size
    assert row["parameters"] - row["weights"] == (vocab + MAX_LENGTH) * 16 + 2 * 16
    attention, feed_forward = 4 * (16 * 16 + 16), 2 * 16 * 64 + 64 + 16
    assert row["weights"] == 2 * (attention + feed_forward + 4 * 16)


def test_training_lowers_the_loss() -> None:
    few, many = (run(DATA, width=16, steps=steps, seed=0)["loss"] for steps in (1, 20))
    assert many < few - 0.2


def test_the_record_has_every_width_length_and_seed(tmp_path: Path) -> None:
    ScalingLaw(widths=(16, 24), divisors=(4, 1), seeds=(0, 1), out=tmp_path / "x.json")()
    record = read(tmp_path / "x.json")
    assert record["kind"] == "scaling law"
    found = {(row["width"], row["steps"], row["seed"]) for row in record["rows"]}
    assert found == {(w, steps, seed) for w in (16, 24) for steps in (1, 5) for seed in (0, 1)}
    losses = [row["loss"] for row in record["rows"]]
    assert len(set(losses)) == len(losses)
    with pytest.raises(TfmrError, match=r"--widths.*multiples.*8"):
        ScalingLaw(widths=(20,), out=tmp_path / "x.json")()
    with pytest.raises(TfmrError, match="1 or more"):
        ScalingLaw(divisors=(0,), out=tmp_path / "x.json")()
