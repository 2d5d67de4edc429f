"""The key-value cache: in-place writes, selection of rows, capacity."""

import pytest
import torch
from torch.testing import assert_close

from tfmr.errors import TfmrError
from tfmr.kv_cache import KVCache


def test_positions_are_appended_in_place() -> None:
    k = torch.randn(4, 2, 2, 5)
    cache = KVCache(3)
    address = cache.extend(k, k + 1)[0].data_ptr()
    keys, values = cache.extend(k[:, :, :1], k[:, :, 1:])
    assert keys.data_ptr() == address
    assert_close(keys, torch.cat([k, k[:, :, :1]], dim=2))
    assert_close(values, torch.cat([k + 1, k[:, :, 1:]], dim=2))


def test_rows_are_selected_in_any_order_and_repeated() -> None:
    torch.manual_seed(0)
    k, v = torch.randn(2, 5, 2, 3, 4)
    cache = KVCache(6)
    cache.select(torch.tensor([1, 0]))  # an empty cache has no rows yet
    cache.extend(k, v)
    address = cache.read()[0].data_ptr()
    for rows in ([0, 4, 2], [2, 0, 0], [2, 1], [1, 0]):
        k, v = k[rows], v[rows]
        cache.select(torch.tensor(rows))
        assert_close(cache.read(), (k, v))
    assert cache.read()[0].data_ptr() == address
    more = torch.randn(2, 2, 1, 4)
    cache.extend(more, more)
    assert_close(cache.read()[0], torch.cat([k, more], dim=2))


@pytest.mark.parametrize("rows", [[0, 0, 1, 1], [1, 1, 1], [1, 0, 0, 1, 1, 0]])
def test_more_rows_than_before_are_selected(rows: list[int]) -> None:
    torch.manual_seed(0)
    k, v = torch.randn(2, 2, 2, 3, 4)
    cache = KVCache(4)
    cache.extend(k, v)
    cache.select(torch.tensor(rows))
    assert_close(cache.read(), (k[rows], v[rows]))
    more = torch.randn(len(rows), 2, 1, 4)
    assert_close(cache.extend(more, more)[0], torch.cat([k[rows], more], dim=2))


@pytest.mark.parametrize("shape", [(1, 2, 1, 4), (4, 2, 1, 4), (3, 1, 1, 4), (3, 2, 1, 5)])
def test_a_cache_of_another_batch_or_attention(unchecked, shape: tuple[int, ...]) -> None:
    cache = KVCache(5)
    k = torch.randn(3, 2, 1, 4)
    cache.extend(k, k)
    with pytest.raises(TfmrError, match=r"\(3, 2, 5, 4\).*got \("):
        cache.extend(torch.ones(shape), torch.ones(shape))
    with pytest.raises(TfmrError, match=r"\(3, 2, 5, 4\).*got \("):
        cache.extend(k, torch.ones(shape))
    assert cache.length == 1


def test_the_capacity_is_exceeded() -> None:
    cache = KVCache(3)
    k = torch.zeros(1, 1, 2, 4)
    cache.extend(k, k)
    with pytest.raises(TfmrError, match=r"capacity of 3.*holds 2.*2 more"):
        cache.extend(k, k)
