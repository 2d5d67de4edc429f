"""The roofline in the page: every number is that of Python, by mouse and by keyboard."""

import math
import re

import pytest
from playwright.sync_api import Locator, expect

from tests.pages.live import Stage, choose, numbers, press, status
from tests.pages.test_stream_figure import number
from tfmr.widgets import RooflineFigure
from tfmr.widgets.roofline import DEVICES, SIZES, computations

NAMES = {each.name: each for each in computations()}
TILES, ADDITION = "prefill attention, tiled", "addition of two tensors"


def slider(live: Locator) -> Locator:
    return live.get_by_role("slider")


def agree(live: Locator, figure: RooflineFigure) -> None:
    """The status line, the table and the point have the numbers of Python."""
    intensity, rate, least = figure.bound()
    peak, bandwidth, capacity = DEVICES[figure.device]
    computation, size = NAMES[figure.computation], figure.size
    line = status(live)
    rates = (peak / 1e12, bandwidth / 1e12, peak / bandwidth, rate / 1e12, 100 * rate / peak)
    found = [number(word.rstrip(":,.")) for word in line.split() if word[0].isdigit()]
    assert found[:7] == pytest.approx([size, intensity, *rates], rel=6e-3)
    unit = computation.unit
    assert line.count(" is the limit ") == (size > 1), "the first state tells no limit"
    assert (
        size == 1
        or (
            f"Memory is the limit up to 16,384 {unit}."
            if least is None
            else f"Arithmetic is the limit from {least:,} {unit} on."
        )
        in line
    )
    held = sum(factor * size**power for power, factor in enumerate(computation.held))
    excess = re.findall(r"The data, (.*?), exceed the memory of (.*?)\.(?= |$)", line)
    assert [tuple(map(amount, found)) for found in excess] == (
        [pytest.approx((held, capacity), rel=6e-3)] if held > capacity else []
    )
    limit = "memory" if least is None or size < least else "arithmetic"
    assert f", so {limit} limits the rate" in line
    flops, moved = computation.costs(size)
    rows = live.locator(".live-readings tbody tr").all()
    for row, cost, most in zip(rows, (moved, flops), (bandwidth, peak), strict=True):
        texts = row.locator("td").all_inner_texts()
        assert [amount(text) for text in texts] == pytest.approx([cost, cost / most], rel=6e-3)
        assert all(1 <= number(text.split()[0]) <= 1000 for text in texts)
    assert place(live) == pytest.approx((math.log10(intensity), math.log10(rate / 1e12)), abs=0.02)


def amount(text: str) -> float:
    """A number with the prefix of its unit: 1.05 GB, 34.9 µs."""
    value, unit = text.split()
    prefix = "" if unit in ("s", "B", "FLOP") else unit[0]
    return number(value) * 10.0 ** (3 * "pnµm kMGT".index(prefix or " ") - 12)


def place(live: Locator) -> tuple[float, float]:
    """The place of the point, by the ticks of the axes: powers of ten."""
    mark = live.locator(".live-mark")
    found = []
    for anchor, at, shift in (("middle", "x", 0), ("end", "y", 4)):
        texts = live.locator(f".live-canvas text[text-anchor={anchor}]").all()
        ticks = {
            math.log10(numbers(shown)[0]): float(str(text.get_attribute(at))) - shift
            for text in texts
            if (shown := str(text.text_content()))[0].isdigit()
        }
        (low, first), (high, last) = min(ticks.items()), max(ticks.items())
        here = float(str(mark.get_attribute(f"c{at}")))
        found.append(low + (here - first) / (last - first) * (high - low))
    return found[0], found[1]


@pytest.mark.parametrize("device", DEVICES)
def test_every_computation_has_the_numbers_of_python(stage: Stage, device: str) -> None:
    live = stage.show(RooflineFigure())
    agree(live, RooflineFigure())
    choose(live, "Device", device)
    for name in NAMES:
        live.get_by_label("Computation").select_option(name)
        for size in (1, 64, 448, SIZES[-1]):
            slider(live).fill(str(SIZES.index(size)))
            agree(live, RooflineFigure(computation=name, device=device, size=size))


def test_keyboard_moves_the_point(phone_stage: Stage) -> None:
    live = phone_stage.show(RooflineFigure(size=7))
    slider(live).focus()
    press(live.page, "ArrowRight", "ArrowRight")
    expect(slider(live)).to_have_attribute("aria-valuetext", "10 texts")
    agree(live, RooflineFigure(size=10))
    press(live.page, "Home")
    expect(slider(live)).to_have_attribute("aria-valuetext", "1 text")
    live.get_by_role("radio", name="A100").focus()
    press(live.page, "Space")
    agree(live, RooflineFigure(device="A100"))


def test_the_point_follows_the_mouse(stage: Stage) -> None:
    live = stage.show(RooflineFigure(computation=TILES))
    box = live.locator(".live-pick").bounding_box()
    assert box is not None
    y = box["y"] + box["height"] / 2

    def x(intensity: float) -> float:
        return box["x"] + (math.log10(intensity) + 1) / 4.95 * box["width"]

    mouse = live.page.mouse
    mouse.move(x(2), y)
    mouse.down()
    agree(live, RooflineFigure(computation=TILES, size=4))
    mouse.move(x(260), y, steps=3)
    mouse.up()
    agree(live, RooflineFigure(computation=TILES, size=512))
    live.get_by_label("Computation").select_option(ADDITION)
    mouse.click(x(500), y)  # its FLOPs per byte are the same at every size
    agree(live, RooflineFigure(computation=ADDITION, size=512))


def test_reset_and_looks(stage: Stage) -> None:
    stage.check_reset(stage.show(RooflineFigure()))
    stage.check_looks(RooflineFigure())
    stage.check_looks(RooflineFigure(computation=ADDITION, device="A100", size=SIZES[-1]))
