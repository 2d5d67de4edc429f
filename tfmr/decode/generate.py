"""Code shared by the searches: input checks, maximum output lengths, the generation loop."""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from tfmr.checks import check_ids, check_sizes
from tfmr.errors import TfmrError, require
from tfmr.later import STEPS_AHEAD, read_later
from tfmr.special_tokens import BOS, EOS, PAD
from tfmr.translator import IncrementalModel, IncrementalTranslator, Translator

EXTRA_LENGTH = 50
"""A translation may have this many tokens more than its source (Vaswani et al., 2017, section 6.1).
"""

ChooseTokens = Callable[[Float[Tensor, "rows vocab"], Sequence[int]], Int[Tensor, "rows"]]
"""Chooses the next token of each row from its scores. The second argument holds the sentence
number of each row: its index in the batch that :func:`generate` was given."""


@dataclass(frozen=True)
class GenerationConfig:
    """Which tokens a search generates, and how many; the defaults are those of a translation.

    Raises:
        TfmrError: if a value is out of range.
    """

    start: int | None = BOS
    """The first input of the decoder; ``None`` for a language model, which continues its source."""
    eos: int | None = EOS
    """The token that ends an output; ``None`` if there is none."""
    lowest: int = EOS
    """The smallest id that may be generated; the default excludes ``PAD`` and ``BOS``."""
    max_new_tokens: int | None = None
    """The maximum number of tokens of an output, ``eos`` included; ``None`` for that of a
    translation, which depends on the source: see :func:`max_output_lengths`."""

    def __post_init__(self) -> None:
        if self.max_new_tokens is not None:
            check_sizes(max_new_tokens=self.max_new_tokens)
        require(
            self.eos is None or self.eos >= self.lowest >= 0,
            f"eos must be None or an id that may be generated, at least {self.lowest}: got "
            f"{self.eos}",
        )


TRANSLATION = GenerationConfig()
"""The configuration for translations."""


def check_eval_mode(model: IncrementalModel) -> None:
    """Raise :class:`tfmr.errors.TfmrError` if the model is in training mode."""
    if model.training:
        raise TfmrError(
            "decoding needs a model in evaluation mode: got one in training mode, where dropout "
            "makes its scores random; call model.eval() first"
        )


def no_token_possible(sentence: int, length: int) -> TfmrError:
    """The error for scores that define no next token: one is NaN or +inf, or all are -inf."""
    return TfmrError(
        f"the model's scores of token {length} of sentence {sentence} (counted from 0) must be "
        "finite or -inf, and not all -inf: got NaN, +inf or only -inf; are all weights finite?"
    )


def max_output_lengths(
    model: IncrementalModel | Translator,
    source: Int[Tensor, "batch source"],
    generation: GenerationConfig = TRANSLATION,
) -> list[int]:
    """The maximum number of tokens of each output, ``eos`` included.

    It is ``max_new_tokens`` if that is set. Otherwise it is the source length plus
    :data:`EXTRA_LENGTH`, but at most the model's ``max_length``: it depends on the sentence alone,
    not on the padding in its batch.

    Raises:
        TfmrError: if ``source`` is not a batch of integer ids with at least one sentence, a
            sentence is empty, or ``max_new_tokens`` is missing for a model without ``max_length``.
    """
    check_ids(source, "source ids")
    if generation.max_new_tokens is not None:
        return [generation.max_new_tokens] * len(source)
    if not isinstance(model, Translator | IncrementalTranslator):
        raise TfmrError(
            "only the outputs of a translation model have a maximum length of their own: got a "
            f"{type(model).__name__}; set max_new_tokens"
        )
    lengths = (source != PAD).sum(dim=1).tolist()
    if 0 in lengths:
        raise TfmrError(
            "each source sentence needs at least one token: got only padding in row "
            f"{lengths.index(0)}; remove empty sentences from the batch"
        )
    return [min(length + EXTRA_LENGTH, model.config.max_length) for length in lengths]


