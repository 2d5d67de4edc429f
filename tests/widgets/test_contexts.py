"""ContextsFigure in Python: its cosines and translations are those of the shipped translator."""

import json

import pytest
import torch
from torch.testing import assert_close

from tfmr.decode import translate
from tfmr.widgets import ContextsFigure
from tfmr.widgets.contexts import EXAMPLES, PLACES, SUBJECT, Example, measure
from tfmr.widgets.flow import trace
from tfmr.widgets.heads import MODEL

SENTENCES = {
    "Schläger": (
        "Ein Mann spielt Baseball mit einem Schläger.",
        "A man is playing baseball with a",
    ),
    "Ball": ("Ein Mann spielt Baseball mit einem Ball.", "A man is playing baseball with a"),
    "Platz": ("Ein Mann spielt Fußball auf dem Platz.", "A man is playing soccer on the"),
    "trägt": ("Ein Mann trägt eine Leiter.", "A man is"),
}


def examples(word: str) -> Example:
    return next(example for example in EXAMPLES if word in example.words)


@pytest.mark.parametrize("word", SENTENCES)
def test_the_sentences_and_the_translated_words_are_those_that_are_meant(word: str) -> None:
    example = examples(word)
    german, english = SENTENCES[word]
    assert example.fill(word, 1) == german
    assert example.fill(SUBJECT, 1) == german.replace("Ball.", "Schläger.")
    row = next(row for row in measure(example) if row.name == word)
    saved = MODEL.load()
    [whole] = translate(saved.model(), saved.tokenizer, [german])
    assert whole.startswith(f"{english} {row.translations[1]}")


@pytest.mark.parametrize("example", EXAMPLES)
def test_the_cosines_are_those_of_the_residual_stream(example: Example) -> None:
    """Against the numbers that the figure of the translator page computes."""
    found = measure(example)
    assert [word.name for word in found] == [*example.words, SUBJECT]
    for word in (found[0], found[2], found[3]):
        streams = []
        for context in (1, 4):
            sentence = example.fill(word.name, context)
            at = sentence.rstrip(".").split().index(word.name)
            streams.append(trace(sentence).stream[:, at])
        expected = torch.cosine_similarity(*streams, dim=-1)
        assert len(expected) == len(PLACES)
        assert_close(word.cosines[1, 4], expected, atol=5.1e-4, rtol=0)
        assert_close(word.cosines, word.cosines.transpose(0, 1))
        assert (word.cosines[:, :, 0] == 1).all()
        same = (word.cosines == 1).all(dim=2)
        assert torch.equal(same, torch.eye(len(example.contexts), dtype=torch.bool))


@pytest.mark.parametrize("example", EXAMPLES)
def test_only_the_ambiguous_word_has_several_translations(example: Example) -> None:
    ambiguous, *controls = (set(word.translations) for word in measure(example))
    assert len(ambiguous) > 1
    assert [len(control) for control in controls] == [1, 1, 1]


def test_the_summary_has_the_numbers_of_the_selected_place() -> None:
    assert ContextsFigure().summary() == (
        "cosines between the vectors of a word in the contexts Tennis and Baseball, output, with"
        " its translations: Schläger 0.958 (racket, bat), Helm 0.981 (helmet, helmet), Ball 0.990"
        " (ball, ball), Mann 0.998 (man, man)."
    )
    figure = ContextsFigure("trägt", first=0, second=3, place=1)
    [word] = [word for word in measure(EXAMPLES[2]) if word.name == "hält"]
    assert "Mütze and Maske, block 1, " in figure.summary()
    assert f"hält {word.cosines[0, 3, 1]:.3f} (holding, holding)" in figure.summary()


def test_the_state_is_small() -> None:
    assert len(json.dumps(ContextsFigure().examples)) < 10_000
