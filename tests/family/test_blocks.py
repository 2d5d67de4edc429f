"""The block of the family, and its mask of padding."""

import pytest
import torch
from torch.testing import assert_close

from tfmr.attention import MultiHeadAttention
from tfmr.errors import TfmrError
from tfmr.family.blocks import Block, key_mask
from tfmr.kv_cache import new_caches
from tfmr.layers import FeedForward, RMSNorm


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_a_block_with_a_cache_equals_one_call(norm: str) -> None:
    torch.manual_seed(0)
    block = Block(
        MultiHeadAttention(12, 6, n_kv_heads=2),
        FeedForward(12, 16),
        cross_attention=MultiHeadAttention(12, 3),
        norm_class=RMSNorm,
        norm=norm,
    ).eval()
    x, memory = torch.randn(2, 5, 12), torch.randn(2, 4, 12)
    [cache] = new_caches(1, 5, 4)
    whole = block(x, memory, is_causal=True)
    parts = [block(part, memory, is_causal=True, cache=cache) for part in x.split([3, 1, 1], dim=1)]
    assert_close(torch.cat(parts, dim=1), whole)


def test_a_mask_of_real_tokens_hides_the_others() -> None:
    real = torch.tensor([[True, True, False], [True, False, True]])
    assert key_mask(real, (2, 3)).tolist() == [[[row]] for row in real.tolist()]
    assert key_mask(None, (2, 3)) is None


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("mask", "message"),
    [
        (torch.ones(2, 3), "boolean.*got torch.float32"),
        (torch.ones(2, 2).bool(), r"\(2, 3\).*ids.*got \(2, 2\)"),
        (torch.tensor([[True] * 3, [False] * 3]), "row 1 of 2 has none"),
        ([[1, 1, 1]], r"mask.*got list"),
    ],
)
def test_a_mask_that_does_not_fit(mask: object, message: str) -> None:
    with pytest.raises(TfmrError, match=message):
        key_mask(mask, (2, 3))
