"""From sentences to sentences: in their order, as soon as can be, by every search."""

import pytest
import torch
from torch import Tensor

from tests.decode.models import SENTENCES, TOKENIZER, WORDS, recurrent, transformer
from tfmr.data.tokenizer import Tokenizer
from tfmr.decode import (
    Sampling,
    beam_search_naive,
    greedy_search_naive,
    sample,
    translate,
    translate_each,
)
from tfmr.errors import TfmrError

TEXTS = [TOKENIZER.decode(ids) for ids in SENTENCES]


@pytest.mark.parametrize("batch", [1, 2, 64])
def test_translations_come_in_the_order_of_the_sentences(batch: int) -> None:
    model = transformer()
    done: list[int] = []
    outputs = translate(model, TOKENIZER, TEXTS, batch=batch, on_finished=done.append)
    assert outputs == [
        TOKENIZER.decode(greedy_search_naive(model, torch.tensor([ids]))) for ids in SENTENCES
    ]
    assert sum(done) == len(TEXTS)
    assert translate(model, TOKENIZER, []) == []


@pytest.mark.parametrize("batch", [2, 64])
def test_by_beam_search(batch: int) -> None:
    done: list[int] = []
    for model in (transformer("pre"), recurrent()):
        found = [beam_search_naive(model, torch.tensor([ids]), 3, 1.0)[0].ids for ids in SENTENCES]
        outputs = translate(
            model, TOKENIZER, TEXTS, beam=3, alpha=1.0, batch=batch, on_finished=done.append
        )
        assert outputs == [TOKENIZER.decode(ids) for ids in found]
    assert sum(done) == 2 * len(TEXTS)


@pytest.mark.parametrize("batch", [1, 4])
def test_by_sampling_a_sentence_draws_by_its_number(batch: int) -> None:
    model, sampling = transformer(), Sampling(temperature=1.5)
    outputs = translate(model, TOKENIZER, TEXTS, sampling=sampling, seed=7, batch=batch)
    for number, ids in enumerate(SENTENCES):
        [alone] = sample(model, torch.tensor([ids]), sampling, seeds=[7 + number])
        assert outputs[number] == TOKENIZER.decode(alone)
    assert outputs != translate(model, TOKENIZER, TEXTS, sampling=sampling, seed=8)
    rest = translate_each(model, TOKENIZER, TEXTS[2:], sampling=sampling, seed=7, first=3)
    assert [translation.text for translation in rest] == outputs[2:]


def test_a_translation_comes_as_soon_as_it_and_all_before_it_are_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model, read = transformer(), []
    plain = model.start

    def start(source: Tensor, longest: int, beam: int = 1) -> object:
        read.extend(len(row[row != 0]) for row in source)
        return plain(source, longest, beam)

    monkeypatch.setattr(model, "start", start)
    # By length: 17; 11 12 | 18 19 20; 21 22 23 | 13 to 16; 4 to 10. The first is in the last batch.
    translations = translate_each(model, TOKENIZER, TEXTS, batch=2)
    assert read == []
    assert next(translations).source == SENTENCES[0]
    assert read == [1, 2, 3, 3, 4, 7]
    assert [t.source for t in translations] == SENTENCES[1:]

    read.clear()
    translations = translate_each(model, TOKENIZER, TEXTS[::-1], batch=2)
    assert next(translations).source == SENTENCES[5]
    assert read == [1, 2, 3, 3]

    # A long text does not wait for its shortest sentence: it is sorted by windows.
    read.clear()
    monkeypatch.setattr("tfmr.decode.sentences.WINDOW", 1)
    translations = translate_each(model, TOKENIZER, TEXTS, batch=2)
    outputs = [next(translations).text, next(translations).text]
    assert read == [2, 7]
    outputs += [translation.text for translation in translations]
    assert outputs == translate(model, TOKENIZER, TEXTS)


def test_a_translation_knows_its_ids() -> None:
    model = transformer()
    for ids, translation in zip(SENTENCES, translate_each(model, TOKENIZER, TEXTS), strict=True):
        assert translation.source == ids
        assert translation.ids == greedy_search_naive(model, torch.tensor([ids]))
        assert translation.text == TOKENIZER.decode(translation.ids)


@pytest.mark.parametrize(
    ("sentences", "message"),
    [
        (["w1 w2", ""], "sentence 2 is empty: there is nothing to translate"),
        ([" \t", "w1"], "sentence 1 is empty"),
        (
            ["w1", "w2 dragon w1 gold"],
            "sentence 2 has words that the model never learnt: dragon, gold",
        ),
        (["w1", " ".join(["w2"] * 10)], "sentence 2 has 10 tokens and the model reads at most 9"),
    ],
)
def test_a_sentence_that_cannot_be_translated(sentences: list[str], message: str) -> None:
    for call in (translate, translate_each):
        with pytest.raises(TfmrError, match=message) as error:
            call(transformer(), TOKENIZER, sentences)
        assert "\n" not in str(error.value)
    with pytest.raises(TfmrError, match=message.replace("sentence ", "sentence 4")):
        translate_each(transformer(), TOKENIZER, sentences, first=41)


def test_white_space_is_empty_to_byte_pairs_too() -> None:
    tokenizer = Tokenizer.train_bpe(["a b c"], 260)
    model = transformer(source_vocab=260, target_vocab=260)
    for text in ("", " "):
        with pytest.raises(TfmrError, match="sentence 1 is empty"):
            translate(model, tokenizer, [text])


def test_another_vocabulary_is_refused() -> None:
    with pytest.raises(TfmrError, match="has 29 tokens and the model 30: use the tokenizer that"):
        translate(transformer(), Tokenizer("words", WORDS[1:]), ["w1"])


def test_options_that_do_not_go_together() -> None:
    with pytest.raises(TfmrError, match="either searched for or drawn: got beam=4 and sampling"):
        translate(transformer(), TOKENIZER, TEXTS, beam=4, sampling=Sampling())
    with pytest.raises(TfmrError, match="at least one hypothesis wide"):
        translate(transformer(), TOKENIZER, TEXTS, beam=0)
    with pytest.raises(TfmrError, match=r"call model.eval\(\) first"):
        translate(transformer().train(), TOKENIZER, [])
