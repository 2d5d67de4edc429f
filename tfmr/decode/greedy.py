"""Greedy decoding: always say the likeliest next token."""

from collections.abc import Callable, Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from tfmr.decode.generate import best, max_output_lengths, say
from tfmr.special_tokens import BOS, EOS
from tfmr.translator import Translator


@torch.inference_mode()
def greedy_search_naive(model: Translator, source: Int[Tensor, "1 source"]) -> list[int]:
    """Translate one sentence by saying the likeliest next token until that is the end.

    The version to read: it feeds the source and the whole prefix through the model at every step.
    :func:`greedy` says the same, reading each token once. Neither says ``PAD`` or ``BOS``, the two
    ids that come before ``EOS``.

    Returns:
        The ids of the translation, without ``BOS`` and ``EOS``.
    """
    said = [BOS]
    for _ in range(max_output_lengths(model, source)[0]):
        hidden = model.hidden(source, torch.tensor([said], device=source.device))
        token = EOS + int(model.scores(hidden[0, -1])[EOS:].argmax())
        if token == EOS:
            break
        said.append(token)
    return said[1:]


@torch.inference_mode()
def greedy_search(
    model: Translator,
    source: Int[Tensor, "batch source"],
    on_finished: Callable[[int], object] | None = None,
) -> list[list[int]]:
    """Translate a batch of sentences by saying the likeliest next token of each until its end.

    Args:
        model: in evaluation mode.
        source: ids, padded with ``PAD``.
        on_finished: called with the number of sentences that ended in a step (for a progress bar).

    Returns:
        One list of ids per sentence, without ``BOS`` and ``EOS``; at most as many as
        :func:`tfmr.decode.generate.max_output_lengths` says.

    Raises:
        TfmrError: if the model is in training mode, a sentence is empty or too long, or an id is
            unknown.
    """

    def likeliest(
        scores: Float[Tensor, "rows vocab"], sentences: Sequence[int]
    ) -> Int[Tensor, "rows"]:
        _, places = best(scores[:, EOS:], 1)
        return EOS + places.squeeze(1)

    return say(model, source, likeliest, on_finished)
