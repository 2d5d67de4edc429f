"""What a run does with a user's own data: the sets that it keeps, and what it reports."""

import dataclasses
from pathlib import Path

import pytest

from tests.train.test_run import FILES, RECIPE, names
from tfmr.data import pocket
from tfmr.data.corpus import Corpus
from tfmr.errors import TfmrError
from tfmr.train.metadata import corpus_fingerprint
from tfmr.train.run import Run


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    return pocket.split("en-fr", train=400, valid=4, test=5)


def test_test_pairs_that_are_too_long_are_left_out_and_reported(
    tmp_path: Path, corpus: Corpus
) -> None:
    source, target = corpus.test[0]
    longer = dataclasses.replace(corpus, test=[(source, target), (source, f"{target} " * 60)])
    run = Run(tmp_path, longer, RECIPE)
    [warning] = run.warnings
    assert all(part in warning for part in ("test: 1 not used", "16 tokens (model.max_length)"))
    assert "pair 2 of the test set" in warning
    run.train(steps=[1], quiet=True)
    assert run.metadata()["sentence_pairs"]["test"] == 1
    resumed = Run(tmp_path, longer, RECIPE, resume=True)
    assert resumed.corpus_fingerprint == corpus_fingerprint(longer)
    with pytest.raises(TfmrError, match="test pair of at most 16 tokens"):
        Run(tmp_path / "b", dataclasses.replace(longer, test=longer.test[1:]), RECIPE)
    assert names(tmp_path) == FILES
