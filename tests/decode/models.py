"""Small untrained models whose translations differ in content and length."""

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import TypeVar

import pytest
import torch
from torch import Tensor, nn

from tfmr.config import TransformerConfig
from tfmr.data.tokenizer import Tokenizer
from tfmr.model import Transformer
from tfmr.seq2seq import Seq2Seq, Seq2SeqConfig
from tfmr.special_tokens import EOS
from tfmr.translator import Translator

WORDS = [f"w{number}" for number in range(26)]
TOKENIZER = Tokenizer("words", WORDS)
MAX_LENGTH = 9
COMMON = {"source_vocab": 30, "target_vocab": 30, "d_model": 16, "dropout": 0.0, "tie": "none"}
TRANSFORMER = TransformerConfig(
    n_heads=2, d_ff=32, n_encoder=1, n_decoder=2, max_length=MAX_LENGTH, **COMMON
)
RECURRENT = Seq2SeqConfig(max_length=MAX_LENGTH, **COMMON)
SENTENCES = [[4, 5, 6, 7, 8, 9, 10], [11, 12], [13, 14, 15, 16], [17], [18, 19, 20], [21, 22, 23]]


def transformer(norm: str = "post", position: str = "sinusoidal", **changed: object) -> Transformer:
    torch.manual_seed(1)
    config = dataclasses.replace(TRANSFORMER, norm=norm, position=position, **changed)
    return scale_weights(Transformer(config))


def recurrent(**changed: object) -> Seq2Seq:
    torch.manual_seed(1)
    return scale_weights(Seq2Seq(dataclasses.replace(RECURRENT, **changed)))


M = TypeVar("M", Transformer, Seq2Seq)


def scale_weights(model: M) -> M:
    """Double precision, and larger weights, so that every source token affects the output."""
    model.eval().double()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 2:
                parameter.mul_(1.5)
        model.output.weight[EOS].mul_(2)
    return model


MODELS: dict[str, Callable[..., Translator]] = {
    f"{norm} {position}": partial(transformer, norm, position)
    for norm in ("post", "pre")
    for position in ("sinusoidal", "learned", "rotary")
} | {"lstm with attention": recurrent, "gru": partial(recurrent, cell="gru", attention=False)}


@dataclasses.dataclass(frozen=True)
class TableConfig:
    source_vocab: int = 6
    target_vocab: int = 6
    max_length: int = 6


class Table(Translator):
    """A translator with random scores for each pair of source and prefix."""

    def __init__(self, config: TableConfig, seed: int = 0, spread: float = 2.0, eos: float = 0.0):
        super().__init__()
        self.config = config
        self.seed, self.spread, self.eos = seed, spread, eos
        self.output = nn.Linear(1, 1, dtype=torch.float64)
        self.eval()

    def row(self, source: list[int], prefix: list[int]) -> Tensor:
        generator = torch.Generator().manual_seed(hash((self.seed, *source, -1, *prefix)) % 2**31)
        scores = torch.randn(self.config.target_vocab, generator=generator, dtype=torch.float64)
        scores *= self.spread
        scores[EOS] += self.eos
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

    def start(self, source: Tensor, max_new_tokens: int, beam: int = 1) -> "TableState":
        return TableState(source, beam, max_new_tokens)

    def step(self, tokens: Tensor, state: "TableState") -> Tensor:
        state.append(tokens)
        pairs = zip(state.source.tolist(), state.prefixes.tolist(), strict=True)
        return torch.stack([self.row(s, prefix) for s, beam in pairs for prefix in beam])


class TableState:
    """The source ``(sentences, source)`` and all prefixes ``(sentences, beam, length)``."""

    def __init__(self, source: Tensor, beam: int, max_new_tokens: int) -> None:
        self.source, self.max_new_tokens = source, max_new_tokens
        self.prefixes = torch.zeros(len(source), beam, 0, dtype=torch.int64)

    def append(self, tokens: Tensor) -> None:
        new = tokens.view(*self.prefixes.shape[:2], 1)
        self.prefixes = torch.cat([self.prefixes, new], dim=2)
        assert self.prefixes.shape[2] <= self.max_new_tokens

    def select(self, sentences: Tensor) -> None:
        self.source, self.prefixes = self.source[sentences], self.prefixes[sentences]

    def reorder(self, parents: Tensor) -> None:
        self.prefixes = self.prefixes.take_along_dim(parents.unsqueeze(2), dim=1)


def add_bias(model: Translator, bias: dict[int, float]) -> None:
    """Add a constant to the scores of some tokens."""
    values = torch.zeros(model.config.target_vocab, dtype=model.output.weight.dtype)
    for token, value in bias.items():
        values[token] = value
    model.output.bias = nn.Parameter(values)


def count_rows(monkeypatch: pytest.MonkeyPatch, model: Translator) -> list[int]:
    """The number of rows of each later step."""
    rows: list[int] = []
    step = model.step

    def counting_step(tokens: Tensor, state: object) -> Tensor:
        rows.append(len(tokens))
        return step(tokens, state)

    monkeypatch.setattr(model, "step", counting_step)
    return rows
