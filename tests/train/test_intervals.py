"""Resampling, BLEU from the statistics of single sentences, and paired differences."""

import numpy as np
import pytest
import sacrebleu
from sacrebleu.significance import PairedTest

from tests.benchmarks.small import CORPUS
from tfmr.errors import TfmrError
from tfmr.metrics import bleu
from tfmr.train.intervals import (
    RESAMPLES,
    T_975,
    bleu_statistics,
    corpus_bleu,
    interval,
    paired_difference,
    ratio_of_sums,
    resample,
)

REFERENCES = [target for _, target in CORPUS.train[:60]]
SHUFFLED = REFERENCES[1:] + REFERENCES[:1]
HALF = [a if i % 2 else b for i, (a, b) in enumerate(zip(REFERENCES, SHUFFLED, strict=True))]
SHORT = [" ".join(text.split()[:-1]) for text in REFERENCES]


def test_a_resample_draws_as_many_sentences_as_there_are() -> None:
    counts = resample(7)
    assert counts.shape == (RESAMPLES, 7)
    assert (counts.sum(axis=1) == 7).all()
    assert counts.mean() == 1
    assert abs(counts.var() - 6 / 7) < 0.05  # the variance of a binomial (7, 1/7)
    assert np.array_equal(counts, resample(7))
    assert not np.array_equal(counts, resample(7, seed=1))
    with pytest.raises(TfmrError, match="at least one sentence to resample, got 0"):
        resample(0)


def test_the_interval_of_a_mean_has_the_width_of_the_normal_approximation() -> None:
    values = np.random.default_rng(0).normal(size=400)
    low, high = interval(ratio_of_sums(values, np.ones(400), resample(400)))
    error = values.std() / 20
    assert low == pytest.approx(values.mean() - 1.96 * error, abs=0.25 * error)
    assert high == pytest.approx(values.mean() + 1.96 * error, abs=0.25 * error)


def test_an_interval_is_rounded() -> None:
    resampled = np.linspace(0, 1 / 7, 1001)  # the ends are 1/280 and 39/280
    assert interval(resampled) == [0.0036, 0.1393]
    assert interval(resampled, digits=2) == [0.0, 0.14]


def test_a_mean_per_token_weights_long_sentences_more() -> None:
    means = ratio_of_sums(np.array([2.0, 30.0]), np.array([2.0, 10.0]), np.array([[1, 1], [2, 0]]))
    assert means.tolist() == [32 / 12, 1.0]


@pytest.mark.parametrize("hypotheses", [REFERENCES, SHUFFLED, HALF, SHORT])
def test_the_statistics_determine_the_bleu_of_the_corpus(hypotheses: list[str]) -> None:
    statistics = bleu_statistics(hypotheses, REFERENCES)
    once = np.ones((1, len(REFERENCES)), dtype=int)
    assert corpus_bleu(statistics, once)[0] == pytest.approx(
        bleu(hypotheses, REFERENCES).score, abs=0.005
    )
    twice = np.array([[2, 1, 0] + [0] * 57])
    repeated = [hypotheses[i] for i in (0, 0, 1)], [REFERENCES[i] for i in (0, 0, 1)]
    assert corpus_bleu(statistics, twice)[0] == pytest.approx(bleu(*repeated).score, abs=0.005)


def test_the_interval_is_that_of_sacrebleu() -> None:
    metric = sacrebleu.BLEU(force=True)
    systems = [("half", HALF), ("short", SHORT)]
    _, scores = PairedTest(systems, {"BLEU": metric}, [REFERENCES], test_type="bs")()
    for (_, hypotheses), theirs in zip(systems, scores["BLEU"], strict=True):
        ours = corpus_bleu(bleu_statistics(hypotheses, REFERENCES), resample(60))
        low, high = interval(ours)
        assert ours.mean() == pytest.approx(theirs.mean, abs=0.15 * theirs.ci)
        assert (high - low) / 2 == pytest.approx(theirs.ci, rel=0.1)


def test_equal_systems_have_no_difference_in_any_resample() -> None:
    counts = resample(60)
    first, second = (corpus_bleu(bleu_statistics(HALF, REFERENCES), counts) for _ in range(2))
    assert interval(first - second) == [0, 0]
    assert first.std() > 1


def test_a_difference_by_hand() -> None:
    # Differences 1, 2, 3: mean 2, standard deviation 1, margin 4.303 / sqrt(3).
    found = paired_difference([11.0, 22.0, 33.0], [10.0, 20.0, 30.0])
    assert found.mean == pytest.approx(2)
    assert found.low == pytest.approx(2 - 2.4843, abs=1e-4)
    assert found.high == pytest.approx(2 + 2.4843, abs=1e-4)
    assert found.is_noise


def test_what_the_pairs_have_in_common_cancels() -> None:
    found = paired_difference([1.1, 100.1, -49.9], [1.0, 100.0, -50.0])
    assert not found.is_noise
    assert found.high - found.low < 1e-6


def test_a_difference_below_zero_is_not_noise() -> None:
    assert not paired_difference([0.0, 0.1, 0.0], [1.0, 1.0, 1.1]).is_noise


@pytest.mark.parametrize("n", range(2, len(T_975) + 2))
def test_the_interval_contains_the_true_mean_in_95_percent(n: int) -> None:
    drawn = np.random.default_rng(n).normal(3, 2, size=(40_000, n))
    means, errors = drawn.mean(axis=1), drawn.std(axis=1, ddof=1) / n**0.5
    found = paired_difference(drawn[0].tolist(), [0.0] * n)
    factor = (found.high - found.mean) / errors[0]
    assert [found.low, found.mean] == pytest.approx([means[0] - factor * errors[0], means[0]])
    hits = abs(means - 3) <= factor * errors
    assert hits.mean() == pytest.approx(0.95, abs=0.005)


@pytest.mark.parametrize(("n", "m"), [(1, 1), (2, 3), (11, 11)])
def test_unsuitable_numbers_of_values_raise(n: int, m: int) -> None:
    with pytest.raises(TfmrError, match=f"2 to 10.*got {n} and {m}"):
        paired_difference([0.0] * n, [0.0] * m)
