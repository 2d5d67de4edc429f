"""Scores: sacreBLEU's own number with its signature, exact matches, and the loss per token."""

import math

import pytest
import sacrebleu
import torch

from tfmr.data.batches import Batches, collate
from tfmr.errors import TfmrError
from tfmr.model import Transformer, TransformerConfig
from tfmr.train.evaluate import bleu, exact_match, mean_loss, sentence_chrf
from tfmr.train.loss import cross_entropy

OURS = ["A man is sleeping on the bench.", "Two dogs run through the snow .", "A red car."]
THEIRS = ["A man sleeps on a green bench.", "Two dogs run through the snow.", "A red car."]


def test_bleu_is_sacrebleus_over_the_whole_corpus() -> None:
    result = bleu(OURS, THEIRS)
    assert result.score == round(sacrebleu.corpus_bleu(OURS, [THEIRS]).score, 2)
    assert 0 < result.score < 100
    mean = sum(bleu([ours], [theirs]).score for ours, theirs in zip(OURS, THEIRS, strict=True)) / 3
    assert abs(result.score - mean) > 1, "the mean over sentences is another number"
    assert bleu(THEIRS, THEIRS).score == 100


def test_the_signature_says_how_it_was_counted() -> None:
    signature = bleu(OURS, THEIRS).signature
    for part in (
        "nrefs:1",
        "case:mixed",
        "tok:13a",
        "smooth:exp",
        f"version:{sacrebleu.__version__}",
    ):
        assert part in signature


def test_chrf_tells_a_near_miss_from_a_far_one() -> None:
    assert sentence_chrf("a red car", "a red car") == pytest.approx(100)
    assert sentence_chrf("xyz", "a red car") == 0
    assert sentence_chrf("a red car", "a red cat") > sentence_chrf("a red", "a red cat")


def test_exact_match_is_to_the_letter() -> None:
    assert exact_match(OURS, THEIRS) == pytest.approx(1 / 3)
    assert exact_match(["a b"], ["A b"]) == 0


@pytest.mark.parametrize("score", [bleu, exact_match])
@pytest.mark.parametrize(("ours", "theirs"), [([], []), (["a"], ["a", "b"])])
def test_lists_that_do_not_match(score, ours: list[str], theirs: list[str]) -> None:
    message = f"got {len(ours)} translations and {len(theirs)} references"
    with pytest.raises(TfmrError, match=message):
        score(ours, theirs)


def test_the_mean_loss_counts_every_token_once_without_dropout_or_smoothing() -> None:
    torch.manual_seed(0)
    config = TransformerConfig(
        20, 20, d_model=16, n_heads=2, d_ff=16, n_encoder=1, n_decoder=1, dropout=0.5, max_length=9
    )
    model = Transformer(config).train()
    pairs = [([4 + n] * (1 + n % 4), [5 + n] * (1 + n % 5)) for n in range(9)]
    loss = mean_loss(model, Batches(pairs, 12, 0, 9))
    assert model.training
    model.eval()
    whole = collate(pairs)
    wanted = cross_entropy(model(whole.source, whole.target_in), whole.target_out)
    assert loss == pytest.approx(wanted.item(), rel=1e-5)
    assert 0.5 < loss / math.log(20) < 2
