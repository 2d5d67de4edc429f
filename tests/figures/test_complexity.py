"""Figures of complexity: shortest paths, and every number in the alternative text."""

import pytest
from matplotlib.text import Text

from tfmr.errors import TfmrError
from tfmr.figures import complexity
from tfmr.figures.style import ORANGE, Figure


def texts(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.findobj(Text) if text.get_text()]


def kernel(n: int, size: int, dilation: int = 1) -> complexity.Edges:
    return [(i - j * dilation, i) for i in range(n) for j in range(size) if i - j * dilation >= 0]


def arrows(figure: Figure, panel: int) -> int:
    found = figure.axes[panel].texts
    return sum(getattr(text, "arrowprops", None) is not None for text in found)


def test_paths_are_shortest_paths() -> None:
    recurrent = [(i, i) for i in range(5)] + [(-1 - i, -2 - i) for i in range(4)]
    fig = complexity.paths(
        {"recurrent": [recurrent], "convolution": [kernel(5, 3)] * 2, "attention": [kernel(5, 5)]},
        5,
    )
    assert [arrows(fig, panel) for panel in range(3)] == [5, 2, 1]
    assert "recurrent: 5; convolution: 2; attention: 1." in fig.alt
    assert "convolution\n2" in texts(fig)
    with pytest.raises(TfmrError, match=r"convolution.*1.*5"):
        complexity.paths({"convolution": [kernel(5, 3)]}, 5)


def test_relative_time() -> None:
    curves = {"RNN": [8.0, 0.5], "nn.LSTM": [16.0, 1.25]}
    fig = complexity.relative_time("sentences", [1, 64], curves, "self-attention")
    (axes,) = fig.axes
    assert [list(line.get_ydata()) for line in axes.lines[1:]] == list(curves.values())
    assert [line.get_linestyle() for line in axes.lines[1:]] == ["--", "-"]
    assert axes.lines[1].get_color() == ORANGE
    assert "by sentences. RNN: 8.00 at 1, 0.50 at 64. nn.LSTM: 16.00 at 1, 1.25 at 64." in fig.alt


def test_accuracy_panels() -> None:
    curves = {name: [[1.0, 0.3], [0.8, 0.2]] for name in ("RNN", "LSTM", "dilated", "attention")}
    fig = complexity.accuracy_panels("distance", [4, 512], curves, 0.25)
    assert [list(line.get_ydata()) for line in fig.axes[0].lines[1:]] == [
        [0.9, 0.25],
        [1, 0.3],
        [0.8, 0.2],
    ]
    assert "by distance, mean of 2 seeds; chance is 0.25" in fig.alt
    assert "LSTM: 0.90 at 4, 0.25 at 512" in fig.alt