def first_tokens(
    source: Int[Tensor, "batch source"], generation: GenerationConfig
) -> Int[Tensor, "batch"]:
    """The first input of the decoder for each row of ``source``.

    A language model starts with the last token of its source, which is padded with ``-1``.
    """
    if generation.start is not None:
        return torch.full((len(source),), generation.start, device=source.device)
    last = (source >= 0).sum(dim=1, keepdim=True) - 1
    return source.gather(1, last.clamp(min=0))[:, 0]


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
    model: IncrementalModel,
    source: Int[Tensor, "batch source"],
    choose: ChooseTokens,
    on_finished: Callable[[int], object] | None = None,
    generation: GenerationConfig = TRANSLATION,
) -> list[list[int]]:
    """Generate the outputs of a batch token by token: the loop of greedy decoding and sampling.

    Outputs leave the batch when they are finished, so later steps do not compute them. A GPU is
    given some further steps before the tokens of a step are read, so that it does not wait; what
    these steps generate after the end of an output is not used.

    Args:
        model: in evaluation mode.
        source: ids, padded with ``PAD``, or with -1 for a language model.
        choose: chooses the next tokens from their scores.
        on_finished: called with the number of outputs finished in a step (for a progress bar).
        generation: which tokens are generated.

    Returns:
        One list of ids per output, without ``start`` and ``eos``.

    Raises:
        TfmrError: if the model is in training mode, the batch or a sentence in it is empty, a
            sentence is too long, an id is outside the vocabulary, or the model's scores contain NaN
            or leave no token possible.
    """
    check_eval_mode(model)
    limits = max_output_lengths(model, source, generation)
    state = model.start(source, max(limits))
    ahead = steps_ahead(source.device)
    generated: list[list[int]] = [[] for _ in limits]
    unfinished = set(range(len(limits)))
    active = list(range(len(limits)))  # the sentence number of each row
    tokens = first_tokens(source, generation)
    started: deque[tuple[list[int], Callable[[], list[list[int]]]]] = deque()
    for length in range(1, max(limits) + ahead + 1):
        if length <= max(limits):
            scores = model.step(tokens, state)
            # The maximum is NaN if any score is.
            possible = scores[:, generation.lowest :].amax(dim=1).isfinite()
            if not ahead:
                _check_possible(possible.tolist(), active, length)
            tokens = choose(scores, active)
            results = torch.stack([tokens, possible.long()]) if ahead else tokens[None]
            started.append((active, read_later(results)))
        if length <= ahead:
            continue
        sentences, read = started.popleft()
        new_tokens, *were_possible = read()
        rows = [row for row, sentence in enumerate(sentences) if sentence in unfinished]
        for checked in were_possible:
            running = [sentences[row] for row in rows]
            _check_possible([bool(checked[row]) for row in rows], running, length - ahead)
        n_unfinished = len(unfinished)
        for row in rows:
            sentence, token = sentences[row], new_tokens[row]
            if token != generation.eos:
                generated[sentence].append(token)
            if token == generation.eos or len(generated[sentence]) == limits[sentence]:
                unfinished.remove(sentence)
        if on_finished is not None and len(unfinished) < n_unfinished:
            on_finished(n_unfinished - len(unfinished))
        if not unfinished:
            break
        if worth_removing(len(active), len(unfinished), ahead):
            kept = compact_rows([sentence not in unfinished for sentence in active])
            active = [active[row] for row in kept]
            selected = torch.tensor(kept, dtype=torch.int64, device=source.device)
            state.select(selected)
            tokens = tokens[selected]
    return generated


def steps_ahead(device: torch.device) -> int:
    """How many further steps are started before the results of a step are read."""
    return STEPS_AHEAD if device.type == "cuda" else 0


def worth_removing(rows: int, unfinished: int, ahead: int) -> bool:
    """Whether to remove the finished rows of a batch.

    On a GPU, a step takes about as long for half as many rows, and removing rows takes longer than
    a step, so at least half of them must be finished.
    """
    return unfinished <= rows // 2 if ahead else unfinished < rows


def _check_possible(possible: Sequence[bool], sentences: Sequence[int], length: int) -> None:
    if not all(possible):
        raise no_token_possible(sentences[possible.index(False)], length)
