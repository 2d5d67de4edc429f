"""One word in two contexts: its vectors in a trained encoder, and its translations."""

from dataclasses import dataclass
from functools import cache
from typing import cast

import torch
import torch.nn.functional as F
import traitlets
from jaxtyping import Float
from torch import Tensor

from tfmr.analysis import record_residual_stream
from tfmr.decode import translate
from tfmr.errors import require
from tfmr.model import Transformer
from tfmr.widgets.figure import LiveFigure
from tfmr.widgets.heads import MODEL
from tfmr.widgets.packing import pack

SUBJECT = "Mann"
"""The control in the same sentences; the second word of every translation is its translation."""
PLACES = ("embedding", "block 1", "block 2", "block 3", "output")


@dataclass(frozen=True)
class Example:
    """A sentence with places for a context and for a word."""

    sentence: str
    words: tuple[str, ...]
    """The ambiguous word, then the controls that replace it."""
    contexts: tuple[str, ...]
    target: int
    """The index of the translated word in the words of a translation."""

    def fill(self, word: str, context: int) -> str:
        """The sentence with a word; for :data:`SUBJECT`, the sentence with the ambiguous word."""
        filler = word if word in self.words else self.words[0]
        return self.sentence.format(context=self.contexts[context], word=filler)


EXAMPLES = (
    Example(
        f"Ein {SUBJECT} spielt {{context}} mit einem {{word}}.",
        ("Schläger", "Helm", "Ball"),
        ("Tennis", "Baseball", "Golf", "Hockey", "Fußball", "Musik"),
        -1,
    ),
    Example(
        f"Ein {SUBJECT} spielt {{context}} auf dem {{word}}.",
        ("Platz", "Dach", "Boot"),
        ("Tennis", "Fußball", "Basketball", "Baseball", "Golf", "Musik"),
        -1,
    ),
    Example(
        f"Ein {SUBJECT} {{word}} eine {{context}}.",
        ("trägt", "hält", "repariert"),
        ("Mütze", "Leiter", "Jacke", "Maske", "Tasche", "Gitarre"),
        -3,
    ),
)
WORDS = tuple(example.words[0] for example in EXAMPLES)
N_CONTEXTS = len(EXAMPLES[0].contexts)
"""The number of contexts, the same in every example."""


@dataclass(frozen=True)
class Measured:
    """A word in all contexts of an example."""

    name: str
    translations: list[str]
    """The translation of the word in each context."""
    cosines: Float[Tensor, "context context place"]
    """The cosines between its vectors in two contexts, rounded to three decimals.

    The places are those of :data:`PLACES`: the embedding with its position, the residual stream
    after each block, and the encoder output.
    """


@cache
def measure(example: Example) -> list[Measured]:
    """The words of an example and :data:`SUBJECT`.

    The model has the rounded weights of the page, and computes in double precision, so that the
    numbers are the same on all machines.
    """
    saved = MODEL.load()
    model, tokenizer = cast(Transformer, saved.model().double()), saved.tokenizer
    found = []
    for name in (*example.words, SUBJECT):
        sentences = [example.fill(name, context) for context in range(N_CONTEXTS)]
        paths = []
        for sentence in sentences:
            ids = tokenizer.encode(sentence)
            at = tokenizer.tokens(ids).index(f"▁{name}")
            with torch.inference_mode(), record_residual_stream(model.encoder) as stream:
                memory, _ = model.encode(torch.tensor([ids]))
            paths.append(torch.cat([*stream, memory])[:, at])
        unit = F.normalize(torch.stack(paths), dim=-1)
        cosines = torch.einsum("apd, bpd -> abp", unit, unit).round(decimals=3)
        target = 1 if name == SUBJECT else example.target
        translations = [
            text.rstrip(".").split()[target] for text in translate(model, tokenizer, sentences)
        ]
        found.append(Measured(name, translations, cosines))
    return found


class ContextsFigure(LiveFigure):
    """The cosine between the vectors of a word in two contexts, after each block of an encoder.

    Args:
        word: the ambiguous word, one of :data:`WORDS`.
        first: the index of the first context.
        second: the index of the second context.
        place: the index in :data:`PLACES`.

    Raises:
        TfmrError: if there is no such word, context or place.
    """

    examples = traitlets.List(traitlets.Dict()).tag(sync=True)
    places = traitlets.List(traitlets.Unicode()).tag(sync=True)
    word = traitlets.Enum(WORDS).tag(sync=True)
    first = traitlets.Int(min=0, max=N_CONTEXTS - 1).tag(sync=True)
    second = traitlets.Int(min=0, max=N_CONTEXTS - 1).tag(sync=True)
    place = traitlets.Int(min=0, max=len(PLACES) - 1).tag(sync=True)

    def __init__(
        self, word: str = WORDS[0], *, first: int = 0, second: int = 1, place: int = len(PLACES) - 1
    ) -> None:
        require(word in WORDS, f"word must be one of {', '.join(WORDS)}: got {word}")
        for name, value, count in (
            ("first", first, N_CONTEXTS),
            ("second", second, N_CONTEXTS),
            ("place", place, len(PLACES)),
        ):
            require(0 <= value < count, f"{name} must be from 0 to {count - 1}: got {value}")
        super().__init__(
            examples=[
                {
                    "sentence": example.sentence,
                    "contexts": list(example.contexts),
                    "words": [
                        {
                            "name": each.name,
                            "translations": each.translations,
                            "cosines": pack(each.cosines.flatten(0, 1)),
                        }
                        for each in measure(example)
                    ],
                }
                for example in EXAMPLES
            ],
            places=list(PLACES),
            word=word,
            first=first,
            second=second,
            place=place,
        )

    def summary(self) -> str:
        """The cosines of all words at the selected place, and their translations."""
        example = EXAMPLES[WORDS.index(self.word)]
        contexts = " and ".join(example.contexts[i] for i in (self.first, self.second))
        rows = (
            f"{each.name} {each.cosines[self.first, self.second, self.place]:.3f}"
            f" ({each.translations[self.first]}, {each.translations[self.second]})"
            for each in measure(example)
        )
        return (
            f"cosines between the vectors of a word in the contexts {contexts},"
            f" {PLACES[self.place]}, with its translations: {', '.join(rows)}."
        )
