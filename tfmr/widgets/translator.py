"""A translator in the page: a trained Transformer translates what a reader types."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch
import traitlets
from jaxtyping import Float
from torch import Tensor

from tfmr import checkpoint
from tfmr.analysis import record_attention
from tfmr.checkpoint import Checkpoint
from tfmr.data import pocket
from tfmr.decode import greedy_search, translate
from tfmr.errors import TfmrError, require
from tfmr.records import record_path
from tfmr.special_tokens import BOS, EOS
from tfmr.widgets.figure import LiveFigure
from tfmr.widgets.packing import pack_maps
from tfmr.widgets.page_model import page_model, read_page_model

KINDS = {"encoder": ".attention", "self": ".self_attention", "cross": ".cross_attention"}
"""The kinds of attention, with the ends of the names of their modules in the model."""


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
    min_probability: float
    """The geometric mean of the probabilities of the generated tokens is at least this large for
    more than 95 % of the model's test sentences, with greedy decoding."""

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
            "min_probability": self.min_probability,
            "bytes": len(self.text().encode()),
        }

    def attention_maps(
        self, text: str
    ) -> tuple[list[int], list[int], dict[str, Float[Tensor, "block head query key"]]]:
        """The ids of a sentence and of its greedy translation with ``EOS``, and the maps by kind.

        The kinds are those of :data:`KINDS`: the attention of the encoder, the self-attention of
        the decoder, and cross-attention. The queries of the decoder are ``BOS`` and the generated
        tokens.

        The model has the rounded weights of the page, and computes in double precision, so that the
        numbers are the same on all machines.

        Raises:
            TfmrError: if the model cannot translate the text.
        """
        saved = self.load()
        model = saved.model().double()
        source = saved.tokenizer.encode(" ".join(text.split()))
        require(len(source) > 0, "the sentence must have at least one token, got none")
        batch = torch.tensor([source])
        [generated] = greedy_search(model, batch)
        with torch.inference_mode(), record_attention(model) as recorded:
            model(batch, torch.tensor([[BOS, *generated]]))
        maps = {
            kind: torch.cat([weights for path, [weights] in recorded.items() if path.endswith(end)])
            for kind, end in KINDS.items()
        }
        return source, [*generated, EOS], maps


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
        0.45,
    ),
    ShippedModel(
        "pocket-en-fr",
        ("English", "French"),
        "the model was trained only on sentences of the pocket grammar.",
        POCKET,
        0.85,
    ),
    ShippedModel(
        "pocket-en-ko",
        ("English", "Korean"),
        "the model was trained only on sentences of the pocket grammar.",
        POCKET,
        0.9,
    ),
)
"""The models in the page, the first of which is selected."""
NAMES = tuple(shipped.name for shipped in MODELS)
SHOWN = 5
"""How many tokens are stored for each position of a translation."""


