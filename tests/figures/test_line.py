"""The figures of the measured line draw the mean of the seeds in a band that spans them."""

import pytest

from tfmr.errors import TfmrError
from tfmr.figures.line import by_length
from tfmr.figures.style import CYCLE, Figure

SYSTEMS = {"RNN": [[20.0, 10, 4], [22, 12, 6]], "Transformer": [[40.0, 38, 36], [41, 38, 37]]}


def band(figure: Figure, index: int) -> set[tuple[float, float]]:
    (path,) = figure.axes[0].collections[index].get_paths()
    return {(float(x), float(y)) for x, y in path.vertices}


def test_scores_stand_over_their_class_of_length() -> None:
    figure = by_length(["1–8", "9–16", "17–"], SYSTEMS)
    (axes,) = figure.axes
    assert [list(line.get_ydata()) for line in axes.lines] == [[21, 11, 5], [40.5, 38, 36.5]]
    assert band(figure, 0) == {(0, 20), (1, 10), (2, 4), (0, 22), (1, 12), (2, 6)}
    assert [label.get_text() for label in axes.get_xticklabels()] == ["1–8", "9–16", "17–"]
    assert "for the classes 1–8, 9–16, 17–: RNN 21.0, 11.0, 5.0; Transformer 40.5" in figure.alt
    assert len(figure._repr_png_()[0]) < 60_000


def test_more_systems_than_colours_are_all_drawn() -> None:
    systems = {str(index): [[1.0, index]] for index in range(len(CYCLE) + 2)}
    (axes,) = by_length(["short", "long"], systems).axes
    looks = {(line.get_color(), line.get_marker()) for line in axes.lines}
    assert len(looks) == len(systems)


def test_every_seed_needs_every_value() -> None:
    with pytest.raises(
        TfmrError, match=r"every seed of 'odd' needs .* 2 classes of length: got \[1, 2"
    ):
        by_length(["short", "long"], {"odd": [[1.0, 2.0], [3.0]]})
