"""Decoding: from the model's next-token scores to a sentence."""

import math
from collections.abc import Callable, Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from tfmr.data.batches import pad
from tfmr.data.tokenizer import Tokenizer
from tfmr.errors import TfmrError, require
from tfmr.ids import BOS, EOS, PAD, UNK
from tfmr.model import Transformer

EXTRA_LENGTH = 50
"""A translation may be this much longer than its source. Vaswani et al. (2017), section 6.1."""


def longest_outputs(model: Transformer, source: Int[Tensor, "batch source"]) -> list[int]:
    """The most tokens each translation may have: the paper's bound, within the model's own.

    It depends on the sentence alone, not on the padding that its batch happens to bring.
    """
    lengths = (source != PAD).sum(dim=1).tolist()
    return [min(length + EXTRA_LENGTH, model.config.max_length) for length in lengths]


def _best(logits: Float[Tensor, "batch vocab"]) -> Int[Tensor, "batch"]:
    """The likeliest token that may be said: never padding, never a second beginning."""
    allowed = logits.clone()
    allowed[:, [PAD, BOS]] = -math.inf
    return allowed.argmax(dim=-1)


@torch.no_grad()
def greedy_naive(model: Transformer, source: Int[Tensor, "1 source"]) -> list[int]:
    """Translate one sentence by saying the likeliest next token until that is the end.

    The version to read: it feeds the whole prefix through the decoder at every step. :func:`greedy`
    says the same, reading each token once.

    Returns:
        The ids of the translation, without ``BOS`` and ``EOS``.
    """
    memory, mask = model.encode(source)
    said = [BOS]
    for _ in range(longest_outputs(model, source)[0]):
        hidden = model.decode(torch.tensor([said], device=source.device), memory, mask)
        token = int(_best(model.scores(hidden[:, -1])))
        if token == EOS:
            break
        said.append(token)
    return said[1:]


@torch.inference_mode()
def greedy(
    model: Transformer,
    source: Int[Tensor, "batch source"],
    on_finished: Callable[[int], object] | None = None,
) -> list[list[int]]:
    """Translate a batch of sentences by saying the likeliest next token of each until its end.

    Keys and values are cached, and a sentence that has ended leaves the batch, so it costs nothing
    more.

    Args:
        model: in evaluation mode.
        source: ids, padded with ``PAD``.
        on_finished: called with the number of sentences that ended in a step (for a progress bar).

    Returns:
        One list of ids per sentence, without ``BOS`` and ``EOS``.

    Raises:
        TfmrError: if the model is in training mode, a sentence is empty or too long, or an id is
            unknown.
    """
    require(
        not model.training,
        "a model translates in evaluation mode, dropout would make it stutter: call model.eval() "
        "first",
    )
    memory, mask = model.encode(source)
    limits = longest_outputs(model, source)
    caches = model.decoder.new_caches(max(limits), source.shape[1])
    said: list[list[int]] = [[] for _ in range(len(source))]
    active = list(range(len(source)))
    token = torch.full((len(source), 1), BOS, device=source.device)
    while active:
        token = _best(model.scores(model.decode(token, memory, mask, caches)[:, -1])).unsqueeze(1)
        going = []
        for row, (sentence, word) in enumerate(zip(active, token[:, 0].tolist(), strict=True)):
            if word != EOS:
                said[sentence].append(word)
                if len(said[sentence]) < limits[sentence]:
                    going.append(row)
        if len(going) < len(active):
            if on_finished is not None:
                on_finished(len(active) - len(going))
            active = [active[row] for row in going]
            rows = torch.tensor(going, dtype=torch.int64, device=source.device)
            token, memory, mask = token[rows], memory[rows], mask[rows]
            for cache in caches:
                cache.keep(rows)
    return said


def translate(
    model: Transformer,
    tokenizer: Tokenizer,
    sentences: Sequence[str],
    *,
    batch: int = 64,
    on_finished: Callable[[int], object] | None = None,
) -> list[str]:
    """Translate texts, in their order; those of like length go through the model together.

    Args:
        model: in evaluation mode.
        tokenizer: the vocabulary it was trained with.
        sentences: one sentence each.
        batch: how many go through the model at once.
        on_finished: called with the number of sentences done since the last call.

    Raises:
        TfmrError: if a sentence is empty, too long or has an unknown word (the message names it),
            or the vocabulary is not the model's.
    """
    require(
        tokenizer.vocab_size == model.config.source_vocab,
        f"the vocabulary has {tokenizer.vocab_size} tokens and the model "
        f"{model.config.source_vocab}: use the tokenizer that the model was trained with",
    )
    encoded = tokenizer.encode_batch(list(sentences))
    for number, (sentence, ids) in enumerate(zip(sentences, encoded, strict=True), start=1):
        require(
            bool(ids) and not sentence.isspace(),
            f"sentence {number} is empty: there is nothing to translate; leave out empty lines",
        )
        require(
            len(ids) <= model.config.max_length,
            f"sentence {number} has {len(ids)} tokens and the model reads at most "
            f"{model.config.max_length}: split it, or train with a larger max_length",
        )
        if UNK in ids:
            unknown = [word for word in sentence.split() if UNK in tokenizer.encode(word)]
            raise TfmrError(
                f"sentence {number} has words that the model never learnt: {', '.join(unknown)}; "
                f"use the words of its corpus, or a model with a byte-pair vocabulary"
            )
    device = next(model.parameters()).device
    order = sorted(range(len(encoded)), key=lambda index: len(encoded[index]))
    translations = [""] * len(encoded)
    for first in range(0, len(order), batch):
        rows = order[first : first + batch]
        outputs = greedy(model, pad([encoded[row] for row in rows]).to(device), on_finished)
        for row, output in zip(rows, outputs, strict=True):
            translations[row] = tokenizer.decode(output)
    return translations
