"""Two attention heads of a trained translator: their weights for the same query."""

from functools import cache
from itertools import product
from typing import Any

import torch
import traitlets
from jaxtyping import Float
from torch import Tensor

from tfmr.analysis import record_attention
from tfmr.checkpoint import load_translator
from tfmr.data.tokenizer import Tokenizer
from tfmr.decode import translate
from tfmr.errors import require
from tfmr.special_tokens import BOS
from tfmr.translator import Translator
from tfmr.widgets.figure import LiveFigure

SENTENCE = "Ein Mann spielt {} mit einem {}."
PLAYED = ("Tennis", "Baseball", "Fußball", "Gitarre")
"""The words that can be the fourth of the sentence."""
NOUNS = ("Schläger", "Ball", "Hund", "Freund")
"""The words that can be the seventh."""
LENGTH = 8
"""The tokens of every such sentence: each word is one, and the full stop."""
BLOCK, HEADS = 1, (1, 2)
"""The encoder block and its two heads, counted from 0; the figure counts from 1."""


@cache
def _translator() -> tuple[Translator, Tokenizer]:
    model, tokenizer = load_translator("multi30k-de-en")
    return model.double(), tokenizer  # so that every machine has the same digits


@cache
def _compute(played: str, noun: str) -> tuple[list[str], str, Float[Tensor, "head query key"]]:
    """The tokens, the translation and the attention weights of a sentence."""
    model, tokenizer = _translator()
    text = SENTENCE.format(played, noun)
    ids = tokenizer.encode(text)
    with torch.inference_mode(), record_attention(model) as maps:
        model(torch.tensor([ids]), torch.tensor([[BOS]]))
    (weights,) = maps[f"encoder.blocks.{BLOCK}.attention"]
    tokens = [tokenizer.decode([each]) for each in ids]
    return tokens, translate(model, tokenizer, [text])[0], weights[0, list(HEADS)]


class TwoHeadsFigure(LiveFigure):
    """The attention weights of one token in two heads of a trained encoder.

    The state has the weights of every sentence, in hundredths. The traits ``played``, ``noun`` and
    ``query`` are synchronised with Python.

    Args:
        played: the fourth word of the sentence, one of :data:`PLAYED`.
        noun: the seventh word, one of :data:`NOUNS`.
        query: index of the token whose weights are shown.

    Raises:
        TfmrError: if there is no such word or token.
    """

    sentences = traitlets.List(traitlets.Dict()).tag(sync=True)
    names = traitlets.List(traitlets.Unicode()).tag(sync=True)
    played = traitlets.Enum(PLAYED).tag(sync=True)
    noun = traitlets.Enum(NOUNS).tag(sync=True)
    query = traitlets.Int(min=0, max=LENGTH - 1).tag(sync=True)

    def __init__(self, *, played: str = "Tennis", noun: str = "Schläger", query: int = 6) -> None:
        for name, value, known in (("played", played, PLAYED), ("noun", noun, NOUNS)):
            require(value in known, f"{name} must be one of {', '.join(known)}: got {value}")
        require(0 <= query < LENGTH, f"query must be from 0 to {LENGTH - 1}: got {query}")
        super().__init__(
            sentences=[_stored(*words) for words in product(PLAYED, NOUNS)],
            names=[f"head {head + 1}" for head in HEADS],
            played=played,
            noun=noun,
            query=query,
        )

    def weights(self) -> Float[Tensor, "head key"]:
        """The current attention weights of both heads."""
        return _compute(self.played, self.noun)[2][:, self.query]

    def summary(self) -> str:
        """The current attention weights."""
        tokens = _compute(self.played, self.noun)[0]
        heads = (
            f"{name}: {', '.join(f'{t} {w:.2f}' for t, w in zip(tokens, row, strict=True))}"
            for name, row in zip(self.names, self.weights().tolist(), strict=True)
        )
        return (
            f"the attention weights of “{tokens[self.query]}” in two heads of encoder block "
            f"{BLOCK + 1} of a trained translator. {'; '.join(heads)}."
        )


def _stored(played: str, noun: str) -> dict[str, Any]:
    """A sentence as the state has it: each map is a text, whose rows are separated by slashes."""
    tokens, translation, weights = _compute(played, noun)
    maps = (100 * weights).round().int().tolist()
    return {
        "played": played,
        "noun": noun,
        "tokens": " ".join(tokens),
        "translation": translation,
        "weights": ["/".join(" ".join(map(str, row)) for row in rows) for rows in maps],
    }
