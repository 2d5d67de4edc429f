"""Word alignment from attention weights."""

import torch
from jaxtyping import Float
from torch import Tensor

from tfmr.data.text import canonical
from tfmr.data.tokenizer import Tokenizer
from tfmr.errors import require
from tfmr.special_tokens import BOS
from tfmr.translator import IncrementalTranslator


def group_into_words(tokenizer: Tokenizer, ids: list[int]) -> tuple[list[str], list[int]]:
    """The words that ``ids`` spell, and the index of the word that each id belongs to.

    A byte-pair token that begins with a space starts a new word; any other belongs to the word
    before it.
    """
    word_of_id: list[int] = []
    for number, token in enumerate(tokenizer.tokens(ids)):
        starts_word = tokenizer.kind == "words" or token.startswith("▁")
        word_of_id.append(word_of_id[-1] + starts_word if number else 0)
    words: list[list[int]] = [[] for _ in range(word_of_id[-1] + 1)] if word_of_id else []
    for id, word in zip(ids, word_of_id, strict=True):
        words[word].append(id)
    return [canonical(tokenizer.decode(word)) for word in words], word_of_id


@torch.inference_mode()
def align(
    model: IncrementalTranslator, tokenizer: Tokenizer, source: list[int], target: list[int]
) -> list[tuple[str, str]]:
    """Pair each word of a translation with the source word that has the largest attention weight.

    The weight between two words is the sum of the weights between their tokens.

    Returns:
        Pairs ``(source, target)`` in the order of the translation; none if it is empty.

    Raises:
        TfmrError: if the source is empty and the target is not, or the model has no attention.
    """
    if not target:
        return []
    require(bool(source), "alignment needs at least one source token: got an empty source sentence")
    shifted = torch.tensor([[BOS, *target[:-1]]], device=model.device)
    weights = model.alignment(torch.tensor([source], device=model.device), shifted)[0].cpu()
    source_words, word_of_source_id = group_into_words(tokenizer, source)
    target_words, word_of_target_id = group_into_words(tokenizer, target)
    weights = _sum_by_word(weights.T, word_of_source_id, len(source_words))
    weights = _sum_by_word(weights.T, word_of_target_id, len(target_words))
    aligned = weights.argmax(dim=1).tolist()
    return [(source_words[i], word) for i, word in zip(aligned, target_words, strict=True)]


def _sum_by_word(
    x: Float[Tensor, "tokens other"], word_of_token: list[int], n_words: int
) -> Float[Tensor, "words other"]:
    """Sum the rows of the tokens of each word."""
    return x.new_zeros(n_words, x.shape[1]).index_add_(0, torch.tensor(word_of_token), x)
