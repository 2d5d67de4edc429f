"""The cost by length in the page: every number is that of Python, by mouse and by keyboard."""

import math
import re

import pytest
from playwright.sync_api import Locator, expect

from tests.pages.live import Stage, choose, numbers, press, status
from tests.pages.test_stream_figure import number
from tfmr.widgets import CostsFigure
from tfmr.widgets.costs import LENGTHS, QUANTITIES, WIDTHS, costs

NAMES = list(costs(4, 32))


def slider(live: Locator, name: str) -> Locator:
    return live.get_by_role("slider", name=name)


def agree(live: Locator, n: int, d: int, quantity: str = "operations") -> None:
    """The table, the status line, the curves and the crossing have the numbers of Python."""
    expected = costs(n, d)
    rows = live.locator(".live-readings tbody tr")
    assert rows.locator("th").all_inner_texts() == NAMES
    for row, values in zip(rows.all(), expected.values(), strict=True):
        shown = [number(text) for text in row.locator("td").all_inner_texts()]
        assert shown == pytest.approx(values, rel=0.005)
    line = status(live)
    order = "is below" if n < d else "is above" if n > d else "equals"
    assert line.startswith(f"n = {n:,} {order} d = {d:,}. ")
    ratios = [a / b for a, b in zip(expected["self-attention"], expected["recurrent"], strict=True)]
    found = re.findall(r"(operations|steps|memory) (\S+?)( \(equal\))?[,.](?= |$)", line)
    assert [name for name, _, _ in found] == list(QUANTITIES)
    assert [number(ratio) for _, ratio, _ in found] == pytest.approx(ratios, rel=0.006)
    assert [equal != "" for _, _, equal in found] == [ratio == 1 for ratio in ratios]
    at = QUANTITIES.index(quantity)
    drawn = [(math.log10(n), math.log10(values[at])) for values in expected.values()]
    if quantity != "steps":
        drawn.insert(0, (math.log10(d), math.log10(costs(d, d)["recurrent"][at])))
    assert live.locator(".live-guide").count() == len({x for x, _ in drawn})
    marks = live.locator(".live-mark").all()
    for mark, expected_place in zip(marks, drawn, strict=True):
        assert place(live, mark) == pytest.approx(expected_place, abs=0.03)


def place(live: Locator, mark: Locator) -> tuple[float, float]:
    """The logarithms of the numbers at which a point is drawn, by the ticks of the axes."""
    found = []
    for anchor, at, shift in (("middle", "x", 0), ("end", "y", 4)):
        ticks = {
            power(str(text.text_content())): float(str(text.get_attribute(at))) - shift
            for text in live.locator(f".live-canvas text[text-anchor={anchor}]").all()
            if str(text.text_content())[0].isdigit()
        }
        (low, first), (high, last) = min(ticks.items()), max(ticks.items())
        here = float(str(mark.get_attribute(f"c{at}")))
        found.append(low + (here - first) / (last - first) * (high - low))
    return found[0], found[1]


def power(text: str) -> float:
    """The logarithm of a tick: 1, 10, 1,000, or 105 for 10⁵."""
    plain = text.replace(",", "")
    raised = plain.startswith("10") and plain.strip("0") != "1"
    return float(plain[2:]) if raised else math.log10(float(plain))


@pytest.mark.parametrize("quantity", QUANTITIES)
def test_every_number_is_that_of_python(stage: Stage, quantity: str) -> None:
    live = stage.show(CostsFigure())
    agree(live, 32, 512)
    choose(live, "Quantity", quantity)
    for n, d in ((4, 2048), (14, 32), (640, 640), (16384, 48)):
        slider(live, "Length n").fill(str(LENGTHS.index(n)))
        slider(live, "Width d").fill(str(WIDTHS.index(d)))
        agree(live, n, d, quantity)


def test_the_curves_are_those_of_python(stage: Stage) -> None:
    live = stage.show(CostsFigure(d=64, quantity="memory"))
    ticks = [
        (power(str(text.text_content())), float(str(text.get_attribute("y"))) - 4)
        for text in live.locator(".live-canvas text[text-anchor=end]").all()
    ]
    (low, bottom), (high, top) = min(ticks), max(ticks)
    for curve, name in zip(live.locator("g > .live-line").all(), NAMES, strict=True):
        points = numbers(str(curve.get_attribute("d")).replace("L", " ").replace("M", ""))
        shown = [low + (y - bottom) / (top - bottom) * (high - low) for y in points[1::2]]
        expected = [math.log10(costs(n, 64)[name][2]) for n in LENGTHS]
        assert shown == pytest.approx(expected, abs=0.03)


def test_the_keyboard_moves_length_and_width(phone_stage: Stage) -> None:
    live = phone_stage.show(CostsFigure())
    slider(live, "Length n").focus()
    press(live.page, "ArrowRight")
    expect(slider(live, "Length n")).to_have_attribute("aria-valuetext", "40")
    slider(live, "Width d").focus()
    press(live.page, "ArrowLeft", "ArrowLeft")
    expect(slider(live, "Width d")).to_have_attribute("aria-valuetext", "384")
    agree(live, 40, 384)


def test_the_crossing_follows_the_mouse(stage: Stage) -> None:
    live = stage.show(CostsFigure(n=640))
    box = live.locator(".live-pick").bounding_box()
    assert box is not None

    def x(length: float) -> float:
        return box["x"] + math.log2(length / 4) / 12 * box["width"]

    mouse = live.page.mouse
    mouse.move(x(512), box["y"] + 50)
    mouse.down()
    mouse.move(x(126), box["y"] + 80, steps=3)
    agree(live, 640, 128)
    mouse.move(x(648), box["y"] + 80)
    agree(live, 640, 640)
    mouse.move(x(5), box["y"] + 80)
    mouse.up()
    agree(live, 640, 32)


def test_reset_and_looks(stage: Stage) -> None:
    stage.check_reset(stage.show(CostsFigure()))
    stage.check_looks(CostsFigure())
    stage.check_looks(CostsFigure(n=16384, d=32, quantity="memory"))
