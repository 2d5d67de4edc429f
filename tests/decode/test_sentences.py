"""Translating text: every search, in order, streamed; empty and untranslatable sentences."""

import pytest
import torch
from torch import Tensor

from tests.decode.models import SENTENCES, TOKENIZER, WORDS, recurrent, transformer
from tfmr.data.text import canonical
from tfmr.data.tokenizer import Tokenizer
from tfmr.decode import (
    Sampling,
    Translation,
    beam_search_naive,
    greedy_search_naive,
    sample,
    translate,
    translate_each,
)
from tfmr.errors import TfmrError
from tfmr.special_tokens import PAD

TEXTS = [TOKENIZER.decode(ids) for ids in SENTENCES]


@pytest.mark.parametrize("batch_size", [2, 64])
def test_translations_are_in_the_order_of_the_sentences(batch_size: int) -> None:
    model = transformer()
    finished: list[int] = []
    outputs = translate(model, TOKENIZER, TEXTS, batch_size=batch_size, on_finished=finished.append)
    found = list(translate_each(model, TOKENIZER, TEXTS, batch_size=batch_size))
    expected = [greedy_search_naive(model, torch.tensor([ids])) for ids in SENTENCES]
    assert [each.source for each in found] == SENTENCES
    assert [each.ids for each in found] == expected
    assert outputs == [each.text for each in found] == [*map(TOKENIZER.decode, expected)]
    assert sum(finished) == len(TEXTS)
    assert translate(model, TOKENIZER, []) == []


def test_beam_search() -> None:
    finished: list[int] = []
    for model in (transformer("pre"), recurrent()):
        found = [beam_search_naive(model, torch.tensor([ids]), 3, 1.0)[0].ids for ids in SENTENCES]
        options = {"beam": 3, "alpha": 1.0, "batch_size": 2}
        outputs = translate(model, TOKENIZER, TEXTS, on_finished=finished.append, **options)
        assert outputs == [TOKENIZER.decode(ids) for ids in found]
    assert sum(finished) == 2 * len(TEXTS)


def test_sampling_seeds_each_sentence_by_its_number() -> None:
    model, sampling = transformer(), Sampling(temperature=1.5)
    outputs = translate(model, TOKENIZER, TEXTS, sampling=sampling, seed=7, batch_size=4)
    for number, ids in enumerate(SENTENCES):
        [alone] = sample(model, torch.tensor([ids]), sampling, seeds=[7 + number])
        assert outputs[number] == TOKENIZER.decode(alone)
    assert outputs != translate(model, TOKENIZER, TEXTS, sampling=sampling, seed=8)
    rest = translate_each(model, TOKENIZER, TEXTS[2:], sampling=sampling, seed=7, first_number=3)
    assert [translation.text for translation in rest] == outputs[2:]


def test_translations_are_streamed(monkeypatch: pytest.MonkeyPatch) -> None:
    model, lengths = transformer(), []
    start = model.start

    def recording_start(source: Tensor, max_new_tokens: int, beam: int = 1) -> object:
        lengths.extend(len(row[row != PAD]) for row in source)
        return start(source, max_new_tokens, beam)

    monkeypatch.setattr(model, "start", recording_start)
    # Batches by length: 17; 11 12 | 18 19 20; 21 22 23 | 13 14 15 16; 4 5 6 7 8 9 10.
    # The first sentence is in the last batch.
    translations = translate_each(model, TOKENIZER, TEXTS, batch_size=2)
    assert lengths == []
    assert next(translations).source == SENTENCES[0]
    assert lengths == [1, 2, 3, 3, 4, 7]
    assert [t.source for t in translations] == SENTENCES[1:]

    lengths.clear()
    translations = translate_each(model, TOKENIZER, TEXTS[::-1], batch_size=2)
    assert next(translations).source == SENTENCES[5]
    assert lengths == [1, 2, 3, 3]

    # Only the sentences of one window are sorted by length.
    lengths.clear()
    monkeypatch.setattr("tfmr.decode.sentences.WINDOW", 1)
    translations = translate_each(model, TOKENIZER, TEXTS, batch_size=2)
    outputs = [next(translations).text, next(translations).text]
    assert lengths == [2, 7]
    outputs += [translation.text for translation in translations]
    assert outputs == translate(model, TOKENIZER, TEXTS)


