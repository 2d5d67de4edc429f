"""Sampling: draw the next token from the model's distribution, whole or truncated."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from tfmr.decode.generate import (
    TRANSLATION,
    GenerationConfig,
    generate,
    max_output_lengths,
)
from tfmr.decode.topk import stable_topk
from tfmr.errors import TfmrError, require
from tfmr.special_tokens import EOS
from tfmr.translator import IncrementalModel

NUCLEUS_CANDIDATES = 64
"""Top-p sampling first considers only this many of the most probable tokens, which usually contain
the nucleus. If they do not, it considers the whole vocabulary."""


@dataclass(frozen=True)
class Sampling:
    """How to draw a token: temperature, top-k and top-p, applied in this order.

    The defaults draw from the model's own distribution.

    Raises:
        TfmrError: if an option is out of range.
    """

    temperature: float = 1.0
    """Divides the scores: below 1 it sharpens the distribution, above 1 it flattens it."""
    top_k: int | None = None
    """Draw from the ``top_k`` most probable tokens only (Fan et al., 2018, section 5.1)."""
    top_p: float | None = None
    """Draw from the nucleus only: the smallest set of the most probable tokens whose total
    probability is at least ``top_p`` (Holtzman et al., 2020, section 3.1)."""

    def __post_init__(self) -> None:
        require(
            0 < self.temperature < torch.inf,
            f"temperature must be positive and finite: got {self.temperature}; use greedy decoding "
            "to always generate the most probable token",
        )
        require(
            self.top_k is None or self.top_k >= 1,
            f"top_k must be at least 1 token: got {self.top_k}; omit it to draw from all tokens",
        )
        require(
            self.top_p is None or 0 < self.top_p <= 1,
            f"top_p must be a probability in (0, 1]: got {self.top_p}; omit it to draw from all "
            "tokens",
        )

    def candidates(
        self, scores: Float[Tensor, "rows vocab"], lowest: int = EOS, *, check: bool = True
    ) -> tuple[Int[Tensor, "rows candidates"], Float[Tensor, "rows candidates"]]:
        """The tokens to draw from and their probabilities, which sum to one in each row.

        Rows with fewer candidates than others are filled with tokens of probability zero. Ids below
        ``lowest`` are never candidates; by default ``PAD`` and ``BOS``, the two below ``EOS``.

        Raises:
            TfmrError: if a row of scores contains NaN or +inf, or only -inf. Without ``check``,
                such a row has no defined candidates; the check waits for a GPU.
        """
        scores = scores[:, lowest:].double()
        highest = scores.amax(dim=1, keepdim=True)  # NaN if any score is
        if check and not highest.isfinite().all():
            raise TfmrError(
                "the scores of each row must be finite or -inf, and not all -inf: got NaN, +inf or "
                f"only -inf in row {highest.isfinite().flatten().tolist().index(False)}"
            )
        # Subtracting the maximum keeps the quotient from overflowing at a tiny temperature.
        probs = ((scores - highest) / self.temperature).softmax(dim=1)
        n = probs.shape[1]
        if self.top_k is None and self.top_p is None:
            return torch.arange(lowest, lowest + n, device=scores.device).expand_as(probs), probs
        top, indices = stable_topk(probs, min(self.top_k or NUCLEUS_CANDIDATES, n))
        if self.top_k is not None:
            top /= top.sum(dim=1, keepdim=True)
        elif self.top_p is not None and bool((top.sum(dim=1) < self.top_p).any()):
            top, indices = stable_topk(probs, n)
        if self.top_p is not None:
            # A token is in the nucleus if the total of the more probable ones is below top_p.
            total_before = F.pad(top.cumsum(dim=1)[:, :-1], (1, 0))
            top = top.masked_fill(total_before >= self.top_p, 0)
            top /= top.sum(dim=1, keepdim=True)
        return lowest + indices, top

    def draw(
        self,
        scores: Float[Tensor, "rows vocab"],
        uniform: Float[Tensor, "rows"],
        lowest: int = EOS,
        *,
        check: bool = True,
    ) -> Int[Tensor, "rows"]:
        """Draw one token per row by inverse transform sampling.

        ``uniform`` holds one random number in [0, 1) per row. The token drawn is the first whose
        cumulative probability exceeds it. For the other arguments, see :meth:`candidates`.
        """
        tokens, probs = self.candidates(scores, lowest, check=check)
        cumulative = probs.cumsum(dim=1)
        # The total is one up to rounding. The product is less than it, also after rounding.
        threshold = uniform.unsqueeze(1) * cumulative[:, -1:]
        index = torch.searchsorted(cumulative, threshold, right=True)
        return tokens.gather(1, index.clamp(max=tokens.shape[1] - 1))[:, 0]


@torch.inference_mode()
def sample(
    model: IncrementalModel,
    source: Int[Tensor, "batch source"],
    sampling: Sampling | None = None,
    *,
    seeds: Sequence[int],
    on_finished: Callable[[int], object] | None = None,
    generation: GenerationConfig = TRANSLATION,
) -> list[list[int]]:
    """Translate a batch of sentences, or continue texts, by sampling each next token.

    Each sentence has its own random generator, so its translation does not depend on the other
    sentences in the batch.

    Args:
        model: in evaluation mode.
        source: ids, padded with ``PAD``, or with -1 for a language model.
        sampling: how to draw; by default from the model's own distribution.
        seeds: one per sentence; the same seed gives the same translation.
        on_finished: called with the number of sentences finished in a step (for a progress bar).
        generation: which tokens are generated; see :class:`tfmr.decode.generate.GenerationConfig`.

    Returns:
        One list of ids per sentence, without ``BOS`` and ``EOS``.

    Raises:
        TfmrError: if the number of seeds is not the number of sentences, the model is in training
            mode, the batch or a sentence in it is empty, a sentence is too long, an id is outside
            the vocabulary, or the model's scores contain NaN or leave no token possible.
    """
    sampling = sampling or Sampling()
    limits = max_output_lengths(model, source, generation)
    if len(seeds) != len(limits):
        raise TfmrError(
            f"sampling needs one seed per sentence: got {len(seeds)} seeds for {len(limits)} "
            "sentences"
        )
    uniform = torch.zeros(len(limits), max(limits), dtype=torch.float64)
    for row, (limit, seed) in enumerate(zip(limits, seeds, strict=True)):
        generator = torch.Generator().manual_seed(seed)
        uniform[row, :limit] = torch.rand(limit, generator=generator, dtype=torch.float64)
    uniform_per_step = iter(uniform.to(source.device).unbind(dim=1))

    def draw(scores: Float[Tensor, "rows vocab"], sentences: Sequence[int]) -> Int[Tensor, "rows"]:
        numbers = next(uniform_per_step)[list(sentences)]
        return sampling.draw(scores, numbers, generation.lowest, check=False)  # generate() checks

    return generate(model, source, draw, on_finished, generation)
