"""Validation and test pairs that a model cannot process are left out and reported."""

import dataclasses

import pytest

from tfmr.data.corpus import Corpus, Provenance, SentencePair
from tfmr.data.fitting import fit_held_out
from tfmr.data.tokenizer import Tokenizer
from tfmr.errors import TfmrError

TOKENIZER = Tokenizer.words(["a b c", "x y z"])


def make_corpus(*test: SentencePair) -> Corpus:
    return Corpus("toy", "de", "en", [("a", "x")], [("a b c", "x y z x"), ("c", "z")], [*test], "")


@pytest.mark.parametrize(
    ("pair", "kind", "setting"),
    [
        (("a b c a b c", "x"), "too long", "5 tokens (model.max_length)"),
        (("a", "x y z x y"), "too long", "model.max_length"),
        (("a b d", "x"), "unknown word", "vocabulary.kind"),
        (("a b c a b", "x y z x"), None, None),
        (("a", "x d"), None, None),
    ],
)
def test_pairs_that_cannot_be_processed(
    pair: SentencePair, kind: str | None, setting: str | None
) -> None:
    corpus = make_corpus(("a", "x"), pair, ("b", "y"))
    fitted = fit_held_out(corpus, TOKENIZER, 5)
    assert (fitted.train, fitted.valid) == (corpus.train, corpus.valid)
    if kind is None or setting is None:
        assert fitted.test == corpus.test
        assert fitted.provenance.findings == ()
        return
    assert fitted.test == [("a", "x"), ("b", "y")]
    assert fitted.provenance.places["test"] == (
        "pair 1 of the test set", "pair 3 of the test set"
    )  # fmt: skip
    [finding] = fitted.provenance.findings
    assert (finding.split, finding.kind, finding.count, finding.dropped) == ("test", kind, 1, True)
    assert finding.places == ("pair 2 of the test set",)
    assert setting in finding.explanation


def test_the_places_are_those_of_the_files() -> None:
    places = {"valid": ("v:1", "v:2"), "test": ("t:4", "t:7")}
    corpus = make_corpus(("a", "x"), ("a b c a b c", "x"))
    corpus = dataclasses.replace(corpus, provenance=Provenance(places=places))
    fitted = fit_held_out(corpus, TOKENIZER, 5)
    assert fitted.provenance.findings[0].places == ("t:7",)
    assert fitted.provenance.places == {"valid": ("v:1", "v:2"), "test": ("t:4",)}


def test_a_set_without_a_pair_is_refused() -> None:
    with pytest.raises(TfmrError, match=r"test pair of at most 5 tokens.*raise model.max_length"):
        fit_held_out(make_corpus(("a b c a b c", "x")), TOKENIZER, 5)
