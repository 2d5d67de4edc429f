"""StreamFigure in Python: the numbers of its record, its traits and its errors."""

import json
from typing import Any

import pytest

from tfmr.records import record_path
from tfmr.widgets import StreamFigure

RECORD: dict[str, Any] = json.loads(record_path("depth-stream.json").read_text("utf-8"))


def row(stack: str, blocks: int, step: int) -> dict[str, Any]:
    key = (stack, blocks, step)
    [found] = [r for r in RECORD["rows"] if (r["stack"], r["blocks"], r["step"]) == key]
    return found


def test_values_are_those_of_the_record() -> None:
    figure = StreamFigure(RECORD)
    assert figure.values().keys() == {"residual", "scaled residual", "post-norm", "pre-norm"}
    for quantity, index in (("stream", 5), ("change", 4), ("gradient", 4)):
        figure.set_state({"quantity": quantity, "block": 5, "blocks": 24, "step": 100})
        for stack, value in figure.values().items():
            expected = row(stack, 24, 100)[quantity][index]
            assert value == pytest.approx(expected, rel=6e-3)


def test_block_0_is_the_input_and_has_no_change() -> None:
    figure = StreamFigure(RECORD)
    figure.block = 0
    first = figure.values()
    assert len(set(first.values())) == 1
    figure.quantity = "change"
    changes = figure.values()
    figure.block = 1
    assert figure.values() == changes


def test_what_the_figure_says_that_it_shows() -> None:
    chance = RECORD["settings"]["uniform_loss"]
    for blocks in (6, 12, 24):
        for step in RECORD["settings"]["steps"]:
            assert max(row("post-norm", blocks, step)["stream"]) < 9
        pre = row("pre-norm", blocks, 0)
        assert pre["stream"][::3] == sorted(pre["stream"][::3])
        assert pre["change"][-1] < 0.5 * pre["change"][0]
        residual = row("residual", blocks, 0)["stream"]
        assert residual[-1] / residual[0] > 1.9**blocks
    for blocks in (12, 24):
        after = row("post-norm", blocks, 400)
        assert after["gradient"][0] < 0.001 * after["gradient"][-1]
        assert abs(after["loss"] - chance) < 0.2
        assert row("pre-norm", blocks, 400)["loss"] < 0.1
