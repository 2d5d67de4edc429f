"""AlignmentFigure in Python: the numbers of its record, its state and what it states."""

import json
from typing import Any

import pytest
import torch
from traitlets import TraitError

from tests.widgets.test_packing import unpack
from tfmr.errors import TfmrError
from tfmr.records import record_path
from tfmr.widgets import AlignmentFigure

PATH = record_path("alignment.json")
RECORD: dict[str, Any] = json.loads(PATH.read_text("utf-8"))
ROWS: list[dict[str, Any]] = [row for row in RECORD["rows"] if "source" in row]
SEEDS = sorted({row["seed"] for row in ROWS})
SENTENCES = [row["source"] for row in ROWS if row["seed"] == 0]


def row_of(seed: int, sentence: int) -> dict[str, Any]:
    [row] = [r for r in ROWS if (r["seed"], r["source"]) == (seed, SENTENCES[sentence])]
    return row


def test_values_are_those_of_the_record() -> None:
    figure = AlignmentFigure(RECORD)
    for seed in SEEDS:
        for sentence in range(len(SENTENCES)):
            figure.set_state({"seed": seed, "sentence": sentence, "word": 2})
            row = row_of(seed, sentence)
            assert figure.values() == {
                "source": row["source"].split(),
                "target": row["target"].split()[2],
                **{name: row[name][2] for name in ("probability", "weights", "without")},
            }


def test_a_word_after_the_last_is_the_end_of_the_sentence() -> None:
    figure = AlignmentFigure(RECORD, sentence=4, word=10)
    assert figure.values()["target"] == "end"
    figure.sentence = 3
    assert figure.values()["target"] == "end"
    assert figure.values()["probability"] == row_of(0, 3)["probability"][-1]


def test_the_state_has_every_number_of_the_sentences() -> None:
    figure = AlignmentFigure(RECORD)
    assert len(figure.rows) == len(ROWS) == len(SEEDS) * len(SENTENCES)
    for stored, row in zip(figure.rows, ROWS, strict=True):
        for name in ("weights", "without"):
            expected = torch.tensor(row[name], dtype=torch.float64)
            torch.testing.assert_close(unpack(stored[name], expected.shape), expected)
        for name in ("seed", "source", "target", "probability"):
            assert stored[name] == row[name]
    assert len(json.dumps(figure.rows, indent=1)) < 40_000


def test_weights_are_weights_and_the_numbers_probabilities() -> None:
    for row in ROWS:
        weights = torch.tensor(row["weights"])
        torch.testing.assert_close(weights.sum(dim=1), torch.ones(len(weights)), atol=6e-3, rtol=0)
        for numbers in (row["probability"], *row["without"]):
            assert 0 <= min(numbers) <= max(numbers) <= 1


def test_the_summary_states_the_largest_weight_and_its_effect() -> None:
    assert repr(AlignmentFigure(RECORD, seed=1, word=3)) == (
        "Live figure: what 5 recurrent translators attend to at each word of 6 sentences. With "
        "seed 1, the largest weight of “ne” is on “choose” (0.526); if “choose” is masked, the "
        "probability of “ne” is 0.975 instead of 0.949."
    )


@pytest.mark.parametrize(
    ("name", "value"), [("seed", 9), ("sentence", -1), ("word", 11), ("quantity", "scores")]
)
def test_an_invalid_value_of_a_trait_raises(name: str, value: object) -> None:
    figure = AlignmentFigure(RECORD)
    before = getattr(figure, name)
    with pytest.raises((TfmrError, TraitError)):
        setattr(figure, name, value)
    assert getattr(figure, name) == before
