"""The figures of training draw the numbers they are given and say them."""

import pytest
import torch

from tfmr.figures.style import Figure
from tfmr.figures.training import alignment, curve, schedule, scores, smooth, smoothed_target
from tfmr.train.trainer import StepRecord


def png_bytes(figure: Figure) -> int:
    return len(figure._repr_png_()[0])


def test_smoothing_keeps_a_constant_and_follows_a_jump() -> None:
    assert smooth([3.0] * 5) == pytest.approx([3.0] * 5)
    after = smooth([0.0] * 50 + [1.0] * 14)[-1]
    assert after == pytest.approx((1 - 0.95**14) / (1 - 0.95**64))


def test_the_schedule_draws_its_peak() -> None:
    made = schedule({"small": (0.002, 10)}, 40)
    x, y = made.axes[0].lines[0].get_data()
    assert x[y.argmax()] == 10
    assert max(y) == pytest.approx(2.0)
    assert "small peaks at 0.00200 in step 10" in made.alt


def test_a_curve_has_three_panels_and_its_floor() -> None:
    steps = [StepRecord(t, 5 / t, 2 / t, 10.0 + t, 0.001, 100, float(t)) for t in range(1, 31)]
    plain, floored = curve(steps), curve(steps, floor=0.5, what="a test")
    assert len(plain.axes) == len(floored.axes) == 3
    assert len(floored.axes[0].lines) == len(plain.axes[0].lines) + 1
    assert "a test over its 30 steps" in floored.alt
    assert list(plain.axes[2].lines[0].get_ydata()) == [step.weight_norm for step in steps]
    assert png_bytes(floored) < 60_000


def test_bars_of_target_and_prediction() -> None:
    made = smoothed_target(["yes", "no"], [0.95, 0.05], [0.7, 0.3])
    heights = [patch.get_height() for patch in made.axes[0].patches]
    assert heights == [0.95, 0.05, 0.7, 0.3]
    assert "yes 0.950 and 0.700" in made.alt


def test_alignment_has_a_row_per_target_word_and_no_numbers_in_its_words() -> None:
    made = alignment(["a", "b", "c"], ["x", "y"], torch.tensor([[1.0, 0, 0], [0, 0.5, 0.5]]))
    assert made.axes[0].images[0].get_array().shape == (2, 3)
    assert "“x y”" in made.alt
    assert not any(c.isdigit() for c in made.alt)


def test_scores_are_written_at_their_points() -> None:
    made = scores([5.0, 10.0], [34.2, 36.5])
    assert "34.2 after 5, 36.5 after 10" in made.alt
    assert [text.get_text() for text in made.axes[0].texts] == ["34.2", "36.5"]
