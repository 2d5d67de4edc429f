"""The pictures of the layers draw what they are given, and their text says the same."""

import math
from itertools import pairwise

import pytest
from matplotlib.colors import to_hex
from matplotlib.patches import Rectangle
from matplotlib.text import Text

from tfmr.figures.layers import activations, averaged_over, by_depth, losses, two_orders
from tfmr.figures.style import BLUE, ORANGE


def test_sizes_are_drawn_by_depth_and_named_at_both_ends() -> None:
    made = by_depth({"one": [1e-3, 1.0], "two": [5.0, 2.0]}, "gradient norm")
    assert [list(line.get_ydata()) for line in made.axes[0].lines[1:]] == [[1e-3, 1.0], [5.0, 2.0]]
    assert "one from 1e-03 at depth 0 to 1e+00 at depth 1" in made.alt


def test_activations_are_those_of_their_formulas() -> None:
    made = activations()
    relu, gelu = made.axes[0].lines[2:]
    for x, rectified, smooth in zip(*relu.get_data(), gelu.get_ydata(), strict=True):
        assert rectified == max(0, x)
        assert smooth == pytest.approx(x * (1 + math.erf(x / math.sqrt(2))) / 2, abs=1e-5)
    assert "-0.17 near x = -0.75" in made.alt


def test_layer_norm_colours_a_row_and_batch_norm_a_column() -> None:
    layer, batch = averaged_over(4, 6).axes
    for axes, colour, size, axis in ((layer, BLUE, 6, 1), (batch, ORANGE, 4, 0)):
        tiles = [patch for patch in axes.patches if isinstance(patch, Rectangle)]
        chosen = [tile.get_xy() for tile in tiles if to_hex(tile.get_facecolor()) == colour]
        assert len(tiles) == 24
        assert len(chosen) == size
        assert len({place[axis] for place in chosen}) == 1


def test_the_norm_stands_in_the_stream_in_post_norm_only() -> None:
    made = two_orders()
    for axes, order in zip(
        made.axes, (["sublayer", "+", "norm"], ["norm", "sublayer", "+"]), strict=True
    ):
        texts = [t for t in axes.findobj(Text) if t.get_text() in {"sublayer", "norm", "+"}]
        texts.sort(key=lambda text: text.get_position()[0])
        assert [text.get_text() for text in texts] == order
        assert all(a.get_position()[0] < b.get_position()[0] for a, b in pairwise(texts))
        norm = next(text for text in texts if text.get_text() == "norm")
        assert (norm.get_position()[1] == 0) == (order[-1] == "norm")


def test_losses_are_drawn_beside_guessing() -> None:
    made = losses({"one": [3.0, 2.0]}, guessing=2.5, alt="said")
    assert [list(line.get_ydata()) for line in made.axes[0].lines] == [[2.5, 2.5], [3.0, 2.0]]
    assert made.alt == "said"
