"""Figures of recurrent networks contain every part and value that they are given."""

import pytest
import torch
from matplotlib.colors import to_hex
from matplotlib.text import Text

from tfmr.errors import TfmrError
from tfmr.figures import recurrence
from tfmr.figures.style import ORANGE, Figure


def texts(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.findobj(Text) if text.get_text()]


def test_unrolled_rnn() -> None:
    tokens = ["one", "two", "three"]
    fig = recurrence.unrolled_rnn(tokens)
    drawn = texts(fig)
    assert [token for token in tokens if token in drawn] == tokens
    assert sum(text.startswith("$\\mathbf{h}_") for text in drawn) >= len(tokens)
    assert "3 tokens, one two three" in fig.alt


def backward_arrows(figure: Figure) -> list[tuple[float, float]]:
    """The horizontal ends of the orange arrows from a state to the previous one."""
    arrows = [
        (text.xyann, text.xy)
        for text in figure.axes[0].texts
        if getattr(text, "arrowprops", None) and text.arrowprops["color"] == ORANGE
    ]
    return [(start[0], end[0]) for start, end in arrows if start[1] == end[1]]


def test_backpropagation_through_time() -> None:
    tokens = ["one", "two", "three", "four"]
    figure = recurrence.backpropagation_through_time(tokens)
    drawn = texts(figure)
    assert [token for token in tokens if token in drawn] == tokens
    for t in range(1, 5):
        assert rf"$\ell_{t}$" in drawn
        assert rf"$\odot\,(1-\mathbf{{h}}_{t}^2)$" in drawn
    assert (drawn.count("$W_h$"), drawn.count(r"$W_h^\top$")) == (4, 3)
    assert len(backward_arrows(figure)) == 3
    assert all(start > end for start, end in backward_arrows(figure))
    assert "Truncated" not in figure.alt


def test_truncation_stops_the_backward_path_only() -> None:
    tokens = ["one", "two", "three", "four", "five"]
    figure = recurrence.backpropagation_through_time(tokens, truncation=2)
    drawn = texts(figure)
    assert (drawn.count("$W_h$"), drawn.count(r"$W_h^\top$")) == (5, 2)
    assert [f"chunk {i}" in drawn for i in (1, 2, 3, 4)] == [True, True, True, False]
    crosses = [line for line in figure.axes[0].lines if line.get_marker() == "x"]
    places = {text.get_text(): text.get_position()[0] for text in figure.axes[0].texts}
    assert [to_hex(cross.get_color()) for cross in crosses] == [ORANGE, ORANGE]
    for cross, (before, after) in zip(crosses, (("two", "three"), ("four", "five")), strict=True):
        (x,) = cross.get_xdata()
        assert places[before] < x < places[after]
        assert not any(end < x < start for start, end in backward_arrows(figure))
    assert "no gradient passes from step 3 to step 2 or from step 5 to step 4" in figure.alt
    with pytest.raises(TfmrError, match=r"truncation.*1.*0"):
        recurrence.backpropagation_through_time(tokens, truncation=0)


def test_gated_cells() -> None:
    lstm, gru = texts(recurrence.lstm_cell()), texts(recurrence.gru_cell())
    assert (lstm.count("$σ$"), lstm.count("tanh")) == (3, 2)
    assert (gru.count("$σ$"), gru.count("tanh")) == (2, 1)
    assert recurrence.lstm_cell().alt
    assert recurrence.gru_cell().alt


def test_norms_by_distance() -> None:
    fig = recurrence.norms_by_distance({"decay": [1.0, 0.5, 0.25]})
    assert "at distance 2 it is 2.5e-01 (decay)" in fig.alt
    assert list(fig.axes[0].lines[1].get_ydata()) == [1.0, 0.5, 0.25]
    fig = recurrence.norms_by_distance({name: [1.0, 0.5] for name in "abcd"})
    assert len({line.get_linestyle() for line in fig.axes[0].lines[1:]}) == 4


def test_recall_by_distance() -> None:
    fig = recurrence.recall_by_distance({"RNN": {5: 1.0, 60: 0.25}}, 0.25, "alternative")
    assert fig.alt == "alternative"
    assert any(set(line.get_ydata()) == {0.25} for line in fig.axes[0].lines[1:])
    fig = recurrence.recall_by_distance(
        {"RNN": {5: [1.0, 0.75, 0.875], 60: [0.25, 0.5]}}, 0.25, "alternative"
    )
    median, points = (line.get_xydata().tolist() for line in fig.axes[0].lines[:2])
    assert median == [[5, 0.875], [60, 0.375]]
    assert points == [[5, 1.0], [5, 0.75], [5, 0.875], [60, 0.25], [60, 0.5]]


def test_lstm_walk_shows_what_each_gate_does() -> None:
    fig = recurrence.lstm_walk(2.0, f=0.5, i=0.25, g=-0.8, o=1.0)
    heights = [round(float(bar.get_height()), 3) for bar in fig.axes[0].patches]
    assert heights == [2.0, 1.0, -0.2, 0.8, 0.664]
    assert {"1.000", "−0.200", "0.800", "0.664"} <= set(texts(fig))
    assert "which keeps 1.000" in fig.alt


def test_gates_over_time_has_a_column_for_each_token_and_a_row_for_each_gate() -> None:
    gates = torch.tensor([[0.1, 0.9], [0.2, 0.8], [0.3, 0.7]])
    (axes,) = recurrence.gates_over_time(["A", "x", "y"], {"update gates": gates}).axes
    assert axes.images[0].get_array().tolist() == gates.double().T.tolist()
    assert [label.get_text() for label in axes.get_xticklabels()] == ["A", "x", "y"]
