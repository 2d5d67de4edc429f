"""Beam search with a length penalty: keep the most probable prefixes at each step.

:func:`beam_search_naive` is the version to read; :func:`beam_search` does the same for a batch, by
incremental decoding. :class:`_BeamState` holds its hypotheses.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import inf, isnan

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from tfmr.decode.generate import (
    TRANSLATION,
    GenerationConfig,
    check_eval_mode,
    compact_rows,
    first_tokens,
    max_output_lengths,
    no_token_possible,
)
from tfmr.decode.topk import stable_topk
from tfmr.errors import TfmrError
from tfmr.special_tokens import BOS, EOS
from tfmr.translator import IncrementalModel, Translator

ALPHA = 0.6
"""The exponent of the length penalty in Vaswani et al. (2017), section 6.1."""
CHUNK_ROWS = 64
"""Rows per chunk of :func:`log_softmax_`."""


def length_penalty(length: int, alpha: float = ALPHA) -> float:
    r"""The divisor of a log-probability that compensates for the length of a hypothesis.

    .. math:: lp(Y) = \frac{(5 + |Y|)^\alpha}{(5 + 1)^\alpha}

    Wu et al. (2016), section 7, equation 14. :math:`|Y|` counts all generated tokens, ``EOS``
    included.

    >>> length_penalty(1), length_penalty(7, alpha=1.0), length_penalty(7, alpha=0.0)
    (1.0, 2.0, 1.0)
    """
    return float(((5 + length) / 6) ** alpha)


@dataclass(frozen=True)
class Hypothesis:
    """A translation of a sentence and its score."""

    ids: list[int]
    """Without ``BOS`` and ``EOS``."""
    log_prob: float
    """The sum of the log-probabilities of its tokens, ``EOS`` included if it is finished."""
    score: float
    """``log_prob`` divided by the length penalty. The search ranks hypotheses by it."""
    finished: bool = True
    """Whether the model generated ``EOS``; ``False`` if truncated at the maximum length."""


@dataclass(frozen=True)
class BeamStep:
    """The candidates of one step of a beam search, for printing or drawing the search.

    Row ``i`` belongs to sentence ``sentences[i]``. Its columns are the candidates in descending
    order of probability. A candidate extends one live hypothesis of the previous step, its parent
    (numbered from 0), by one token.
    """

    sentences: list[int]
    parents: Int[Tensor, "sentences candidates"]
    tokens: Int[Tensor, "sentences candidates"]
    log_probs: Float[Tensor, "sentences candidates"]
    live: Bool[Tensor, "sentences candidates"]
    """The candidates that continue: the first ``True`` in a row becomes live hypothesis 0 of the
    next step, the second live hypothesis 1, and so on."""
    finished: Bool[Tensor, "sentences candidates"]
    """The candidates that become finished hypotheses."""


def check_beam_options(beam: int, alpha: float, n_best: int) -> None:
    """Raise :class:`tfmr.errors.TfmrError` if an option of a beam search is out of range."""
    if beam < 1:
        raise TfmrError(
            f"beam must be at least 1 hypothesis: got beam={beam}; use 1 for greedy decoding, or 4 "
            "as in the paper"
        )
    if not 0 <= alpha < torch.inf:
        raise TfmrError(
            "alpha, the exponent of the length penalty, must be finite and at least 0: got "
            f"{alpha}; use 0 for no penalty, or 0.6 as in the paper"
        )
    if not 1 <= n_best <= beam:
        raise TfmrError(
            f"n_best must be between 1 and beam={beam}: got n_best={n_best}; use a wider beam"
        )


@torch.inference_mode()
def beam_search_naive(
    model: Translator,
    source: Int[Tensor, "1 source"],
    beam: int = 4,
    alpha: float = ALPHA,
    *,
    n_best: int = 1,
) -> list[Hypothesis]:
    """The ``n_best`` translations of one sentence by beam search, best first.

    This is the readable version; :func:`beam_search` returns the same hypotheses. Each step extends
    every live hypothesis by every token and ranks these candidates by probability (ties by
    hypothesis, then by id). Candidates among the first ``beam`` that end in ``EOS`` become finished
    hypotheses. The first ``beam`` candidates that do not end in ``EOS`` are the live hypotheses of
    the next step.

    The search ends when ``beam`` hypotheses are finished, none is live or the maximum length is
    reached. The hypotheses that are live at the maximum length are truncated and rank below all
    finished ones. A token with a score of -inf is impossible, and no candidate contains one.

    Raises:
        TfmrError: if the sentence is empty or too long, an id is outside the vocabulary, an option
            is out of range, or the model's scores contain NaN or leave no token possible.
    """
    check_beam_options(beam, alpha, n_best)
    finished: list[Hypothesis] = []
    live: list[tuple[list[int], float]] = [([], 0.0)]
    length = 0
    max_length = max_output_lengths(model, source)[0]
    while live and len(finished) < beam and length < max_length:
        length += 1
        candidates = []
        for prefix, log_prob in live:
            target = torch.tensor([[BOS, *prefix]], device=source.device)
            scores = model.scores(model.hidden(source, target)[0, -1])
            for token, token_log_prob in enumerate(scores.log_softmax(dim=-1).tolist()):
                if token >= EOS and token_log_prob != -inf:
                    candidates.append(([*prefix, token], log_prob + token_log_prob))
        if not candidates or isnan(sum(log_prob for _, log_prob in candidates)):
            raise no_token_possible(0, length)
        candidates.sort(key=lambda candidate: -candidate[1])
        for ids, log_prob in candidates[:beam]:
            if ids[-1] == EOS:
                score = log_prob / length_penalty(length, alpha)
                finished.append(Hypothesis(ids[:-1], log_prob, score))
        live = [candidate for candidate in candidates if candidate[0][-1] != EOS][:beam]
    finished.sort(key=lambda hypothesis: -hypothesis.score)
    if length == max_length:
        penalty = length_penalty(length, alpha)
        finished += [
            Hypothesis(ids, log_prob, log_prob / penalty, finished=False) for ids, log_prob in live
        ]
    return finished[:n_best]


@torch.inference_mode()
def beam_search(
    model: IncrementalModel,
    source: Int[Tensor, "batch source"],
    beam: int = 4,
    alpha: float = ALPHA,
    *,
    n_best: int = 1,
    on_finished: Callable[[int], object] | None = None,
    on_step: Callable[[BeamStep], object] | None = None,
    generation: GenerationConfig = TRANSLATION,
) -> list[list[Hypothesis]]:
    """Translate a batch of sentences by beam search: :func:`beam_search_naive` for all at once.

    A sentence leaves the batch when its search ends. A search also ends early, with the same
    result, as soon as no live hypothesis can become one of the ``n_best``: a log-probability never
    increases, so the score of a live hypothesis is at most its log-probability divided by the
    penalty of the maximum length.

    Args:
        model: in evaluation mode.
        source: ids, padded with ``PAD``, or with -1 for a language model.
        beam: live hypotheses per sentence; 4 in Vaswani et al. (2017), section 6.1. A beam of 1 is
            greedy decoding.
        alpha: exponent of the :func:`length_penalty`.
        n_best: hypotheses to return per sentence.
        on_finished: called with the number of searches that ended in a step (for a progress bar).
        on_step: called with the candidates of each step.
        generation: which tokens are generated; see :class:`tfmr.decode.generate.GenerationConfig`.

    Returns:
        For each sentence its ``n_best`` hypotheses, best first; fewer if there are not that many.

    Raises:
        TfmrError: if the model is in training mode, the batch or a sentence in it is empty, a
            sentence is too long, an id is outside the vocabulary, an option is out of range, or the
            model's scores contain NaN or leave no token possible.
    """
    check_eval_mode(model)
    check_beam_options(beam, alpha, n_best)
    max_lengths = max_output_lengths(model, source, generation)
    state = model.start(source, max(max_lengths), beam)
    hypotheses = _BeamState(max_lengths, beam, alpha, n_best, generation, source.device)
    tokens = first_tokens(source, generation).repeat_interleave(beam)
    while True:
        step = hypotheses.advance(log_softmax_(model.step(tokens, state)))
        if on_step is not None:
            on_step(step)
        ended = hypotheses.end_searches()
        if any(ended):
            if on_finished is not None:
                on_finished(sum(ended))
            if all(ended):
                return hypotheses.results
            rows = torch.tensor(compact_rows(ended), dtype=torch.int64, device=source.device)
            state.select(rows)
            hypotheses.select(rows)
        state.reorder(hypotheses.parents)
        tokens = hypotheses.prefixes[:, :, hypotheses.length - 1].flatten()


def log_softmax_(scores: Float[Tensor, "rows vocab"]) -> Float[Tensor, "rows vocab"]:
    """:func:`torch.log_softmax` over the vocabulary, in place unless ``scores`` is half precision.

    No other tensor of a step is as large. Allocating a second one of this size takes longer than
    the arithmetic, because the operating system clears the memory first. Computing the result in
    chunks of rows needs temporary memory for one chunk only.
    """
    scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
    for chunk in scores.split(CHUNK_ROWS):
        chunk.copy_(chunk.log_softmax(dim=-1))
    return scores


class _BeamState:
    """The live and finished hypotheses of a batch, one row per sentence still in the search."""

    def __init__(
        self,
        max_lengths: list[int],
        beam: int,
        alpha: float,
        n_best: int,
        generation: GenerationConfig,
        device: torch.device,
    ) -> None:
        n = len(max_lengths)
        self.lowest = generation.lowest
        self.eos = -1 if generation.eos is None else generation.eos
        self.beam, self.alpha, self.n_best = beam, alpha, n_best
        self.results: list[list[Hypothesis]] = [[] for _ in max_lengths]
        """By sentence: finished hypotheses; once its search has ended, the ``n_best``."""
        self.sentences = list(range(n))
        """The sentence number of each row."""
        self.length = 0
        """Tokens generated so far."""
        self.max_lengths = torch.tensor(max_lengths, device=device)
        self.max_penalties = ((5 + self.max_lengths) / 6) ** alpha
        self.prefixes = torch.zeros(n, beam, max(max_lengths), dtype=torch.int64, device=device)
        self.parents = torch.zeros(n, beam, dtype=torch.int64, device=device)
        self.log_probs = torch.full((n, beam), -torch.inf, device=device)
        self.log_probs[:, 0] = 0  # the empty prefix; the other beam slots are not in use yet
        self.n_finished = torch.zeros(n, dtype=torch.int64, device=device)
        self.best_scores = torch.full((n, n_best), -torch.inf, device=device)
        """The scores of the ``n_best`` finished hypotheses, in descending order."""

    def advance(self, log_probs: Float[Tensor, "rows vocab"]) -> BeamStep:
        """Extend each live hypothesis by one token, given the log-probabilities of the next token.

        ``log_probs`` is overwritten.
        """
        vocab = log_probs.shape[1]
        log_probs[:, : self.lowest] = -torch.inf
        candidates = log_probs.view(-1, self.beam, vocab).add_(self.log_probs.unsqueeze(2))
        # At most `beam` of these end in EOS, one per hypothesis, so at least `beam` continue.
        totals, indices = stable_topk(candidates.flatten(1), 2 * self.beam)
        parents, tokens = indices // vocab, indices % vocab
        is_eos = tokens == self.eos
        finished = is_eos & (totals > -torch.inf)
        finished[:, self.beam :] = False
        # The columns of the first candidates that do not end in EOS, one for each beam slot.
        continuing = is_eos.long().sort(dim=1, stable=True).indices[:, : self.beam]

        self.length += 1
        # Both in one transfer from a GPU. NaN ranks above all numbers.
        failed = ~totals[:, 0].isfinite()
        any_finished, any_failed = torch.stack([finished.any(), failed.any()]).tolist()
        if any_failed:
            raise no_token_possible(self.sentences[failed.tolist().index(True)], self.length)
        if any_finished:
            self._add_finished(finished, parents, totals)
        # An unused slot repeats the best hypothesis, because its own prefix may have no scores.
        self.log_probs = totals.gather(1, continuing)
        kept = continuing.where(self.log_probs > -torch.inf, continuing[:, :1])
        self.parents = parents.gather(1, kept)
        self.prefixes = self.prefixes.take_along_dim(self.parents.unsqueeze(2), dim=1)
        self.prefixes[:, :, self.length - 1] = tokens.gather(1, kept)
        live = torch.zeros_like(is_eos).scatter_(1, continuing, True)
        return BeamStep(list(self.sentences), parents, tokens, totals, live, finished)

    def _add_finished(
        self,
        finished: Bool[Tensor, "sentences candidates"],
        parents: Int[Tensor, "sentences candidates"],
        log_probs: Float[Tensor, "sentences candidates"],
    ) -> None:
        """Store the candidates that are ``finished``."""
        scores = log_probs / length_penalty(self.length, self.alpha)
        self.n_finished += finished.sum(dim=1)
        all_scores = torch.cat([self.best_scores, scores.masked_fill(~finished, -torch.inf)], dim=1)
        self.best_scores = all_scores.topk(self.n_best, dim=1).values
        for row, column in finished.nonzero().tolist():
            ids = self.prefixes[row, parents[row, column], : self.length - 1].tolist()
            log_prob, score = float(log_probs[row, column]), float(scores[row, column])
            self.results[self.sentences[row]].append(Hypothesis(ids, log_prob, score))

    def end_searches(self) -> list[bool]:
        """Whether the search of each row has ended; if so, reduce its results to the ``n_best``."""
        best_possible = self.log_probs[:, 0] / self.max_penalties
        at_max_length = self.length >= self.max_lengths
        ended: list[bool] = (
            at_max_length
            | (self.n_finished >= self.beam)
            | (best_possible <= self.best_scores[:, -1])
        ).tolist()
        for row, sentence in enumerate(self.sentences):
            if ended[row]:
                results = self.results[sentence]
                results.sort(key=lambda hypothesis: -hypothesis.score)
                if at_max_length[row]:
                    results += self._truncated(row)
                del results[self.n_best :]
        return ended

    def _truncated(self, row: int) -> list[Hypothesis]:
        """The live hypotheses of a row at its maximum length."""
        penalty = length_penalty(self.length, self.alpha)
        prefixes = self.prefixes[row, :, : self.length].tolist()
        return [
            Hypothesis(ids, log_prob, log_prob / penalty, finished=False)
            for ids, log_prob in zip(prefixes, self.log_probs[row].tolist(), strict=True)
            if log_prob > -torch.inf
        ]

    def select(self, rows: Int[Tensor, "kept"]) -> None:
        """Keep only these rows, in this order."""
        self.sentences = [self.sentences[row] for row in rows.tolist()]
        self.max_lengths, self.max_penalties = self.max_lengths[rows], self.max_penalties[rows]
        self.prefixes, self.parents = self.prefixes[rows], self.parents[rows]
        self.log_probs, self.best_scores = self.log_probs[rows], self.best_scores[rows]
        self.n_finished = self.n_finished[rows]
