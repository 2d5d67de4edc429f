"""Fitted power laws, compared with laws that generated the losses."""

import numpy as np
import pytest

from tfmr.errors import TfmrError
from tfmr.scaling_law import ScalingLaw, bootstrap, exponent, fit

LAW = ScalingLaw(irreducible=1.2, a=20.0, alpha=0.35, b=400.0, beta=0.5)
SIZES = [(n, d) for n in (6_000, 25_000, 100_000) for d in (50_000, 200_000, 800_000)]


def noisy(seed: int = 0, scale: float = 0.01) -> dict[tuple[int, int], list[float]]:
    rng = np.random.default_rng(seed)
    return {(n, d): [LAW(n, d) + scale * rng.normal() for _ in range(3)] for n, d in SIZES}


def test_the_law_is_a_sum_of_three_terms() -> None:
    assert LAW(1, 1) == pytest.approx(1.2 + 20 + 400)
    assert LAW(16, 1e30) == pytest.approx(1.2 + 20 * 16**-0.35)


def test_the_exponent_of_a_power_law() -> None:
    assert exponent([10, 100, 1000], [8.0, 4.0, 2.0]) == pytest.approx(np.log10(2))
    with pytest.raises(TfmrError, match=r"two.*got \[5\]"):
        exponent([5, 5], [1.0, 2.0])


def test_exact_losses_return_the_law() -> None:
    found = fit({size: [LAW(*size)] for size in SIZES})
    assert (found.alpha, found.beta) == (LAW.alpha, LAW.beta)
    assert found.irreducible == pytest.approx(LAW.irreducible)
    assert (found.a, found.b) == (pytest.approx(LAW.a), pytest.approx(LAW.b))


def test_no_constant_is_negative() -> None:
    """With a loss of which more than all is reducible, E is 0."""
    losses = {(n, d): [20 * n**-0.35 + 400 * d**-0.5 - 0.3] for n, d in SIZES}
    assert fit(losses).irreducible >= 0


def test_the_bootstrap_surrounds_the_fit_and_its_width_follows_the_noise() -> None:
    def width(scale: float) -> float:
        runs = noisy(scale=scale)
        laws = bootstrap(runs, resamples=40)
        low, high = np.percentile([law.irreducible for law in laws], [2.5, 97.5])
        assert low < fit(runs).irreducible < high
        return float(high - low)

    assert width(0.02) > 2 * width(0.005)


def test_without_noise_all_resamples_are_equal() -> None:
    runs = {size: [LAW(*size)] * 3 for size in SIZES}
    assert len(set(bootstrap(runs, resamples=5))) == 1


def test_too_few_sizes_raise() -> None:
    with pytest.raises(TfmrError, match=r"three.*got 2"):
        fit({(n, d): [1.0] for n in (1, 2, 3) for d in (1, 2)})
