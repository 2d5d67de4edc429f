"""Figures of the family: every number that can be compared is in the alternative text."""

import pytest
import torch
from matplotlib.colors import to_hex

from tfmr.figures.family import change_effects, distance_ranges
from tfmr.figures.style import BLUE, GREY, ORANGE


def test_distance_ranges() -> None:
    fig = distance_ranges(torch.tensor([[0, 3, 4], [1, 0, 3]]))
    assert "each of 2 queries to each of 3 keys" in fig.alt
    assert "First query: 0, 3, 4. Last query: 1, 0, 3." in fig.alt
    assert [text.get_text() for text in fig.axes[0].texts] == ["0", "3", "4", "1", "0", "3"]


def test_the_colour_of_an_effect_is_its_sign_unless_it_is_undecided() -> None:
    effects = {"x": (-0.2, -0.3, -0.1), "y": (0.1, 0.05, 0.15), "z": (0.01, -0.02, 0.04)}
    fig = change_effects(effects, "the block of 2017")
    dots = fig.axes[0].lines[2::2]
    assert [to_hex(dot.get_color()) for dot in dots] == [BLUE, ORANGE, GREY]
    assert "x −0.200 [−0.300, −0.100]; y +0.100 [+0.050, +0.150]; z" in fig.alt
    assert fig.alt.endswith("z +0.010 [−0.020, +0.040] (undecided).")


def test_the_narrow_layout_has_the_name_of_a_change_above_its_interval() -> None:
    fig = change_effects({"x": (-0.2, -0.3, -0.1), "y": (0.1, 0.05, 0.15)}, "2017").narrow
    assert fig is not None
    (axes,) = fig.axes
    assert [text.get_text() for text in axes.texts] == ["x", "y"]
    assert [text.get_position()[1] for text in axes.texts] == pytest.approx([-0.22, 0.78])
    assert axes.yaxis_inverted()
    assert [list(line.get_ydata()) for line in axes.lines[1::2]] == [[0, 0], [1, 1]]
