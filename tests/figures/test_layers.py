"""Figures of layers show the values that they are given."""

import math
from itertools import combinations, pairwise

import numpy as np
import pytest
import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex, to_rgb
from matplotlib.patches import Rectangle
from matplotlib.text import Text

from tfmr.errors import TfmrError
from tfmr.figures.layers import (
    activation_functions,
    gradient_norm_curves,
    loss_curves,
    norm_placement,
    normalisation_axes,
    norms_by_depth,
    steps_to_learn,
)
from tfmr.figures.style import BLUE, DPI, GRID, ORANGE


def test_norms_by_depth() -> None:
    fig = norms_by_depth({"one": [1e-3, 1.0], "two": [5.0, 2.0]}, "gradient norm")
    assert [list(line.get_ydata()) for line in fig.axes[0].lines] == [[1e-3, 1.0], [5.0, 2.0]]
    assert [text.get_text() for text in fig.axes[0].texts] == ["one", "two"]
    assert fig.axes[0].get_xlabel() == "depth"
    assert "one from 1e-03 at depth 0 to 1e+00 at depth 1" in fig.alt
    fig = norms_by_depth({"one": [1e-3, 0.1, 1.0]}, "gradient norm", "block", first=1)
    assert list(fig.axes[0].lines[0].get_xdata()) == [1, 2, 3]
    assert fig.axes[0].get_xlabel() == "block"
    assert "one from 1e-03 at block 1 to 1e+00 at block 3" in fig.alt


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
        fig.axes, (["sublayer", "+", "layer norm"], ["layer norm", "sublayer", "+"]), strict=True
    ):
        texts = [t for t in axes.findobj(Text) if t.get_text() in {"sublayer", "layer norm", "+"}]
        texts.sort(key=lambda text: text.get_position()[0])
        assert [text.get_text() for text in texts] == order
        assert all(a.get_position()[0] < b.get_position()[0] for a, b in pairwise(texts))
        norm = next(text for text in texts if text.get_text() == "layer norm")
        assert (norm.get_position()[1] == 0) == (order[-1] == "layer norm")


def test_loss_curves() -> None:
    fig = loss_curves({"one": [3.0, 2.0]}, chance_loss=2.5, alt="alternative")
    chance, one = fig.axes[0].lines
    assert list(chance.get_ydata()) == [2.5, 2.5]
    assert one.get_xydata().tolist() == [[1, 3.0], [2, 2.0]]
    assert not fig.axes[0].collections
    assert [text.get_text() for text in fig.axes[0].texts] == ["one", "chance"]
    assert fig.alt == "alternative"
    seeds = [[3.0, 2.0], [2.5, 1.0], [4.0, 1.25]]
    fig = loss_curves({"one": seeds}, chance_loss=2.5, alt="alternative")
    assert list(fig.axes[0].lines[1].get_ydata()) == [3.0, 1.25]
    (band,) = fig.axes[0].collections
    corners = {tuple(point) for point in band.get_paths()[0].vertices.tolist()}
    assert corners == {(1, 2.5), (1, 4.0), (2, 1.0), (2, 2.0)}
    with pytest.raises(TfmrError, match=r"'one'.*steps.*got \[1, 2\]"):
        loss_curves({"one": [[3.0], [3.0, 2.0]]}, chance_loss=2.5, alt="alternative")
    fig = loss_curves({"one": [float(t) for t in range(101)]}, chance_loss=2.5, alt="alternative")
    line = fig.axes[0].lines[1]
    assert line.get_xydata().tolist()[:2] == [[3, 1.0], [6, 4.0]]
    assert line.get_xydata().tolist()[-1] == [101, 99.5]
    assert fig.axes[0].get_xlabel() == "step (each point: mean of 3 steps)"


@pytest.mark.parametrize("pair", list(combinations(range(4), 2)))
def test_equal_curves_remain_visible(pair: tuple[int, int]) -> None:
    curves = {str(k): [2.0 if k in pair else 1.0] * 40 for k in range(4)}
    fig = loss_curves(curves, chance_loss=2.8, alt="alternative")
    for text in fig.axes[0].texts:
        text.set_visible(False)
    fig.set_dpi(DPI)
    canvas = FigureCanvasAgg(fig)
    canvas.draw()
    pixels = np.asarray(canvas.buffer_rgba())[..., :3].astype(int)
    for k in pair:
        colour = np.array(to_rgb(fig.axes[0].lines[1 + k].get_color())) * 255
        # Antialiasing changes the colour of pixels at the edges of thin lines.
        close = abs(pixels - colour).max(axis=-1) < 30
        assert close.sum() > 200


def test_six_curves_fit_into_the_limit() -> None:
    torch.manual_seed(0)
    curves = {f"curve {k}": (3 + 0.1 * torch.randn(5, 100)).tolist() for k in range(6)}
    fig = loss_curves(curves, chance_loss=2.8, alt="alternative")
    assert len({line.get_color() for line in fig.axes[0].lines[1:]}) == 6
    heights = sorted(text.xy[1] for text in fig.axes[0].texts)
    assert all(above - below > 0.05 for below, above in pairwise(heights))


def test_steps_to_learn() -> None:
    steps = {
        "plain": {1e-3: [20, 40, 90], 1e-2: [None, 500, 300]},
        "residual": {1e-3: [10, 12, 14], 1e-2: [None, None, None]},
    }
    fig = steps_to_learn(steps, budget=600)
    (axes,) = fig.axes
    plain, hollow, residual, _ = [line for line in axes.lines if line.get_color() != GRID]
    assert [list(data) for data in plain.get_data()] == [[1e-3, 1e-2], [40, 400]]
    assert [list(data) for data in hollow.get_data()] == [[1e-2], [400]]
    assert hollow.get_markerfacecolor() == "white" != plain.get_markerfacecolor()
    assert [list(data) for data in residual.get_data()] == [[1e-3], [12]]
    [legend] = fig.legends
    assert [text.get_text() for text in legend.get_texts()] == ["plain", "residual"]
    assert "“plain”, 3 of 3 at 0.001 (median 40), 2 of 3 at 0.01 (median 400); “res" in fig.alt
    assert "3 of 3 at 0.001 (median 12), 0 of 3 at 0.01." in fig.alt


def test_gradient_norm_curves() -> None:
    fig = gradient_norm_curves({"one": [[1.0, 4.0], [3.0, 2.0]]}, "alternative")
    (axes,) = fig.axes
    assert list(axes.lines[0].get_ydata()) == [2.0, 3.0]
    assert (axes.get_yscale(), axes.get_ylabel()) == ("log", "gradient norm")
    assert fig.alt == "alternative"
