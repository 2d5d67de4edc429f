"""Figures of the whole model show every shape and parameter count."""

import pytest
from matplotlib.colors import to_hex

from tfmr.figures.model import MASKS, parameter_counts, transformer_shapes
from tfmr.figures.palette import DECODER, ENCODER
from tfmr.figures.style import BLUE, CONTRAST, contrast

SOURCE = [("ids", (1, 5)), ("embedding, position", (1, 5, 8)), ("encoder", (1, 5, 8))]
TARGET = [
    ("ids", (1, 3)),
    ("embedding, position", (1, 3, 8)),
    ("decoder", (1, 3, 8)),
    ("scores", (1, 3, 12)),
]


def test_transformer_shapes() -> None:
    fig = transformer_shapes(SOURCE, TARGET)
    drawn = {text.get_text() for text in fig.axes[0].texts}
    assert {"N × encoder block", "N × decoder block", "scores", "encoder\noutput"} <= drawn
    assert "1 × 3 × 12" in drawn
    assert "encoder 1 × 5 × 8" in fig.alt
    assert "scores 1 × 3 × 12" in fig.alt
    assert "consist of N blocks each" in fig.alt
    heights = {text.get_text(): text.get_position() for text in fig.axes[0].texts}
    for name, mask in MASKS.items():
        x, y = heights[f"N × {name} block"]
        assert heights[mask][0] == x
        assert y - 0.5 < heights[mask][1] < y
    assert "The encoder has a padding mask" in fig.alt
    assert "the decoder a causal mask and a source padding mask" in fig.alt
    across, upwards = fig.axes[0].lines
    assert list(across.get_ydata()) == [1, 1]
    assert list(upwards.get_ydata()) == [1, 1, 3, 3]
    assert "same matrix" in {text.get_text() for text in fig.axes[0].texts}
    assert "Both embeddings and the last stage of the target side (scores) use the same" in fig.alt


def test_parameter_counts_are_stacked() -> None:
    fig = parameter_counts(
        {"one": {"a": 2_000_000, "b": 1_000_000}, "two": {"a": 4_000_000, "b": 0}}
    )
    bars = fig.axes[0].patches
    assert [bar.get_x() for bar in bars] == pytest.approx([0, 2, 0, 4])
    assert [bar.get_width() for bar in bars] == pytest.approx([2, 1, 4, 0])
    assert "one: a 2.0, b 1.0" in fig.alt


def test_encoder_and_decoder_have_their_hues() -> None:
    counts = {"embeddings": 2_000_000, "encoder": 1_000_000, "decoder": 3_000_000}
    fig = parameter_counts({"one": counts})
    assert fig.narrow is not None
    for layout in (fig, fig.narrow):
        (axes,) = layout.axes
        colours = [to_hex(bar.get_facecolor()) for bar in axes.patches]
        assert colours == [BLUE, ENCODER, DECODER]
        assert [text.get_text() for text in axes.texts] == ["2.0", "1.0", "3.0"]
    inside = zip(fig.axes[0].texts, colours, strict=True)
    assert all(contrast(text.get_color(), colour) >= CONTRAST for text, colour in inside)
    assert [text.get_color() for text in fig.narrow.axes[0].texts] == colours
