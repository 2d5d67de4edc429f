"""Figures of training show the values that they are given."""

import pytest
import torch

from tfmr.errors import TfmrError
from tfmr.figures.training import (
    alignment,
    learning_rate_schedule,
    loss_gallery,
    smooth,
    smoothed_target,
    training_curve,
)
from tfmr.train.trainer import StepRecord


def test_smooth() -> None:
    assert smooth([3.0] * 5) == pytest.approx([3.0] * 5)
    after = smooth([0.0] * 50 + [1.0] * 14)[-1]
    assert after == pytest.approx((1 - 0.95**14) / (1 - 0.95**64))


def test_learning_rate_schedule() -> None:
    fig = learning_rate_schedule({"small": (0.002, 10)}, 40)
    x, y = fig.axes[0].lines[0].get_data()
    assert x[y.argmax()] == 10
    assert max(y) == pytest.approx(2.0)
    assert "small: peak learning rate 0.00200 at step 10" in fig.alt


def test_training_curve() -> None:
    steps = [StepRecord(t, 5 / t, 2 / t, 10.0 + t, 0.001, 100, float(t)) for t in range(1, 31)]
    plain, floored = training_curve(steps), training_curve(steps, floor=0.5, run="a test")
    assert len(plain.axes) == len(floored.axes) == 3
    assert len(floored.axes[0].lines) == len(plain.axes[0].lines) + 1
    assert list(floored.axes[0].lines[-1].get_ydata()) == [0.5, 0.5]
    legend = floored.axes[0].get_legend()
    assert [text.get_text() for text in legend.get_texts()] == ["minimum"]
    # The curve decreases, so the upper right corner is empty.
    floored.draw_without_rendering()
    box = legend.get_window_extent().transformed(floored.axes[0].transData.inverted())
    assert box.y0 > max(step.loss for step in steps if step.step >= box.x0)
    assert "a test over 30 steps" in floored.alt
    assert list(plain.axes[2].lines[0].get_ydata()) == [step.weight_norm for step in steps]


def test_smoothed_target() -> None:
    fig = smoothed_target(["yes", "no"], [0.95, 0.05], [0.7, 0.3])
    heights = [patch.get_height() for patch in fig.axes[0].patches]
    assert heights == [0.95, 0.05, 0.7, 0.3]
    assert "for each token: yes 0.950 and 0.700" in fig.alt


def test_alignment_text_contains_no_numbers() -> None:
    fig = alignment(["a", "b", "c"], ["x", "y"], torch.tensor([[1.0, 0, 0], [0, 0.5, 0.5]]))
    assert fig.axes[0].images[0].get_array().shape == (2, 3)
    assert fig.axes[1].get_ylabel() == "attention weight"
    assert "“x y”" in fig.alt
    assert not any(c.isdigit() for c in fig.alt)


def test_alignment_states_the_largest_weights_that_are_the_same_everywhere() -> None:
    weights = torch.tensor([[1.0, 0, 0], [0, 0.4, 0.6], [0, 0.9, 0.1]])
    plain = alignment(["a", "b", "c"], ["x", "y", "z"], weights)
    fig = alignment(["a", "b", "c"], ["x", "y", "z"], weights, stated=["x", "z"])
    added = fig.alt.removeprefix(plain.alt)
    assert added == " Source words with the largest weights: a for x, b for z."
    with pytest.raises(TfmrError, match=r"target.*got w"):
        alignment(["a", "b", "c"], ["x", "y", "z"], weights, stated=["x", "w"])


def test_the_gallery_draws_every_run_and_states_the_means_at_the_end() -> None:
    healthy = [[(0, 6.9, 6.8), (40, 0.2, 0.25)], [(0, 7.0, 6.9), (40, 0.4, 0.35)]]
    fig = loss_gallery({"healthy": healthy, "no shift": [[(0, 6.9, 6.8), (40, 0.0, 0.1)]]})
    assert "healthy: 0.30 and 0.30; no shift: 0.00 and 0.10." in fig.alt
    assert [len(axes.lines) for axes in fig.axes] == [4, 2]
    assert [list(line.get_ydata()) for line in fig.axes[0].lines[2:]] == [[7.0, 0.4], [6.9, 0.35]]
    assert [axes.get_title() for axes in fig.axes] == ["healthy", "no shift"]
