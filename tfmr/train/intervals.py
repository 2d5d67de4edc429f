"""Confidence intervals, from bootstrap resampling of sentences or from paired differences.

A resample draws as many sentences as there are, with replacement. The 2.5th and the 97.5th
percentile of a statistic over the resamples are its 95 % interval. Two systems are compared on the
same resamples, so the interval of their difference contains no variation that both share. Koehn
(2004).

Two configurations that are trained with the same seeds share initial weights and batches, so their
results are compared seed by seed: the interval is that of Student's t for the mean of the
differences.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import mean, stdev

import numpy as np
import sacrebleu
from jaxtyping import Float, Int

from tfmr.errors import require

RESAMPLES = 1000
T_975 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262)
"""The 97.5 % quantile of Student's t distribution for 1 to 9 degrees of freedom."""


def resample(sentences: int, seed: int = 0) -> Int[np.ndarray, "resamples sentences"]:
    """How often each sentence occurs in each resample.

    Raises:
        TfmrError: if there are no sentences.
    """
    require(sentences > 0, f"expected at least one sentence to resample, got {sentences}")
    rng = np.random.default_rng(seed)
    return rng.multinomial(sentences, np.full(sentences, 1 / sentences), size=RESAMPLES)


def interval(resampled: Float[np.ndarray, "resamples"], digits: int = 4) -> list[float]:
    """The lower and the upper end of the 95 % interval, rounded.

    >>> interval(np.arange(0, 101.0))
    [2.5, 97.5]
    """
    return [round(float(end), digits) + 0.0 for end in np.percentile(resampled, [2.5, 97.5])]


def ratio_of_sums(
    numerators: Float[np.ndarray, "sentences"],
    denominators: Float[np.ndarray, "sentences"],
    counts: Int[np.ndarray, "resamples sentences"],
) -> Float[np.ndarray, "resamples"]:
    """A mean per token in each resample: the sum over its sentences by their number of tokens."""
    quotient: np.ndarray = (counts @ numerators) / (counts @ denominators)
    return quotient


def bleu_statistics(
    hypotheses: Sequence[str], references: Sequence[str]
) -> Int[np.ndarray, "sentences 10"]:
    """What BLEU needs of each sentence: matches and totals of n-grams up to 4, and two lengths.

    Their sum over the sentences determines the BLEU of the corpus.
    """
    # effective_order only suppresses a warning about the scores of the sentences, which are unused.
    metric = sacrebleu.BLEU(force=True, effective_order=True)
    scores = [metric.sentence_score(h, [r]) for h, r in zip(hypotheses, references, strict=True)]
    return np.array([[*s.counts, *s.totals, s.sys_len, s.ref_len] for s in scores])


def corpus_bleu(
    statistics: Int[np.ndarray, "sentences 10"], counts: Int[np.ndarray, "resamples sentences"]
) -> Float[np.ndarray, "resamples"]:
    """The BLEU of each resample, with sacreBLEU's defaults."""
    scores = [
        sacrebleu.BLEU.compute_bleu(
            correct=total[:4].tolist(),
            total=total[4:8].tolist(),
            sys_len=int(total[8]),
            ref_len=int(total[9]),
            smooth_method="exp",
        ).score
        for total in counts @ statistics
    ]
    return np.array(scores)


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
        TfmrError: unless both have the same number of values, from 2 to 10.
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
