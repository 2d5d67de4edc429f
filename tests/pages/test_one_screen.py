"""A figure shows its controls and what they change together, and nothing moves in use."""

import json
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from tests.pages.conftest import PHONE, Visit, guarded
from tools.site import heights

FIGURES = [name.removeprefix("live-") for name in json.loads(heights.FILE.read_text("utf-8"))]
"""The places of the figures, as their pages to embed are named."""
SCREENS = {1280: (640, {}), 390: (760, PHONE)}
"""By the width of a window: the height that remains on a screen, and how the window differs."""
LARGER = {
    1280: {"10-transformer-1"},
    390: {
        *("09-decoder-1", "10-transformer-1", "11-training-1", "12-decoding-1", "12-decoding-2"),
        *("13-inside-a-trained-model-1", "translator-1"),
    },
}
"""Figures whose controls, drawing and status line fit the screen, but not title and task, too.

The map of the Transformer has text that would be too small. On a phone, a cell of the masks has the
height of a finger, and the others have four controls and a table, a tree, a map or a translation.
"""
TOGETHER = """live => live.querySelector(".live-status").getBoundingClientRect().bottom
    - live.querySelector(".live-body").getBoundingClientRect().top"""
"""The height of the controls, the drawing and the status line."""
OPERATE = """async live => {
    live.closest(".live-figure").style.minHeight = 0;
    const frame = () => new Promise(requestAnimationFrame);
    const found = [[live.offsetHeight, "at first"]];
    const measure = async (control) => {
        await frame();
        await frame();
        const label = control.closest("fieldset")?.querySelector("legend") ?? control.labels[0];
        found.push([live.offsetHeight, `${label.textContent.trim()}: ${control.value}`]);
    };
    const set = async (control, name, values) => {
        for (const value of values) {
            control[name] = value;
            control.dispatchEvent(new Event("input", { bubbles: true }));
            await measure(control);
        }
    };
    const all = () => [...live.querySelectorAll(".live-body :is(input, select)")]
        .filter(e => e.checkVisibility({ visibilityProperty: true }));
    for (let i = 0; i < all().length; i++) {
        const control = all()[i];
        if (control.tagName === "SELECT") {
            await set(control, "selectedIndex", [...control.options].keys());
        } else if (control.type === "range") {
            const { value, min, max, step } = control;
            const count = Math.round((max - min) / step);
            const some = [0, 0.25, 0.5, 0.75, 1]
                .map(part => +min + step * Math.round(part * count));
            await set(control, "value", [...some, value]);
        } else if (/radio|checkbox/.test(control.type)) {
            control.click();
            await measure(control);
        }
    }
    return found;
}"""
"""Gives every control several of its values; returns the height of the figure after each."""


@pytest.fixture(scope="module", params=SCREENS)
def screen(
    request: pytest.FixtureRequest, chromium: Browser, address: str
) -> Iterator[tuple[Visit, int]]:
    """A window of a reader who allows motion, and its width."""
    settings = {"reduced_motion": "no-preference"} | SCREENS[request.param][1]
    for visit in guarded(chromium, address, **settings):
        yield visit, request.param


@pytest.mark.parametrize("place", FIGURES)
def test_a_figure_fits_one_screen_in_every_state(screen: tuple[Visit, int], place: str) -> None:
    visit, width = screen
    page = visit.open(f"{place.rpartition('-')[0]}.html", width=width)
    live = page.locator(f"#live-{place} .live")
    reserved = page.locator(f"#live-{place}").evaluate(
        "e => parseFloat(getComputedStyle(e).minHeight)"
    )
    measured = live.evaluate(OPERATE)
    assert len(measured) > 5
    first = measured[0][0]
    assert [state for state in measured if state[0] != first] == []
    assert reserved >= first
    if place in LARGER[width]:
        limit = {1280: 640, 390: 840}[width]
        assert live.evaluate(TOGETHER) <= limit
    else:
        assert first <= SCREENS[width][0]
