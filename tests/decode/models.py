"""Models that have learnt nothing, but differ in what they say and come to an end now and then."""

import dataclasses
from collections.abc import Callable
from itertools import product
from typing import TypeVar

import pytest
import torch
from torch import Tensor, nn

from tfmr.data.tokenizer import Tokenizer
from tfmr.model import Transformer, TransformerConfig
from tfmr.seq2seq import Seq2Seq, Seq2SeqConfig
from tfmr.special_tokens import EOS
from tfmr.translator import Translator

WORDS = [f"w{number}" for number in range(26)]
TOKENIZER = Tokenizer("words", WORDS)
LIMIT = 9
"""The most tokens of a sentence, and of a translation."""
TINY = TransformerConfig(
    30, 30, d_model=16, n_heads=2, d_ff=32, n_encoder=1, n_decoder=2, dropout=0.0, max_length=LIMIT
)
RECURRENT = Seq2SeqConfig(
    source_vocab=30, target_vocab=30, d_model=16, dropout=0.0, tie="none", max_length=LIMIT
)
SENTENCES = [[4, 5, 6, 7, 8, 9, 10], [11, 12], [13, 14, 15, 16], [17], [18, 19, 20], [21, 22, 23]]


def transformer(norm: str = "post", position: str = "sinusoidal", **changed: object) -> Transformer:
    """A Transformer that minds every word."""
    torch.manual_seed(1)
    choices = {"norm": norm, "position": position, "tie": "none", **changed}
    return louder(Transformer(dataclasses.replace(TINY, **choices)))


def recurrent(**changed: object) -> Seq2Seq:
    """A recurrent translator that does."""
    torch.manual_seed(1)
    return louder(Seq2Seq(dataclasses.replace(RECURRENT, **changed)))


M = TypeVar("M", Transformer, Seq2Seq)


def louder(model: M) -> M:
    """Larger weights, more ends, in double precision."""
    model.eval().double()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 2:
                parameter.mul_(1.5)
        model.output.weight[EOS].mul_(2)
    return model


MODELS: dict[str, Callable[..., Translator]] = {
    f"{norm} {position}": lambda norm=norm, position=position, **changed: transformer(
        norm, position, **changed
    )
    for norm, position in product(["post", "pre"], ["sinusoidal", "learned", "rotary"])
} | {
    "lstm with attention": recurrent,
    "gru": lambda **changed: recurrent(cell="gru", attention=False, **changed),
}


@dataclasses.dataclass(frozen=True)
class TableConfig:
    """The sizes of a :class:`Table`."""

    source_vocab: int = 6
    target_vocab: int = 6
    max_length: int = 6


class Table(Translator):
    """A translator that looks its scores up: numbers drawn for each source and each prefix."""

    def __init__(self, config: TableConfig, seed: int = 0, spread: float = 2.0, end: float = 0.0):
        super().__init__()
        self.config = config
        self.seed, self.spread, self.end = seed, spread, end
        self.output = nn.Linear(1, 1, dtype=torch.float64)
        self.eval()

    def row(self, source: list[int], prefix: list[int]) -> Tensor:
        generator = torch.Generator().manual_seed(hash((self.seed, *source, -1, *prefix)) % 2**31)
        scores = torch.randn(self.config.target_vocab, generator=generator, dtype=torch.float64)
        scores *= self.spread
        scores[EOS] += self.end
        return scores

    def hidden(self, source: Tensor, target: Tensor) -> Tensor:
        return torch.stack(
            [
                torch.stack([self.row(s, t[: n + 1]) for n in range(len(t))])
                for s, t in zip(source.tolist(), target.tolist(), strict=True)
            ]
        )

    def scores(self, x: Tensor) -> Tensor:
        return x

    def start(self, source: Tensor, longest: int, beam: int = 1) -> "Prefixes":
        return Prefixes([row for row in source.tolist() for _ in range(beam)], beam, longest)

    def step(self, tokens: Tensor, state: "Prefixes") -> Tensor:
        for said, token in zip(state.said, tokens.tolist(), strict=True):
            said.append(token)
        assert all(len(said) <= state.longest for said in state.said)
        rows = zip(state.sources, state.said, strict=True)
        return torch.stack([self.row(source, said) for source, said in rows])


class Prefixes:
    """All that a :class:`Table` was told: a :class:`tfmr.translator.DecoderState`."""

    def __init__(self, sources: list[list[int]], beam: int, longest: int) -> None:
        self.sources, self.beam, self.longest = sources, beam, longest
        self.said: list[list[int]] = [[] for _ in sources]

    def keep(self, sentences: Tensor) -> None:
        rows = [row * self.beam + j for row in sentences.tolist() for j in range(self.beam)]
        self.sources = [self.sources[row] for row in rows]
        self.said = [self.said[row] for row in rows]

    def reorder(self, parents: Tensor) -> None:
        rows = [i * self.beam + j for i, row in enumerate(parents.tolist()) for j in row]
        self.said = [list(self.said[row]) for row in rows]


def favour(model: Translator, bonus: dict[int, float]) -> None:
    """Add to the scores of some tokens."""
    more = torch.zeros(model.config.target_vocab, dtype=model.output.weight.dtype)
    for token, value in bonus.items():
        more[token] = value
    model.output.bias = nn.Parameter(more)


def count_rows(monkeypatch: pytest.MonkeyPatch, model: Translator) -> list[int]:
    """How many rows each step is given, filled while the model translates."""
    seen: list[int] = []
    plain = model.step

    def step(tokens: Tensor, state: object) -> Tensor:
        seen.append(len(tokens))
        return plain(tokens, state)

    monkeypatch.setattr(model, "step", step)
    return seen
