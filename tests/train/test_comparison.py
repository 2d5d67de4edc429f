"""The comparison of two runs: scores and their interval, settings, curves, sentences."""

import pytest
from sacrebleu import BLEU
from sacrebleu.significance import PairedTest

from tfmr.data import pocket
from tfmr.errors import TfmrError
from tfmr.metrics import bleu, sentence_chrf
from tfmr.train.comparison import (
    compare_curves,
    compare_scores,
    differing_settings,
    most_different,
)
from tfmr.train.trainer import StepRecord

REFERENCES = [target for _, target in pocket.generate("en-fr", 80, 0)]
WORSE = [text if i % 3 else "le hibou dort ." for i, text in enumerate(REFERENCES)]
WORST = [text if i % 2 else "le hibou dort ." for i, text in enumerate(WORSE)]


def test_scores_and_their_difference() -> None:
    found = compare_scores(WORST, WORSE, REFERENCES)
    assert found.bleu == (bleu(WORST, REFERENCES).score, bleu(WORSE, REFERENCES).score)
    assert found.difference == pytest.approx(found.bleu[1] - found.bleu[0], abs=1e-9)
    assert found.exact == (0.3375, 0.6625)
    assert 0 < found.interval[0] < found.difference < found.interval[1]
    assert not found.is_noise
    swapped = compare_scores(WORSE, WORST, REFERENCES)
    assert swapped.interval == tuple(-end for end in found.interval[::-1])
    same = compare_scores(WORSE, WORSE, REFERENCES)
    assert (same.difference, same.interval, same.is_noise) == (0, (0, 0), True)
    with pytest.raises(TfmrError, match="one reference per hypothesis"):
        compare_scores(WORSE[1:], WORSE, REFERENCES)


def test_the_interval_is_about_that_of_sacrebleu() -> None:
    one_worse = [*WORSE[:1], *REFERENCES[1:]]
    test = PairedTest(
        [("a", REFERENCES), ("b", one_worse)],
        {"BLEU": BLEU(force=True)},
        [REFERENCES],
        "bs",
        n_samples=1000,
    )
    p_value = test()[1]["BLEU"][1].p_value
    assert p_value is not None
    assert compare_scores(REFERENCES, one_worse, REFERENCES).is_noise == (p_value > 0.05)


def test_settings_that_differ() -> None:
    a = {"recipe": {"train": {"seed": 0, "betas": [0.9, 0.98]}}, "trainer": {"step": 1}}
    b = {"recipe": {"train": {"seed": 1, "betas": [0.9, 0.98]}}, "commit": "c", "trainer": {}}
    assert differing_settings(a, b) == {"recipe.train.seed": (0, 1), "commit": (None, "c")}
    assert differing_settings(a, a) == {}
    base = {"base": {"model": "x"}}
    assert differing_settings({"base": None}, base) == {"base.model": (None, "x")}


def test_curves_are_compared_over_their_common_steps() -> None:
    first = [StepRecord(n, float(n), 1.0, 1.0, 1.0, 9, 1.0) for n in range(1, 11)]
    second = [StepRecord(n, 2.0 * n, 1.0, 1.0, 1.0, 9, 1.0) for n in range(1, 31)]
    assert compare_curves(first, second) == [
        (2, 1.5, 3.0), (4, 3.5, 7.0), (6, 5.5, 11.0), (8, 7.5, 15.0), (10, 9.5, 19.0)
    ]  # fmt: skip
    assert compare_curves(first[:4], second) == []


def test_the_sentences_that_differ_most() -> None:
    references = ["the owl sleeps", "a hen sings", "two boxes", "one"]
    first = ["the owl sleeps", "x", "two boxes", "one"]
    second = ["the owl sleep", "a hen sings", "two boxes", "q"]
    rows = most_different(first, second, references, 5)
    assert [index for index, _, _ in rows] == [1, 3, 0]
    assert rows[-1] == (0, 100.0, sentence_chrf("the owl sleep", "the owl sleeps"))
    assert len(most_different(first, second, references, 1)) == 1
