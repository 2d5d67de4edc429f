"""In which numbers matrices are multiplied: fp32, or bf16 where a device is fast in it."""

from typing import Literal

import torch
from torch import Tensor

from tfmr.errors import require

Precision = Literal["auto", "fp32", "bf16"]


def uses_bf16(precision: Precision, device: torch.device) -> bool:
    """Whether to multiply matrices in bf16, numbers of two bytes with the range of fp32.

    ``"auto"`` does so where it is faster: on a GPU that has bf16, and on a CPU with instructions
    for it (AVX-512 BF16 or the matrix units of AMX). Micikevicius et al. (2018), section 3, keep
    what this keeps in fp32: the weights, the optimiser, and sums over many numbers. With the range
    of fp32 the loss need not be scaled.

    Raises:
        TfmrError: if bf16 is asked for and the device does not have it.
    """
    if precision == "fp32":
        return False
    if device.type == "cpu":
        able = torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
        return precision == "bf16" or able
    able = torch.amp.is_autocast_available(device.type) and (
        device.type != "cuda" or torch.cuda.is_bf16_supported(including_emulation=False)
    )
    require(
        able or precision == "auto",
        f"bf16 needs a device that computes in it, and {device} does not: train with "
        'precision "fp32", or "auto"',
    )
    return able


def type_of_products(weight: Tensor) -> torch.dtype:
    """The type in which to multiply by ``weight`` where nothing is learnt from it: its own, or bf16
    instead of single precision if :func:`torch.set_float32_matmul_precision` allows that, as it
    does at ``"medium"``, and a CPU is fast in it.

    PyTorch itself makes use of what it allows only on CPUs with matrix units and on GPUs.
    """
    if weight.dtype != torch.float32 or weight.device.type != "cpu":
        return weight.dtype
    allowed = torch.get_float32_matmul_precision() == "medium"
    return torch.bfloat16 if allowed and uses_bf16("auto", weight.device) else torch.float32
