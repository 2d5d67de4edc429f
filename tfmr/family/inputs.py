"""Checks of the ids and masks that the models of the family are given."""

import torch
from einops import rearrange
from jaxtyping import Bool, Int
from torch import Tensor

from tfmr.errors import TfmrError


def check_ids(ids: Int[Tensor, "..."], vocab: int, max_length: int | None = None) -> None:
    """Raise :class:`TfmrError` unless ``ids`` is an integer tensor ``(batch, length)`` in range."""
    if not isinstance(ids, Tensor) or ids.dim() != 2 or ids.numel() == 0:
        given = tuple(ids.shape) if isinstance(ids, Tensor) else type(ids).__name__
        raise TfmrError(
            f"ids must be a tensor (batch, length) with at least one token: got {given}; for a "
            "single text use torch.tensor([ids])"
        )
    if ids.dtype not in (torch.int64, torch.int32):
        raise TfmrError(f"ids must be integers: got {ids.dtype}; use ids.long()")
    low, high = int(ids.min()), int(ids.max())
    if low < 0 or high >= vocab:
        raise TfmrError(
            f"ids must be from 0 to {vocab - 1}, the size of the vocabulary minus 1: got ids from "
            f"{low} to {high}; the tokenizer belongs to another model"
        )
    if max_length is not None and ids.shape[1] > max_length:
        raise TfmrError(
            f"the model has {max_length} positions: got {ids.shape[1]} tokens; truncate the text"
        )


def key_mask(
    attention_mask: Bool[Tensor, "batch length"] | None, ids: Int[Tensor, "batch length"]
) -> Bool[Tensor, "batch 1 1 length"] | None:
    """``attention_mask`` (``True``: a real token) as a mask of keys; ``None`` hides nothing.

    Raises:
        TfmrError: if the mask is not boolean, has another shape than ``ids``, or a row of it has no
            real token.
    """
    if attention_mask is None:
        return None
    if attention_mask.dtype != torch.bool or attention_mask.shape != ids.shape:
        raise TfmrError(
            f"attention_mask must be boolean and {tuple(ids.shape)}, like the ids: got "
            f"{attention_mask.dtype} {tuple(attention_mask.shape)}; convert a mask of 0 and 1 with "
            ".bool()"
        )
    if not bool(attention_mask.any(dim=1).all()):
        raise TfmrError("every row of attention_mask needs at least one real token (True)")
    return rearrange(attention_mask, "batch length -> batch 1 1 length")
