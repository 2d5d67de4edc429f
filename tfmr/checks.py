"""Checks of what a model is given: sizes, tensors, token ids."""

from typing import TypeVar

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from tfmr.errors import TfmrError
from tfmr.special_tokens import PAD

State = TypeVar("State")


def check_sizes(**sizes: object) -> None:
    """Raise :class:`TfmrError` unless all values are positive integers.

    The message contains the name of the first value that is not.
    """
    for name, value in sizes.items():
        if not isinstance(value, int) or isinstance(value, bool) or value <= 0:
            raise TfmrError(f"{name} must be a positive integer: got {value!r}")


def check_tensor(x: object, name: str, weight: Tensor | None = None) -> None:
    """Raise :class:`TfmrError` unless ``x`` is a tensor with the type and device of ``weight``.

    Under :func:`torch.autocast` any type is accepted, because autocast converts it.
    """
    if not isinstance(x, Tensor):
        raise TfmrError(
            f"{name} must be a tensor: got {type(x).__name__}; use torch.tensor({name})"
        )
    if weight is None:
        return
    check_device(x, name, weight)
    if x.dtype != weight.dtype and not torch.is_autocast_enabled(x.device.type):
        raise TfmrError(
            f"{name} must be {weight.dtype}, like the weights: got {x.dtype}; use "
            f"{name}.to({weight.dtype})"
        )


def check_device(x: Tensor, name: str, weight: Tensor) -> None:
    """Raise :class:`TfmrError` unless ``x`` is on the device of ``weight``."""
    if x.device != weight.device:
        raise TfmrError(
            f"{name} must be on the device {weight.device}: got {x.device}; use "
            f'.to("{weight.device}")'
        )


def check_floating(x: Tensor, name: str) -> None:
    """Raise :class:`TfmrError` unless ``x`` is a tensor of floating-point numbers."""
    check_tensor(x, name)
    if not x.is_floating_point():
        raise TfmrError(
            f"{name} must be a floating-point tensor: got {x.dtype}; use {name}.float()"
        )


def check_vectors(x: Tensor, name: str, weight: Tensor) -> None:
    """Raise :class:`TfmrError` unless ``x`` has vectors ``(..., d_model)`` for ``weight``.

    The last axis of ``weight`` is ``d_model``.
    """
    check_tensor(x, name, weight)
    d_model = weight.shape[-1]
    if x.dim() == 0 or x.shape[-1] != d_model:
        raise TfmrError(
            f"{name} must be (..., d_model={d_model}), like the weights: got {tuple(x.shape)}; use "
            "weights of the same size"
        )


def check_ids(ids: Int[Tensor, "..."], name: str = "ids", axes: str = "batch, length") -> None:
    """Raise :class:`TfmrError` unless ``ids`` is a non-empty integer tensor with these axes."""
    if not isinstance(ids, Tensor):
        raise TfmrError(
            f"{name} must be a tensor ({axes}): got {type(ids).__name__}; use torch.tensor for one "
            "list of ids, tfmr.data.batches.pad for several"
        )
    if ids.dim() != len(axes.split(",")) or ids.numel() == 0:
        raise TfmrError(
            f"{name} must be ({axes}) with at least one sentence and one token: got "
            f"{tuple(ids.shape)}; for a single sentence use "
            + ("ids.unsqueeze(0)" if "," in axes else "a tensor with one axis")
        )
    if ids.dtype not in (torch.int64, torch.int32):
        raise TfmrError(f"{name} must be integers: got {ids.dtype}; use ids.long()")


def check_source(source: Int[Tensor, "..."]) -> None:
    """Raise :class:`TfmrError` unless these are source sentences with padding only at the end.

    Padding before a sentence would shift its positions. On a GPU this is not checked, because the
    check would have to wait for the device.
    """
    check_ids(source, "source ids")
    if source.device.type == "cpu":
        real = source != PAD
        late = (real[:, 1:] > real[:, :-1]).any(dim=1)
        if late.any():
            row = int(late.nonzero()[0])
            raise TfmrError(
                f"source ids must be padded at the end (id {PAD}): got {source[row].tolist()} in "
                f"row {row}; move the padding after the sentence, as tfmr.data.batches.pad does"
            )


def check_pairs(source: Int[Tensor, "..."], target: Int[Tensor, "..."]) -> None:
    """Raise :class:`TfmrError` unless both are batches of the same size."""
    check_source(source)
    check_ids(target, "target ids")
    if len(source) != len(target):
        raise TfmrError(
            f"every source sentence needs one target sentence: got {len(source)} sources "
            f"{tuple(source.shape)} and {len(target)} targets {tuple(target.shape)}"
        )


def check_start(
    max_length: int, source: Int[Tensor, "..."], max_new_tokens: int, beam: int
) -> None:
    """Raise :class:`TfmrError` unless these are valid for ``Translator.start``."""
    check_source(source)
    check_length(source.shape[1], max_length, "source")
    check_sizes(beam=beam)
    if type(max_new_tokens) is not int or not 1 <= max_new_tokens <= max_length:
        raise TfmrError(
            f"max_new_tokens must be an integer from 1 to max_length={max_length}: got "
            f"{max_new_tokens!r}"
        )


def check_state(state: object, kind: type[State]) -> State:
    """``state``; raise :class:`TfmrError` unless it is the state of incremental decoding expected.

    Args:
        state: the argument of ``step``.
        kind: the class of the states that ``start`` of the same model returns.
    """
    if not isinstance(state, kind):
        raise TfmrError(
            f"step() needs the {kind.__name__} that start() of the same model returned: got "
            f"{type(state).__name__}"
        )
    return state


def check_length(length: int, max_length: int, side: str) -> None:
    """Raise :class:`TfmrError` if a sentence has more positions than the model."""
    if length > max_length:
        raise TfmrError(
            f"the model accepts at most max_length={max_length} {side} tokens: got {length}; "
            "shorten the sentence or train with a larger max_length"
        )


def embed(
    embedding: nn.Embedding,
    ids: Int[Tensor, "batch length"],
    side: str = "",
    max_length: int | None = None,
    start: int = 0,
) -> Float[Tensor, "batch length d_model"]:
    """The embedding of each id.

    Args:
        embedding: one row per id.
        ids: the ids.
        side: ``"source"`` or ``"target"``, which names the ids in messages.
        max_length: the number of positions of the model.
        start: the position of the first id.

    Raises:
        TfmrError: if ``ids`` are not a batch of ids on the device of the embedding, a position is
            outside the model, or an id has no row. (On a GPU, PyTorch reports the last itself,
            because the check would have to wait for the device.)
    """
    name = f"{side} ids".strip()
    check_ids(ids, name)
    check_device(ids, name, embedding.weight)
    if max_length is not None:
        check_length(start + ids.shape[1], max_length, side or "text")
    try:
        return F.embedding(ids, embedding.weight)
    except IndexError as error:
        raise TfmrError(
            f"{name} must lie between 0 and {embedding.num_embeddings - 1}: got "
            f"{int(ids.min())} to {int(ids.max())}; was the text encoded with another vocabulary?"
        ) from error
