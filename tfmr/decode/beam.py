"""Beam search: follow the few best beginnings at once, and choose among the ends."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from tfmr.decode.generate import best, check_ready, closed_up, max_output_lengths
from tfmr.errors import require
from tfmr.special_tokens import BOS, EOS
from tfmr.translator import Translator

ALPHA = 0.6
"""The length penalty of Vaswani et al. (2017), section 6.1."""
ROWS = 64
"""So many distributions of the next token are computed at once."""


def length_penalty(length: int, alpha: float = ALPHA) -> float:
    r"""What a log-probability is divided by, so that long translations are not at a disadvantage.

    .. math:: lp(Y) = \frac{(5 + |Y|)^\alpha}{(5 + 1)^\alpha}

    Wu et al. (2016), section 7, equation 14. :math:`|Y|` counts every token that was said, ``EOS``
    among them.

    >>> length_penalty(1), length_penalty(7, alpha=1.0), length_penalty(7, alpha=0.0)
    (1.0, 2.0, 1.0)
    """
    return float(((5 + length) / 6) ** alpha)


@dataclass(frozen=True)
class Hypothesis:
    """One translation of a sentence and what it is worth."""

    ids: list[int]
    """Without ``BOS`` and ``EOS``."""
    log_prob: float
    """The logarithm of its probability under the model, the end included if it has one."""
    score: float
    """``log_prob`` divided by the length penalty: what the search makes as great as it can."""
    ended: bool = True
    """Whether the model said ``EOS``; ``False`` if it was cut off at the greatest length."""


@dataclass(frozen=True)
class BeamStep:
    """What a search considered in one step, for who wants to watch or draw it.

    Row ``i`` is about sentence ``sentences[i]``. Its columns are the candidates, best first: which
    hypothesis of the step before each continues (0, the only one, in the first step), by which
    token, and how probable it then is.
    """

    sentences: list[int]
    parents: Int[Tensor, "sentences candidates"]
    tokens: Int[Tensor, "sentences candidates"]
    log_probs: Float[Tensor, "sentences candidates"]
    live: Bool[Tensor, "sentences candidates"]
    """These go on. The first ``True`` of a row is hypothesis 0 of the next step, and so on."""
    finished: Bool[Tensor, "sentences candidates"]
    """These have ended and are kept."""


def check_options(beam: int, alpha: float, n_best: int) -> None:
    """Raise :class:`tfmr.errors.TfmrError` unless the options of a beam search make sense."""
    require(
        beam >= 1,
        f"a beam is at least one hypothesis wide: got beam={beam}; 4 is the paper's, 1 is greedy",
    )
    require(
        0 <= alpha < torch.inf,
        f"the length penalty alpha must be zero (none) or greater: got {alpha}; 0.6 is the "
        "paper's, a negative one would reward stopping early",
    )
    require(
        1 <= n_best <= beam,
        f"a beam of {beam} holds between 1 and {beam} translations of a sentence: got "
        f"n_best={n_best}; widen the beam",
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
    """The ``n_best`` translations of one sentence that a beam search finds, the best first.

    The version to read; :func:`beam_search` finds the same. In each step, every live hypothesis is
    continued by every token, and the candidates are ranked by probability, equals by their
    hypothesis and then by their id. Those among the first ``beam`` that end in ``EOS`` are
    finished. The first ``beam`` of those that do not are the live ones of the next step. The search
    is over when ``beam`` hypotheses have finished, or the greatest length is reached: what is still
    live then is cut off, and ranks below everything that has finished.
    """
    check_options(beam, alpha, n_best)
    finished: list[Hypothesis] = []
    live: list[tuple[list[int], float]] = [([], 0.0)]
    length = 0
    limit = max_output_lengths(model, source)[0]
    while len(finished) < beam and length < limit:
        length += 1
        candidates = []
        for said, log_prob in live:
            prefix = torch.tensor([[BOS, *said]], device=source.device)
            scores = model.scores(model.hidden(source, prefix)[0, -1])
            for token, more in enumerate(scores.log_softmax(dim=-1).tolist()):
                if token >= EOS:
                    candidates.append(([*said, token], log_prob + more))
        candidates.sort(key=lambda candidate: -candidate[1])
        for said, log_prob in candidates[:beam]:
            if said[-1] == EOS:
                score = log_prob / length_penalty(length, alpha)
                finished.append(Hypothesis(said[:-1], log_prob, score))
        live = [candidate for candidate in candidates if candidate[0][-1] != EOS][:beam]
    finished.sort(key=lambda hypothesis: -hypothesis.score)
    if length == limit:
        penalty = length_penalty(limit, alpha)
        finished += [Hypothesis(said, p, p / penalty, ended=False) for said, p in live]
    return finished[:n_best]


@torch.inference_mode()
def beam_search(
    model: Translator,
    source: Int[Tensor, "batch source"],
    beam: int = 4,
    alpha: float = ALPHA,
    *,
    n_best: int = 1,
    on_finished: Callable[[int], object] | None = None,
    on_step: Callable[[BeamStep], object] | None = None,
) -> list[list[Hypothesis]]:
    """Translate a batch of sentences by beam search: :func:`beam_search_naive` for all at once.

    A sentence leaves the batch when its search is over, or earlier, as soon as no live hypothesis
    can become one of its ``n_best``: a log-probability never rises, so what is live is worth at
    most its own, divided by the penalty of the greatest length.

    Args:
        model: in evaluation mode.
        source: ids, padded with ``PAD``.
        beam: how many hypotheses of a sentence are followed; 4 in Vaswani et al. (2017), section
            6.1. With 1, this is greedy decoding.
        alpha: of the :func:`length_penalty`.
        n_best: how many translations of each sentence are wanted.
        on_finished: called with the number of sentences whose search is over (for a progress bar).
        on_step: called with what was considered in a step.

    Returns:
        For each sentence its ``n_best`` translations, the best first. There are fewer if the model
        can say fewer.

    Raises:
        TfmrError: if the model is in training mode, a sentence is empty or too long, an id is
            unknown, or an option is out of range.
    """
    check_ready(model)
    check_options(beam, alpha, n_best)
    limits = max_output_lengths(model, source)
    state = model.start(source, max(limits), beam)
    search = _Search(limits, beam, alpha, n_best, source.device)
    tokens = torch.full((len(limits) * beam,), BOS, device=source.device)
    while True:
        step = search.advance(log_softmax_(model.step(tokens, state)))
        if on_step is not None:
            on_step(step)
        over = search.over()
        if any(over):
            if on_finished is not None:
                on_finished(sum(over))
            if all(over):
                return search.results
            going = torch.tensor(closed_up(over), dtype=torch.int64, device=source.device)
            state.keep(going)
            search.keep(going)
        state.reorder(search.parents)
        tokens = search.said[:, :, search.length - 1].flatten()


def log_softmax_(scores: Float[Tensor, "rows vocab"]) -> Float[Tensor, "rows vocab"]:
    """:func:`torch.log_softmax` of the ``scores``, where they lie if they are not half precision.

    Nothing else in a step is as large, and memory for as much again must come from the system,
    which clears it first: that takes longer than the arithmetic. Pieces use their memory in turns.
    """
    scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
    for rows in scores.split(ROWS):
        rows.copy_(rows.log_softmax(dim=-1))
    return scores


class _Search:
    """The hypotheses of a batch of sentences, live and finished; a row for each sentence."""

    def __init__(
        self, limits: list[int], beam: int, alpha: float, n_best: int, device: torch.device
    ) -> None:
        sentences = len(limits)
        self.beam, self.alpha, self.n_best = beam, alpha, n_best
        self.results: list[list[Hypothesis]] = [[] for _ in limits]
        self.sentences = list(range(sentences))
        self.length = 0
        self.limits = torch.tensor(limits, device=device)
        self.penalties = ((5 + self.limits) / 6) ** alpha
        self.said = torch.zeros(sentences, beam, max(limits), dtype=torch.int64, device=device)
        self.parents = torch.zeros(sentences, beam, dtype=torch.int64, device=device)
        # There is only one beginning, and the others would be its copies.
        self.log_probs = torch.full((sentences, beam), -torch.inf, device=device)
        self.log_probs[:, 0] = 0
        self.n_finished = torch.zeros(sentences, dtype=torch.int64, device=device)
        self.bars = torch.full((sentences, n_best), -torch.inf, device=device)
        """The scores that a hypothesis must beat to be among the ``n_best``."""

    def advance(self, log_probs: Float[Tensor, "rows vocab"]) -> BeamStep:
        """Rank all continuations; let the best of them end or go on."""
        vocab = log_probs.shape[1]
        log_probs[:, :EOS] = -torch.inf
        totals = log_probs.view(-1, self.beam, vocab).add_(self.log_probs.unsqueeze(2))
        # Each hypothesis can end in one way only, so half of these go on.
        values, places = best(totals.flatten(1), 2 * self.beam)
        parents, tokens = places // vocab, places % vocab
        ends = tokens == EOS
        finished = ends & (values > -torch.inf)
        finished[:, self.beam :] = False
        going = ends.long().sort(dim=1, stable=True).indices[:, : self.beam]

        self.length += 1
        if finished.any():
            self._finish(finished, parents, values)
        self.parents = parents.gather(1, going)
        self.log_probs = values.gather(1, going)
        self.said = self.said.take_along_dim(self.parents.unsqueeze(2), dim=1)
        self.said[:, :, self.length - 1] = tokens.gather(1, going)
        live = torch.zeros_like(ends).scatter_(1, going, True)
        return BeamStep(list(self.sentences), parents, tokens, values, live, finished)

    def _finish(
        self,
        finished: Bool[Tensor, "sentences candidates"],
        parents: Int[Tensor, "sentences candidates"],
        values: Float[Tensor, "sentences candidates"],
    ) -> None:
        """Keep the hypotheses that have said ``EOS``."""
        scores = values / length_penalty(self.length, self.alpha)
        self.n_finished += finished.sum(dim=1)
        ranked = torch.cat([self.bars, scores.masked_fill(~finished, -torch.inf)], dim=1)
        self.bars = ranked.topk(self.n_best, dim=1).values
        for row, column in finished.nonzero().tolist():
            ids = self.said[row, parents[row, column], : self.length - 1].tolist()
            log_prob, score = float(values[row, column]), float(scores[row, column])
            self.results[self.sentences[row]].append(Hypothesis(ids, log_prob, score))

    def over(self) -> list[bool]:
        """Which searches have come to an end. Their results are put in order, best first."""
        bound = self.log_probs[:, 0] / self.penalties
        cut = self.limits <= self.length
        over: list[bool] = (
            cut | (self.n_finished >= self.beam) | (bound <= self.bars[:, -1])
        ).tolist()
        for row, sentence in enumerate(self.sentences):
            if over[row]:
                results = self.results[sentence]
                results.sort(key=lambda hypothesis: -hypothesis.score)
                if cut[row]:
                    results += self._cut_off(row)
                del results[self.n_best :]
        return over

    def _cut_off(self, row: int) -> list[Hypothesis]:
        """The live hypotheses of a sentence at its greatest length."""
        penalty = length_penalty(self.length, self.alpha)
        return [
            Hypothesis(ids, log_prob, log_prob / penalty, ended=False)
            for ids, log_prob in zip(
                self.said[row, :, : self.length].tolist(), self.log_probs[row].tolist(), strict=True
            )
            if log_prob > -torch.inf
        ]

    def keep(self, rows: Int[Tensor, "kept"]) -> None:
        """Go on with these sentences only."""
        self.sentences = [self.sentences[row] for row in rows.tolist()]
        self.limits, self.penalties = self.limits[rows], self.penalties[rows]
        self.said, self.parents = self.said[rows], self.parents[rows]
        self.log_probs, self.bars = self.log_probs[rows], self.bars[rows]
        self.n_finished = self.n_finished[rows]
