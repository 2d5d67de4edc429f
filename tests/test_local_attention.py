"""The restricted window: what it reads, and that computing only that changes nothing."""

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks
from torch.testing import assert_close

from tfmr.attention import causal_mask, padding_mask, scaled_dot_product_attention
from tfmr.errors import TfmrError
from tfmr.local_attention import BLOCK, local_attention, local_attention_mask, local_attention_naive


def qkv(length: int, batch: int = 2, heads: int = 2, d_k: int = 3, d_v: int = 4) -> list[Tensor]:
    generator = torch.Generator().manual_seed(length)
    return [
        torch.randn(batch, heads, length, d, generator=generator, dtype=torch.double)
        .mul_(2)
        .requires_grad_()
        for d in (d_k, d_k, d_v)
    ]


def some_padding(length: int) -> Tensor:
    """A whole sentence, and one that ends after a third."""
    ids = torch.full((2, length), 7)
    ids[1, max(1, length // 3) :] = 0
    return padding_mask(ids)


@given(st.integers(1, 12), st.integers(0, 14), st.booleans())
def test_a_window_shows_the_neighbours(length: int, radius: int, causal: bool) -> None:
    mask = local_attention_mask(length, radius, causal=causal)
    for row in range(length):
        last = row if causal else row + radius
        assert mask[row].tolist() == [row - radius <= key <= last for key in range(length)]


def test_a_window_as_wide_as_the_text_hides_nothing() -> None:
    assert local_attention_mask(9, 8).all()
    assert_close(local_attention_mask(9, 8, causal=True), causal_mask(9))


@settings(max_examples=60, deadline=None)
@given(
    length=st.integers(1, 3 * BLOCK + 5),
    radius=st.integers(0, 3 * BLOCK),
    causal=st.booleans(),
    padded=st.booleans(),
)
@example(length=BLOCK, radius=0, causal=False, padded=False)
@example(length=2 * BLOCK, radius=BLOCK, causal=True, padded=True)
@example(length=2 * BLOCK + 1, radius=BLOCK + 1, causal=False, padded=True)
@example(length=3 * BLOCK - 1, radius=5, causal=False, padded=True)
@example(length=7, radius=7, causal=True, padded=False)
@example(length=BLOCK + 3, radius=400, causal=False, padded=False)
def test_blocks_and_mask_agree_forward_and_gradient(
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
    inputs = qkv(BLOCK + 9)
    wanted, _ = scaled_dot_product_attention(*inputs, causal_mask(BLOCK + 9) if causal else None)
    assert_close(local_attention(*inputs, BLOCK + 8, causal=causal), wanted)


def test_nobody_reads_padding_and_a_sentence_alone_reads_the_same() -> None:
    length, real = 2 * BLOCK, 2 * BLOCK // 3
    q, k, v = qkv(length)
    together = local_attention(q, k, v, 9, padding=some_padding(length))
    alone = local_attention(*(x[1:, :, :real] for x in (q, k, v)), 9)
    assert_close(together[1:, :, :real], alone)
    assert torch.isfinite(together).all()


def test_what_lies_beyond_the_window_has_no_influence() -> None:
    q, k, v = qkv(3 * BLOCK, batch=1)
    at, radius = BLOCK + 3, 10
    (d_v,) = torch.autograd.grad(local_attention(q, k, v, radius)[0, :, at].sum(), v)
    read = d_v[0].abs().sum(dim=(0, 2)).nonzero().flatten()
    assert read.tolist() == list(range(at - radius, at + radius + 1))


def kept_for_backward(length: int) -> int:
    """The most numbers in any tensor that the backward pass of a window of 16 needs."""
    sizes: list[int] = []

    def keep(tensor: Tensor) -> Tensor:
        sizes.append(tensor.numel())
        return tensor

    with saved_tensors_hooks(keep, lambda tensor: tensor):
        local_attention(*qkv(length, batch=1), 16)
    return max(sizes)


def test_twice_the_text_keeps_twice_the_numbers() -> None:
    assert kept_for_backward(32 * BLOCK) == 2 * kept_for_backward(16 * BLOCK)


@pytest.mark.parametrize("attend", [local_attention, local_attention_naive])
def test_errors_say_what_to_do(attend, unchecked: None) -> None:
    q, k, v = qkv(6)
    with pytest.raises(TfmrError, match=r"at most radius away, itself at 0: got radius=-1"):
        attend(q, k, v, -1)
    with pytest.raises(TfmrError, match=r"one length: got .* k \(2, 2, 5, 3\)"):
        attend(q, k[:, :, 1:], v, 1)
    with pytest.raises(TfmrError, match=r"padding must be boolean and \(2, 1, 1, 6\).*causal=True"):
        attend(q, k, v, 1, padding=causal_mask(6))
    with pytest.raises(TfmrError, match=r"padding must be boolean.*int64"):
        attend(q, k, v, 1, padding=torch.ones(2, 1, 1, 6, dtype=torch.int64))
    with pytest.raises(TfmrError, match="same d_k"):
        attend(q[..., :2], k, v, 1)


def test_a_window_needs_a_position_and_a_radius() -> None:
    with pytest.raises(TfmrError, match="at least one position: got 0"):
        local_attention_mask(0, 1)
    with pytest.raises(TfmrError, match="got radius=-2"):
        local_attention_mask(3, -2)
