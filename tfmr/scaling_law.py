r"""Power laws of the loss in the number of weights and of training tokens.

The law is that of Hoffmann et al. (2022), equation 2:

.. math:: L(N, D) = E + \frac{A}{N^\alpha} + \frac{B}{D^\beta}

:math:`N` is the number of weights without embeddings, :math:`D` the number of training tokens, and
:math:`E` the irreducible loss, which remains for unlimited :math:`N` and :math:`D`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from tfmr.errors import require

Runs = Mapping[tuple[int, int], Sequence[float]]
"""The losses of runs with different seeds, by their weights and tokens ``(N, D)``."""

EXPONENTS: Float[np.ndarray, "exponents"] = np.arange(2, 151) / 100
"""The exponents that :func:`fit` compares, from 0.02 to 1.5."""


@dataclass(frozen=True)
class ScalingLaw:
    """The constants of the law; calling it predicts a loss."""

    irreducible: float
    """:math:`E` in nats per token."""
    a: float
    """:math:`A`, the factor of the weights."""
    alpha: float
    """The exponent of the weights."""
    b: float
    """:math:`B`, the factor of the tokens."""
    beta: float
    """The exponent of the tokens."""

    def __call__(self, weights: int | float, tokens: int | float) -> float:
        """The predicted loss in nats per token."""
        by_weights, by_tokens = weights**self.alpha, tokens**self.beta
        return float(self.irreducible + self.a / by_weights + self.b / by_tokens)


def exponent(sizes: Sequence[int | float], losses: Sequence[float]) -> float:
    r"""The exponent of :math:`L = c / x^{\text{exponent}}`, a line on logarithmic axes.

    Raises:
        TfmrError: if there are fewer than two different sizes.
    """
    require(len(set(sizes)) > 1, f"a slope needs two sizes or more, got {sorted(set(sizes))}")
    slope, _ = np.polyfit(np.log(sizes), np.log(losses), 1)
    return -float(slope)


def fit(runs: Runs) -> ScalingLaw:
    """The law with the smallest squared errors of the mean losses.

    For given exponents, the law is linear in its other constants, and the best ones follow from
    linear least squares. All pairs of :data:`EXPONENTS` are compared. No constant is negative.

    Raises:
        TfmrError: if there are fewer than three different values of N, or of D.
    """
    return _Fit(runs)([float(np.mean(losses)) for losses in runs.values()])


def bootstrap(runs: Runs, resamples: int = 1000, seed: int = 0) -> list[ScalingLaw]:
    """Laws fitted to resampled runs: for each (N, D), as many seeds, drawn with replacement.

    The variation of the laws shows the effect of the seeds only. Errors of the form of the law are
    not in it.

    Raises:
        TfmrError: as :func:`fit`.
    """
    rng = np.random.default_rng(seed)
    fitter = _Fit(runs)
    return [
        fitter([rng.choice(losses, len(losses)).mean() for losses in runs.values()])
        for _ in range(resamples)
    ]


class _Fit:
    """Least squares for every pair of exponents, prepared for many sets of losses."""

    def __init__(self, runs: Runs) -> None:
        sizes = np.array(list(runs), dtype=float).reshape(-1, 2)
        for name, column in zip(("weights", "tokens"), sizes.T, strict=True):
            count = len(set(column))
            require(
                count > 2, f"a term of the law needs three numbers of {name} or more, got {count}"
            )
        self.alpha, self.beta = (
            grid.ravel() for grid in np.meshgrid(EXPONENTS, EXPONENTS, indexing="ij")
        )
        # Powers of the sizes divided by their geometric mean, so that the columns are comparable.
        self.centre = np.exp(np.log(sizes).mean(axis=0))
        n, d = (sizes / self.centre).T
        columns = (np.ones((len(self.alpha), len(n))), n ** -self.alpha[:, None])
        design = np.stack([*columns, d ** -self.beta[:, None]], axis=-1)
        self.basis = np.linalg.qr(design).Q.transpose(0, 2, 1)
        self.inverse = np.linalg.pinv(design)

    def __call__(self, losses: Sequence[float]) -> ScalingLaw:
        constants = self.inverse @ np.asarray(losses)
        explained = np.square(self.basis @ np.asarray(losses)).sum(axis=1)
        best = int(np.where((constants >= 0).all(axis=1), explained, -np.inf).argmax())
        e, a, b = constants[best]
        alpha, beta = self.alpha[best], self.beta[best]
        a, b = a * self.centre[0] ** alpha, b * self.centre[1] ** beta
        return ScalingLaw(*map(float, (e, a, alpha, b, beta)))
