"""Paired differences and their confidence intervals."""

import random
import statistics

import pytest

from benchmarks.paired import T_975, paired_difference
from tfmr.errors import TfmrError


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
    rng = random.Random(n)
    hits = []
    for _ in range(4000):
        found = paired_difference([rng.gauss(3, 2) for _ in range(n)], [0.0] * n)
        hits.append(found.low <= 3 <= found.high)
    assert statistics.mean(hits) == pytest.approx(0.95, abs=0.015)


@pytest.mark.parametrize(("n", "m"), [(1, 1), (2, 3), (11, 11)])
def test_unsuitable_numbers_of_values_raise(n: int, m: int) -> None:
    with pytest.raises(TfmrError, match=f"2 to 10 values of each configuration: got {n} and {m}"):
        paired_difference([0.0] * n, [0.0] * m)
