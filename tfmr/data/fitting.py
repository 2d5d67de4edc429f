"""The validation and test pairs that a model can process."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

from tfmr.data.corpus import Corpus, Finding, SentencePair
from tfmr.data.tokenizer import Tokenizer
from tfmr.errors import require
from tfmr.special_tokens import UNK

T = TypeVar("T")

SETS = {"valid": "validation", "test": "test"}
"""The sets that are fitted, and their names in messages."""


def fit_held_out(corpus: Corpus, tokenizer: Tokenizer, max_length: int) -> Corpus:
    """The corpus without the validation and test pairs that a model cannot process.

    These have a source sentence with more than ``max_length`` tokens, a target sentence with more
    than ``max_length`` tokens including EOS, or a source sentence with an unknown word. They are
    added to the findings of the corpus.

    Raises:
        TfmrError: if no pair of a set is left.
    """
    fitted: dict[str, list[SentencePair]] = {}
    places: dict[str, tuple[str, ...]] = {}
    findings = list(corpus.provenance.findings)
    for split, name in SETS.items():
        pairs: list[SentencePair] = getattr(corpus, split)
        where = corpus.provenance.places.get(split) or tuple(
            f"pair {number} of the {name} set" for number in range(1, len(pairs) + 1)
        )
        kinds = _kinds(pairs, tokenizer, max_length)
        for kind, explanation in (
            ("too long", f"a sentence has more than {max_length} tokens (model.max_length)"),
            ("unknown word", 'a source word is not in the vocabulary (vocabulary.kind = "words")'),
        ):
            found = tuple(p for p, other in zip(where, kinds, strict=True) if other == kind)
            if found:
                findings.append(Finding(split, kind, explanation, len(found), found, dropped=True))
        fitted[split] = _without(pairs, kinds)
        places[split] = tuple(_without(where, kinds))
        require(
            bool(fitted[split]),
            f"expected a {name} pair of at most {max_length} tokens without unknown words, got "
            f"none among {len(pairs)}; raise model.max_length, or use a subword vocabulary",
        )
    provenance = replace(corpus.provenance, places=places, findings=tuple(findings))
    return replace(corpus, valid=fitted["valid"], test=fitted["test"], provenance=provenance)


def _kinds(pairs: Sequence[SentencePair], tokenizer: Tokenizer, max_length: int) -> list[str]:
    """Why each pair cannot be processed; empty if it can."""
    sources = tokenizer.encode_batch([source for source, _ in pairs])
    targets = tokenizer.encode_batch([target for _, target in pairs])
    return [
        "too long"
        if max(len(source), len(target) + 1) > max_length
        else "unknown word"
        if UNK in source
        else ""
        for source, target in zip(sources, targets, strict=True)
    ]


def _without(values: Sequence[T], kinds: Sequence[str]) -> list[T]:
    return [value for value, kind in zip(values, kinds, strict=True) if not kind]
