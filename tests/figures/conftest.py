"""What must hold for every figure that a test draws."""

from collections.abc import Iterator

import pytest
from matplotlib.text import Text

from tfmr.figures.style import Figure

SMALLEST = 11 * 72 / 96
"""11 CSS pixels, in points."""


@pytest.fixture(autouse=True)
def legible(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No text of a figure is smaller than 11 pixels."""
    drawn: list[Figure] = []
    draw = Figure.__init__

    def remember(figure: Figure, *arguments: object, **options: object) -> None:
        draw(figure, *arguments, **options)  # type: ignore[arg-type]
        drawn.append(figure)

    monkeypatch.setattr(Figure, "__init__", remember)
    yield
    texts = [text for figure in drawn for text in figure.findobj(Text) if text.get_visible()]
    small = {text.get_text() for text in texts if text.get_fontsize() < SMALLEST}
    assert small <= {""}, f"text of less than 11 pixels: {sorted(small)}"
