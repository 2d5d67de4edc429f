"""Beam search with a length penalty: keep the most probable prefixes at each step.

:func:`beam_search_naive` is the version to read; :func:`beam_search` does the same for a batch, by
incremental decoding. :class:`_BeamState` holds its hypotheses.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from math import inf, isnan

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from tfmr.cuda_graph import GraphRecorder
from tfmr.decode.generate import (
    TRANSLATION,
    GenerationConfig,
    check_eval_mode,
    compact_rows,
    first_tokens,
    max_output_lengths,
    no_token_possible,
    steps_ahead,
    worth_removing,
)
from tfmr.decode.topk import stable_topk
from tfmr.errors import TfmrError
from tfmr.later import read_later
from tfmr.special_tokens import BOS, EOS
from tfmr.translator import IncrementalModel, Translator

ALPHA = 0.6
"""The exponent of the length penalty in Vaswani et al. (2017), section 6.1."""
CHUNK_ROWS = 64
"""Rows per chunk of :func:`log_softmax_` on a CPU."""


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
    ahead = 0 if on_step is not None else steps_ahead(source.device)
    unfinished = set(range(len(max_lengths)))
    started: deque[tuple[list[int], Callable[[], list[list[int]]]]] = deque()
    for length in range(1, max(max_lengths) + ahead + 1):
        if length <= max(max_lengths):
            scores = model.step(tokens, state)
            if ahead and length > 1:  # the first step loads what the graph needs
                hypotheses.replay(scores)
            else:
                step = hypotheses.advance(scores)
            started.append((hypotheses.sentences, hypotheses.read_ended()))
        if length > ahead:
            sentences, read = started.popleft()
            ended, failed = read()
            if any(failed):
                raise no_token_possible(sentences[failed.index(1)], length - ahead)
            if on_step is not None:
                on_step(step)
            n_unfinished = len(unfinished)
            unfinished.difference_update(s for s, e in zip(sentences, ended, strict=True) if e)
            if on_finished is not None and len(unfinished) < n_unfinished:
                on_finished(n_unfinished - len(unfinished))
            if not unfinished:
                break
            if worth_removing(len(hypotheses.sentences), len(unfinished), ahead):
                ended_rows = [sentence not in unfinished for sentence in hypotheses.sentences]
                rows = compact_rows(ended_rows)
                state.select(torch.tensor(rows, device=source.device))
                hypotheses.select(rows)
        state.reorder(hypotheses.parents)
        tokens = hypotheses.tokens.flatten()
    return hypotheses.results()


def log_softmax_(scores: Float[Tensor, "rows vocab"]) -> Float[Tensor, "rows vocab"]:
    """:func:`torch.log_softmax` over the vocabulary, in place unless ``scores`` is half precision.

    No other tensor of a step is as large. Allocating a second one of this size takes longer than
    the arithmetic, because the operating system clears the memory first. Computing the result in
    chunks of rows needs temporary memory for one chunk only.
    """
    scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
    for chunk in scores.split(CHUNK_ROWS if scores.device.type == "cpu" else len(scores)):
        chunk.copy_(chunk.log_softmax(dim=-1))
    return scores


@cache
def _recorder(device: torch.device) -> GraphRecorder:
    """One for all searches on a device: the memory of each further one would remain reserved."""
    return GraphRecorder(device)


_STATE = (
    *("tokens", "parents", "_log_probs", "_best_scores", "_best_log_probs", "_best_ends"),
    *("_n_finished", "_ended", "_failed", "_last", "_last_log_probs"),
)
"""The attributes of :class:`_BeamState` that a step changes, with one row per sentence."""


class _BeamState:
    """The hypotheses of a batch, one row per sentence that is still in the batch.

    All of it stays on the device. A hypothesis is the number of its last step and its place among
    the hypotheses that were live then; :meth:`results` follows the parents back from there.
    """

    def __init__(
        self,
        max_lengths: list[int],
        beam: int,
        alpha: float,
        n_best: int,
        generation: GenerationConfig,
        device: torch.device,
    ) -> None:
        n, longest = len(max_lengths), max(max_lengths)
        self.lowest = generation.lowest
        self.eos = -1 if generation.eos is None else generation.eos
        self.beam, self.alpha, self.n_best = beam, alpha, n_best
        self.sentences = list(range(n))
        """The sentence number of each row."""
        self.tokens = torch.zeros(n, beam, dtype=torch.int64, device=device)
        """The last token of each live hypothesis."""
        self.parents = torch.zeros_like(self.tokens)
        """The live hypothesis of the previous step that each live one continues."""
        self._length = torch.zeros(1, dtype=torch.int64, device=device)
        """Tokens generated so far."""
        penalties = [length_penalty(length, alpha) for length in range(longest + 1)]
        self._penalties = torch.tensor(penalties, dtype=torch.float64, device=device)
        self._rows = torch.arange(n, device=device)
        self._max_lengths = torch.tensor(max_lengths, device=device)
        self._log_probs = torch.full((n, beam), -torch.inf, device=device)
        self._log_probs[:, 0] = 0  # the empty prefix; the other beam slots are not in use yet
        self._history = torch.zeros(2, n, longest, beam, dtype=torch.int64, device=device)
        """Parents and tokens of the live hypotheses of each sentence after each step."""
        self._n_finished = torch.zeros(n, dtype=torch.int64, device=device)
        self._best_scores = torch.full((n, n_best), -torch.inf, device=device)
        """The scores of the ``n_best`` finished hypotheses, in descending order."""
        self._best_log_probs = torch.zeros_like(self._best_scores)
        self._best_ends = torch.zeros(n, n_best, dtype=torch.int64, device=device)
        """Their last step before ``EOS``, times ``beam``, plus their place among the live ones."""
        self._ended = torch.zeros(n, dtype=torch.bool, device=device)
        self._failed = torch.zeros_like(self._ended)
        self._last = torch.zeros_like(self._n_finished)
        """The number of steps of each search that has ended."""
        self._last_log_probs = torch.zeros_like(self._log_probs)
        """The log-probabilities of the live hypotheses after the last step of each search."""
        self._stored: list[tuple[list[int], list[Tensor]]] = []
        """What :meth:`results` needs of sentences that left the batch."""
        self._recorder = _recorder(device)
        self._recorded: tuple[Tensor, Callable[[], object]] | None = None

    def advance(self, scores: Float[Tensor, "rows vocab"]) -> BeamStep:
        """Extend each live hypothesis by one token, given the scores of the next token.

        ``scores`` may be overwritten.
        """
        log_probs = log_softmax_(scores)
        vocab = log_probs.shape[1]
        log_probs[:, : self.lowest] = -torch.inf
        candidates = log_probs.view(-1, self.beam, vocab).add_(self._log_probs.unsqueeze(2))
        # At most `beam` of these end in EOS, one per hypothesis, so at least `beam` continue.
        totals, indices = stable_topk(candidates.flatten(1), 2 * self.beam)
        parents, tokens = indices // vocab, indices % vocab
        is_eos = tokens == self.eos
        finished = is_eos & (totals > -torch.inf)
        finished[:, self.beam :] = False
        # The columns of the first candidates that do not end in EOS, one for each beam slot.
        continuing = is_eos.long().sort(dim=1, stable=True).indices[:, : self.beam]

        self._failed = ~(self._ended | totals[:, 0].isfinite())  # NaN ranks above all numbers
        self._add_finished(finished & ~self._ended[:, None], parents, totals)
        # An unused slot repeats the best hypothesis, because its own prefix may have no scores.
        self._log_probs = totals.gather(1, continuing)
        kept = continuing.where(self._log_probs > -torch.inf, continuing[:, :1])
        self.parents, self.tokens = parents.gather(1, kept), tokens.gather(1, kept)
        self._history[:, self._rows, self._length] = torch.stack([self.parents, self.tokens])
        self._length += 1
        self._end_searches()
        live = torch.zeros_like(is_eos).scatter_(1, continuing, True)
        return BeamStep(list(self.sentences), parents, tokens, totals, live, finished)

    def replay(self, scores: Float[Tensor, "rows vocab"]) -> None:
        """:meth:`advance` as a CUDA graph, which is recorded whenever the rows have changed."""
        if self._recorded is None:
            held_scores = torch.empty_like(scores)
            dtype = self._log_probs.dtype
            held: dict[str, Tensor] = {name: getattr(self, name) for name in _STATE}
            held = {
                name: x.to(dtype if x.is_floating_point() else x.dtype, copy=True)
                for name, x in held.items()
            }
            vars(self).update(held)

            def work() -> None:
                self.advance(held_scores)
                for name, tensor in held.items():
                    tensor.copy_(getattr(self, name))
                vars(self).update(held)

            self._recorded = held_scores, self._recorder.record(work)
        held_scores, replay = self._recorded
        held_scores.copy_(scores)
        replay()

    def _add_finished(
        self,
        finished: Bool[Tensor, "rows candidates"],
        parents: Int[Tensor, "rows candidates"],
        log_probs: Float[Tensor, "rows candidates"],
    ) -> None:
        """Merge the candidates that are ``finished`` into the ``n_best`` of each row."""
        if finished.device.type == "cpu" and not finished.any():
            return
        self._n_finished = self._n_finished + finished.sum(dim=1)
        scores = log_probs / self._penalties[self._length + 1].to(log_probs.dtype)
        scores = torch.cat([self._best_scores, scores.where(finished, -torch.inf)], dim=1)
        ends = self._length * self.beam + parents
        # Of equal scores, that of the earlier hypothesis ranks first.
        order = scores.sort(dim=1, descending=True, stable=True).indices[:, : self.n_best]
        self._best_scores = scores.gather(1, order)
        self._best_log_probs = torch.cat([self._best_log_probs, log_probs], dim=1).gather(1, order)
        self._best_ends = torch.cat([self._best_ends, ends], dim=1).gather(1, order)

    def _end_searches(self) -> None:
        """Find the searches that end with this step."""
        penalties = self._penalties[self._max_lengths].to(self._log_probs.dtype)
        ended = (
            (self._length >= self._max_lengths)
            | (self._n_finished >= self.beam)
            | (self._log_probs[:, 0] / penalties <= self._best_scores[:, -1])
        )
        now = ended & ~self._ended
        self._last = self._length.where(now, self._last)
        self._last_log_probs = self._log_probs.where(now[:, None], self._last_log_probs)
        self._ended = self._ended | ended

    def read_ended(self) -> Callable[[], list[list[int]]]:
        """A function that reads whether the search of each row has ended, and has failed."""
        return read_later(torch.stack([self._ended, self._failed]).long())

    def select(self, rows: list[int]) -> None:
        """Keep only these rows, in this order."""
        self._store(sorted(set(range(len(self.sentences))) - set(rows)))
        self.sentences = [self.sentences[row] for row in rows]
        kept = torch.tensor(rows, device=self.tokens.device)
        for name in (*_STATE, "_rows", "_max_lengths"):
            setattr(self, name, getattr(self, name)[kept])
        self._recorded = None

    def _store(self, rows: list[int]) -> None:
        """Keep what :meth:`results` needs of these rows."""
        stored = torch.tensor(rows, dtype=torch.int64, device=self.tokens.device)
        tensors = (
            *(self._best_scores, self._best_log_probs, self._best_ends),
            *(self._last, self._max_lengths, self._last_log_probs),
        )
        sentences = [self.sentences[row] for row in rows]
        self._stored.append((sentences, [each[stored] for each in tensors]))

    def results(self) -> list[list[Hypothesis]]:
        """For each sentence its ``n_best`` hypotheses, best first."""
        self._store(list(range(len(self.sentences))))
        results: list[list[Hypothesis]] = [[] for _ in range(self._history.shape[1])]
        parents, tokens = self._history[:, :, : int(self._length)].tolist()
        for sentences, tensors in self._stored:
            rows = zip(sentences, *(each.tolist() for each in tensors), strict=True)
            for sentence, scores, log_probs, ends, last, max_length, live in rows:

                def ids(end: int, sentence: int = sentence) -> list[int]:
                    return self._ids(parents[sentence], tokens[sentence], end)

                found = [
                    Hypothesis(ids(end), log_prob, score)
                    for score, log_prob, end in zip(scores, log_probs, ends, strict=True)
                    if score > -torch.inf
                ]
                if last == max_length:
                    penalty = length_penalty(last, self.alpha)
                    found += [
                        Hypothesis(
                            ids(last * self.beam + slot), log_prob, log_prob / penalty, False
                        )
                        for slot, log_prob in enumerate(live)
                        if log_prob > -torch.inf
                    ]
                results[sentence] = found[: self.n_best]
        return results

    def _ids(self, parents: list[list[int]], tokens: list[list[int]], end: int) -> list[int]:
        """The tokens of a hypothesis of a sentence, followed back from its end."""
        step, slot = divmod(end, self.beam)
        ids = []
        for k in range(step - 1, -1, -1):
            ids.append(tokens[k][slot])
            slot = parents[k][slot]
        return ids[::-1]
