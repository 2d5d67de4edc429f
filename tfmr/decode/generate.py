"""What every search over a batch has in common: how long it may talk, and who goes on."""

from collections.abc import Callable, Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from tfmr.errors import require
from tfmr.special_tokens import BOS, EOS, PAD
from tfmr.translator import Translator, check_batch

EXTRA_LENGTH = 50
"""A translation may be this much longer than its source. Vaswani et al. (2017), section 6.1."""

Choose = Callable[[Float[Tensor, "rows vocab"], Sequence[int]], Int[Tensor, "rows"]]
"""From the scores of the sentences with these numbers to the next token of each."""


def max_output_lengths(model: Translator, source: Int[Tensor, "batch source"]) -> list[int]:
    """The most tokens each translation may have: the paper's bound, within the model's own.

    It depends on the sentence alone, not on the padding that its batch happens to bring. ``EOS``
    counts: a translation of as many words is one that was cut off before its end.
    """
    lengths = (source != PAD).sum(dim=1).tolist()
    return [min(length + EXTRA_LENGTH, model.config.max_length) for length in lengths]


def check_ready(model: Translator) -> None:
    """Raise :class:`tfmr.errors.TfmrError` if the model is in training mode."""
    require(
        not model.training,
        "a model translates in evaluation mode, dropout would make it stutter: call model.eval() "
        "first",
    )


def best(
    scores: Float[Tensor, "rows n"], k: int, block: int = 128
) -> tuple[Float[Tensor, "rows k"], Int[Tensor, "rows k"]]:
    """The ``k`` greatest numbers of each row and where they stand, the greatest first.

    Of equal numbers the one that stands first comes first: it returns the first ``k`` of
    ``scores.sort(descending=True, stable=True)``, many times faster. The ``k`` greatest numbers of
    a row are in the ``k`` blocks whose own greatest are the greatest, and only those blocks are
    searched.

    >>> best(torch.tensor([[3.0, 1.0, 3.0, 2.0]]), 3, block=2)[1].tolist()
    [[0, 2, 3]]
    """
    n = scores.shape[1]
    if n <= block * k or scores.numel() <= 16 * block**2:  # too few for a detour to pay
        return _ranked(scores, k)
    whole = n - n % block
    peaks = scores[:, :whole].unflatten(1, (-1, block)).amax(dim=2)
    if whole < n:
        peaks = torch.cat([peaks, scores[:, whole:].amax(dim=1, keepdim=True)], dim=1)
    # In the order of the row again, so that what stands first is found first.
    chosen = _ranked(peaks, k)[1].sort(dim=1).values
    within = (chosen.unsqueeze(2) * block + torch.arange(block, device=scores.device)).flatten(1)
    found = scores.gather(1, within.clamp(max=n - 1)).masked_fill(within >= n, -torch.inf)
    values, order = _ranked(found, k)
    return values, within.gather(1, order)


def _ranked(
    scores: Float[Tensor, "rows n"], k: int
) -> tuple[Float[Tensor, "rows k"], Int[Tensor, "rows k"]]:
    """:func:`best`, looking at everything.

    Of one, ``max`` finds the first. ``topk`` takes equals in any order. Among more than enough of
    the greatest, a stable sort brings them into their own; unless even the last of those equals the
    ``k``-th, which is rare.
    """
    if k == 1:
        value, place = scores.max(dim=1, keepdim=True)
        return value, place
    values, places = scores.topk(min(2 * k + 1, scores.shape[1]), dim=1)
    if (values[:, -1] == values[:, min(k, values.shape[1]) - 1]).any():
        places = torch.arange(scores.shape[1], device=scores.device).expand_as(scores)
    places = places.sort(dim=1).values
    values, order = scores.gather(1, places).sort(dim=1, descending=True, stable=True)
    return values[:, :k], places.gather(1, order)[:, :k]


def closed_up(ended: Sequence[bool]) -> list[int]:
    """The rows that have not ended, in an order that moves few: the last ones fill the gaps.

    A row that keeps its number need not be copied, see :meth:`tfmr.attention.KVCache.keep`.

    >>> closed_up([False, True, False, True, False, False])
    [0, 5, 2, 4]
    """
    going = [row for row, end in enumerate(ended) if not end]
    return [going.pop() if ended[row] else row for row in range(len(going))]


def say(
    model: Translator,
    source: Int[Tensor, "batch source"],
    choose: Choose,
    on_finished: Callable[[int], object] | None = None,
) -> list[list[int]]:
    """Translate a batch of sentences, one token of each at a time, until all have ended.

    A sentence that has ended leaves the batch, so it costs nothing more.

    Args:
        model: in evaluation mode.
        source: ids, padded with ``PAD``.
        choose: which token comes next.
        on_finished: called with the number of sentences that ended in a step (for a progress bar).

    Returns:
        One list of ids per sentence, without ``BOS`` and ``EOS``.

    Raises:
        TfmrError: if the model is in training mode, a sentence is empty or too long, or an id is
            unknown.
    """
    check_ready(model)
    check_batch(source, "source")
    limits = max_output_lengths(model, source)
    state = model.start(source, max(limits))
    said: list[list[int]] = [[] for _ in limits]
    active = list(range(len(limits)))
    tokens = torch.full((len(active),), BOS, device=source.device)
    while active:
        tokens = choose(model.step(tokens, state), active)
        ended = []
        for sentence, word in zip(active, tokens.tolist(), strict=True):
            if word != EOS:
                said[sentence].append(word)
            ended.append(word == EOS or len(said[sentence]) == limits[sentence])
        if any(ended):
            if on_finished is not None:
                on_finished(sum(ended))
            going = closed_up(ended)
            active = [active[row] for row in going]
            rows = torch.tensor(going, dtype=torch.int64, device=source.device)
            state.keep(rows)
            tokens = tokens[rows]
    return said