@pytest.mark.parametrize("options", [{}, {"beam": 2}, {"sampling": Sampling()}], ids=str)
def test_empty_sentences_have_empty_translations(options: dict[str, object]) -> None:
    model, finished = transformer(), []
    options = options | {"batch_size": 2}
    # The seed of a sentence depends on its number, so empty sentences replace others.
    expected = translate(model, TOKENIZER, ["w0", *TEXTS[:2], "w0", "w0", *TEXTS[2:]], **options)
    texts = ["", *TEXTS[:2], " \t", "\u00a0", *TEXTS[2:]]
    outputs = translate(model, TOKENIZER, texts, on_finished=finished.append, **options)
    assert outputs == ["", *expected[1:3], "", "", *expected[5:]]
    assert sum(finished) == len(texts)
    assert list(translate_each(model, TOKENIZER, ["", ""])) == [Translation([], [], "")] * 2


def test_half_a_character_is_reported_with_the_number_of_its_sentence() -> None:
    model, errors = transformer(), []
    with pytest.raises(TfmrError, match=r"sentence 2: .* U\+D800"):
        translate(model, TOKENIZER, ["w1", "w2 \ud800"])
    texts = ["w1", "w2 \ud800", "w3 dragon", "w2"]
    each = translate_each(
        *(model, TOKENIZER, texts), on_error=lambda number, error: errors.append((number, error))
    )
    expected = translate(model, TOKENIZER, ["w1", "", "", "w2"])
    assert [translation.text for translation in each] == expected
    assert [number for number, _ in errors] == [2, 3]


def test_a_generated_text_is_one_line() -> None:
    """Random weights generate every byte: line breaks, control characters, half characters."""
    tokenizer = Tokenizer.train_bpe(["a b c"], 260)
    torch.manual_seed(1)
    model = transformer(source_vocab=260, target_vocab=260)
    texts = translate(model, tokenizer, ["a b c"] * 60, sampling=Sampling(temperature=9.0))
    raw = [
        tokenizer.decode(translation.ids)
        for translation in translate_each(
            model, tokenizer, ["a b c"] * 60, sampling=Sampling(temperature=9.0)
        )
    ]
    assert any(len(text.splitlines()) > 1 for text in raw)
    assert texts == [canonical(text) for text in raw]
    assert not any(character < " " for text in texts for character in text)


def test_white_space_is_empty_with_byte_pairs() -> None:
    tokenizer = Tokenizer.train_bpe(["a b c"], 260)
    model = transformer(source_vocab=260, target_vocab=260)
    assert translate(model, tokenizer, ["", " "]) == ["", ""]


@pytest.mark.parametrize(
    ("sentence", "message"),
    [
        ("w2 dragon w1 gold", "has words outside the model's vocabulary: dragon, gold"),
        (" ".join(["w2"] * 10), "has 10 tokens and the model's max_length is 9"),
    ],
)
def test_sentences_that_cannot_be_translated(sentence: str, message: str) -> None:
    model, texts = transformer(), [*TEXTS, sentence, "", "w1"]
    for call in (translate, translate_each):  # before anything is translated
        with pytest.raises(TfmrError, match=f"sentence 7 {message}"):
            call(model, TOKENIZER, texts)

    errors: list[tuple[int, str]] = []
    translations = translate_each(
        *(model, TOKENIZER, texts),
        first_number=41,
        on_error=lambda number, error: errors.append((number, str(error))),
    )
    expected = [*translate(model, TOKENIZER, TEXTS), "", "", *translate(model, TOKENIZER, ["w1"])]
    assert [translation.text for translation in translations] == expected
    [(number, text)] = errors
    assert number == 47
    assert text.startswith(f"sentence 47 {message}")


def test_tokenizer_of_another_model() -> None:
    with pytest.raises(TfmrError, match="has 29 tokens and the model 30: use the tokenizer that"):
        translate(transformer(), Tokenizer("words", WORDS[1:]), ["w1"])


def test_invalid_options() -> None:
    with pytest.raises(TfmrError, match=r"exclude.*got beam=4.*sampling"):
        translate(transformer(), TOKENIZER, TEXTS, beam=4, sampling=Sampling())
    with pytest.raises(TfmrError, match="at least 1 hypothesis"):  # before the first is translated
        translate_each(transformer(), TOKENIZER, TEXTS, beam=0)
    with pytest.raises(TfmrError, match=r"batch_size.*1.*got 0"):
        translate(transformer(), TOKENIZER, TEXTS, batch_size=0)
    with pytest.raises(TfmrError, match=r"call model.eval\(\) first"):
        translate(transformer().train(), TOKENIZER, [])