class TranslatorFigure(LiveFigure):
    """A translator that shows tokens, alternatives and attention weights of every translation.

    The figure computes in JavaScript (``tfmr/widgets/transformer.js``). It gets the weights when
    the reader asks for a translation: on a page from the site, in a notebook from this object,
    which reads them from the package. The traits ``name``, ``text`` and ``beam`` are synchronised
    with Python; ``translation`` is set by the figure.

    The figure shows the stored translation of its text first, if it begins with greedy decoding.

    A brief figure has one model and fewer controls, and loads the model when the reader begins to
    use a control. Of the attention weights it shows those of the cross-attention in the last block,
    as a mean over the heads.

    Args:
        name: name of the selected model.
        text: the text to translate; by default the model's first example.
        beam: hypotheses of the beam search, 1 or 4; 1 is greedy decoding. A brief figure requires
            1.
        models: names of the models to offer.
        brief: whether the figure is brief; it then offers only the selected model.

    Raises:
        TfmrError: if the package ships no model of a name, or if the model cannot translate the
            text.
    """

    models = traitlets.List(traitlets.Dict()).tag(sync=True)
    name = traitlets.Unicode().tag(sync=True)
    text = traitlets.Unicode().tag(sync=True)
    beam = traitlets.Int().tag(sync=True)
    translation = traitlets.Unicode().tag(sync=True)
    brief = traitlets.Bool().tag(sync=True)
    stored = traitlets.Dict().tag(sync=True)
    """What the figure shows first: the ``name`` of the model, ``text`` and its greedy
    ``translation``, and their tokens (``source`` and ``target``).

    Of a brief figure also the attention ``weights``, rounded to three decimals, with a row for each
    target token and a column for each source token, and ``words``, those of the corpus. Of another
    figure also ``steps``, the most probable tokens at each position with their probabilities,
    rounded to five decimals, and ``maps``, all attention weights; see
    :func:`tfmr.widgets.packing.pack_maps`."""

    def __init__(
        self,
        name: str = MODELS[0].name,
        text: str | None = None,
        *,
        beam: int = 1,
        models: Sequence[str] = NAMES,
        brief: bool = False,
    ) -> None:
        offered = [find_model(each) for each in models]
        require(name in models, f"name must be one of {', '.join(models)}: got {name!r}")
        require(beam in (1, 4), f"beam must be 1 (greedy decoding) or 4: got {beam}")
        require(not brief or beam == 1, f"beam must be 1 in a brief figure: got {beam}")
        selected = find_model(name)
        text = selected.examples[0] if text is None else text
        super().__init__(
            models=[model.describe() for model in ([selected] if brief else offered)],
            name=name,
            text=text,
            beam=beam,
            brief=brief,
            stored=_stored(selected, text, brief=brief),
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
        """The models that it offers, and the stored translation."""
        titles = ", ".join(model["title"] for model in self.models)
        found = self.stored
        task = (
            f"translate a sentence in your browser ({titles}). Translation of “{found['text']}”: "
            f"“{found['translation']}”"
        )
        if not self.brief:
            top = [f"“{name}” ({probability:.3f})" for [name, probability], *_ in found["steps"]]
            return f"{task}; probabilities of the generated tokens: {', '.join(top)}."
        pairs = []
        for token, row in zip(found["target"], found["weights"], strict=True):
            weight, key = max(zip(row, found["source"], strict=True), key=lambda pair: pair[0])
            pairs.append(f"“{token}” to “{key}” ({weight:.3f})")
        return f"{task}; largest attention weights of the generated tokens: {', '.join(pairs)}."


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


def _stored(shipped: ShippedModel, text: str, *, brief: bool) -> dict[str, Any]:
    """The translation of a text, as the state of a figure has it."""
    saved = shipped.load()
    model, tokenizer = saved.model().double(), saved.tokenizer
    [translation] = translate(model, tokenizer, [text])
    source, target, maps = shipped.attention_maps(text)
    stored = {
        "name": shipped.name,
        "text": text,
        "translation": translation,
        "source": tokenizer.tokens(source),
        "target": tokenizer.tokens(target),
    }
    if brief:
        weights = maps["cross"][-1].mean(dim=0)
        rounded = [[round(weight, 3) for weight in row] for row in weights.tolist()]
        return {**stored, "weights": rounded, "words": _words(shipped.direction)}
    with torch.inference_mode():
        logits = model(torch.tensor([source]), torch.tensor([[BOS, *target[:-1]]]))[0]
    best = logits.softmax(dim=-1)[:, EOS:].topk(SHOWN)
    steps = [
        [[name, round(number, 5)] for name, number in zip(tokenizer.tokens(ids), row, strict=True)]
        for ids, row in zip((best.indices + EOS).tolist(), best.values.tolist(), strict=True)
    ]
    return {**stored, "steps": steps, "maps": pack_maps(maps)}


@cache
def _words(direction: str) -> list[str]:
    """The source words of the pocket grammar; none for another direction."""
    if direction not in pocket.LANGUAGES:
        return []
    sources = (source for source, _ in pocket.split(direction).train)
    return sorted({word for source in sources for word in source.split()} - {"."})


@cache
def _page_text(name: str) -> str:
    return page_model(checkpoint.load(record_path(name) / "model.safetensors"), name)


@cache
def _rounded(name: str) -> Checkpoint:
    return read_page_model(_page_text(name))
