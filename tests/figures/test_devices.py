"""Figures of one device."""

import pytest
from matplotlib.colors import to_rgba

from tfmr.figures.devices import attention_tiles, memories, roofline
from tfmr.figures.style import ORANGE


def test_a_slower_memory_is_drawn_wider() -> None:
    fig = memories([("fast", "9 TB/s", "1 MB"), ("slow", "1 GB/s", "1 TB")])
    fast, slow = fig.axes[0].patches
    assert fast.get_width() < slow.get_width()
    assert fast.get_y() > slow.get_y()
    assert fig.alt == "Memories of a device: fast, 1 MB, 9 TB/s; slow, 1 TB, 1 GB/s."


def test_the_current_tile_stands_out_and_earlier_tiles_are_grey() -> None:
    fig = attention_tiles(2, 3, (1, 1))
    tiles = fig.axes[0].patches[:6]
    colours = [tile.get_facecolor() for tile in tiles]
    assert colours[4] == to_rgba(ORANGE)
    assert len(set(colours[:4])) == 1
    assert colours[5] == to_rgba("white")
    assert colours[0] not in (colours[4], colours[5])
    assert "in row 2 and column 2 is in fast memory" in fig.alt


def test_the_roof_has_its_corner_where_both_limits_meet() -> None:
    fig = roofline({"slow": (2.0, 20.0), "fast": (500.0, 1000.0)}, peak=1000.0, bandwidth=10.0)
    roof, _, *points = fig.axes[0].lines
    (start, corner, _), rates = list(roof.get_xdata()), list(roof.get_ydata())
    assert corner == 100
    assert rates == pytest.approx([10 * start, 1000, 1000])
    assert [(p.get_xdata()[0], p.get_ydata()[0]) for p in points] == [(2, 20), (500, 1000)]
    assert "up to 100 FLOPs per byte" in fig.alt
    assert "slow: 2 FLOPs per byte, 2.00e+01 FLOP/s" in fig.alt
