"""Figures of the family: every number that can be compared is in the alternative text."""

import numpy as np
import pytest
import torch
from matplotlib.colors import to_hex

from tfmr.errors import TfmrError
from tfmr.figures.family import change_effects, distance_ranges, patch_attention, relative_biases
from tfmr.figures.style import BLUE, GREY, ORANGE


def test_distance_ranges() -> None:
    fig = distance_ranges(torch.tensor([[0, 3, 4], [1, 0, 3]]))
    assert "each of 2 queries to each of 3 keys" in fig.alt
    assert "First query: 0, 3, 4. Last query: 1, 0, 3." in fig.alt
    assert [text.get_text() for text in fig.axes[0].texts] == ["0", "3", "4", "1", "0", "3"]


def test_relative_biases_are_one_line_per_head() -> None:
    fig = relative_biases([-1, 0, 1], torch.tensor([[1.0, 2.0, 3.0], [0.0, -1.0, 0.0]]))
    _, first, second = fig.axes[0].lines
    assert list(first.get_ydata()) == [1, 2, 3]
    assert list(second.get_xdata()) == [-1, 0, 1]
    assert "2 heads for the offsets −1 to +1" in fig.alt
    with pytest.raises(TfmrError, match=r"head.*got \(2, 3\).*2"):
        relative_biases([0, 1], torch.zeros(2, 3))


def test_patch_attention_draws_the_borders_between_patches() -> None:
    weights = torch.rand(2, 4, 4)
    fig = patch_attention(torch.rand(2, 8, 8), weights, ["a 3", "a 7"])
    upper, _, lower, _ = fig.axes
    assert [line.get_ydata()[0] for line in upper.lines[::2]] == [1.5, 3.5, 5.5]
    assert [line.get_ydata()[0] for line in lower.lines[::2]] == [0.5, 1.5, 2.5]
    shown = lower.images[0].get_array()
    assert shown is not None
    assert np.allclose(shown, weights[0].numpy())
    assert fig.alt.startswith("2 images (a 3, a 7), cut into 4 × 4 patches.")


def test_the_colour_of_an_effect_is_its_sign_unless_it_is_noise() -> None:
    effects = {"x": (-0.2, -0.3, -0.1), "y": (0.1, 0.05, 0.15), "z": (0.01, -0.02, 0.04)}
    fig = change_effects(effects, "the block of 2017")
    dots = fig.axes[0].lines[2::2]
    assert [to_hex(dot.get_color()) for dot in dots] == [BLUE, ORANGE, GREY]
    assert "x −0.200 [−0.300, −0.100]; y +0.100 [+0.050, +0.150]; z" in fig.alt
    assert fig.alt.endswith("z +0.010 [−0.020, +0.040] (within the noise).")


def test_the_narrow_layout_has_the_name_of_a_change_above_its_interval() -> None:
    fig = change_effects({"x": (-0.2, -0.3, -0.1), "y": (0.1, 0.05, 0.15)}, "2017").narrow
    assert fig is not None
    (axes,) = fig.axes
    assert [text.get_text() for text in axes.texts] == ["x", "y"]
    assert [text.get_position()[1] for text in axes.texts] == pytest.approx([-0.22, 0.78])
    assert axes.yaxis_inverted()
    assert [list(line.get_ydata()) for line in axes.lines[1::2]] == [[0, 0], [1, 1]]
