"""Figures of the whole model show every shape and parameter count."""

import pytest

from tfmr.figures.model import parameter_counts, transformer_shapes


def test_transformer_shapes() -> None:
    fig = transformer_shapes(
        [("ids", (1, 5)), ("encoder", (1, 5, 8))],
        [("ids", (1, 3)), ("decoder", (1, 3, 8)), ("scores", (1, 3, 12))],
    )
    drawn = [text.get_text() for text in fig.axes[0].texts]
    assert {"encoder", "decoder", "scores", "memory", "1 × 3 × 12"} <= set(drawn)
    assert "encoder 1 × 5 × 8" in fig.alt
    assert "scores 1 × 3 × 12" in fig.alt


def test_parameter_counts_are_stacked() -> None:
    fig = parameter_counts(
        {"one": {"a": 2_000_000, "b": 1_000_000}, "two": {"a": 4_000_000, "b": 0}}
    )
    bars = fig.axes[0].patches
    assert [bar.get_x() for bar in bars] == pytest.approx([0, 2, 0, 4])
    assert [bar.get_width() for bar in bars] == pytest.approx([2, 1, 4, 0])
    assert "one: a 2.0, b 1.0" in fig.alt
