"""TranslatorFigure in Python: its state, its translations, the models it sends, its errors."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn.functional import cross_entropy
from torch.testing import assert_close

from tests.widgets.test_packing import unpack
from tfmr.data import pocket
from tfmr.decode import greedy_search
from tfmr.errors import TfmrError
from tfmr.special_tokens import BOS, EOS, UNK
from tfmr.widgets import TranslatorFigure
from tfmr.widgets.packing import UNIT
from tfmr.widgets.translator import MODELS, find_model, write_models


def test_the_state_describes_the_models_but_has_no_weights() -> None:
    figure = TranslatorFigure()
    assert [model["title"] for model in figure.models] == [
        "German → English", "English → French", "English → Korean",
    ]  # fmt: skip
    assert figure.text == "Zwei Hunde spielen im Schnee."
    state = figure.get_state()
    assert len(str({key: state[key] for key in ("models", "name", "text", "beam")})) < 3000
    assert all(model["title"] in repr(figure) for model in figure.models)


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.name)
def test_a_model_has_at_most_3_mb_and_its_size_is_stated(model: Any) -> None:
    size = len(model.text().encode())
    assert size == model.describe()["bytes"] <= 3_000_000


@pytest.mark.parametrize(
    ("name", "text", "translation"),
    [
        ("multi30k-de-en", " Zwei  Hunde spielen\nim Schnee. ", "Two dogs play in the snow."),
        ("pocket-en-fr", "The red boxes are not heavy", "les boîtes rouges ne sont pas lourdes."),
        (
            "pocket-en-ko",
            "The child buys every beautiful tree",
            "아이는 모든 아름다운 나무를 사요.",
        ),
    ],
)
def test_python_translates_the_text_of_the_figure(name: str, text: str, translation: str) -> None:
    assert TranslatorFigure(name, text, beam=4).translate() == translation


def test_a_figure_stores_a_translation_with_all_its_numbers() -> None:
    figure = TranslatorFigure()
    shipped, stored = find_model(figure.name), figure.stored
    saved = shipped.load()
    source, target, maps = shipped.attention_maps(figure.text)
    assert (stored["name"], stored["text"]) == (figure.name, figure.text)
    assert stored["translation"] == figure.translate() == "Two dogs are playing in the snow."
    assert stored["source"] == saved.tokenizer.tokens(source)
    assert stored["target"] == saved.tokenizer.tokens(target)
    for kind, expected in maps.items():
        packed = "".join("".join(block) for block in stored["maps"][kind])
        assert_close(unpack(packed, expected.shape), expected, atol=0.5001 / UNIT, rtol=0)
    with torch.inference_mode():
        batch = torch.tensor([source]), torch.tensor([[BOS, *target[:-1]]])
        [logits] = saved.model().double()(*batch)
    for step, row, id in zip(stored["steps"], logits.softmax(-1), target, strict=True):
        best = row[EOS:].topk(5)
        assert [name for name, _ in step] == saved.tokenizer.tokens((best.indices + EOS).tolist())
        assert [number for _, number in step] == pytest.approx(best.values.tolist(), abs=6e-6)
        assert step[0][0] == saved.tokenizer.tokens([id])[0]
    assert len(json.dumps(stored)) < 10_000
    assert f"“{stored['translation']}”" in repr(figure)
    assert "“▁are” (0.386)" in repr(figure)


def test_a_brief_figure_stores_a_translation_and_states_it() -> None:
    figure = TranslatorFigure("pocket-en-fr", brief=True)
    assert [model["name"] for model in figure.models] == ["pocket-en-fr"]
    assert figure.stored["translation"] == figure.translate()
    weights = figure.stored["weights"]
    assert len(weights) == len(figure.stored["target"])
    for row in weights:
        assert len(row) == len(figure.stored["source"])
        assert sum(row) == pytest.approx(1, abs=0.01)
    assert f"“{figure.stored['translation']}”" in repr(figure)
    assert "“loup” to “wolf” (0.999)" in repr(figure)
    with pytest.raises(TfmrError, match="zebra"):
        TranslatorFigure("pocket-en-fr", "the zebra sings", brief=True)


@pytest.mark.parametrize("direction", ["en-fr", "en-ko"])
def test_the_words_of_a_brief_figure_are_those_that_its_model_knows(direction: str) -> None:
    figure = TranslatorFigure(f"pocket-{direction}", brief=True)
    words = figure.stored["words"]
    assert words == sorted(set(words))
    assert {"wolf", "my", "often"} < set(words)
    assert {"loup", "."} & set(words) == set()
    tokenizer = find_model(figure.name).load().tokenizer
    assert UNK not in tokenizer.encode(" ".join(words))
    german = TranslatorFigure("multi30k-de-en", brief=True)
    assert german.stored["words"] == []


@pytest.mark.parametrize("direction", ["en-fr", "en-ko"])
def test_the_least_probability_tells_test_sentences_from_shuffled_ones(direction: str) -> None:
    shipped = find_model(f"pocket-{direction}")
    saved = shipped.load()
    model, tokenizer = saved.model(), saved.tokenizer

    def probability(text: str) -> float:
        """The geometric mean of the probabilities of the generated tokens."""
        batch = torch.tensor([tokenizer.encode(text)])
        [ids] = greedy_search(model, batch)
        output = [*ids, EOS][: model.config.max_length]
        with torch.inference_mode():
            logits = model(batch, torch.tensor([[BOS, *output[:-1]]]))
        return float((-cross_entropy(logits[0], torch.tensor(output))).exp())

    sentences = [source for source, _ in pocket.split(direction).test[:40]]
    shuffled = [" ".join(sorted(sentence.split()[:-1])) for sentence in sentences[:20]]
    for each in (*shipped.examples, *sentences):
        assert probability(each) >= shipped.min_probability, each
    assert sum(probability(each) < shipped.min_probability for each in shuffled) >= 10


def test_an_unknown_word_is_an_error() -> None:
    with pytest.raises(TfmrError, match=r"model's vocabulary.*zebra"):
        TranslatorFigure("pocket-en-fr", "the zebra sings").translate()


def test_the_figure_gets_a_model_when_it_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[tuple[object, ...]] = []
    figure = TranslatorFigure()
    monkeypatch.setattr(figure, "send", lambda *message: sent.append(message))
    for content in ({"load": "pocket-en-fr"}, {"load": "none"}, {"other": 1}):
        figure._handle_custom_msg(content, [])
    assert sent == [
        ({"model": "pocket-en-fr"}, [find_model("pocket-en-fr").text().encode()]),
        ({"model": "none", "error": str(unknown())},),
    ]


def unknown() -> TfmrError:
    with pytest.raises(TfmrError, match="multi30k-de-en") as caught:
        find_model("none")
    return caught.value


def test_the_site_gets_every_model(tmp_path: Path) -> None:
    write_models(tmp_path)
    written = {path.name: path.read_text("utf-8") for path in tmp_path.iterdir()}
    assert written == {f"{model.name}.js": model.text() for model in MODELS}
