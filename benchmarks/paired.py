"""Paired differences over seeds, with a 95 % confidence interval.

Two configurations that are trained with the same seeds share initial weights and batches, so their
results are compared seed by seed: the interval is that of Student's t for the mean of the
differences.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import mean, stdev

from tfmr.errors import require

T_975 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262)
"""The 97.5 % quantile of Student's t distribution for 1 to 9 degrees of freedom."""


@dataclass(frozen=True)
class Difference:
    """The mean of paired differences and its 95 % confidence interval."""

    mean: float
    low: float
    high: float

    @property
    def is_noise(self) -> bool:
        """Whether the interval contains zero."""
        return self.low <= 0 <= self.high


def paired_difference(values: Sequence[float], baseline: Sequence[float]) -> Difference:
    """``values`` minus ``baseline``, both in the order of the seeds.

    Raises:
        TfmrError: unless there are equally many of both, from 2 to 10.
    """
    n = len(values)
    require(
        n == len(baseline) and 2 <= n <= len(T_975) + 1,
        f"a paired difference needs 2 to {len(T_975) + 1} values of each configuration: got {n} "
        f"and {len(baseline)}",
    )
    differences = [a - b for a, b in zip(values, baseline, strict=True)]
    middle = mean(differences)
    margin = T_975[n - 2] * stdev(differences) / math.sqrt(n)
    return Difference(middle, middle - margin, middle + margin)
