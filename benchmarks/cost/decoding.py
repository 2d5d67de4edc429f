"""Time of a sentence, decoded with and without the cache, against the number of its tokens.

Without it, the source and all that was said so far are read anew for every token. The source is as
long as its translation.
"""

import dataclasses
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from benchmarks.growth import Row, fitted, seconds_of
from tfmr.decode import greedy_search, greedy_search_naive
from tfmr.errors import require
from tfmr.model import Transformer, TransformerConfig
from tfmr.special_tokens import EOS, UNK
from tfmr.translator import DecoderState

CONFIG = TransformerConfig(
    source_vocab=1000, target_vocab=1000, d_model=128, n_heads=4, d_ff=512, n_encoder=3, n_decoder=3
)
KINDS = ("naive", "cached")
LENGTHS = (16, 32, 64, 96, 128, 192, 256)
LONG = 64

SETTINGS = {"sentences": 1, **dataclasses.asdict(CONFIG), "max_length": "size"}


class Endless(Transformer):
    """A model that never ends a sentence: decoding goes on up to its ``max_length``."""

    def scores(self, x: Tensor) -> Tensor:
        """Those of the model, but for the end."""
        return _without_end(super().scores(x))

    def step(self, tokens: Tensor, state: DecoderState) -> Tensor:
        """Those of the model, but for the end."""
        return _without_end(super().step(tokens, state))


def _without_end(scores: Tensor) -> Tensor:
    scores[..., EOS] = -torch.inf
    return scores


def say(kind: str, length: int) -> Callable[[], None]:
    """One translation of ``length`` tokens into as many, ready to be called."""
    torch.manual_seed(0)
    model = Endless(dataclasses.replace(CONFIG, max_length=length)).eval()
    source = torch.randint(UNK + 1, CONFIG.source_vocab, (1, length))

    def work() -> None:
        said = (
            greedy_search(model, source)[0]
            if kind == "cached"
            else greedy_search_naive(model, source)
        )
        require(len(said) == length, f"{kind} decoding ended after {len(said)} of {length} tokens")

    return work


def measure(*, lengths: Sequence[int] = LENGTHS, since: int = LONG, rounds: int = 5) -> list[Row]:
    """A row for each kind and length, and the power law of each kind."""
    names = [(kind, length) for length in lengths for kind in KINDS]
    seconds = seconds_of([say(*name) for name in names], rounds=rounds)
    rows: list[Row] = [
        {"what": "point", "kind": kind, "size": length, **times}
        for (kind, length), times in zip(names, seconds, strict=True)
    ]
    return rows + [fitted(rows, "seconds", since, kind=kind) for kind in KINDS]
