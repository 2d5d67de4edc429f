"""The parts that every search shares."""

from itertools import product

import pytest
import torch

from tests.decode.models import SENTENCES, transformer
from tfmr.data.batches import pad
from tfmr.decode.generate import best, closed_up, max_output_lengths


@pytest.mark.parametrize(("n", "k", "block"), [(5, 2, 64), (64, 1, 2), (67, 3, 4), (1000, 8, 8)])
def test_the_best_are_the_first_of_a_stable_sort(n: int, k: int, block: int) -> None:
    torch.manual_seed(n)
    for values in (3, 50, 10**9):  # many ties, some, none
        scores = torch.randint(values, (7, n)).double()
        scores[0] = -torch.inf
        scores[1, n // 2 :] = -torch.inf
        scores[2] = torch.arange(n)  # the best come last, where no block may be whole
        wanted, places = scores.sort(dim=1, descending=True, stable=True)
        found, where = best(scores, k, block)
        assert found.tolist() == wanted[:, :k].tolist()
        assert where.tolist() == places[:, :k].tolist()


@pytest.mark.parametrize(("n", "k", "block"), [(67, 3, 4), (1000, 8, 8), (1000, 8, 1000)])
def test_equals_are_in_their_order_where_not_everything_is_sorted(
    n: int, k: int, block: int
) -> None:
    """Every number twice: the last of more than enough is never the equal of the k-th."""
    torch.manual_seed(n)
    scores = torch.stack([torch.randperm(n) // 2 for _ in range(20)]).double()
    wanted, places = scores.sort(dim=1, descending=True, stable=True)
    found, where = best(scores, k, block)
    assert found.tolist() == wanted[:, :k].tolist()
    assert where.tolist() == places[:, :k].tolist()


def test_rows_close_up_and_few_of_them_move() -> None:
    for ended in product([False, True], repeat=6):
        going = closed_up(ended)
        assert sorted(going) == [row for row, end in enumerate(ended) if not end]
        moved = sum(row != place for place, row in enumerate(going))
        assert moved == sum(ended[: len(going)])


def test_the_limit_is_the_sentences_own() -> None:
    model = transformer(max_length=60)
    together = max_output_lengths(model, pad(SENTENCES))
    assert together == [min(len(ids) + 50, 60) for ids in SENTENCES]
    assert [*map(len, SENTENCES)] != [len(SENTENCES[0])] * len(SENTENCES)
