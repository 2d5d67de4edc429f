"""Figures of the primer show the numbers and shapes that they are given."""

import pytest
import torch
from matplotlib.patches import Rectangle
from matplotlib.text import Text

from tfmr.errors import TfmrError
from tfmr.figures.primer import (
    angles,
    computation_graph,
    descent_paths,
    embedding_lookup,
    matrix_product,
    surprisal_curve,
)
from tfmr.figures.style import BLUE, GREEN, ORANGE, Figure

X = torch.tensor([[1.0, 2.0, 0.0], [0.0, 1.0, 3.0]])
W = torch.tensor([[2.0, 0.0], [1.0, 1.0], [0.0, -1.0]])


def texts(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.findobj(Text) if text.get_text()]


def tinted(figure: Figure, colour: str) -> list[tuple[float, float]]:
    """The lower left corners of the squares with this colour."""
    return [
        (round(float(patch.get_x()), 6), float(patch.get_y()))
        for patch in figure.axes[0].patches
        if isinstance(patch, Rectangle) and patch.get_fill() and same(patch, colour)
    ]


def same(patch: Rectangle, colour: str) -> bool:
    red, green, blue = (round(255 * part) for part in patch.get_facecolor()[:3])
    return f"#{red:02x}{green:02x}{blue:02x}" == colour


def test_matrix_product_shows_every_number_and_shape() -> None:
    fig = matrix_product(X, W)
    drawn = texts(fig)
    numbers = [text for text in drawn if text.lstrip("−").isdigit()]
    assert " ".join(numbers) == "1 2 0 0 1 3 2 0 1 1 0 −1 4 2 1 −2"
    assert {"(n, d) = (2, 3)", "(d, m) = (3, 2)", "(n, m) = (2, 2)"} <= set(drawn)
    assert "1 · 2 + 2 · 1 + 0 · 0 = 4" in drawn
    assert "A (2, 3) matrix times a (3, 2) matrix is a (2, 2) matrix" in fig.alt
    assert "1 · 2 + 2 · 1 + 0 · 0 = 4" in fig.alt


def test_matrix_product_highlights_one_row_one_column_and_their_number() -> None:
    fig = matrix_product(X, W, row=1, column=1)
    assert "0 · 0 + 1 · 1 + 3 · (−1) = −2" in texts(fig)
    assert "Row 2 of the first and column 2 of the second" in fig.alt
    row, column, number = (tinted(fig, colour) for colour in (BLUE, ORANGE, GREEN))
    assert (len(row), len(column), len(number)) == (3, 3, 1)
    assert len({y for _, y in row}) == 1, "one row of X"
    assert len({x for x, _ in column}) == 1, "one column of W"
    top = tinted(matrix_product(X, W, row=0, column=1), BLUE)
    assert {y for _, y in top} == {y + 1 for _, y in row}, "the first row is one square higher"


@pytest.mark.parametrize(("row", "column"), [(2, 0), (0, 2), (-1, 0)])
def test_matrix_product_needs_a_number_of_the_result(row: int, column: int) -> None:
    with pytest.raises(TfmrError, match=r"row.*2.*column.*2"):
        matrix_product(X, W, row, column)


def test_descent_paths() -> None:
    def loss(w: float) -> float:
        return w * w

    fig = descent_paths(loss, {0.5: [4.0, 0.0], 1.25: [4.0, -6.0, 9.0]})
    assert [axes.get_title() for axes in fig.axes] == ["η = 0.5", "η = 1.25"]
    for axes, path in zip(fig.axes, ([4.0, 0.0], [4.0, -6.0, 9.0]), strict=True):
        curve, steps, start = axes.lines
        assert list(steps.get_xdata()) == path
        assert list(steps.get_ydata()) == [w * w for w in path]
        assert list(start.get_xdata()) == [4.0]
        assert min(curve.get_xdata()) < -6 < 9 < max(curve.get_xdata())
    assert "with 0.5, after 1 steps from w = 4, w is 0.00 and the loss 0.00" in fig.alt
    assert "with 1.25, after 2 steps from w = 4, w is 9.00 and the loss 81.00" in fig.alt
    fig = descent_paths(abs, {2.0: [-1.0, -0.25]})
    assert "from w = −1, w is −0.25 and the loss 0.25" in fig.alt


def test_angles_have_their_cosines() -> None:
    fig = angles({("u", "v"): ((3.0, 4.0), (4.0, 3.0)), ("a", "b"): ((1.0, 0.0), (-1.0, 1.0))})
    assert [axes.get_title() for axes in fig.axes] == ["16°, cosine 0.96", "135°, cosine −0.71"]
    assert "u and v, 16 degrees, cosine 0.96; a and b, 135 degrees" in fig.alt


def test_embedding_lookup_selects_the_row_of_each_id() -> None:
    E = torch.tensor([[7.0, 8], [1, 2], [3, 4]])
    fig = embedding_lookup(["the", "cat", "the"], [2, 0, 2], E)
    numbers = [text for text in texts(fig) if text.isdigit()]
    assert " ".join(numbers) == "7 8 1 2 3 4 3 4 7 8 3 4 0 1 2"
    assert {"the 2", "cat 0"} <= set(texts(fig))
    assert "cat has the id 0 and the row (7, 8); the has the id 2 and the row (3, 4)" in fig.alt
    assert (len(tinted(fig, BLUE)), len(tinted(fig, ORANGE))) == (2 + 4, 2 + 2)


def test_surprisal_curve_marks_each_probability() -> None:
    fig = surprisal_curve([0.5, 1])
    assert {"0.5: 0.69", "1: 0.00"} <= set(texts(fig))
    assert "0.69 at p = 0.5, 0.00 at p = 1" in fig.alt


def test_computation_graph_shows_values_and_derivatives() -> None:
    fig = computation_graph(w=3, x=2)
    assert " ".join(texts(fig)) == (
        "$w = 3$ 12 · 2 = 24 $x = 2$ 12 · 3 = 36 $u = 6$ 12 $L = 36$ × square"
    )
    assert "12 for u, 12 · 2 = 24 for w and 12 · 3 = 36 for x" in fig.alt
    assert "−8 · (−2) = 16" in texts(computation_graph(w=2, x=-2))
