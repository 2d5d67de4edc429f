"""Pointing and dragging on a drawing: by mouse and by finger, on each kind of drawing."""

import math
from collections.abc import Callable
from itertools import pairwise

import pytest
from playwright.sync_api import Locator

from tests.pages.conftest import protocol
from tests.pages.live import Stage, snapshot
from tests.pages.test_positions_figure import agree
from tests.widgets.test_alignment import RECORD
from tests.widgets.test_gradient import measured_figure
from tfmr.position import frequencies
from tfmr.widgets import (
    AlignmentFigure,
    ContextsFigure,
    DependenceFigure,
    LiveFigure,
    PositionsFigure,
    TwoHeadsFigure,
)

Point = tuple[float, float]
DRAWINGS: dict[str, tuple[Callable[[], LiveFigure], str]] = {
    "chart": (ContextsFigure, ".live-pick"),
    "gradient": (measured_figure, ".live-pick"),
    "dependence": (DependenceFigure, ".live-pick >> nth=0"),
    "two heads": (TwoHeadsFigure, ".two-lines"),
    "weight map": (lambda: AlignmentFigure(RECORD, word=3), ".live-canvas g:has(> .tra-row)"),
    "clock": (PositionsFigure, ".pos-pairs svg >> nth=1"),
}
"""A figure with each kind of drawing, and the part of it on which a reader points."""


def point(drawing: Locator, x: float, y: float) -> Point:
    """A place in the window, from parts of the width and of the height of a drawing."""
    box = drawing.bounding_box()
    assert box
    return box["x"] + x * box["width"], box["y"] + y * box["height"]


def swipe(live: Locator, start: Point, end: Point) -> None:
    """Move a finger over the screen in ten steps, and lift it."""
    page = live.page
    with protocol(page) as browser:
        for step in range(11):
            x, y = (a + (b - a) * step / 10 for a, b in zip(start, end, strict=True))
            browser.send(
                "Input.dispatchTouchEvent",
                {"type": "touchMove" if step else "touchStart", "touchPoints": [{"x": x, "y": y}]},
            )
        browser.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    page.evaluate("() => new Promise(done => requestAnimationFrame(() => setTimeout(done, 100)))")


def show(stage: Stage, name: str) -> tuple[Locator, Locator]:
    """A figure on a page that scrolls, and its drawing."""
    make, place = DRAWINGS[name]
    live = stage.show(make())
    live.page.evaluate("() => { document.body.style.paddingBottom = '3000px'; }")
    return live, live.locator(place)


@pytest.mark.parametrize("name", DRAWINGS)
def test_a_vertical_swipe_scrolls_the_page(phone_stage: Stage, name: str) -> None:
    live, drawing = show(phone_stage, name)
    before = snapshot(live)
    x, y = point(drawing, 0.2, 0.2)
    swipe(live, (x, y), (x, y - 200))
    assert live.page.evaluate("scrollY") > 100
    assert snapshot(live) == before


@pytest.mark.parametrize("name", DRAWINGS)
def test_a_finger_points_and_drags(phone_stage: Stage, name: str) -> None:
    live, drawing = show(phone_stage, name)
    before = snapshot(live)
    swipe(live, point(drawing, 0.2, 0.1), point(drawing, 0.7, 0.1))
    assert snapshot(live) != before
    assert live.page.evaluate("scrollY") == 0


@pytest.mark.parametrize("name", DRAWINGS)
def test_a_mouse_that_was_pressed_elsewhere_changes_nothing(stage: Stage, name: str) -> None:
    live, drawing = show(stage, name)
    before = snapshot(live)
    mouse = live.page.mouse
    mouse.move(*point(live.locator(".live-title"), 0.1, 0.5))
    mouse.down()
    mouse.move(*point(drawing, 0.2, 0.1), steps=3)
    mouse.move(*point(drawing, 0.7, 0.1), steps=3)
    mouse.up()
    assert snapshot(live) == before


def turn(live: Locator, pair: int, start: float, angle: float) -> None:
    """Turn a hand of a clock from an angle by another; 0 is at the top, clockwise is positive."""
    clock = live.locator(".pos-pairs svg").nth(pair)
    mouse = live.page.mouse
    for step in range(41):
        at = start + angle * step / 40
        mouse.move(*point(clock, 0.5 + 0.4 * math.sin(at), 0.5 - 0.4 * math.cos(at)))
        if step == 0:
            mouse.down()
    mouse.up()


def test_the_hands_of_a_clock_can_be_turned(stage: Stage) -> None:
    live = stage.show(PositionsFigure())
    figure = PositionsFigure()
    fast, slow = frequencies(figure.size, float(figure.base)).tolist()[:2]
    turn(live, 1, 3 * slow, 10.2 * slow)
    agree(live, PositionsFigure(m=13))
    turn(live, 1, 8 * slow, -20 * slow)
    agree(live, PositionsFigure(m=13, n=0))
    turn(live, 0, 13 * fast, 9 * fast)  # more than one turn
    agree(live, PositionsFigure(m=22, n=0, pair=0))
    turn(live, 2, 0.0, 3.0)  # to the last position
    agree(live, PositionsFigure(m=22, n=49, pair=2))


def test_the_hands_of_rotary_positions_turn_the_other_way(stage: Stage) -> None:
    live = stage.show(PositionsFigure(encoding="rotary", angle=90))
    slow = frequencies(8, 10000.0).tolist()[1]
    turn(live, 1, math.pi / 2 - 3 * slow, -6 * slow)
    agree(live, PositionsFigure(encoding="rotary", angle=90, m=9))
    turn(live, 1, -8 * slow, 5 * slow)
    agree(live, PositionsFigure(encoding="rotary", angle=90, m=9, n=3))


def test_hands_that_cover_each_other_turn_n(stage: Stage) -> None:
    live = stage.show(PositionsFigure(m=8, n=9))
    slow = frequencies(8, 10000.0).tolist()[2]
    turn(live, 2, 7 * slow, 30 * slow)
    agree(live, PositionsFigure(m=8, n=39, pair=2))


def test_a_click_on_a_clock_selects_its_pair_only(stage: Stage, phone_stage: Stage) -> None:
    for live in (stage.show(PositionsFigure()), phone_stage.show(PositionsFigure())):
        mouse = live.page.mouse
        for pair in range(3, -1, -1):
            x, y = point(live.locator(".pos-pairs svg").nth(pair), 0.6, 0.2)
            mouse.move(x, y)
            mouse.down()
            mouse.move(x + 2, y + 1)  # a hand is never quite still
            mouse.up()
            agree(live, PositionsFigure(pair=pair))


def test_a_clock_is_large_enough_for_a_finger(phone_stage: Stage) -> None:
    live = phone_stage.show(PositionsFigure())
    grips = [grip.bounding_box() for grip in live.locator(".pos-grip").all()]
    assert len(grips) == 4
    assert all(grip and min(grip["width"], grip["height"]) >= 44 for grip in grips)
    for left, right in pairwise(grips):
        assert left
        assert right
        assert left["x"] + left["width"] <= right["x"] + 0.5
