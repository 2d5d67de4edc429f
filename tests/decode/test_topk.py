"""stable_topk equals the first columns of a stable sort."""

import pytest
import torch
from torch import Tensor

from tfmr.decode.topk import stable_topk, topk_by_keys


def assert_equals_stable_sort(scores: Tensor, k: int, chunk: int) -> None:
    expected, indices = scores.sort(dim=1, descending=True, stable=True)
    values, found = stable_topk(scores, k, chunk)
    assert values.tolist() == expected[:, :k].tolist()
    assert found.tolist() == indices[:, :k].tolist()


@pytest.mark.parametrize(("n", "k", "chunk"), [(5, 2, 64), (64, 1, 2), (67, 3, 4), (1000, 8, 8)])
@pytest.mark.parametrize("values", [3, 50, 10**9], ids=["many ties", "some ties", "no ties"])
def test_equals_a_stable_sort(n: int, k: int, chunk: int, values: int) -> None:
    torch.manual_seed(n)
    scores = torch.randint(values, (7, n)).double()
    scores[0] = -torch.inf
    scores[1, n // 2 :] = -torch.inf
    scores[2] = torch.arange(n)  # the largest come last, where the chunk may be incomplete
    assert_equals_stable_sort(scores, k, chunk)


@pytest.mark.parametrize(("n", "k", "chunk"), [(67, 3, 4), (1000, 8, 8), (1000, 8, 1000)])
def test_ties_are_ordered_without_a_full_sort(n: int, k: int, chunk: int) -> None:
    """Every value occurs twice, so the last candidate never equals the k-th value."""
    torch.manual_seed(n)
    scores = torch.stack([torch.randperm(n) // 2 for _ in range(20)]).double()
    assert_equals_stable_sort(scores, k, chunk)


def test_fewer_columns_than_k() -> None:
    assert_equals_stable_sort(torch.tensor([[1.0, 3.0, 3.0]]), k=5, chunk=2)


@pytest.mark.parametrize("values", [3, 50, 10**9], ids=["many ties", "some ties", "no ties"])
def test_keys_give_the_same_order(values: int) -> None:
    torch.manual_seed(values)
    scores = (torch.randint(values, (7, 1000)) - values // 2).float() / 7
    scores[0] = -torch.inf
    scores[1, 500:] = -torch.inf
    scores[2, ::2] = -0.0  # equals 0
    scores[2, 1::2] = 0.0
    scores[3, 10] = torch.inf
    expected, indices = scores.sort(dim=1, descending=True, stable=True)
    found, by_keys = topk_by_keys(scores, 8)
    assert by_keys.tolist() == indices[:, :8].tolist()
    assert found.tolist() == expected[:, :8].tolist()
    assert topk_by_keys(torch.tensor([[1.0, -torch.nan, 2.0]]), 5)[1].tolist() == [[1, 2, 0]]
