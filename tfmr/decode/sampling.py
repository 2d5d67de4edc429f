"""Sampling: draw the next token by its probability, all of it or its likely part."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from tfmr.decode.generate import best, max_output_lengths, say
from tfmr.errors import require
from tfmr.special_tokens import EOS
from tfmr.translator import Translator

LIKELY = 64
"""So many tokens are looked at first for a nucleus, which seldom is larger."""


@dataclass(frozen=True)
class Sampling:
    """From which part of the model's distribution to draw, and how flat to make it.

    Applied in this order: temperature, top-k, top-p; with the defaults, what the model says.

    Raises:
        TfmrError: if an option is out of range.
    """

    temperature: float = 1.0
    """Scores are divided by it: below 1 the likely becomes likelier, above 1 all more equal."""
    top_k: int | None = None
    """Draw among this many of the likeliest tokens only (Fan et al., 2018, section 5.1)."""
    top_p: float | None = None
    """Draw among the fewest likeliest tokens whose probabilities make up this much: the nucleus
    (Holtzman et al., 2020, section 3.1)."""

    def __post_init__(self) -> None:
        require(
            0 < self.temperature < torch.inf,
            f"a temperature must be positive: got {self.temperature}; near 0 only the likeliest "
            "token is drawn, for exactly that use greedy decoding",
        )
        require(
            self.top_k is None or self.top_k >= 1,
            f"top_k is a number of tokens to draw from, at least 1: got {self.top_k}; leave it out "
            "to draw from all",
        )
        require(
            self.top_p is None or 0 < self.top_p <= 1,
            f"top_p is a share of the probability, above 0 and at most 1: got {self.top_p}; leave "
            "it out to draw from all",
        )

    def candidates(
        self, scores: Float[Tensor, "rows vocab"]
    ) -> tuple[Int[Tensor, "rows kept"], Float[Tensor, "rows kept"]]:
        """Which tokens may be drawn, and the probability of each.

        A row that has fewer than another also holds tokens of probability zero. ``PAD`` and
        ``BOS``, the two ids before ``EOS``, are never among them.
        """
        scores = scores[:, EOS:].double()
        # With the greatest score at zero, no temperature is so small that a quotient overflows.
        scores = (scores - scores.amax(dim=1, keepdim=True)) / self.temperature
        shares = scores.softmax(dim=1)
        n = shares.shape[1]
        if self.top_k is None and self.top_p is None:
            return torch.arange(EOS, EOS + n, device=scores.device).expand_as(shares), shares
        everything = shares
        shares, places = best(everything, min(self.top_k or LIKELY, n))
        if self.top_k is not None:
            shares /= shares.sum(dim=1, keepdim=True)
        elif self.top_p is not None and bool((shares.sum(dim=1) < self.top_p).any()):
            shares, places = best(everything, n)
        if self.top_p is not None:
            # A token is in the nucleus if those before it do not make up enough.
            before = shares.cumsum(dim=1) - shares
            shares = shares.masked_fill(before >= self.top_p, 0)
            shares /= shares.sum(dim=1, keepdim=True)
        return places + EOS, shares

    def draw(
        self, scores: Float[Tensor, "rows vocab"], noise: Float[Tensor, "rows"]
    ) -> Int[Tensor, "rows"]:
        """One token of each row, for a number of each drawn evenly from [0, 1).

        The candidates lie side by side on a line, each as long as it is probable; ``noise`` says
        how far along it to point.
        """
        tokens, shares = self.candidates(scores)
        ends = shares.cumsum(dim=1)
        point = noise.unsqueeze(1) * ends[:, -1:]
        found = torch.searchsorted(ends, point, right=True).clamp(max=ends.shape[1] - 1)
        return tokens.gather(1, found)[:, 0]


@torch.inference_mode()
def sample(
    model: Translator,
    source: Int[Tensor, "batch source"],
    sampling: Sampling | None = None,
    *,
    seeds: Sequence[int],
    on_finished: Callable[[int], object] | None = None,
) -> list[list[int]]:
    """Translate a batch of sentences by drawing each next token by its probability.

    Each sentence has random numbers of its own, so what is drawn for it does not depend on the
    batch that it is in.

    Args:
        model: in evaluation mode.
        source: ids, padded with ``PAD``.
        sampling: how to draw; from the model's own distribution if not given.
        seeds: one per sentence; the same seed draws the same translation again.
        on_finished: called with the number of sentences that ended in a step (for a progress bar).

    Returns:
        One list of ids per sentence, without ``BOS`` and ``EOS``.

    Raises:
        TfmrError: if there is not a seed for each sentence, the model is in training mode, a
            sentence is empty or too long, or an id is unknown.
    """
    require(
        len(seeds) == len(source),
        f"each sentence needs a seed of its own, or all would share their luck: got {len(seeds)} "
        f"seeds for {len(source)} sentences",
    )
    sampling = sampling or Sampling()
    limits = max_output_lengths(model, source)
    noise = torch.zeros(len(limits), max(limits), dtype=torch.float64)
    for row, (limit, seed) in enumerate(zip(limits, seeds, strict=True)):
        generator = torch.Generator().manual_seed(seed)
        noise[row, :limit] = torch.rand(limit, generator=generator, dtype=torch.float64)
    columns = iter(noise.to(source.device).unbind(dim=1))

    def draw(scores: Float[Tensor, "rows vocab"], sentences: Sequence[int]) -> Int[Tensor, "rows"]:
        return sampling.draw(scores, next(columns)[list(sentences)])

    return say(model, source, draw, on_finished)
