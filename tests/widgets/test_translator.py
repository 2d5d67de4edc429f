"""TranslatorFigure in Python: its state, its translations, the models it sends, its errors."""

from pathlib import Path
from typing import Any

import pytest

from tfmr.errors import TfmrError
from tfmr.widgets import TranslatorFigure
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
