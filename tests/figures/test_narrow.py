"""The layout of figures for phones: which figures have one, and what it keeps."""

import struct
from base64 import b64decode
from bisect import bisect_left
from itertools import pairwise
from typing import Any

import pytest
from matplotlib.text import Text
from matplotlib.transforms import Bbox

from tfmr.figures.diagram import sheet
from tfmr.figures.narrow import NARROW, PANELS, _overlap, narrow
from tfmr.figures.style import Figure, figure, heatmap


def chart(columns: int = 1, rows: int = 1, **grid: Any) -> Figure:
    fig, axes = figure(rows, columns, **grid)
    for number, each in enumerate(axes, 1):
        each.plot([0, 1, 2], [0, 1, 4], label="a curve")
        each.set(title=f"panel {number}", xlabel="x")
    axes[0].set_ylabel("y")
    fig.alt = "Panels with one curve each."
    return fig


def on_phone(fig: Figure) -> Any:
    """The layout for phones, which the figure has."""
    phone = narrow(fig)
    assert phone is not None
    phone.draw_without_rendering()
    return phone


def texts(fig: Figure) -> list[str]:
    seen = (text for text in fig.findobj(Text) if isinstance(text, Text) and text.get_visible())
    return sorted({text.get_text() for text in seen if text.get_text().isalpha()})


def test_panels_stand_in_one_column() -> None:
    wide = chart(3)
    phone = on_phone(wide)
    assert tuple(phone.get_size_inches()) == (NARROW, 3 * wide.get_figheight())
    boxes = [axes.get_position() for axes in phone.axes]
    assert all(above.y0 > below.y1 for above, below in pairwise(boxes))
    assert max(box.x0 for box in boxes) - min(box.x0 for box in boxes) < 0.02
    assert texts(phone) == texts(wide)


def test_rows_keep_their_height() -> None:
    wide = chart(2, 2)
    assert on_phone(wide).get_figheight() == 2 * wide.get_figheight()


def test_the_figure_itself_does_not_change() -> None:
    wide = chart(2, sharey=True)
    before = wide._repr_png_()
    assert narrow(wide) is not None
    assert wide._repr_png_() == before
    assert wide.axes[1].get_ylabel() == ""


def test_text_keeps_its_size() -> None:
    wide = chart(2)
    phone = on_phone(wide)
    for one, two in zip(wide.axes, phone.axes, strict=True):
        assert one.title.get_fontsize() == two.title.get_fontsize()
        assert one.xaxis.label.get_fontsize() == two.xaxis.label.get_fontsize()


def test_every_panel_has_the_labels_of_a_shared_axis() -> None:
    for axes in on_phone(chart(3, sharey=True)).axes:
        assert axes.get_ylabel() == "y"
        assert axes.yaxis.get_tick_params()["labelleft"]


def test_every_heat_map_has_the_row_labels_of_the_first() -> None:
    fig, panels = figure(1, 2)
    for labels, axes in zip((["I", "am"], ["", ""]), panels, strict=True):
        heatmap(axes, [[0.5, 0.5], [1, 0]], row_labels=labels, column_labels=["I", "am"])
    for axes in on_phone(fig).axes:
        assert [label.get_text() for label in axes.get_yticklabels()] == ["I", "am"]


def test_panels_with_their_own_labels_keep_them() -> None:
    wide = chart(3, sharey=True)
    for number, axes in enumerate(wide.axes):
        axes.set_ylabel(f"i = {number}")
    assert [axes.get_ylabel() for axes in on_phone(wide).axes] == ["i = 0", "i = 1", "i = 2"]


def test_a_legend_beside_the_panel_moves_below_it() -> None:
    wide = chart()
    wide.legend(loc="outside right center")
    phone = on_phone(wide)
    [legend] = phone.legends
    assert [text.get_text() for text in legend.get_texts()] == ["a curve"]
    assert legend.get_window_extent().y1 < phone.axes[0].bbox.y0
    assert phone.axes[0].get_position().width > 0.75
    assert phone.get_figheight() > wide.get_figheight()
    assert len(wide.legends) == 1


def test_a_long_legend_has_fewer_columns() -> None:
    fig, (axes,) = figure()
    for i in range(3):
        axes.plot([0, i], label=f"a rather long name of curve {i}")
    fig.legend(loc="outside lower center", ncols=3)
    phone = on_phone(fig)
    assert phone.legends[0].get_window_extent().width <= phone.bbox.width


@pytest.mark.parametrize(("letters", "rows"), [(4, 1), (6, 2), (12, 3)])
def test_a_legend_has_as_few_rows_as_fit(letters: int, rows: int) -> None:
    fig, (axes,) = figure()
    for i in range(3):
        axes.plot([0, i], label=f"{'n' * letters} {i}")
    fig.legend(loc="outside lower center", ncols=3)
    phone = on_phone(fig)
    lines = {round(text.get_window_extent().y0) for text in phone.legends[0].get_texts()}
    assert len(lines) == rows


