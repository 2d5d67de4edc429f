"""Figures of positional encodings show the values that the package computes."""

import math
import re

import pytest
import torch
from matplotlib.axes import Axes

from tfmr.figures import position
from tfmr.position import frequencies, sinusoidal


def points(axes: Axes, line: int) -> list[float]:
    return [float(y) for y in axes.lines[line].get_ydata()]


def angles(axes: Axes) -> dict[str, float]:
    """The angle in degrees of every labelled arrow on a circle."""
    return {
        text.get_text(): math.degrees(math.atan2(*reversed(text.get_position()))) % 360
        for text in axes.texts
        if text.get_text()
    }


def test_sinusoidal_table() -> None:
    table = sinusoidal(12, 8)
    fig = position.sinusoidal_table(table)
    assert torch.allclose(torch.tensor(fig.axes[0].images[0].get_array()).float(), table)
    assert "12 positions by 8 dimensions" in fig.alt


def test_sinusoids() -> None:
    fig = position.sinusoids(sinusoidal(60, 512), [0, 96])
    assert points(fig.axes[0], 1) == pytest.approx([math.sin(pos) for pos in range(60)], abs=1e-5)
    expected = sum(math.sin(pos) * math.sin(pos + 1) < 0 for pos in range(59))
    assert fig.alt.endswith(f"change sign {expected} and 0 times, respectively.")


def test_shift_as_rotation() -> None:
    omegas = frequencies(8).tolist()[:2]
    fig = position.shift_as_rotation(omegas, starts=[0, 3], k=2)
    for axes, omega in zip(fig.axes, omegas, strict=True):
        for label, angle in angles(axes).items():
            assert angle == pytest.approx((90 - math.degrees(int(label) * omega)) % 360, abs=0.01)
    assert "clockwise, with position 0 at the top" in fig.alt
    assert "115 and 11 degrees" in fig.alt


def test_dot_product_by_distance_states_the_difference_of_the_curves() -> None:
    rows = sinusoidal(200, 64)
    products = {p: (rows[p - 5 : p + 6] @ rows[p]).tolist() for p in (20, 150)}
    assert "within 0.01" in position.dot_product_by_distance(products, 5).alt
    assert "the maximum is 32, at distance 0," in position.dot_product_by_distance(products, 5).alt
    products[150] = [value + 1 for value in products[150]]
    assert re.search(r"within 1\.0[01]", position.dot_product_by_distance(products, 5).alt)


def test_rotary_angles() -> None:
    fig = position.rotary_angles([(1, 3), (3, 1)], math.radians(30))
    assert [angles(axes) for axes in fig.axes] == [
        pytest.approx({"q": 30, "k": 90}),
        pytest.approx({"q": 90, "k": 30}),
    ]
    assert "60 and −60 degrees" in fig.alt


def test_accuracy_by_position() -> None:
    fig = position.accuracy_by_position(
        {"a": [1.0, 0.5]}, first=3, trained_length=4, chance=0.1, alt="alternative"
    )
    line = fig.axes[0].lines[1]
    assert list(zip(line.get_xdata(), line.get_ydata(), strict=True)) == [(3, 1.0), (4, 0.5)]
    assert fig.alt == "alternative"
    curves = {name: [1.0, 0.5] for name in "abcd"}
    fig = position.accuracy_by_position(
        curves, first=3, trained_length=4, chance=0.1, alt="alternative"
    )
    assert len({line.get_marker() for line in fig.axes[0].lines[1:]}) == 4
