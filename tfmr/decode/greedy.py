"""Greedy decoding: generate the most probable next token until ``EOS``."""

from collections.abc import Callable, Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from tfmr.decode.generate import (
    TRANSLATION,
    GenerationConfig,
    generate,
    max_output_lengths,
    no_token_possible,
)
from tfmr.decode.topk import stable_topk
from tfmr.special_tokens import BOS, EOS
from tfmr.translator import IncrementalModel, Translator


@torch.inference_mode()
def greedy_search_naive(model: Translator, source: Int[Tensor, "1 source"]) -> list[int]:
    """Translate one sentence by greedy decoding, without a KV cache.

    This is the readable version: each step runs the model on the source and the whole prefix.
    :func:`greedy_search` returns the same ids by incremental decoding. Neither generates ``PAD``
    or ``BOS``, the two ids below ``EOS``.

    Returns:
        The ids of the translation, without ``BOS`` and ``EOS``.

    Raises:
        TfmrError: if the sentence is empty or too long, an id is outside the vocabulary, or the
            model's scores contain NaN or leave no token possible.
    """
    prefix = [BOS]
    for _ in range(max_output_lengths(model, source)[0]):
        hidden = model.hidden(source, torch.tensor([prefix], device=source.device))
        scores = model.scores(hidden[0, -1])[EOS:]
        if not scores.max().isfinite():
            raise no_token_possible(0, len(prefix))
        token = EOS + int(scores.argmax())
        if token == EOS:
            break
        prefix.append(token)
    return prefix[1:]


@torch.inference_mode()
def greedy_search(
    model: IncrementalModel,
    source: Int[Tensor, "batch source"],
    on_finished: Callable[[int], object] | None = None,
    generation: GenerationConfig = TRANSLATION,
) -> list[list[int]]:
    """Translate a batch of sentences, or continue texts, by greedy decoding.

    Args:
        model: in evaluation mode.
        source: ids, padded with ``PAD``, or with -1 for a language model.
        on_finished: called with the number of sentences finished in a step (for a progress bar).
        generation: which tokens are generated; see :class:`tfmr.decode.generate.GenerationConfig`.

    Returns:
        One list of ids per sentence, without ``BOS`` and ``EOS``, at most as long as
        :func:`tfmr.decode.generate.max_output_lengths` allows.

    Raises:
        TfmrError: if the model is in training mode, the batch or a sentence in it is empty, a
            sentence is too long, an id is outside the vocabulary, or the model's scores contain NaN
            or leave no token possible.
    """

    def most_probable(
        scores: Float[Tensor, "rows vocab"], sentences: Sequence[int]
    ) -> Int[Tensor, "rows"]:
        _, indices = stable_topk(scores[:, generation.lowest :], 1)
        return generation.lowest + indices.squeeze(1)

    return generate(model, source, most_probable, on_finished, generation)