def test_a_colour_bar_stays_beside_its_panel() -> None:
    fig, (axes,) = figure()
    image = axes.imshow([[0, 1], [1, 0]], aspect="auto")
    fig.colorbar(image, ax=axes)
    assert len(on_phone(fig).axes) == 2


def overlapping() -> Figure:
    fig, (axes,) = figure()
    axes.set_xticks(range(6), ["a long word"] * 6)
    return fig


def cut() -> Figure:
    return titled("A title that is much longer than the column of a phone is wide")


def titled(title: str) -> Figure:
    fig, (axes,) = figure()
    axes.set_title(title)
    return fig


def squeezed() -> Figure:
    fig, (axes,) = figure()
    axes.set_yticks([0, 1], ["a label that takes most of a phone's width", "b"])
    return fig


def broken() -> Figure:
    return chart(2, sharey=True, width_ratios=[3, 1])


def barred() -> Figure:
    fig, panels = figure(1, 2)
    image = [axes.imshow([[0, 1], [1, 0]], aspect="auto") for axes in panels][-1]
    fig.colorbar(image, ax=panels)
    return fig


@pytest.mark.parametrize(
    "fig",
    [overlapping(), cut(), squeezed(), broken(), barred(), chart(PANELS + 1), sheet(6.0, 3.0)[0]],
    ids=["overlapping", "cut", "squeezed", "broken", "barred", "many", "diagram"],
)
def test_no_layout_that_is_not_legible(fig: Figure) -> None:
    assert narrow(fig) is None
    fig.alt = "A figure."
    assert "narrow" not in fig._repr_png_()[1]


def written(*texts: tuple[float, float, str], **looks: Any) -> Figure:
    """A panel without labels, with texts at places from 0 to 1."""
    fig, (axes,) = figure()
    axes.set(xticks=[], yticks=[])
    for x, y, text in texts:
        fig.text(x, y, text, **looks)
    return fig


def test_a_layout_fits_the_column_and_the_screen_of_a_phone() -> None:
    assert 300 <= 96 * NARROW <= 328
    assert narrow(chart(4)) is not None
    assert narrow(chart(5)) is None


def test_labels_leave_two_fifths_of_the_width_to_a_panel() -> None:
    def layout(letters: int) -> Any:
        fig, (axes,) = figure()
        axes.set_yticks([0, 1], ["n" * letters, "b"])
        return narrow(fig)

    longest = bisect_left(range(16, 30), True, key=lambda letters: layout(letters) is None) + 15
    assert 0.4 <= layout(longest).axes[0].get_position().width < 0.43


@pytest.mark.parametrize("title", [None, "a title"])
def test_a_panel_keeps_its_height_above_a_legend(title: str | None) -> None:
    wide = chart()
    alone = on_phone(wide)
    wide.legend(loc="outside right center", title=title)
    phone = on_phone(wide)
    heights = [fig.axes[0].get_position().height * fig.get_figheight() for fig in (alone, phone)]
    assert heights[1] == pytest.approx(heights[0], abs=0.18)
    assert phone.legends[0].get_title().get_text() == (title or "")


@pytest.mark.parametrize(("x", "y"), [(0, 0.5), (1, 0.5), (0.5, 0), (0.5, 1)])
def test_no_layout_where_an_edge_cuts_a_text(x: float, y: float) -> None:
    assert narrow(written((0.5, 0.5, "word"), ha="center", va="center")) is not None
    assert narrow(written((x, y, "word"), ha="center", va="center")) is None


def test_only_new_overlaps_of_texts_that_are_read_count() -> None:
    near = [(0.3, 0.5, "a long word"), (0.5, 0.5, "a long word")]
    same = [(0.2, 0.2, "a word"), (0.2, 0.2, "a word")]
    assert narrow(written(*near)) is None
    assert narrow(written(*same)) is not None
    assert narrow(written(*near, *same)) is None
    assert narrow(written(*near, visible=False)) is not None
    assert narrow(written(*near, rotation=30)) is not None
    side = [(0.5, 0.2, "a word\nof\nlines"), (0.6, 0.2, "a word\nof\nlines")]
    assert narrow(written(*side, rotation=90)) is None
    fig, (axes,) = figure()
    axes.set_xticks(range(6), ["word", *["a long word"] * 4, "word"])
    axes.set_xlim(-0.5, 0.5)
    assert narrow(fig) is not None


def test_texts_that_only_touch_do_not_overlap() -> None:
    box = Bbox.from_extents(0, 0, 10, 10)
    for x, y, overlap in [(9.5, 0, False), (8, 0, True), (0, 9.5, False), (9.5, 8, False)]:
        assert _overlap(box, Bbox.from_extents(x, y, x + 10, y + 10)) == overlap


def test_the_png_has_the_layout_in_its_metadata() -> None:
    metadata = chart(2)._repr_png_()[1]
    png = b64decode(str(metadata["narrow"]))
    width, height = struct.unpack(">II", png[16:24])
    assert width / height == pytest.approx(NARROW / (2 * 2.6), rel=0.01)
    assert metadata == chart(2)._repr_png_()[1]
