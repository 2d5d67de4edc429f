"""A translator in the page: a trained Transformer translates what a reader types."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import traitlets

from tfmr import checkpoint
from tfmr.checkpoint import Checkpoint
from tfmr.decode import translate
from tfmr.errors import TfmrError, require
from tfmr.records import record_path
from tfmr.widgets.figure import LiveFigure
from tfmr.widgets.page_model import page_model, read_page_model


@dataclass(frozen=True)
class ShippedModel:
    """A trained model that the package ships, as the translator offers it."""

    name: str
    """The folder of its record."""
    languages: tuple[str, str]
    """Source and target language."""
    about: str
    """What it translates; completes a sentence."""
    examples: tuple[str, ...]
    """Sentences to begin with."""

    @property
    def direction(self) -> str:
        """Source and target language as codes, such as ``"de-en"``."""
        return self.name[-5:]

    def text(self) -> str:
        """The content of its file for the page; see :mod:`tfmr.widgets.page_model`."""
        return _page_text(self.name)

    def load(self) -> Checkpoint:
        """The model with the rounded weights of the page, and its tokenizer."""
        return _rounded(self.name)

    def describe(self) -> dict[str, Any]:
        """What the figure knows of the model before it is loaded; ``bytes`` is its size."""
        return {
            "name": self.name,
            "title": " → ".join(self.languages),
            "source": self.languages[0],
            "codes": self.direction.split("-"),
            "about": self.about,
            "examples": list(self.examples),
            "bytes": len(self.text().encode()),
        }


POCKET = (
    "The brave wolf sings in the garden.",
    "The child buys every beautiful tree.",
    "The red boxes are not heavy.",
    "A curious woman often dances.",
)
MODELS = (
    ShippedModel(
        "multi30k-de-en",
        ("German", "English"),
        "the model was trained on 29,000 descriptions of photographs (Multi30k) and translates "
        "similar ones best.",
        (
            "Zwei Hunde spielen im Schnee.",
            "Eine Frau in einem roten Kleid liest ein Buch am Strand.",
            "Ein kleiner Junge springt von einem Felsen ins Wasser.",
            "Die Köchin schneidet in der Küche Gemüse.",
        ),
    ),
    ShippedModel(
        "pocket-en-fr",
        ("English", "French"),
        "the model was trained only on sentences of the pocket grammar.",
        POCKET,
    ),
    ShippedModel(
        "pocket-en-ko",
        ("English", "Korean"),
        "the model was trained only on sentences of the pocket grammar.",
        POCKET,
    ),
)
"""The models in the page, the first of which is selected."""
NAMES = tuple(shipped.name for shipped in MODELS)


class TranslatorFigure(LiveFigure):
    """A translator that shows tokens, alternatives and attention weights of every translation.

    The figure computes in JavaScript (``tfmr/widgets/transformer.js``). It gets the weights when
    the reader asks for a translation: on a page from the site, in a notebook from this object,
    which reads them from the package. The traits ``name``, ``text`` and ``beam`` are synchronised
    with Python; ``translation`` is set by the figure.

    Args:
        name: name of the selected model.
        text: the text to translate; by default the model's first example.
        beam: hypotheses of the beam search; 1 is greedy decoding.
        models: names of the models to offer.

    Raises:
        TfmrError: if the package ships no model of a name.
    """

    models = traitlets.List(traitlets.Dict()).tag(sync=True)
    name = traitlets.Unicode().tag(sync=True)
    text = traitlets.Unicode().tag(sync=True)
    beam = traitlets.Int().tag(sync=True)
    translation = traitlets.Unicode().tag(sync=True)

    def __init__(
        self,
        name: str = MODELS[0].name,
        text: str | None = None,
        *,
        beam: int = 1,
        models: Sequence[str] = NAMES,
    ) -> None:
        offered = [find_model(each) for each in models]
        require(name in models, f"name must be one of {', '.join(models)}: got {name!r}")
        require(beam in (1, 4), f"beam must be 1 (greedy decoding) or 4: got {beam}")
        super().__init__(
            models=[model.describe() for model in offered],
            name=name,
            text=find_model(name).examples[0] if text is None else text,
            beam=beam,
        )
        self.on_msg(send_model)

    def translate(self) -> str:
        """The translation of the current text, computed in Python with the weights of the page.

        Raises:
            TfmrError: as :func:`tfmr.decode.sentences.translate`.
        """
        saved = find_model(self.name).load()
        [result] = translate(saved.model(), saved.tokenizer, [self.text], beam=self.beam)
        return result

    def summary(self) -> str:
        """The models that it offers."""
        titles = ", ".join(model["title"] for model in self.models)
        return f"translate a sentence in your browser ({titles})."


def send_model(figure: LiveFigure, content: dict[str, Any], _: object) -> None:
    """Answer the message ``{"load": name}`` of a figure with the file of a model.

    This is a callback for :meth:`ipywidgets.Widget.on_msg`.
    """
    name = content.get("load")
    if not isinstance(name, str):
        return
    try:
        text = find_model(name).text()
    except TfmrError as error:
        figure.send({"model": name, "error": str(error)})
    else:
        figure.send({"model": name}, [text.encode()])


def find_model(name: str) -> ShippedModel:
    """The shipped model of a name.

    Raises:
        TfmrError: if there is none.
    """
    for model in MODELS:
        if model.name == name:
            return model
    names = ", ".join(model.name for model in MODELS)
    raise TfmrError(f"expected one of the models {names}: got {name!r}")


def write_models(folder: Path) -> None:
    """Write the file of every model to ``folder``, for the site."""
    folder.mkdir(parents=True, exist_ok=True)
    for model in MODELS:
        (folder / f"{model.name}.js").write_text(model.text(), encoding="utf-8")


@cache
def _page_text(name: str) -> str:
    return page_model(checkpoint.load(record_path(name) / "model.safetensors"), name)


@cache
def _rounded(name: str) -> Checkpoint:
    return read_page_model(_page_text(name))
