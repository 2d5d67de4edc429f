"""Sampling: temperature, top-k and top-p on next-token distributions of a trained model."""

import math
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

import torch
import traitlets
from jaxtyping import Float, Int
from torch import Tensor

from tfmr.data.tokenizer import Tokenizer
from tfmr.decode import Sampling
from tfmr.errors import require
from tfmr.special_tokens import BOS, EOS
from tfmr.translator import Translator
from tfmr.widgets.figure import LiveFigure

NAMED = 10
"""Number of tokens per distribution that are shown by name: the most probable ones."""
STEP = 0.01
"""To this the log-probabilities of the other tokens are rounded."""
TEMPERATURES = (0.1, 2.0)
MAX_DRAWS = 10_000


def uniforms(count: int, seed: int) -> Float[Tensor, "count"]:
    """Random numbers in [0, 1), by the generator mulberry32.

    It is short enough for the figure to have it, too, and to draw the same numbers.
    """
    bits = 0xFFFFFFFF
    numbers: list[float] = []
    state = seed & bits
    for _ in range(count):
        state = (state + 0x6D2B79F5) & bits
        mixed = ((state ^ (state >> 15)) * (state | 1)) & bits
        mixed ^= (mixed + (((mixed ^ (mixed >> 7)) * (mixed | 61)) & bits)) & bits
        numbers.append((mixed ^ (mixed >> 14)) / 2**32)
    return torch.tensor(numbers, dtype=torch.float64)


