"""Decoding: from a model's next-token scores to a sentence.

Every search works on any :class:`tfmr.translator.Translator`, through its ``start`` and ``step``.
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
from tfmr.decode.generate import EXTRA_LENGTH, max_output_lengths
from tfmr.decode.greedy import greedy_search, greedy_search_naive
from tfmr.decode.sampling import Sampling, sample
from tfmr.decode.sentences import Translation, translate, translate_each

__all__ = [
    "ALPHA",
    "EXTRA_LENGTH",
    "BeamStep",
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
