"""The comparison of two runs: scores of the same sentences, settings, curves, sentences."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import mean
from typing import Any

import numpy as np

from tfmr.metrics import bleu, exact_match, sentence_chrf
from tfmr.train.intervals import bleu_statistics, corpus_bleu, interval, resample
from tfmr.train.trainer import StepRecord

COMPARED = (
    "corpus", "direction", "corpus_fingerprint", "sentence_pairs", "base", "recipe", "parameters",
    "vocab_size", "vocabulary_fingerprint", "processes", "versions", "hardware", "commit",
)  # fmt: skip
"""The metadata that :func:`differing_settings` compares."""
CURVE_ROWS = 5
"""Number of rows of :func:`compare_curves`."""


@dataclass(frozen=True)
class ScoreDifference:
    """The scores of two lists of translations of the same sentences."""

    bleu: tuple[float, float]
    exact: tuple[float, float]
    """The fractions of exact matches."""
    difference: float
    """BLEU of the second minus BLEU of the first."""
    interval: tuple[float, float]
    """The 95 % interval of the difference, from paired bootstrap resampling (Koehn, 2004)."""
    signature: str
    """sacreBLEU's signature."""

    @property
    def is_noise(self) -> bool:
        """Whether the interval contains zero."""
        return self.interval[0] <= 0 <= self.interval[1]


def compare_scores(
    first: Sequence[str], second: Sequence[str], references: Sequence[str]
) -> ScoreDifference:
    """Compare the translations of two models.

    Raises:
        TfmrError: if there are no sentences, or the numbers of sentences differ.
    """
    scores = [bleu(hypotheses, references) for hypotheses in (first, second)]
    counts = resample(len(references))
    resampled = [corpus_bleu(bleu_statistics(h, references), counts) for h in (first, second)]
    low, high = interval(resampled[1] - resampled[0], digits=2)
    return ScoreDifference(
        bleu=(scores[0].score, scores[1].score),
        exact=(exact_match(first, references), exact_match(second, references)),
        difference=round(scores[1].score - scores[0].score, 2),
        interval=(low, high),
        signature=scores[0].signature,
    )


def differing_settings(
    first: Mapping[str, Any], second: Mapping[str, Any]
) -> dict[str, tuple[Any, Any]]:
    """The settings, data and software in which the metadata of two runs differ.

    >>> differing_settings({"recipe": {"train": {"seed": 0}}}, {"recipe": {"train": {"seed": 1}}})
    {'recipe.train.seed': (0, 1)}
    """
    a, b = ({n: m[n] for n in COMPARED if n in m} for m in (first, second))
    flat_a, flat_b = _flat(a), _flat(b)
    return {
        name: (flat_a.get(name), flat_b.get(name))
        for name in flat_a | flat_b
        if flat_a.get(name) != flat_b.get(name)
    }


def _flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in values.items():
        flat |= _flat(value, f"{prefix}{name}.") if isinstance(value, Mapping) else {
            f"{prefix}{name}": value
        }  # fmt: skip
    return flat


def compare_curves(
    first: Sequence[StepRecord], second: Sequence[StepRecord]
) -> list[tuple[int, float, float]]:
    """Rows of a step and the mean training loss of both runs in the interval that ends there.

    The intervals are equal and cover the steps that both runs have; there are none if a run has
    fewer than :data:`CURVE_ROWS` steps.
    """
    steps = min(len(first), len(second))
    ends = np.linspace(0, steps, CURVE_ROWS + 1).astype(int).tolist()
    if steps < CURVE_ROWS:
        return []
    return [
        (
            first[end - 1].step,
            mean(record.loss for record in first[start:end]),
            mean(record.loss for record in second[start:end]),
        )
        for start, end in pairwise(ends)
    ]


def most_different(
    first: Sequence[str], second: Sequence[str], references: Sequence[str], count: int
) -> list[tuple[int, float, float]]:
    """The sentences whose chrF differs most between two lists of translations.

    Returns:
        Up to ``count`` rows of the index of the sentence and the chrF of both translations, the
        largest difference first; sentences with equal scores are left out.
    """
    rows = [
        (index, sentence_chrf(a, reference), sentence_chrf(b, reference))
        for index, (a, b, reference) in enumerate(zip(first, second, references, strict=True))
        if a != b
    ]
    rows = [row for row in rows if row[1] != row[2]]
    return sorted(rows, key=lambda row: -abs(row[2] - row[1]))[:count]
