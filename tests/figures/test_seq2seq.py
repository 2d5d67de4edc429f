"""Figures of recurrent encoder-decoders show the values that they are given."""

from collections import Counter

import pytest
from matplotlib.text import Annotation, Text

from tfmr.errors import TfmrError
from tfmr.figures.seq2seq import (
    accuracy_by_length,
    attention_step,
    fixed_context_vs_attention,
    score_by_length,
)
from tfmr.figures.style import CYCLE, Figure

SOURCE, TARGET, WEIGHTS = ["the", "black", "cat"], ["le", "chat", "noir"], [0.1, 0.25, 0.65]
SYSTEMS = {"RNN": [[20.0, 10, 4], [22, 12, 6]], "Transformer": [[40.0, 38, 36], [41, 38, 37]]}


def arcs(figure: Figure) -> list[Annotation]:
    """The arcs between source and target words, in the order of drawing."""
    found = [arc for arc in figure.findobj(Annotation) if arc.arrowprops is not None]
    return [arc for arc in found if "connectionstyle" in arc.arrowprops]


def x_of(figure: Figure, word: str) -> float:
    return max(t.get_position()[0] for t in figure.findobj(Text) if t.get_text() == word)


@pytest.mark.parametrize("query", [0, 2])
def test_fixed_context_vs_attention(query: int) -> None:
    fig = fixed_context_vs_attention(SOURCE, TARGET, query, WEIGHTS)
    texts = Counter(text.get_text() for text in fig.findobj(Text))
    assert all(texts[word] == 2 for word in SOURCE + TARGET)
    assert texts[r"$\mathbf{z}$"] == 1
    assert {arc.xy[0] for arc in arcs(fig)} == {x_of(fig, TARGET[query])}
    assert [arc.xyann[0] for arc in arcs(fig)] == [x_of(fig, word) for word in SOURCE]
    widths = [arc.arrow_patch.get_linewidth() for arc in arcs(fig)]
    assert (widths[2] - widths[1]) / (widths[1] - widths[0]) == pytest.approx(0.4 / 0.15)
    assert f"to “{TARGET[query]}”" in fig.alt
    assert "weight: the 0.10, black 0.25, cat 0.65" in fig.alt


def test_accuracy_by_length_shows_the_mean_and_the_range_of_the_seeds() -> None:
    systems = {"one": [[1.0, 0.5], [0.5, 0.25]], "two": [[1.0, 1.0]]}
    fig = accuracy_by_length([2, 4], systems, "number of digits")
    (axes,) = fig.axes
    assert [list(line.get_ydata()) for line in axes.lines] == [[0.75, 0.375], [1, 1]]
    assert [list(line.get_xdata()) for line in axes.lines] == [[2, 4], [2, 4]]
    (band,) = axes.collections[0].get_paths()
    corners = {(float(x), float(y)) for x, y in band.vertices}
    assert corners == {(2, 0.5), (4, 0.25), (2, 1), (4, 0.5)}
    assert axes.get_xlabel() == "number of digits"
    assert "number of digits, mean over the seeds, for 2, 4: one 0.75, 0.38; two" in fig.alt


def test_score_by_length_shows_the_mean_and_the_range_of_the_seeds() -> None:
    fig = score_by_length(["1–8", "9–16", "17+"], SYSTEMS)
    (axes,) = fig.axes
    assert [list(line.get_ydata()) for line in axes.lines] == [[21, 11, 5], [40.5, 38, 36.5]]
    (band,) = axes.collections[0].get_paths()
    corners = {(float(x), float(y)) for x, y in band.vertices}
    assert corners == {(0, 20), (1, 10), (2, 4), (0, 22), (1, 12), (2, 6)}
    assert [label.get_text() for label in axes.get_xticklabels()] == ["1–8", "9–16", "17+"]
    assert "of 1–8, 9–16 and 17+ words: RNN 21.0, 11.0, 5.0; Transformer 40.5" in fig.alt


def test_score_by_length_distinguishes_more_systems_than_colours() -> None:
    systems = {str(index): [[1.0, index]] for index in range(len(CYCLE) + 2)}
    (axes,) = score_by_length(["short", "long"], systems).axes
    assert len({(line.get_color(), line.get_marker()) for line in axes.lines}) == len(systems)
    with pytest.raises(TfmrError, match=r"seed.*'A'.*2.*lengths.*got \[1, 2"):
        score_by_length(["short", "long"], {"A": [[1.0, 2.0], [3.0]]})


def test_attention_step_names_each_state_and_weight() -> None:
    fig = attention_step(2)
    drawn = {text.get_text() for text in fig.findobj(Text)}
    names = {
        r"\mathbf{h}_1",
        r"\mathbf{h}_2",
        r"\mathbf{c}_i",
        r"\mathbf{s}_{i-1}",
        r"\mathbf{s}_i",
    }
    assert {f"${name}$" for name in names} | {r"$\alpha_{i1}$", r"$\alpha_{i2}$"} <= drawn
    assert r"$\mathbf{h}_3$" not in drawn
    assert "each of the 2 encoder states" in fig.alt
