"""Local attention: its mask, and the chunked version against the naive one."""

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks
from torch.testing import assert_close

from tfmr.attention import causal_mask, padding_mask, scaled_dot_product_attention
from tfmr.errors import TfmrError
from tfmr.local_attention import (
    MIN_CHUNK,
    local_attention,
    local_attention_mask,
    local_attention_naive,
)


def qkv(length: int, batch: int = 2, heads: int = 2, d_k: int = 3, d_v: int = 4) -> list[Tensor]:
    generator = torch.Generator().manual_seed(length)
    return [
        torch.randn(batch, heads, length, d, generator=generator, dtype=torch.double)
        .mul_(2)
        .requires_grad_()
        for d in (d_k, d_k, d_v)
    ]


def some_padding(length: int) -> Tensor:
    """The mask of a full sentence and of one that ends after a third."""
    ids = torch.full((2, length), 7)
    ids[1, max(1, length // 3) :] = 0
    return padding_mask(ids)


@given(st.integers(1, 12), st.integers(0, 14), st.booleans())
def test_the_mask_shows_the_window(length: int, radius: int, causal: bool) -> None:
    mask = local_attention_mask(length, radius, causal=causal)
    for row in range(length):
        last = row if causal else row + radius
        assert mask[row].tolist() == [row - radius <= key <= last for key in range(length)]


def test_a_window_as_wide_as_the_text_hides_nothing() -> None:
    assert local_attention_mask(9, 8).all()
    assert_close(local_attention_mask(9, 8, causal=True), causal_mask(9))


@settings(max_examples=60)
@given(
    length=st.integers(1, 3 * MIN_CHUNK + 5),
    radius=st.integers(0, 3 * MIN_CHUNK),
    causal=st.booleans(),
    padded=st.booleans(),
)
@example(length=MIN_CHUNK, radius=0, causal=False, padded=False)
@example(length=2 * MIN_CHUNK, radius=MIN_CHUNK, causal=True, padded=True)
@example(length=2 * MIN_CHUNK + 1, radius=MIN_CHUNK + 1, causal=False, padded=True)
@example(length=3 * MIN_CHUNK - 1, radius=5, causal=False, padded=True)
@example(length=7, radius=7, causal=True, padded=False)
@example(length=MIN_CHUNK + 3, radius=400, causal=False, padded=False)
def test_chunked_and_naive_agree_forward_and_gradient(
    length: int, radius: int, causal: bool, padded: bool
) -> None:
    padding = some_padding(length) if padded else None
    results = []
    for attend in (local_attention, local_attention_naive):
        inputs = qkv(length)
        out = attend(*inputs, radius, causal=causal, padding=padding)
        out.square().sum().backward()
        results.append([out.detach(), *(x.grad for x in inputs)])
    assert_close(results[0], results[1])


@pytest.mark.parametrize("causal", [False, True])
def test_a_wide_window_is_full_attention(causal: bool) -> None:
    inputs = qkv(MIN_CHUNK + 9)
    expected, _ = scaled_dot_product_attention(
        *inputs, causal_mask(MIN_CHUNK + 9) if causal else None
    )
    assert_close(local_attention(*inputs, MIN_CHUNK + 8, causal=causal), expected)


def test_padding_does_not_change_a_sentence() -> None:
    length, real = 2 * MIN_CHUNK, 2 * MIN_CHUNK // 3
    q, k, v = qkv(length)
    together = local_attention(q, k, v, 9, padding=some_padding(length))
    alone = local_attention(*(x[1:, :, :real] for x in (q, k, v)), 9)
    assert_close(together[1:, :, :real], alone)
    assert torch.isfinite(together).all()


def test_positions_outside_the_window_have_no_influence() -> None:
    q, k, v = qkv(3 * MIN_CHUNK, batch=1)
    at, radius = MIN_CHUNK + 3, 10
    (d_v,) = torch.autograd.grad(local_attention(q, k, v, radius)[0, :, at].sum(), v)
    attended = d_v[0].abs().sum(dim=(0, 2)).nonzero().flatten()
    assert attended.tolist() == list(range(at - radius, at + radius + 1))


def largest_saved_tensor(length: int) -> int:
    """Elements of the largest tensor saved for the backward pass, with a radius of 16."""
    sizes: list[int] = []

    def keep(tensor: Tensor) -> Tensor:
        sizes.append(tensor.numel())
        return tensor

    with saved_tensors_hooks(keep, lambda tensor: tensor):
        local_attention(*qkv(length, batch=1), 16)
    return max(sizes)


def test_memory_is_linear_in_the_length() -> None:
    assert largest_saved_tensor(32 * MIN_CHUNK) == 2 * largest_saved_tensor(16 * MIN_CHUNK)


@pytest.mark.parametrize("attend", [local_attention, local_attention_naive])
def test_invalid_arguments(attend, unchecked: None) -> None:
    q, k, v = qkv(6)
    with pytest.raises(TfmrError, match=r"radius.*0.*got radius=-1"):
        attend(q, k, v, -1)
    with pytest.raises(TfmrError, match=r"length.*k \(2, 2, 5, 3\)"):
        attend(q, k[:, :, 1:], v, 1)
    with pytest.raises(TfmrError, match=r"padding.*boolean.*\(2, 1, 1, 6\).*causal=True"):
        attend(q, k, v, 1, padding=causal_mask(6))
    with pytest.raises(TfmrError, match=r"padding.*boolean.*int64"):
        attend(q, k, v, 1, padding=torch.ones(2, 1, 1, 6, dtype=torch.int64))
    with pytest.raises(TfmrError, match="same d_k"):
        attend(q[..., :2], k, v, 1)


def test_an_invalid_mask() -> None:
    with pytest.raises(TfmrError, match=r"length.*1.*got 0"):
        local_attention_mask(0, 1)
    with pytest.raises(TfmrError, match="got radius=-2"):
        local_attention_mask(3, -2)
