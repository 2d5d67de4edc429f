"""Translating text with scores: the best translations of each sentence."""

import pytest
import torch

from tests.decode.models import SENTENCES, TOKENIZER, transformer
from tfmr.decode import Sampling, beam_search_naive, translate, translate_each
from tfmr.errors import TfmrError

TEXTS = [TOKENIZER.decode(ids) for ids in SENTENCES]


@pytest.mark.parametrize("batch_size", [2, 64])
def test_the_best_translations_are_those_of_the_search(batch_size: int) -> None:
    model = transformer()
    options = {"beam": 3, "alpha": 1.0, "batch_size": batch_size}
    found = list(translate_each(model, TOKENIZER, ["", *TEXTS], n_best=2, **options))
    assert (found[0].text, found[0].n_best) == ("", ())
    for ids, translation in zip(SENTENCES, found[1:], strict=True):
        expected = beam_search_naive(model, torch.tensor([ids]), 3, 1.0, n_best=2)
        assert translation.source == ids
        assert [each.ids for each in translation.n_best] == [each.ids for each in expected]
        for ours, theirs in zip(translation.n_best, expected, strict=True):
            assert ours.text == TOKENIZER.decode(theirs.ids)
            assert ours.log_prob == pytest.approx(theirs.log_prob, rel=1e-4)
            assert ours.score == pytest.approx(theirs.score, rel=1e-4)
        assert (translation.ids, translation.text) == (
            translation.n_best[0].ids, translation.n_best[0].text
        )  # fmt: skip
    texts = translate(model, TOKENIZER, ["", *TEXTS], **options)
    assert [translation.text for translation in found] == texts


def test_n_best_needs_a_search_of_that_width() -> None:
    model = transformer()
    with pytest.raises(TfmrError, match="n_best must be between 1 and beam=2: got n_best=3"):
        translate_each(model, TOKENIZER, TEXTS, beam=2, n_best=3)
    with pytest.raises(TfmrError, match="n_best needs a search"):
        translate_each(model, TOKENIZER, TEXTS, sampling=Sampling(), n_best=1)
