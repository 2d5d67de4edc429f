"""Prepacked weights: each matrix is reordered once into the layout that the CPU's kernel needs.

Before a CPU can multiply several rows by a matrix at full speed, the library reorders the matrix.
A decoding step has so few rows that the reordering takes longer than the multiplication. Here it is
done once per model. This is the only module that uses private operations of PyTorch.
"""

from collections.abc import Callable, Sequence
from functools import cache
from typing import cast

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

PACKED_ROWS = 64
"""The number of rows that a matrix is prepacked for. The layout suits any number of rows."""

SMALL_MATRIX = 2**20
"""A single row times a matrix of at most this many numbers is faster without oneDNN."""

LinearMap = Callable[[Tensor], Tensor]
"""A linear layer as a function, from ``(*rows, d_in)`` to ``(*rows, d_out)``."""


@cache
def has_prepacking(dtype: torch.dtype) -> bool:
    """Whether this build of PyTorch can prepack matrices of this type for this CPU, by oneDNN.

    Not every build has the operations, and not every CPU has instructions for bf16.
    """
    matrix = torch.zeros(8, 8, dtype=dtype)
    try:
        packed = torch.ops.mkldnn._reorder_linear_weight(matrix, PACKED_ROWS)
        torch.ops.mkldnn._linear_pointwise(matrix, packed, None, "none", [], "")
    except (AttributeError, RuntimeError):
        return False
    return True


def prepacked_linear(
    weight: Float[Tensor, "d_out d_in"],
    bias: Float[Tensor, "d_out"] | None,
    dtype: torch.dtype,
) -> LinearMap:
    """:func:`torch.nn.functional.linear` with a fixed weight, multiplied and returned in ``dtype``.

    The weight is copied, so a later change of ``weight`` has no effect. It is prepacked if it is on
    a CPU and :func:`has_prepacking` is true for ``dtype``; otherwise the plain function is used. In
    fp32, the plain function also multiplies a single row by a matrix of up to :data:`SMALL_MATRIX`
    numbers, because it is faster there.
    """
    weight = weight.detach().to(dtype, copy=True)
    bias = None if bias is None else bias.detach().to(dtype, copy=True)

    def plain(x: Tensor) -> Tensor:
        return F.linear(x.to(dtype), weight, bias)

    if weight.device.type != "cpu" or not has_prepacking(dtype):
        return plain
    packed = torch.ops.mkldnn._reorder_linear_weight(weight, PACKED_ROWS)
    multiply = torch.ops.mkldnn._linear_pointwise.default

    def fast(x: Tensor) -> Tensor:
        out = multiply(x.to(dtype), packed, bias, "none", [], "")
        return cast(Tensor, out)

    if dtype == torch.bfloat16 or weight.numel() > SMALL_MATRIX:
        return fast
    return lambda x: plain(x) if x.shape[:-1].numel() == 1 else fast(x)


def concatenated(layers: Sequence[nn.Linear], dtype: torch.dtype) -> LinearMap:
    """Several layers with the same input as one :func:`prepacked_linear`, outputs side by side."""
    weight = torch.cat([layer.weight for layer in layers])
    return prepacked_linear(weight, torch.cat([layer.bias for layer in layers]), dtype)
