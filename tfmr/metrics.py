"""Scores of translations: BLEU, chrF and exact match."""

from collections.abc import Sequence
from dataclasses import dataclass

import sacrebleu

from tfmr.data.text import canonical
from tfmr.errors import require


@dataclass(frozen=True)
class Bleu:
    """A corpus BLEU score with the settings that make it comparable."""

    score: float
    """From 0 to 100."""
    signature: str
    """sacreBLEU's signature: tokenisation, case, smoothing, version."""


def bleu(hypotheses: Sequence[str], references: Sequence[str]) -> Bleu:
    """Corpus BLEU, computed by sacreBLEU with its defaults (13a tokenisation, cased).

    Papineni et al. (2002); Post (2018) explains why a score needs its signature.

    Raises:
        TfmrError: if there are no sentences or the numbers of sentences differ.
    """
    _check_lengths("BLEU", hypotheses, references)
    # force=True only suppresses the warning that the hypotheses look tokenised: in the pocket
    # grammar the full stop is a separate token.
    metric = sacrebleu.BLEU(force=True)
    hypotheses, references = map(_canonical, (hypotheses, references))
    result = metric.corpus_score(hypotheses, [references])
    return Bleu(round(result.score, 2), str(metric.get_signature()))


def sentence_chrf(hypothesis: str, reference: str) -> float:
    """The chrF of one sentence, from 0 to 100: the F-score of its character n-grams.

    Popović (2015), computed by sacreBLEU. BLEU is defined for a corpus; for most single sentences
    it is zero.
    """
    return float(sacrebleu.sentence_chrf(canonical(hypothesis), [canonical(reference)]).score)


def exact_match(hypotheses: Sequence[str], references: Sequence[str]) -> float:
    """The fraction of hypotheses that are identical to their reference.

    Raises:
        TfmrError: if there are no sentences or the numbers of sentences differ.
    """
    _check_lengths("exact match", hypotheses, references)
    pairs = zip(_canonical(hypotheses), _canonical(references), strict=True)
    return sum(hypothesis == reference for hypothesis, reference in pairs) / len(references)


def _canonical(texts: Sequence[str]) -> list[str]:
    """The texts in their canonical spelling, in which models are trained."""
    return [canonical(text) for text in texts]


def _check_lengths(metric: str, hypotheses: Sequence[str], references: Sequence[str]) -> None:
    require(
        len(hypotheses) == len(references) > 0,
        f"{metric} needs one reference per hypothesis, and at least one: got {len(hypotheses)} "
        f"hypotheses and {len(references)} references",
    )
