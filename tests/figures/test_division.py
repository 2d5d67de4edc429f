"""Figures of a model on several devices."""

from itertools import pairwise

import pytest

from tfmr.errors import TfmrError
from tfmr.figures.division import COLOURS, held, pipeline, ring

FULL = [[True, True], [True, True]]


def test_a_part_is_filled_where_the_device_holds_it() -> None:
    top = [[True, True], [False, False]]
    right = [[False, True], [False, True]]
    fig = held([{"weights": FULL, "tokens": top}, {"weights": FULL, "tokens": right}])
    [axes] = fig.axes
    filled = [patch.get_facecolor()[:3] != (1, 1, 1) for patch in axes.patches]
    assert filled[:8] == [True] * 8
    assert filled[8:] == [True, True, False, False, False, True, False, True]
    assert [text.get_text() for text in axes.texts] == ["device 0", "device 1", "weights", "tokens"]
    assert "device 0 holds all of the weights, row 1 of the tokens; device 1" in fig.alt
    assert fig.alt.endswith("column 2 of the tokens.")
    assert fig.narrow is not None


@pytest.mark.parametrize("devices", [[{"weights": FULL}, {"tokens": FULL}], [{"layers": FULL}]])
def test_devices_have_the_same_known_parts(devices: list[dict[str, list[list[bool]]]]) -> None:
    with pytest.raises(TfmrError, match=f"same parts, of {', '.join(COLOURS)}"):
        held(devices)


def test_each_process_of_a_ring_sends_its_own_chunk_to_the_next() -> None:
    fig = ring([(1, 2, 3), (10, 20, 30), (100, 200, 300)])
    sent = "process 0 sends 1 to 1, process 1 sends 20 to 2, process 2 sends 300 to 0"
    assert fig.alt.endswith(f"First, {sent}.")
    shown = [text.get_text() for text in fig.axes[0].texts]
    assert {"sends 1", "sends 20", "sends 300", "process 1\n10, 20, 30"} <= set(shown)


def test_a_pass_of_a_pipeline_waits_for_its_input_and_for_its_stage() -> None:
    stages, batches = 3, 4
    fig = pipeline(stages, batches)
    [axes] = fig.axes
    bars = [(bar.get_y() + 0.4, bar.get_x(), bar.get_width()) for bar in axes.patches]
    for stage in range(stages):
        own = sorted((start, start + length) for row, start, length in bars if row == stage)
        assert len(own) == 2 * batches
        assert all(end <= start for (_, end), (start, _) in pairwise(own))
    forward = {(row, start) for row, start, length in bars if length == 1}
    backward = {(row, start) for row, start, length in bars if length == 2}
    assert all((row - 1, start - 1) in forward for row, start in forward if row > 0)
    assert all((row + 1, start - 2) in backward for row, start in backward if row < stages - 1)
    assert max(start + length for _, start, length in bars) == 3 * (batches + stages - 1)
    assert "busy for 12 of 18 units of time" in fig.alt
