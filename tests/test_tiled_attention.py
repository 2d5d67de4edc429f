"""Attention in tiles: equal to the readable version, with linear memory."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks
from torch.testing import assert_close
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode

from tfmr.attention import (
    causal_mask,
    combine_masks,
    fused_attention,
    padding_mask,
    scaled_dot_product_attention,
)
from tfmr.complexity import saved_bytes
from tfmr.errors import TfmrError
from tfmr.tiled_attention import TILE, tiled_attention

BATCH, HEADS, D_K, D_V = 2, 3, 4, 5


def qkv(query: int, key: int, dtype: torch.dtype = torch.double) -> list[Tensor]:
    generator = torch.Generator().manual_seed(100 * query + key)
    return [
        torch.randn(BATCH, HEADS, length, d, generator=generator, dtype=dtype)
        .mul_(3)
        .requires_grad_()
        for length, d in ((query, D_K), (key, D_K), (key, D_V))
    ]


def some_padding(key: int) -> Tensor:
    """The mask of a full sentence and of one that ends after a third."""
    ids = torch.full((BATCH, key), 7)
    ids[1, max(1, key // 3) :] = 0
    return padding_mask(ids)


def output_and_gradients(attend: Callable[..., Tensor], inputs: list[Tensor]) -> list[Tensor]:
    """The output, and the gradients of a weighted sum of it."""
    out = attend(*inputs)
    upstream = torch.randn(out.shape, generator=torch.Generator().manual_seed(1)).to(out.dtype)
    return [out.detach(), *torch.autograd.grad(out, inputs, upstream)]


@settings(max_examples=60)
@given(
    query=st.integers(1, 20),
    before=st.integers(0, 9),
    tile=st.integers(1, 30),
    causal=st.booleans(),
    padded=st.booleans(),
)
@example(query=12, before=0, tile=4, causal=True, padded=True)
@example(query=13, before=3, tile=4, causal=True, padded=False)
@example(query=5, before=7, tile=5, causal=False, padded=True)
def test_equal_to_the_readable_version_in_float64(
    query: int, before: int, tile: int, causal: bool, padded: bool
) -> None:
    key = query + before
    padding = some_padding(key) if padded else None
    mask = combine_masks(padding, causal_mask(query, key) if causal else None)

    def tiled(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return tiled_attention(q, k, v, padding, is_causal=causal, tile=tile)

    def readable(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return scaled_dot_product_attention(q, k, v, mask)[0]

    found = output_and_gradients(tiled, qkv(query, key))
    expected = output_and_gradients(readable, qkv(query, key))
    assert_close(found, expected, rtol=1e-10, atol=1e-10)


def test_equal_to_pytorch_in_float32() -> None:
    length = 2 * TILE + 9
    generator = torch.Generator().manual_seed(0)
    shape = (3, BATCH, HEADS, length, 8)
    inputs = [x.requires_grad_() for x in torch.randn(shape, generator=generator)]
    mask = some_padding(length) & causal_mask(length)
    found = output_and_gradients(lambda *x: tiled_attention(*x, mask), inputs)
    expected = output_and_gradients(
        lambda *x: F.scaled_dot_product_attention(*x, attn_mask=mask), inputs
    )
    assert_close(found, expected, rtol=1e-5, atol=1e-5)


def test_more_keys_than_queries_and_more_queries_than_keys() -> None:
    for query, key in ((3, 11), (11, 3)):
        found = output_and_gradients(lambda *x: tiled_attention(*x, tile=4), qkv(query, key))
        expected = output_and_gradients(
            lambda *x: scaled_dot_product_attention(*x)[0], qkv(query, key)
        )
        assert_close(found, expected, rtol=1e-10, atol=1e-10)


def test_a_mask_with_fewer_axes_broadcasts() -> None:
    keys = torch.tensor([True, False, True, True, False])
    found = output_and_gradients(lambda *x: tiled_attention(*x, keys, tile=2), qkv(5, 5))
    expected = output_and_gradients(
        lambda *x: scaled_dot_product_attention(*x, keys.expand(5, 5))[0], qkv(5, 5)
    )
    assert_close(found, expected, rtol=1e-10, atol=1e-10)


def test_large_scores_do_not_overflow() -> None:
    q, k, v = qkv(7, 7, torch.float)
    expected = scaled_dot_product_attention(100 * q, k, v)[0]
    assert_close(tiled_attention(100 * q, k, v, tile=2), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("tile", [2, 3, 8])
def test_a_fully_masked_query_gets_zero_and_no_gradient(tile: int) -> None:
    """As from the fused attention of the package, even if its first tiles are masked."""
    mask = causal_mask(7).clone()
    mask[3] = False
    mask[6, :5] = False
    found = output_and_gradients(lambda *x: tiled_attention(*x, mask, tile=tile), qkv(7, 7))
    expected = output_and_gradients(lambda *x: fused_attention(*x, mask), qkv(7, 7))
    assert not found[0][:, :, 3].any()
    assert not found[1][:, :, 3].any()
    assert_close(found, expected, rtol=1e-10, atol=1e-10)


def test_gradients_are_those_of_finite_differences() -> None:
    mask = some_padding(6)
    inputs = tuple(qkv(6, 6))
    assert torch.autograd.gradcheck(lambda *x: tiled_attention(*x, mask, tile=4), inputs)


def formula(length: int, *, tiled: bool) -> int:
    """Bytes of q, k, v and of what the backward pass needs besides, in fp32."""
    inputs = length * (2 * D_K + D_V)
    kept = length * (D_V + 1) if tiled else length**2
    return 4 * BATCH * HEADS * (inputs + kept)


@pytest.mark.parametrize("length", [TILE, 3 * TILE + 1])
def test_saved_bytes_are_linear_in_the_length(length: int) -> None:
    inputs = qkv(length, length, torch.float)
    assert saved_bytes(lambda: tiled_attention(*inputs)) == formula(length, tiled=True)
    naive = saved_bytes(lambda: scaled_dot_product_attention(*inputs)[0])
    assert naive == formula(length, tiled=False)


def test_the_kernel_of_pytorch_saves_as_much() -> None:
    q, k, _ = qkv(100, 100, torch.float)
    inputs = (q, k, torch.randn_like(k).requires_grad_())  # the kernel needs d_k = d_v
    fused = saved_bytes(lambda: F.scaled_dot_product_attention(*inputs))
    assert saved_bytes(lambda: tiled_attention(*inputs)) == fused


def test_a_causal_mask_needs_no_memory() -> None:
    inputs = qkv(50, 50, torch.float)
    causal = saved_bytes(lambda: tiled_attention(*inputs, is_causal=True))
    assert causal == saved_bytes(lambda: tiled_attention(*inputs))


class Largest(TorchDispatchMode):
    """The elements of the largest tensor that an operation returns."""

    def __init__(self) -> None:
        super().__init__()
        self.elements = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> object:
        result = func(*args, **(kwargs or {}))
        tensors = [x for x in tree_leaves(result) if isinstance(x, Tensor) and not func.is_view]
        self.elements = max([self.elements, *(x.numel() for x in tensors)])
        return result


@pytest.mark.parametrize("causal", [False, True])
def test_no_tensor_is_larger_than_a_tile_or_an_input(causal: bool) -> None:
    length, tile = 40, 8
    with Largest() as largest:
        output_and_gradients(
            lambda *x: tiled_attention(*x, some_padding(length), is_causal=causal, tile=tile),
            qkv(length, length),
        )
    assert largest.elements == BATCH * HEADS * length * D_V < BATCH * HEADS * length**2


def flops(attend: Callable[..., Tensor]) -> int:
    """Of the forward and the backward pass, for 16 positions."""
    inputs = [x[..., :D_K] for x in qkv(16, 16)]
    with FlopCounterMode(display=False) as counter:
        output_and_gradients(attend, inputs)
    return counter.get_total_flops()


def test_the_scores_are_computed_twice() -> None:
    """Two matrix multiplications forward, and five instead of four backward."""
    tiled = flops(lambda *x: tiled_attention(*x, tile=5))
    assert tiled * 6 == flops(lambda *x: scaled_dot_product_attention(*x)[0]) * 7


def test_hidden_tiles_are_skipped() -> None:
    """With 4 times 4 tiles, a causal mask hides 6 of the 16."""
    causal = flops(lambda *x: tiled_attention(*x, is_causal=True, tile=4))
    assert causal * 16 == flops(lambda *x: tiled_attention(*x, tile=4)) * 10


def test_second_derivatives_raise() -> None:
    inputs = qkv(4, 4)
    out = tiled_attention(*inputs)
    with pytest.raises(TfmrError, match=r"no second derivatives.*scaled_dot_product_attention"):
        torch.autograd.grad(out.sum(), inputs[0], create_graph=True)


def test_nothing_is_saved_without_gradients() -> None:
    inputs = qkv(4, 4)
    saved = []
    with torch.no_grad(), saved_tensors_hooks(saved.append, lambda x: x):
        tiled_attention(*inputs)
    assert saved == []


def test_invalid_arguments(unchecked: None) -> None:
    q, k, v = qkv(4, 6)
    with pytest.raises(TfmrError, match=r"tile.*positive.*got 0"):
        tiled_attention(q, k, v, tile=0)
    with pytest.raises(TfmrError, match=r"keys.*got 6 queries.*4 keys"):
        tiled_attention(k, q, q, is_causal=True)
