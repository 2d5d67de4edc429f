"""Code shared by the searches: input checks, maximum output lengths, the generation loop."""

from collections.abc import Callable, Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from tfmr.checks import check_ids
from tfmr.errors import TfmrError
from tfmr.special_tokens import BOS, EOS, PAD
from tfmr.translator import IncrementalTranslator

EXTRA_LENGTH = 50
"""A translation may have this many tokens more than its source (Vaswani et al., 2017, section 6.1).
"""

ChooseTokens = Callable[[Float[Tensor, "rows vocab"], Sequence[int]], Int[Tensor, "rows"]]
"""Chooses the next token of each row from its scores. The second argument holds the sentence
number of each row: its index in the batch that :func:`generate` was given."""


def check_eval_mode(model: IncrementalTranslator) -> None:
    """Raise :class:`tfmr.errors.TfmrError` if the model is in training mode."""
    if model.training:
        raise TfmrError(
            "decoding needs a model in evaluation mode: got one in training mode, where dropout "
            "makes its scores random; call model.eval() first"
        )


def no_token_possible(sentence: int, length: int) -> TfmrError:
    """The error for scores that define no next token: one is NaN or +inf, or all are -inf."""
    return TfmrError(
        f"the model's scores of token {length} of sentence {sentence} (from 0) must be finite or "
        "-inf, and not all -inf: got NaN, +inf or only -inf; are all weights finite?"
    )


def max_output_lengths(
    model: IncrementalTranslator, source: Int[Tensor, "batch source"]
) -> list[int]:
    """The maximum number of tokens of each translation, ``EOS`` included.

    The source length plus :data:`EXTRA_LENGTH`, but at most the model's ``max_length``. It depends
    on the sentence alone, not on the padding in its batch.

    Raises:
        TfmrError: if ``source`` is not a batch of at least one sentence, not made of integer ids,
            or a sentence is empty.
    """
    check_ids(source, "source ids")
    lengths = (source != PAD).sum(dim=1).tolist()
    if 0 in lengths:
        raise TfmrError(
            "each source sentence needs at least one token: got only padding in row "
            f"{lengths.index(0)}; remove empty sentences from the batch"
        )
    return [min(length + EXTRA_LENGTH, model.config.max_length) for length in lengths]


def compact_rows(finished: Sequence[bool]) -> list[int]:
    """Row indices that remove the finished rows of a batch and move as few others as possible.

    The last unfinished rows fill the gaps. All others keep their position, so their KV cache need
    not be copied.

    >>> compact_rows([False, True, False, True, False, False])
    [0, 5, 2, 4]
    """
    unfinished = [row for row, is_finished in enumerate(finished) if not is_finished]
    return [unfinished.pop() if finished[row] else row for row in range(len(unfinished))]


def generate(
    model: IncrementalTranslator,
    source: Int[Tensor, "batch source"],
    choose: ChooseTokens,
    on_finished: Callable[[int], object] | None = None,
) -> list[list[int]]:
    """Translate a batch of sentences token by token: the loop of greedy decoding and sampling.

    Sentences leave the batch as soon as they are finished, so later steps do not compute them.

    Args:
        model: in evaluation mode.
        source: ids, padded with ``PAD``.
        choose: chooses the next tokens from their scores.
        on_finished: called with the number of sentences finished in a step (for a progress bar).

    Returns:
        One list of ids per sentence, without ``BOS`` and ``EOS``.

    Raises:
        TfmrError: if the model is in training mode, the batch or a sentence in it is empty, a
            sentence is too long, an id is outside the vocabulary, or the model's scores contain NaN
            or leave no token possible.
    """
    check_eval_mode(model)
    limits = max_output_lengths(model, source)
    state = model.start(source, max(limits))
    generated: list[list[int]] = [[] for _ in limits]
    active = list(range(len(limits)))  # the sentence number of each row
    tokens = torch.full((len(active),), BOS, device=source.device)
    while active:
        scores = model.step(tokens, state)
        # The maximum is NaN if any score is. Row by row with the tokens, so that both are one
        # transfer from a GPU.
        possible = scores[:, EOS:].amax(dim=1).isfinite()
        tokens = choose(scores, active)
        finished = []
        for sentence, token in zip(active, tokens.where(possible, -1).tolist(), strict=True):
            if token < 0:
                raise no_token_possible(sentence, len(generated[sentence]) + 1)
            if token != EOS:
                generated[sentence].append(token)
            finished.append(token == EOS or len(generated[sentence]) == limits[sentence])
        if any(finished):
            if on_finished is not None:
                on_finished(sum(finished))
            rows = compact_rows(finished)
            active = [active[row] for row in rows]
            kept = torch.tensor(rows, dtype=torch.int64, device=source.device)
            state.select(kept)
            tokens = tokens[kept]
    return generated
