"""The beam tree: beam search of real sentences, step by step, with every score."""

import math
from collections.abc import Sequence
from typing import Any

import torch
import traitlets

from tfmr.data.tokenizer import Tokenizer
from tfmr.decode.beam import ALPHA, BeamStep, Hypothesis, beam_search
from tfmr.decode.generate import max_output_lengths
from tfmr.errors import require
from tfmr.translator import Translator
from tfmr.widgets.figure import LiveFigure

BEAMS = (1, 2, 4)
DIGITS = 4
"""Decimal places of the log-probabilities in the state."""
LARGEST_ALPHA = 2.0
PRUNED, LIVE, FINISHED = 0, 1, 2


class BeamFigure(LiveFigure):
    """Beam search as a tree that grows: live, finished and pruned hypotheses with their scores.

    The searches are recorded until as many hypotheses are finished as the beam is wide, whatever
    their scores are. So the figure can apply any ``alpha``, and end the search where
    :func:`tfmr.decode.beam.beam_search` ends it. The traits ``sentence``, ``beam``, ``alpha`` and
    ``step`` are synchronised with Python.

    Args:
        model: in evaluation mode. With double precision, all machines record the same digits.
        tokenizer: of the model.
        sentences: 1 to 4 source sentences.
        beam: the beam that is shown first, one of :data:`BEAMS`. A beam of 1 is greedy decoding.
        alpha: the exponent of the length penalty that is shown first, at most
            :data:`LARGEST_ALPHA`.
        step: the step that is shown first; a search that ends earlier is shown to its end.

    Raises:
        TfmrError: if an argument is out of range, or a search of a sentence is impossible.
    """

    searches = traitlets.List(traitlets.Dict()).tag(sync=True)
    """By sentence: ``source``, ``max_length`` (the maximum number of tokens of a translation), and
    ``beams``, by beam: ``beam`` and ``steps``. A step is a list of candidates in descending order
    of probability: number of the parent among the live hypotheses, token, log-probability, and
    whether it is pruned (0), live (1) or finished (2)."""
    sentence = traitlets.Int().tag(sync=True)
    beam = traitlets.Enum(BEAMS).tag(sync=True)
    alpha = traitlets.Float().tag(sync=True)
    step = traitlets.Int().tag(sync=True)

    def __init__(
        self,
        model: Translator,
        tokenizer: Tokenizer,
        sentences: Sequence[str],
        *,
        beam: int = 2,
        alpha: float = ALPHA,
        step: int = 0,
    ) -> None:
        require(1 <= len(sentences) <= 4, f"expected 1 to 4 sentences: got {len(sentences)}")
        require(beam in BEAMS, f"beam must be one of {', '.join(map(str, BEAMS))}: got {beam}")
        require(
            0 <= alpha <= LARGEST_ALPHA,
            f"alpha must be between 0 and {LARGEST_ALPHA}: got {alpha}",
        )
        require(step >= 0, f"step must be at least 0, the start of the search: got {step}")
        self._model, self._tokenizer = model, tokenizer
        super().__init__(
            searches=[self._record(sentence) for sentence in sentences],
            sentence=0, beam=beam, alpha=alpha, step=step,
        )  # fmt: skip

    def _record(self, sentence: str) -> dict[str, Any]:
        source = torch.tensor([self._tokenizer.encode(sentence)], dtype=torch.int64)
        recorded = []
        for beam in BEAMS:
            steps: list[BeamStep] = []
            # With n_best = beam the scores end no search early.
            beam_search(self._model, source, beam, n_best=beam, on_step=steps.append)
            recorded.append({"beam": beam, "steps": [self._candidates(step) for step in steps]})
        return {
            "source": sentence,
            "max_length": max_output_lengths(self._model, source)[0],
            "beams": recorded,
        }

    def _candidates(self, step: BeamStep) -> list[list[Any]]:
        kinds = step.live[0] * LIVE + step.finished[0] * FINISHED
        columns = (step.parents, step.tokens, step.log_probs, kinds[None])
        rows = zip(*(column[0].tolist() for column in columns), strict=True)
        return [
            [parent, self._tokenizer.tokens([token])[0], round(log_prob, DIGITS), kind]
            for parent, token, log_prob, kind in rows
            if log_prob > -math.inf
        ]

    def search(self) -> tuple[Hypothesis, int]:
        """The result of this search by :func:`~tfmr.decode.beam.beam_search`, and its steps."""
        steps: list[BeamStep] = []
        source = self.searches[self.sentence]["source"]
        ids = torch.tensor([self._tokenizer.encode(source)], dtype=torch.int64)
        [[best]] = beam_search(self._model, ids, self.beam, self.alpha, on_step=steps.append)
        return best, len(steps)

    def translation(self) -> str:
        """The text of the result of the current search."""
        return self._tokenizer.decode(self.search()[0].ids)

    def summary(self) -> str:
        """The sentence that it shows."""
        sources = ", ".join(f"“{search['source']}”" for search in self.searches)
        beams = ", ".join(map(str, BEAMS[:-1]))
        return f"beam search with beams of {beams} and {BEAMS[-1]}, step by step, for {sources}."
