"""GatesFigure in Python: its numbers are those of tfmr's cells, its traits and its errors."""

from typing import Any

import pytest
import torch
from torch import nn

from tfmr.recurrent import GRU, LSTM, GRUCell, LSTMCell
from tfmr.widgets import GatesFigure

TOKENS = ["A", "B", "C", "x", "y"]
SEQUENCE = ["A", "x", "y", "B", "x", "C", "y", "x"]


def network(kind: Any, *, d_in: int = 5, units: int = 3, **options: Any) -> Any:
    """A cell with random weights and biases, large enough for gates near 0 and 1."""
    torch.manual_seed(6)
    cell, classifier = kind(d_in, units, **options), nn.Linear(units, 3)
    with torch.no_grad():
        for parameter in (*cell.parameters(), *classifier.parameters()):
            parameter.normal_(std=1.5)
    return cell, classifier


def gates_figure(**changes: Any) -> GatesFigure:
    arguments: dict[str, Any] = {
        "lstm": network(LSTMCell),
        "gru": network(GRUCell),
        "vocabulary": TOKENS,
        "sequence": SEQUENCE,
    }
    return GatesFigure(**arguments | changes)


@pytest.mark.parametrize(("name", "kind"), [("LSTM", LSTM), ("GRU", GRU)])
def test_states_and_predictions_are_those_of_the_stack(name: str, kind: Any) -> None:
    cell, classifier = network(kind(5, 3).cells[0].__class__)
    stack = kind(5, 3)
    stack.cells[0] = cell
    ids = torch.tensor([TOKENS.index(token) for token in SEQUENCE])
    with torch.no_grad():
        outputs, final = stack(nn.functional.one_hot(ids, 5).float()[None])
        probabilities = classifier(outputs)[0].softmax(-1)
    trace = gates_figure(cell=name).trace()
    tolerance = {"atol": 2e-3, "rtol": 0}
    torch.testing.assert_close(torch.tensor(trace["h"]), outputs[0], **tolerance)
    torch.testing.assert_close(torch.tensor(trace["p"]), probabilities, **tolerance)
    if name == "LSTM":
        torch.testing.assert_close(torch.tensor(trace["c"][-1]), final[0][1][0], **tolerance)


def test_the_gates_give_the_states() -> None:
    figure = gates_figure()
    lstm = {name: torch.tensor(values) for name, values in figure.trace().items()}
    old = torch.cat((torch.zeros(1, 3), lstm["c"][:-1]))
    torch.testing.assert_close(lstm["f"] * old + lstm["i"] * lstm["g"], lstm["c"])
    torch.testing.assert_close(lstm["o"] * lstm["c"].tanh(), lstm["h"])
    figure.cell = "GRU"
    gru = {name: torch.tensor(values) for name, values in figure.trace().items()}
    old = torch.cat((torch.zeros(1, 3), gru["h"][:-1]))
    torch.testing.assert_close((1 - gru["z"]) * gru["n"] + gru["z"] * old, gru["h"])
    assert gru.keys() == {"r", "z", "n", "h", "p"}


def test_the_reset_gate_is_in_the_candidate() -> None:
    figure = gates_figure(cell="GRU", sequence=["A", "B"])
    cell, _ = figure._networks["GRU"]
    trace = figure.trace()
    assert isinstance(cell, GRUCell)
    assert cell.candidate_bias is not None
    with torch.no_grad():
        h = torch.tensor(trace["h"][:1], dtype=torch.double)
        recurrent = cell.w_h(h)[:, 6:] + cell.candidate_bias
        x = torch.eye(5, dtype=torch.double)[1:2]
        n = torch.tanh(cell.project(x)[:, 6:] + torch.tensor(trace["r"][1]) * recurrent)
    torch.testing.assert_close(torch.tensor(trace["n"][1:], dtype=torch.double), n)


def test_the_largest_networks_and_sequences_are_accepted() -> None:
    tokens = list("ABCDEFGH")
    largest = {
        "lstm": (network(LSTMCell, d_in=8, units=4)[0], nn.Linear(4, 8)),
        "gru": (network(GRUCell, d_in=8, units=4)[0], nn.Linear(4, 8)),
        "vocabulary": tokens,
        "sequence": [*tokens, *tokens[:4]],
        "step": 12,
        "unit": 4,
    }
    trace = gates_figure(**largest).trace()
    assert (len(trace["h"]), len(trace["h"][0]), len(trace["p"][0])) == (12, 4, 8)


def test_the_networks_of_the_caller_stay_the_same() -> None:
    lstm = network(LSTMCell)
    before = lstm[0].w_x.weight.clone()
    figure = gates_figure(lstm=lstm)
    assert torch.equal(lstm[0].w_x.weight, before)
    assert figure.weights["LSTM"]["w_x"][1][2] == pytest.approx(before[2, 1].item(), abs=6e-5)


def test_the_summary_states_the_prediction_at_the_end() -> None:
    figure = gates_figure(sequence=["A", "C"])
    last = figure.trace()["p"][-1]
    prediction = TOKENS[last.index(max(last))]
    assert "“A C”" in figure.summary()
    assert f"LSTM predicts “{prediction}”" in figure.summary()
