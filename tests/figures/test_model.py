"""The picture of the whole model names every station with its shape; the bars add up."""

import pytest

from tfmr.figures.model import parameter_shares, whole_model


def test_every_station_is_named_with_its_shape() -> None:
    made = whole_model(
        [("ids", (1, 5)), ("encoder", (1, 5, 8))],
        [("ids", (1, 3)), ("decoder", (1, 3, 8)), ("scores", (1, 3, 12))],
    )
    drawn = [text.get_text() for text in made.axes[0].texts]
    assert {"encoder", "decoder", "scores", "memory", "1 × 3 × 12"} <= set(drawn)
    assert "encoder 1 × 5 × 8" in made.alt
    assert "scores 1 × 3 × 12" in made.alt


def test_bars_are_as_long_as_their_parts_and_stand_end_to_end() -> None:
    made = parameter_shares(
        {"one": {"a": 2_000_000, "b": 1_000_000}, "two": {"a": 4_000_000, "b": 0}}
    )
    bars = made.axes[0].patches
    assert [bar.get_x() for bar in bars] == pytest.approx([0, 2, 0, 4])
    assert [bar.get_width() for bar in bars] == pytest.approx([2, 1, 4, 0])
    assert "one: a 2.0, b 1.0" in made.alt
