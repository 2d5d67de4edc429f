"""Figures of layers show the values that they are given."""

import math
from itertools import pairwise

import pytest
from matplotlib.colors import to_hex
from matplotlib.patches import Rectangle
from matplotlib.text import Text

from tfmr.figures.layers import (
    activation_functions,
    loss_curves,
    norm_placement,
    normalisation_axes,
    norms_by_depth,
)
from tfmr.figures.style import BLUE, ORANGE


def test_norms_by_depth() -> None:
    fig = norms_by_depth({"one": [1e-3, 1.0], "two": [5.0, 2.0]}, "gradient norm")
    assert [list(line.get_ydata()) for line in fig.axes[0].lines[1:]] == [[1e-3, 1.0], [5.0, 2.0]]
    assert "one from 1e-03 at depth 0 to 1e+00 at depth 1" in fig.alt


def test_activation_functions() -> None:
    fig = activation_functions()
    relu, gelu = fig.axes[0].lines[2:]
    for x, rectified, smooth in zip(*relu.get_data(), gelu.get_ydata(), strict=True):
        assert rectified == max(0, x)
        assert smooth == pytest.approx(x * (1 + math.erf(x / math.sqrt(2))) / 2, abs=1e-5)
    assert "-0.17 near x = -0.75" in fig.alt


def test_normalisation_axes() -> None:
    layer, batch = normalisation_axes(4, 6).axes
    for axes, colour, size, axis in ((layer, BLUE, 6, 1), (batch, ORANGE, 4, 0)):
        tiles = [patch for patch in axes.patches if isinstance(patch, Rectangle)]
        chosen = [tile.get_xy() for tile in tiles if to_hex(tile.get_facecolor()) == colour]
        assert len(tiles) == 24
        assert len(chosen) == size
        assert len({place[axis] for place in chosen}) == 1


def test_norm_placement() -> None:
    fig = norm_placement()
    for axes, order in zip(
        fig.axes, (["sublayer", "+", "norm"], ["norm", "sublayer", "+"]), strict=True
    ):
        texts = [t for t in axes.findobj(Text) if t.get_text() in {"sublayer", "norm", "+"}]
        texts.sort(key=lambda text: text.get_position()[0])
        assert [text.get_text() for text in texts] == order
        assert all(a.get_position()[0] < b.get_position()[0] for a, b in pairwise(texts))
        norm = next(text for text in texts if text.get_text() == "norm")
        assert (norm.get_position()[1] == 0) == (order[-1] == "norm")


def test_loss_curves() -> None:
    fig = loss_curves({"one": [3.0, 2.0]}, chance_loss=2.5, alt="alternative")
    assert [list(line.get_ydata()) for line in fig.axes[0].lines] == [[2.5, 2.5], [3.0, 2.0]]
    assert fig.alt == "alternative"
