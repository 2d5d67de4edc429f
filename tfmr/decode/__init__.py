"""Decoding: from the scores of a model to translations.

The searches (:mod:`~tfmr.decode.greedy`, :mod:`~tfmr.decode.beam`, :mod:`~tfmr.decode.sampling`)
work on batches of ids and take any :class:`tfmr.translator.IncrementalModel`, of this package or
your own. :mod:`~tfmr.decode.search` selects one of the searches by the options,
:mod:`~tfmr.decode.generate` holds the code that they share, and :mod:`~tfmr.decode.topk` selects
candidates. :mod:`~tfmr.decode.sentences` applies the searches to text, and
:mod:`~tfmr.decode.streaming` decodes the output word by word. The ``*_naive`` versions recompute
every prefix; they are the ones to read first, and they take a :class:`tfmr.translator.Translator`.
"""

from tfmr.decode.alignment import align
from tfmr.decode.beam import (
    ALPHA,
    BeamStep,
    Hypothesis,
    beam_search,
    beam_search_naive,
    length_penalty,
)
from tfmr.decode.generate import EXTRA_LENGTH, GenerationConfig, max_output_lengths
from tfmr.decode.greedy import greedy_search, greedy_search_naive
from tfmr.decode.sampling import Sampling, sample
from tfmr.decode.sentences import Candidate, Translation, translate, translate_each

__all__ = [
    "ALPHA",
    "EXTRA_LENGTH",
    "BeamStep",
    "Candidate",
    "GenerationConfig",
    "Hypothesis",
    "Sampling",
    "Translation",
    "align",
    "beam_search",
    "beam_search_naive",
    "greedy_search",
    "greedy_search_naive",
    "length_penalty",
    "max_output_lengths",
    "sample",
    "translate",
    "translate_each",
]
