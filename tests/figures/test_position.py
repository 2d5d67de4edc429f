"""The pictures of position draw what the package computes, and their text says the same."""

import math
import re

import pytest
import torch
from matplotlib.axes import Axes

from tfmr.figures.position import (
    accuracy_by_position,
    encoding_table,
    product_by_distance,
    rotary_angles,
    shift_as_turn,
    waves,
)
from tfmr.position import frequencies, sinusoidal


def points(axes: Axes, line: int) -> list[float]:
    return [float(y) for y in axes.lines[line].get_ydata()]


def angles(axes: Axes) -> dict[str, float]:
    """The direction in degrees of every labelled hand on a circle."""
    return {
        text.get_text(): math.degrees(math.atan2(*reversed(text.get_position()))) % 360
        for text in axes.texts
        if text.get_text()
    }


def test_the_table_is_drawn_row_by_row() -> None:
    table = sinusoidal(12, 8)
    made = encoding_table(table)
    assert torch.allclose(torch.tensor(made.axes[0].images[0].get_array()).float(), table)
    assert "12 positions by 8 dimensions" in made.alt


def test_waves_count_the_changes_of_sign() -> None:
    made = waves(sinusoidal(60, 512), [0, 96])
    assert points(made.axes[0], 1) == pytest.approx([math.sin(pos) for pos in range(60)], abs=1e-5)
    expected = sum(math.sin(pos) * math.sin(pos + 1) < 0 for pos in range(59))
    assert made.alt.endswith(f"change their sign {expected}, 0 times.")


def test_every_hand_stands_at_position_times_frequency() -> None:
    omegas = frequencies(8).tolist()[:2]
    made = shift_as_turn(omegas, starts=[0, 3], k=2)
    for axes, omega in zip(made.axes, omegas, strict=True):
        for label, angle in angles(axes).items():
            assert angle == pytest.approx(math.degrees(int(label) * omega) % 360, abs=0.01)
    assert "115, 11 degrees" in made.alt


def test_products_meet_at_one_curve_or_the_text_says_by_how_much_they_do_not() -> None:
    rows = sinusoidal(200, 64)
    products = {p: (rows[p - 5 : p + 6] @ rows[p]).tolist() for p in (20, 150)}
    assert "within 0.01" in product_by_distance(products, 5).alt
    assert "highest at distance 0 with 32" in product_by_distance(products, 5).alt
    products[150] = [value + 1 for value in products[150]]
    assert re.search(r"within 1\.0[01]", product_by_distance(products, 5).alt)


def test_rotary_hands_are_as_far_apart_as_their_positions() -> None:
    made = rotary_angles([(1, 3), (3, 1)], math.radians(30))
    assert [angles(axes) for axes in made.axes] == [
        pytest.approx({"q": 30, "k": 90}),
        pytest.approx({"q": 90, "k": 30}),
    ]
    assert "60, -60 degrees" in made.alt


def test_accuracy_is_drawn_from_its_first_position_on() -> None:
    made = accuracy_by_position({"a": [1.0, 0.5]}, first=3, trained=4, chance=0.1, alt="said")
    line = made.axes[0].lines[1]
    assert list(zip(line.get_xdata(), line.get_ydata(), strict=True)) == [(3, 1.0), (4, 0.5)]
    assert made.alt == "said"
