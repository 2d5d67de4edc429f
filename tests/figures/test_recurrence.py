"""Figures of recurrent networks contain every part and value that they are given."""

from matplotlib.text import Text

from tfmr.figures.recurrence import (
    gru_cell,
    lstm_cell,
    norms_by_distance,
    recall_by_distance,
    unrolled_rnn,
)
from tfmr.figures.style import Figure


def texts(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.findobj(Text) if text.get_text()]


def test_unrolled_rnn() -> None:
    words = ["one", "two", "three"]
    fig = unrolled_rnn(words)
    drawn = texts(fig)
    assert [word for word in words if word in drawn] == words
    assert sum(text.startswith("$\\mathbf{h}_") for text in drawn) >= len(words)
    assert "3 words" in fig.alt


def test_gated_cells() -> None:
    lstm, gru = texts(lstm_cell()), texts(gru_cell())
    assert (lstm.count("$σ$"), lstm.count("tanh")) == (3, 2)
    assert (gru.count("$σ$"), gru.count("tanh")) == (2, 1)
    assert lstm_cell().alt
    assert gru_cell().alt


def test_norms_by_distance() -> None:
    fig = norms_by_distance({"decay": [1.0, 0.5, 0.25]})
    assert "at distance 2 it is 2.5e-01 (decay)" in fig.alt
    assert list(fig.axes[0].lines[1].get_ydata()) == [1.0, 0.5, 0.25]


def test_recall_by_distance() -> None:
    fig = recall_by_distance({"RNN": {5: 1.0, 60: 0.25}}, 0.25, "alternative")
    assert fig.alt == "alternative"
    assert any(set(line.get_ydata()) == {0.25} for line in fig.axes[0].lines[1:])
