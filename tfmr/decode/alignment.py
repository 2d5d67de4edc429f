"""Alignment: which word of the source a model looked at for each word that it said."""

import torch
from jaxtyping import Float
from torch import Tensor

from tfmr.data.tokenizer import Tokenizer
from tfmr.errors import require
from tfmr.special_tokens import BOS
from tfmr.translator import Translator


def group_into_words(tokenizer: Tokenizer, ids: list[int]) -> tuple[list[str], list[int]]:
    """The words that ``ids`` spell, and for each id the number of its word.

    A piece belongs to the word before it, unless it begins with a space.
    """
    owners: list[int] = []
    for number, piece in enumerate(tokenizer.tokens(ids)):
        begins = tokenizer.kind == "words" or piece.startswith("▁") or number == 0
        owners.append(owners[-1] + (1 if begins else 0) if owners else 0)
    groups: list[list[int]] = [[] for _ in range(owners[-1] + 1)] if owners else []
    for id, owner in zip(ids, owners, strict=True):
        groups[owner].append(id)
    return [tokenizer.decode(group).strip() for group in groups], owners


@torch.inference_mode()
def align(
    model: Translator, tokenizer: Tokenizer, source: list[int], target: list[int]
) -> list[tuple[str, str]]:
    """For each word of a translation, the source word that was looked at most, as pairs
    ``(source, target)`` in the order of the translation.

    What a word reads of a source word is summed over the tokens of both.

    Raises:
        TfmrError: if the model keeps no alignment, or there is no source.
    """
    require(bool(source), "an alignment needs a source sentence: got an empty one")
    if not target:
        return []
    device = next(model.parameters()).device
    shifted = torch.tensor([[BOS, *target[:-1]]], device=device)
    weights = model.alignment(torch.tensor([source], device=device), shifted)[0].cpu()
    source_words, source_owners = group_into_words(tokenizer, source)
    target_words, target_owners = group_into_words(tokenizer, target)
    read = _sum_by(weights.T, source_owners, len(source_words))
    said = _sum_by(read.T, target_owners, len(target_words))
    looked_at = said.argmax(dim=1).tolist()
    return [(source_words[i], word) for i, word in zip(looked_at, target_words, strict=True)]


def _sum_by(
    x: Float[Tensor, "tokens other"], owners: list[int], words: int
) -> Float[Tensor, "words other"]:
    """The sum of the rows that belong to each word."""
    return x.new_zeros(words, x.shape[1]).index_add_(0, torch.tensor(owners), x)
