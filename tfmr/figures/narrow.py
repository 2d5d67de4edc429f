"""The layout of a figure for a phone: its panels in one column, its text of the same size.

A phone displays a column of about 330 pixels. A figure of the width of a text column would scroll
sideways there, or its text would be too small to read. :func:`narrow` changes the size and the grid
of a figure, not what it shows. It finds no layout for a diagram, for more than four panels and
where texts would overlap. The function that draws such a figure draws its narrow layout, too
(:func:`tfmr.figures.style.also_narrow`); without one, the figure scrolls on a phone.
"""

from collections.abc import Iterator, Sequence
from copy import deepcopy
from itertools import combinations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.gridspec import GridSpec
from matplotlib.legend import Legend
from matplotlib.text import Text
from matplotlib.transforms import Bbox

NARROW = 3.4
"""Width in inches: 326 pixels, the column of a page on a phone 360 pixels wide."""
PANELS = 4
"""A figure of more panels would be taller than the screens of most phones."""
PLOT = 0.4
"""The smallest width of a panel, without its labels, as a fraction of the figure."""
LINE = 0.2
"""Height of a row of a legend, in inches."""
TOUCH = 1.0
"""Texts that overlap by at most so many pixels only touch."""


def narrow(fig: Figure) -> Figure | None:
    """A copy of ``fig`` for a phone, or ``None`` if it would not be legible."""
    if not 1 <= len(_panels(fig)) <= PANELS:
        return None
    copy = deepcopy(fig)
    panels = _panels(copy)
    rows = _rows(panels)
    copy.set_size_inches(NARROW, copy.get_figheight() * len(panels) / len(rows))
    if len(rows) < len(panels):
        for row in rows:
            _repeat_labels(row)
        grid = GridSpec(len(panels), 1, figure=copy)
        for i, axes in enumerate(panels):
            axes.set_subplotspec(grid[i])
    for legend in list(copy.legends):
        _move_below(copy, legend)
    return None if _overlaps(copy) > _overlaps(fig) or _cut(copy, panels) else copy


def _panels(fig: Figure) -> list[Axes]:
    """The axes that can be put in one column; none for a single diagram or a broken axis."""
    panels = [axes for axes in fig.axes if axes.get_subplotspec() is not None]
    grids = {spec.get_gridspec() for axes in panels if (spec := axes.get_subplotspec())}
    stacked = len(_rows(panels)) == len(panels)
    bars = len(panels) < len(fig.axes)  # a colour bar is not in the grid
    if fig.subfigs or len(grids) > 1 or (bars and len(panels) > 1):
        return []
    if stacked and not all(axes.axison for axes in panels):
        return []
    return [] if any(map(_is_broken, _rows(panels))) else panels


def _is_broken(row: Sequence[Axes]) -> bool:
    """Whether panels are the parts of one broken axis: one vertical axis, different widths."""
    spec = row[0].get_subplotspec()
    widths = np.unique(spec.get_gridspec().get_width_ratios() if spec else 1)
    shared = row[0].get_shared_y_axes()
    return widths.size > 1 and all(shared.joined(row[0], axes) for axes in row[1:])


def _rows(panels: Sequence[Axes]) -> list[list[Axes]]:
    """The panels of a figure, row by row."""
    rows: dict[int, list[Axes]] = {}
    for axes in panels:
        spec = axes.get_subplotspec()
        rows.setdefault(spec.rowspan.start if spec else 0, []).append(axes)
    return list(rows.values())


def _repeat_labels(row: Sequence[Axes]) -> None:
    """Label the vertical axis of every panel of a row that relies on the labels of the first."""
    first = row[0]
    names = [label.get_text() for label in first.get_yticklabels()]
    for axes in row[1:]:
        shared = first.get_shared_y_axes().joined(first, axes)
        if shared:
            axes.tick_params(axis="y", labelleft=True)
        elif axes.get_ylim() == first.get_ylim() and not any(
            label.get_text() for label in axes.get_yticklabels()
        ):
            axes.set_yticks(first.get_yticks(), names)
        else:
            continue
        axes.set_ylabel(axes.get_ylabel() or first.get_ylabel())


def _move_below(fig: Figure, legend: Legend) -> None:
    """Put the legend of a figure below the panels, in as many columns as fit."""
    names = [text.get_text() for text in legend.get_texts()]
    handles = [handle for handle in legend.legend_handles if handle is not None]
    title = legend.get_title().get_text()
    size = legend.get_texts()[0].get_fontsize()
    fig.legends.remove(legend)  # its own method removes it from the original figure
    height = fig.get_figheight()
    for columns in range(len(names), 0, -1):
        made = fig.legend(
            handles, names, title=title or None, loc="outside lower center", ncols=columns,
            fontsize=size, frameon=False,
        )  # fmt: skip
        rows = -(-len(names) // columns) + bool(title)
        fig.set_figheight(height + LINE * rows)
        fig.draw_without_rendering()
        if made.get_window_extent().width <= fig.bbox.width:
            return
        if columns > 1:
            fig.legends.remove(made)


def _boxes(fig: Figure) -> list[Bbox]:
    """Where the horizontal and vertical texts of a figure are, in pixels."""
    fig.draw_without_rendering()
    unseen = {
        label for axes in fig.axes for axis in (axes.xaxis, axes.yaxis) for label in _beyond(axis)
    }
    return [
        text.get_window_extent()
        for text in fig.findobj(Text)
        if isinstance(text, Text)
        and text not in unseen
        and text.get_visible()
        and text.get_text().strip()
        and text.get_rotation() % 90 == 0
    ]


def _beyond(axis: Axis) -> Iterator[Text]:
    """The labels of the ticks beyond the ends of an axis, which are not drawn."""
    low, high = sorted(axis.get_view_interval())
    for tick in (*axis.get_major_ticks(), *axis.get_minor_ticks()):
        if not low <= tick.get_loc() <= high:
            yield from (tick.label1, tick.label2)


def _overlaps(fig: Figure) -> int:
    """The number of pairs of texts that overlap."""
    pairs = combinations(_boxes(fig), 2)
    return len([pair for pair in pairs if _overlap(*pair)])


def _overlap(one: Bbox, two: Bbox) -> bool:
    """Whether two boxes overlap by more than ``TOUCH`` in both directions."""
    wide = min(one.x1, two.x1) - max(one.x0, two.x0)
    high = min(one.y1, two.y1) - max(one.y0, two.y0)
    return bool(wide > TOUCH and high > TOUCH)


def _cut(fig: Figure, panels: Sequence[Axes]) -> bool:
    """Whether the edge of the figure cuts a text, or the labels leave no room for a panel."""
    width, height = fig.bbox.size
    return any(
        box.x0 < -TOUCH or box.y0 < -TOUCH or box.x1 > width + TOUCH or box.y1 > height + TOUCH
        for box in _boxes(fig)
    ) or any(axes.get_position().width < PLOT for axes in panels if axes.get_aspect() == "auto")
