"""The diagrams of recurrence draw what they name, and the curves say where they end."""

from matplotlib.text import Text

from tfmr.figures.recurrence import (
    gru_cell,
    lstm_cell,
    memory_by_distance,
    norms_by_distance,
    unrolled_rnn,
)
from tfmr.figures.style import Figure


def texts(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.findobj(Text) if text.get_text()]


def test_an_unrolled_network_has_a_cell_for_every_word() -> None:
    words = ["one", "two", "three"]
    made = unrolled_rnn(words)
    drawn = texts(made)
    assert [word for word in words if word in drawn] == words
    assert sum(text.startswith("$\\mathbf{h}_") for text in drawn) >= len(words)
    assert "3 words" in made.alt


def test_the_cells_have_their_gates() -> None:
    lstm, gru = texts(lstm_cell()), texts(gru_cell())
    assert (lstm.count("$σ$"), lstm.count("tanh")) == (3, 2)
    assert (gru.count("$σ$"), gru.count("tanh")) == (2, 1)
    assert lstm_cell().alt
    assert gru_cell().alt


def test_a_curve_says_where_it_ends() -> None:
    made = norms_by_distance({"fading": [1.0, 0.5, 0.25]})
    assert "after 2 steps it is 2.5e-01 (fading)" in made.alt
    assert list(made.axes[0].lines[1].get_ydata()) == [1.0, 0.5, 0.25]


def test_memory_keeps_the_callers_words_and_draws_chance() -> None:
    made = memory_by_distance({"RNN": {5: 1.0, 60: 0.25}}, 0.25, "said by the caller")
    assert made.alt == "said by the caller"
    assert any(set(line.get_ydata()) == {0.25} for line in made.axes[0].lines[1:])
