"""PositionsFigure in Python: its vectors, dot products, synchronised traits and errors."""

import math

import pytest
import torch
from traitlets import TraitError

from tfmr.position import frequencies, rotate_naive, sinusoidal_naive
from tfmr.widgets import PositionsFigure


def test_sinusoidal_vectors_are_rows_of_the_table() -> None:
    figure = PositionsFigure(20, size=16, base=100)
    first, second = figure.vectors()
    torch.testing.assert_close(first, sinusoidal_naive(20, 16, 100.0))
    assert torch.equal(first, second)


def test_rotary_vectors_are_a_rotated_query_and_key() -> None:
    figure = PositionsFigure(20, encoding="rotary", size=4, base=10, angle=90)
    query, key = (torch.tensor(pair).repeat(20, 2) for pair in ((1.0, 0.0), (0.0, 1.0)))
    for found, expected in zip(figure.vectors(), (query, key), strict=True):
        torch.testing.assert_close(found, rotate_naive(expected, base=10.0))


@pytest.mark.parametrize("encoding", ["sinusoidal", "rotary"])
def test_the_dot_product_depends_on_the_distance_only(encoding: str) -> None:
    products = PositionsFigure(30, encoding=encoding, size=8, base=100).products()
    for distance in range(-29, 30):
        expected = (frequencies(8, 100.0) * distance).cos().sum().float()
        diagonal = products.diagonal(distance)
        torch.testing.assert_close(diagonal, expected.expand_as(diagonal), rtol=0, atol=1e-5)


def test_an_angle_distinguishes_left_from_right() -> None:
    same = PositionsFigure(encoding="rotary").products()
    assert torch.allclose(same, same.T, atol=1e-5)
    ahead = PositionsFigure(encoding="rotary", angle=90).products()
    assert torch.allclose(ahead, -ahead.T, atol=1e-5)
    assert ahead[3, 4] < -0.9


def test_contributions_sum_to_the_dot_product() -> None:
    figure = PositionsFigure(m=40, n=7)
    figure.set_state({"encoding": "rotary", "angle": -45, "size": 16, "n": 9})
    parts = figure.contributions()
    expected = (frequencies(16) * (9 - 40) + math.radians(-45)).cos().float()
    torch.testing.assert_close(parts, expected, rtol=0, atol=1e-5)
    torch.testing.assert_close(parts.sum(), figure.products()[40, 9])


def test_the_text_and_the_types_of_traits() -> None:
    figure = PositionsFigure()
    for part in ("sinusoidal", "3 and 8 of 50", "size 8", "base 10000", "is 3.16."):
        assert part in repr(figure)
    with pytest.raises(TraitError):
        figure.size = 7
