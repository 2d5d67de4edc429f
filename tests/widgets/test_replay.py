"""ReplayFigure in Python: the numbers of its record, its traits and its errors."""

import json
import math
from typing import Any

import pytest
import torch

from tfmr.analysis import entropy
from tfmr.records import record_path
from tfmr.widgets import ReplayFigure

PATH = record_path("replay.json")
RECORD: dict[str, Any] = json.loads(PATH.read_text("utf-8"))
ROWS: list[dict[str, Any]] = RECORD["rows"]
REFERENCE = RECORD["settings"]["reference"]


def test_values_are_those_of_the_record() -> None:
    figure = ReplayFigure(RECORD)
    assert figure.values() == ROWS[0]
    figure.step = 100
    assert figure.values()["step"] == 100
    assert figure.target == [*REFERENCE.split(), "<eos>"]
    for row in ROWS:
        weights = torch.tensor(row["weights"])
        assert weights.shape == (len(figure.target), len(figure.source))
        assert row["entropy"] == pytest.approx(float(entropy(weights).mean()), abs=0.01)


def test_the_figure_starts_at_the_given_step_and_the_first_target_token() -> None:
    figure = ReplayFigure(RECORD, step=100)
    assert (figure.step, figure.word) == (100, 0)
    assert figure.values() == next(row for row in ROWS if row["step"] == 100)


def test_the_record_is_small() -> None:
    assert PATH.stat().st_size < 40_000
    assert len(json.dumps(ReplayFigure(RECORD).rows, indent=1)) < 60_000


def test_the_summary_has_the_ends_of_the_training() -> None:
    first, last = ROWS[0]["valid_loss"], ROWS[-1]["valid_loss"]
    assert f"from {first:.2f} to {last:.2f} nats per token" in repr(ReplayFigure(RECORD))
    assert f"“{REFERENCE}”" in repr(ReplayFigure(RECORD))


def test_what_the_figure_says_that_it_shows() -> None:
    source = RECORD["settings"]["source"].split()
    assert ROWS[0]["entropy"] > 0.95 * math.log(len(source))
    assert ROWS[-1]["entropy"] < 0.5 * ROWS[0]["entropy"]
    assert len(set(ROWS[0]["output"].split())) <= 2
    aligned = {"reine": "queen", "heureuse": "happy", "chapeaux": "hats", "gris": "grey"}
    first = {}
    for row in ROWS:
        for word in row["output"].split():
            first.setdefault(word, row["step"])
    for word in ("les", "ne", "pas"):
        assert all(first[word] < first[other] for other in aligned)
    for word, translation in aligned.items():
        weights = ROWS[-1]["weights"][REFERENCE.split().index(word)]
        assert source[weights.index(max(weights))] == translation
