"""Types of numbers: fp32 or bf16 in training, fast types of a CPU, and the check of inputs.

The dtype of decoding is an argument of :func:`tfmr.fast.decoder.prepare`.
"""

from typing import Literal

import torch
from torch import Tensor

from tfmr.errors import TfmrError

Precision = Literal["auto", "fp32", "bf16"]


def uses_bf16(precision: Precision, device: torch.device) -> bool:
    """Whether matrices are multiplied in bf16, which has two bytes and the exponent range of fp32.

    ``"auto"`` selects bf16 where it is faster: on a GPU that supports it, and on a CPU with
    instructions for it (AVX-512 BF16 or AMX). Weights, optimiser state and sums over many numbers
    stay in fp32 (Micikevicius et al., 2018, section 3). Because the range is that of fp32, the loss
    needs no scaling.

    Raises:
        TfmrError: if ``precision`` is ``"bf16"`` and the device does not support it.
    """
    if precision == "fp32":
        return False
    if device.type == "cpu":
        return precision == "bf16" or cpu_is_fast_in_bf16()
    supported = torch.amp.is_autocast_available(device.type) and (
        device.type != "cuda" or torch.cuda.is_bf16_supported(including_emulation=False)
    )
    if precision == "bf16" and not supported:
        raise TfmrError(
            f"bf16 needs a device that supports it, and {device} does not: set precision to "
            '"fp32" or "auto"'
        )
    return supported


def check_tensor(x: object, name: str, weight: Tensor | None = None) -> None:
    """Raise :class:`TfmrError` unless ``x`` is a tensor with the type of ``weight``.

    Under :func:`torch.autocast` any type is accepted, because autocast converts it.
    """
    if not isinstance(x, Tensor):
        raise TfmrError(
            f"{name} must be a tensor: got {type(x).__name__}; use torch.tensor({name})"
        )
    if weight is None or x.dtype == weight.dtype or torch.is_autocast_enabled(x.device.type):
        return
    raise TfmrError(
        f"{name} must be {weight.dtype}, like the weights: got {x.dtype}; use "
        f"{name}.to({weight.dtype})"
    )


def check_floating(x: Tensor, name: str) -> None:
    """Raise :class:`TfmrError` unless ``x`` is a tensor of floating-point numbers."""
    check_tensor(x, name)
    if not x.is_floating_point():
        raise TfmrError(
            f"{name} must be a floating-point tensor: got {x.dtype}; use {name}.float()"
        )


def check_ids(x: Tensor, name: str) -> None:
    """Raise :class:`TfmrError` unless ``x`` is a tensor of integers that can be token ids."""
    check_tensor(x, name)
    if x.dtype not in (torch.int64, torch.int32):
        raise TfmrError(f"{name} must be integers: got {x.dtype}; use {name}.long()")


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


def cpu_is_fast_in_bf16() -> bool:
    """Whether this CPU has instructions for bf16 matrix multiplication (AVX-512 BF16 or AMX)."""
    return torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
