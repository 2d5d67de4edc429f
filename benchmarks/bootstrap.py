"""Confidence intervals by bootstrap resampling of sentences.

A resample draws as many sentences as there are, with replacement. The 2.5th and the 97.5th
percentile of a statistic over the resamples are its 95 % interval. Two systems are compared on the
same resamples, so the interval of their difference contains no variation that both share. Koehn
(2004).
"""

from collections.abc import Sequence

import numpy as np
import sacrebleu
from jaxtyping import Float, Int

from tfmr.errors import require

RESAMPLES = 1000


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
