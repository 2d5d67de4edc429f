"""The metrics against sacreBLEU, and lists that do not fit together."""

from dataclasses import FrozenInstanceError

import pytest
import sacrebleu

from tfmr.errors import TfmrError
from tfmr.metrics import bleu, exact_match, sentence_chrf

HYPOTHESES = ["A man is sleeping on the bench.", "Two dogs run through the snow .", "A red car."]
REFERENCES = ["A man sleeps on a green bench.", "Two dogs run through the snow.", "A red car."]


def test_bleu_is_sacrebleus_corpus_bleu() -> None:
    result = bleu(HYPOTHESES, REFERENCES)
    assert result.score == round(sacrebleu.corpus_bleu(HYPOTHESES, [REFERENCES]).score, 2)
    assert 0 < result.score < 100
    pairs = zip(HYPOTHESES, REFERENCES, strict=True)
    mean = sum(bleu([hypothesis], [reference]).score for hypothesis, reference in pairs) / 3
    assert abs(result.score - mean) > 1, "corpus BLEU is not the mean of sentence BLEU"
    assert bleu(REFERENCES, REFERENCES).score == 100
    version = f"version:{sacrebleu.__version__}"
    for part in ("nrefs:1", "case:mixed", "tok:13a", "smooth:exp", version):
        assert part in result.signature
    with pytest.raises(FrozenInstanceError):
        result.score = 100.0


def test_chrf_is_graded() -> None:
    assert sentence_chrf("a red car", "a red car") == pytest.approx(100)
    assert sentence_chrf("xyz", "a red car") == 0
    assert sentence_chrf("a red car", "a red cat") > sentence_chrf("a red", "a red cat")


def test_exact_match_compares_characters() -> None:
    assert exact_match(HYPOTHESES, REFERENCES) == pytest.approx(1 / 3)
    assert exact_match(["a b"], ["A b"]) == 0


@pytest.mark.parametrize("metric", [bleu, exact_match])
@pytest.mark.parametrize(("hypotheses", "references"), [([], []), (["a"], ["a", "b"])])
def test_lists_of_different_lengths(metric, hypotheses: list[str], references: list[str]) -> None:
    message = f"got {len(hypotheses)} hypotheses and {len(references)} references"
    with pytest.raises(TfmrError, match=message):
        metric(hypotheses, references)
