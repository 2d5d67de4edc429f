"""Decode by the method that the options select: greedy decoding, beam search or sampling."""

from collections.abc import Callable, Sequence

from jaxtyping import Int
from torch import Tensor

from tfmr.decode.beam import ALPHA, beam_search, check_beam_options
from tfmr.decode.generate import TRANSLATION, GenerationConfig
from tfmr.decode.greedy import greedy_search
from tfmr.decode.sampling import Sampling, sample
from tfmr.errors import require
from tfmr.translator import IncrementalModel


def check_search_options(beam: int, alpha: float, sampling: Sampling | None) -> None:
    """Raise :class:`tfmr.errors.TfmrError` if an option is out of range, or two conflict."""
    check_beam_options(beam, alpha, n_best=1)
    require(
        sampling is None or beam == 1,
        f"beam search and sampling exclude each other: got beam={beam} and sampling; choose one",
    )


def search(
    model: IncrementalModel,
    source: Int[Tensor, "batch source"],
    *,
    beam: int = 1,
    alpha: float = ALPHA,
    sampling: Sampling | None = None,
    seeds: Sequence[int] = (),
    generation: GenerationConfig = TRANSLATION,
    on_finished: Callable[[int], object] | None = None,
) -> list[list[int]]:
    """The output for each row of ``source``, without ``start`` and ``eos``.

    Args:
        model: in evaluation mode.
        source: ids, padded with ``PAD``, or with -1 for a language model.
        beam: hypotheses of :func:`tfmr.decode.beam.beam_search`; 1 is greedy decoding.
        alpha: exponent of the length penalty of the beam search.
        sampling: sample each next token instead of searching.
        seeds: one per row, for sampling.
        generation: which tokens are generated.
        on_finished: called with the number of outputs finished in a step (for a progress bar).

    Raises:
        TfmrError: as :func:`check_search_options` and the search that is selected.
    """
    check_search_options(beam, alpha, sampling)
    if sampling is not None:
        return sample(
            model, source, sampling, seeds=seeds, on_finished=on_finished, generation=generation
        )
    if beam == 1:
        return greedy_search(model, source, on_finished, generation)
    results = beam_search(
        model, source, beam, alpha, on_finished=on_finished, generation=generation
    )
    return [hypotheses[0].ids for hypotheses in results]
