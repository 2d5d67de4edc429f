"""The pictures of a translator's memory draw what they name, and say what they draw."""

from collections import Counter

import pytest
from matplotlib.text import Annotation, Text

from tfmr.figures.memory import right_by_length, two_memories
from tfmr.figures.style import Figure

SOURCE, TARGET, SHARES = ["the", "black", "cat"], ["le", "chat", "noir"], [0.1, 0.25, 0.65]


def texts(figure: Figure) -> Counter[str]:
    return Counter(text.get_text() for text in figure.findobj(Text) if text.get_text())


def looks(figure: Figure) -> list[Annotation]:
    """The bowed lines, in the order of drawing."""
    lines = [found for found in figure.findobj(Annotation) if found.arrowprops is not None]
    return [line for line in lines if "connectionstyle" in line.arrowprops]


def place(figure: Figure, word: str) -> float:
    return max(t.get_position()[0] for t in figure.findobj(Text) if t.get_text() == word)


def test_every_word_is_there_in_both_halves_and_one_vector_in_one() -> None:
    drawn = texts(two_memories(SOURCE, TARGET, 1, SHARES))
    assert all(drawn[word] == 2 for word in SOURCE + TARGET)
    assert drawn[r"$\mathbf{z}$"] == 1


def test_a_line_from_each_source_word_is_as_thick_as_its_share() -> None:
    made = two_memories(SOURCE, TARGET, 1, SHARES)
    widths = [line.arrow_patch.get_linewidth() for line in looks(made)]
    assert len(widths) == len(SOURCE)
    assert (widths[2] - widths[1]) / (widths[1] - widths[0]) == pytest.approx(0.4 / 0.15)
    assert "to “chat”, as thick as its share: the 0.10, black 0.25, cat 0.65" in made.alt
    assert len(made._repr_png_()[0]) < 60_000


@pytest.mark.parametrize("reader", [0, 2])
def test_the_lines_lead_from_the_words_read_to_the_one_that_reads(reader: int) -> None:
    made = two_memories(SOURCE, TARGET, reader, SHARES)
    assert {line.xy[0] for line in looks(made)} == {place(made, TARGET[reader])}
    assert [line.xyann[0] for line in looks(made)] == [place(made, word) for word in SOURCE]
    assert f"to “{TARGET[reader]}”" in made.alt


def test_the_share_of_each_length_is_drawn_and_the_callers_words_are_kept() -> None:
    made = right_by_length({"one": {2: 1.0, 4: 0.5}, "two": {2: 1.0}}, "digits", "by the caller")
    (axes,) = made.axes
    assert [list(line.get_ydata()) for line in axes.lines] == [[1.0, 0.5], [1.0]]
    assert [list(line.get_xdata()) for line in axes.lines] == [[2, 4], [2]]
    assert axes.get_xlabel() == "digits"
    assert made.alt == "by the caller"