class SamplingFigure(LiveFigure):
    """What temperature, top-k and top-p do to next-token distributions, and samples from them.

    Every distribution has the whole vocabulary: the ``NAMED`` most probable tokens by name, and
    the log-probabilities of all others as a histogram with bins of width ``STEP``. Holtzman et al.
    (2020), section 3.

    Args:
        scores: the scores of the next token after each prefix, ``(prefixes, vocab)``.
        names: a name for each token of the vocabulary.
        prefixes: a source sentence and a prefix of its translation, for each row of ``scores``.
        selected: index of the prefix that is shown first.
        temperature: 0.1 to 2.
        top_k: number of the most probable tokens to keep; ``None`` keeps all.
        top_p: probability of the nucleus; 1 keeps all tokens.
        seed: of the random numbers.

    Raises:
        TfmrError: if the sizes do not match or an argument is out of range.
    """

    prefixes = traitlets.List(traitlets.Dict()).tag(sync=True)
    """For each prefix: ``source``, ``prefix``, the ``tokens`` shown by name with their ``logs``,
    and the others, ``counts`` of log-probabilities ``-STEP * first``, ``-STEP * (first + 1)``, …"""
    selected = traitlets.Int().tag(sync=True)
    temperature = traitlets.Float().tag(sync=True)
    top_k = traitlets.Int(allow_none=True, default_value=None).tag(sync=True)
    top_p = traitlets.Float().tag(sync=True)
    seed = traitlets.Int().tag(sync=True)
    draws = traitlets.Int(0, min=0, max=MAX_DRAWS).tag(sync=True)
    """Number of samples."""

    def __init__(
        self,
        scores: Float[Tensor, "prefixes vocab"],
        names: Sequence[str],
        prefixes: Sequence[tuple[str, str]],
        *,
        selected: int = 0,
        temperature: float = 1.0,
        top_k: int | None = None,
        top_p: float = 1.0,
        seed: int = 0,
    ) -> None:
        rows, vocab = scores.shape
        require(
            (rows, vocab) == (len(prefixes), len(names)) and rows > 0,
            "scores must have a row for each prefix and a column for each name: got "
            f"{rows} by {vocab} for {len(prefixes)} prefixes and {len(names)} names",
        )
        require(
            vocab - EOS > NAMED,
            f"the vocabulary must have more than {NAMED} tokens to draw: got {vocab - EOS}",
        )
        require(bool(scores.isfinite().all()), "scores must be finite: got inf or nan")
        require(
            0 <= selected < rows,
            f"selected must be the index of a prefix, 0 to {rows - 1}: got {selected}",
        )
        low, high = TEMPERATURES
        require(
            low <= temperature <= high,
            f"temperature must be from {low} to {high}: got {temperature}",
        )
        Sampling(temperature, top_k, top_p)
        super().__init__(
            prefixes=[
                {"source": source, "prefix": prefix, **_distribution(row, names)}
                for row, (source, prefix) in zip(scores, prefixes, strict=True)
            ],
            selected=selected,
            temperature=float(temperature),
            top_k=top_k,
            top_p=float(top_p),
            seed=seed,
        )

    @classmethod
    def of_model(
        cls,
        model: Translator,
        tokenizer: Tokenizer,
        prefixes: Sequence[tuple[str, str]],
        **options: Any,
    ) -> "SamplingFigure":
        """The figure for a trained model; ``options`` are the other arguments of the class.

        Raises:
            TfmrError: if the model is in training mode, or as in the class.
        """
        require(
            not model.training,
            "the model must be in evaluation mode, without dropout: call model.eval() first",
        )
        rows = []
        with torch.no_grad():
            for source, prefix in prefixes:
                ids = torch.tensor([tokenizer.encode(source)])
                target = torch.tensor([[BOS, *tokenizer.encode(prefix)]])
                rows.append(model(ids, target)[0, -1])
        names = tokenizer.tokens(range(tokenizer.vocab_size))
        return cls(torch.stack(rows), names, prefixes, **options)

    def scores(self) -> Float[Tensor, "one vocab"]:
        """The current distribution as stored: log-probabilities by rank, from column ``EOS`` on.

        The columns below ``EOS`` are those of ``PAD`` and ``BOS``, which are never drawn.
        """
        logs = [-math.inf] * EOS + _logs(self.prefixes[self.selected])
        return torch.tensor([logs], dtype=torch.float64)

    def sampling(self) -> Sampling:
        """The current setting, as :func:`tfmr.decode.sampling.sample` takes it."""
        return Sampling(self.temperature, self.top_k, self.top_p if self.top_p < 1 else None)

    def probabilities(self) -> Float[Tensor, "vocab"]:
        """The probability of each token under the current setting, by rank; 0 if it is cut."""
        tokens, probs = self.sampling().candidates(self.scores())
        full = torch.zeros(self.scores().shape[1], dtype=torch.float64)
        full = full.scatter(0, tokens[0], probs[0])
        return full[EOS:]

    def samples(self) -> Int[Tensor, "draws"]:
        """The ranks of the tokens drawn, the most probable token has rank 0."""
        scores = self.scores().expand(self.draws, -1)
        return self.sampling().draw(scores, uniforms(self.draws, self.seed)) - EOS

    def summary(self) -> str:
        """The sentence that it shows."""
        distributions = [torch.tensor(_logs(each), dtype=torch.float64) for each in self.prefixes]
        named = ", ".join(
            f"“{each['prefix']}” (perplexity {_perplexity(logs):.0f})"
            for each, logs in zip(self.prefixes, distributions, strict=True)
        )
        return f"{len(distributions[0]):,} probabilities of the next token after {named}."


def _logs(stored: Mapping[str, Any]) -> list[float]:
    """The log-probabilities of all tokens of a stored distribution, in descending order."""
    counts = map(int, stored["counts"].split())
    rest = ([-STEP * (stored["first"] + i)] * count for i, count in enumerate(counts))
    return [*stored["logs"], *chain.from_iterable(rest)]


def _perplexity(logs: Float[Tensor, "vocab"]) -> float:
    logs = logs.log_softmax(dim=0)
    return math.exp(-float((logs.exp() * logs).sum()))


def _distribution(scores: Float[Tensor, "vocab"], names: Sequence[str]) -> dict[str, Any]:
    """A distribution as the figure stores it."""
    logs, order = scores[EOS:].double().log_softmax(dim=0).sort(descending=True, stable=True)
    named = [round(log, 4) for log in logs[:NAMED].tolist()]
    # No other token may get ahead of the named ones by rounding.
    first = math.ceil(-named[-1] / STEP)
    bins = (-logs[NAMED:] / STEP).round().long().clamp(min=first)
    counts = torch.bincount(bins - bins[0])
    return {
        "tokens": [names[EOS + rank] for rank in order[:NAMED].tolist()],
        "logs": named,
        "first": int(bins[0]),
        "counts": " ".join(map(str, counts.tolist())),
    }
