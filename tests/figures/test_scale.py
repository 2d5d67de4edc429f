"""Figures of training at scale."""

import pytest

from tfmr.errors import TfmrError
from tfmr.figures.scale import memory_bars, scaling_curves


def test_memory_bars_add_up() -> None:
    fig = memory_bars({"base": {"weights": 1.0, "rest": 2.5}, "big": {"weights": 2.0, "rest": 4.0}})
    [ax] = fig.axes
    ends = [(bar.get_x(), bar.get_width()) for bar in ax.patches]
    assert ends == [(0, 1.0), (0, 2.0), (1.0, 2.5), (2.0, 4.0)]
    assert [text.get_text() for text in ax.texts] == [" 3.5", " 6.0"]
    assert "base: weights 1.00, rest 2.50, in total 3.5; big:" in fig.alt
    with pytest.raises(TfmrError, match=r"bars.*parts"):
        memory_bars({"x": {"a": 1.0}, "y": {"b": 1.0}})


def test_scaling_curves() -> None:
    losses = {(n, d): [4 + 100 / n, 4.2 + 100 / n] for n in (1000, 2000) for d in (10_000, 99_000)}
    fig = scaling_curves(losses, lambda n, d: 4.1 + 100 / n)
    left, right = fig.axes
    points, line = left.lines[:2]
    assert list(points.get_xdata()) == [1000, 1000, 2000, 2000]
    assert list(points.get_ydata()) == pytest.approx([4.1, 4.3, 4.05, 4.25])
    assert list(line.get_ydata()) == pytest.approx([4.2, 4.15])
    assert [text.get_text() for text in right.get_legend().get_texts()] == ["1.0k", "2.0k"]
    assert "10k tokens: 4.20 at 1.0k, 4.15 at 2.0k; 99k tokens" in fig.alt
