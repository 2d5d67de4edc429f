"""Time of decoding one sentence, with and without a KV cache, as a function of its length.

Without the cache, the source and the whole prefix are processed for every token. The source is as
long as the translation.
"""

import dataclasses
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from benchmarks.record import Record, Row
from benchmarks.scaling import exponent, fits_follow, fitted, points, seconds_of
from benchmarks.scaling import table as table
from benchmarks.tables import Claims
from tfmr.config import TransformerConfig
from tfmr.decode import greedy_search, greedy_search_naive
from tfmr.errors import require
from tfmr.model import Transformer
from tfmr.special_tokens import EOS, UNK
from tfmr.translator import DecoderState

CONFIG = TransformerConfig(
    source_vocab=1000, target_vocab=1000, d_model=128, n_heads=4, d_ff=512, n_encoder=3, n_decoder=3
)
KINDS = ("naive", "cached")
LENGTHS = (16, 32, 64, 96, 128, 192, 256)
FITTED_FROM = 64

SETTINGS = {"sentences": 1, **dataclasses.asdict(CONFIG), "max_length": "size"}


class WithoutEos(Transformer):
    """A model that never predicts ``EOS``: decoding continues up to ``max_length``."""

    def scores(self, x: Tensor) -> Tensor:
        """The model's scores, with that of ``EOS`` set to minus infinity."""
        return _suppress_eos(super().scores(x))

    def step(self, tokens: Tensor, state: DecoderState) -> Tensor:
        """The model's scores, with that of ``EOS`` set to minus infinity."""
        return _suppress_eos(super().step(tokens, state))


def _suppress_eos(scores: Tensor) -> Tensor:
    scores[..., EOS] = -torch.inf
    return scores


def translate(kind: str, length: int) -> Callable[[], None]:
    """A call that translates ``length`` tokens into as many."""
    torch.manual_seed(0)
    model = WithoutEos(dataclasses.replace(CONFIG, max_length=length)).eval()
    source = torch.randint(UNK + 1, CONFIG.source_vocab, (1, length))

    def work() -> None:
        ids = (
            greedy_search(model, source)[0]
            if kind == "cached"
            else greedy_search_naive(model, source)
        )
        require(
            len(ids) == length,
            f"expected {length} tokens from {kind} decoding, got {len(ids)}",
        )

    return work


def measure(
    *, lengths: Sequence[int] = LENGTHS, fitted_from: int = FITTED_FROM, rounds: int = 5
) -> list[Row]:
    """A row for each kind and length, and a power law for each kind."""
    names = [(kind, length) for length in lengths for kind in KINDS]
    seconds = seconds_of([translate(*name) for name in names], rounds=rounds)
    rows: list[Row] = [
        {"what": "point", "kind": kind, "size": length, **times}
        for (kind, length), times in zip(names, seconds, strict=True)
    ]
    return rows + [fitted(rows, "seconds", fitted_from, kind=kind) for kind in KINDS]


def claims(rows: list[Row], settings: Row, records: dict[str, Record]) -> Claims:
    """The longer the sentence, the more time the cache saves."""
    yield from fits_follow(rows)
    naive, cached = (dict(points(rows, "seconds", kind=kind)) for kind in ("naive", "cached"))
    saved = [naive[size] / cached[size] for size in (16, 64, 256)]
    yield "the cache saves more on longer sentences", saved == sorted(saved)
    yield "at 256 tokens more than twice as much as at 16", saved[-1] > 2 * saved[0]
    slow, fast = (exponent(rows, "seconds", kind=kind) for kind in ("naive", "cached"))
    yield "naive grows faster than cached", slow > fast + 0.3
    yield "cached is about linear", 0.8 < fast < 1.35
