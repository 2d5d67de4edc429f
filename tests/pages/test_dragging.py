"""Pointing and dragging on a drawing: by mouse and by finger, on each kind of drawing."""

from collections.abc import Callable

import pytest
from playwright.sync_api import Locator

from tests.pages.conftest import protocol
from tests.pages.live import Stage, snapshot
from tests.widgets.test_alignment import RECORD
from tfmr.widgets import (
    AlignmentFigure,
    ContextsFigure,
    DependenceFigure,
    LiveFigure,
    TwoHeadsFigure,
)

Point = tuple[float, float]
DRAWINGS: dict[str, tuple[Callable[[], LiveFigure], str]] = {
    "chart": (ContextsFigure, ".live-pick"),
    "dependence": (DependenceFigure, ".live-pick >> nth=0"),
    "two heads": (TwoHeadsFigure, ".two-lines"),
    "weight map": (lambda: AlignmentFigure(RECORD, word=3), ".live-canvas g:has(> .tra-row)"),
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
