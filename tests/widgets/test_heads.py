"""HeadsFigure in Python: its maps, the measures of its heads, its state and its errors."""

import json
import math

import pytest
import torch

from tests.widgets.test_packing import unpack
from tfmr.analysis import entropy
from tfmr.errors import TfmrError
from tfmr.widgets import HeadsFigure
from tfmr.widgets.heads import MEASURES, SENTENCES, measure, uniform
from tfmr.widgets.packing import UNIT
from tfmr.widgets.translator import KINDS


@pytest.fixture(scope="module")
def figure() -> HeadsFigure:
    return HeadsFigure()


def test_a_measure_is_a_mean_over_the_queries() -> None:
    weights = torch.tensor([[0.5, 0.25, 0.25], [1.0, 0.0, 0.0], [0.0, 0.5, 0.5]])
    expected = {
        "previous": (1 + 0.5) / 3,
        "own": (0.5 + 0 + 0.5) / 3,
        "next": (0.25 + 0) / 3,
        "first": (0.5 + 1) / 3,
        "last": (0.25 + 0.5) / 3,
        "distance": (0.25 + 2 * 0.25 + 1 + 0.5) / 3,
        "entropy": (1.5 * math.log(2) + 0 + math.log(2)) / 3,
    }
    assert expected.keys() == MEASURES.keys()
    for name, value in expected.items():
        assert measure(weights, "encoder", name).item() == pytest.approx(value)


def test_a_measure_of_the_tokens_of_one_sentence_is_not_one_of_two() -> None:
    weights = torch.full((2, 3), 1 / 3)
    assert measure(weights, "cross", "last").item() == pytest.approx(1 / 3)
    with pytest.raises(TfmrError, match=r"first, last, entropy.*'cross'"):
        measure(weights, "cross", "previous")


def test_uniform_weights_respect_the_causal_mask() -> None:
    weights = torch.zeros(2, 3, 3)
    assert uniform(weights, "encoder")[1, 0].tolist() == pytest.approx([1 / 3] * 3)
    assert uniform(weights, "self")[0, 1].tolist() == [0.5, 0.5, 0.0]


def test_the_stored_maps_are_those_of_the_model(figure: HeadsFigure) -> None:
    for stored in figure.stored:
        figure.text = stored["text"]
        maps = figure.maps()
        length = {"encoder": len(stored["source"]), "cross": len(stored["source"])}
        for kind in KINDS:
            shape = (3, 4, -1, length.get(kind, len(stored["target"])))
            packed = "".join("".join(block) for block in stored["maps"][kind])
            weights = unpack(packed, shape)
            torch.testing.assert_close(weights, maps[kind], atol=0.5001 / UNIT, rtol=0)
            assert maps[kind].sum(dim=-1).allclose(torch.ones(1, dtype=torch.float64))
    assert figure.stored[0]["translation"] == "A woman is reading a book at the park."
    assert len(json.dumps(figure.stored)) < 40_000


def test_one_encoder_head_attends_to_the_previous_token(figure: HeadsFigure) -> None:
    for sentence in SENTENCES:
        figure.text = sentence
        values = figure.values()
        assert divmod(int(values.argmax()), 4) == (1, 2)
        assert f"block 2, head 3 ({values.max():.2f}) for “{sentence}”" in repr(figure)
    figure.kind, figure.measure = "cross", "entropy"
    assert figure.values().equal(entropy(figure.maps()["cross"]).mean(dim=-1))
