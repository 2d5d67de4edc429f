"""The residual stream in the page: every number is that of the record."""

import pytest
from playwright.sync_api import Locator, expect

from tests.pages.live import Stage, choose, numbers, press, status
from tests.widgets.test_stream import RECORD, row
from tfmr.widgets import StreamFigure
from tfmr.widgets.stream import QUANTITIES

NAMES = {"stream": "vector norm", "change": "relative change", "gradient": "gradient norm"}
STACKS = ("pre-norm", "post-norm", "scaled residual", "residual")


def number(text: str) -> float:
    """A number as the figure writes it, also as 4.5·10⁷."""
    mantissa, _, power = text.partition("·10")
    plain = power.translate(str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789"))
    return numbers(mantissa)[0] * 10.0 ** int(plain or 0)


def training(live: Locator) -> Locator:
    return live.get_by_role("slider", name="Training")


def agree(live: Locator, blocks: int, step: int, quantity: str, block: int) -> None:
    """The table and the curves are those of the record; the last block is marked."""
    first = 0 if quantity == "stream" else 1
    for line in live.locator(".live-readings tbody tr").all():
        found = row(line.locator("th").inner_text(), blocks, step)
        values = found[quantity]
        expected = [values[block - first], values[-1] / values[0], found["loss"]]
        shown = [number(text) for text in line.locator("td").all_inner_texts()]
        assert shown == pytest.approx(expected, rel=0.06)
    header = live.locator(".live-readings thead th").nth(2)
    expect(header).to_have_text(f"block {blocks} ÷ block {first}")
    assert live.locator(".live-dot").count() == 3 * (blocks + 1 - first)


@pytest.mark.parametrize("quantity", QUANTITIES)
@pytest.mark.parametrize("blocks", [6, 24])
def test_numbers_are_those_of_the_record(stage: Stage, quantity: str, blocks: int) -> None:
    live = stage.show(StreamFigure(RECORD))
    choose(live, "Blocks", str(blocks))
    live.get_by_label("Quantity").select_option(NAMES[quantity])
    agree(live, blocks, 0, quantity, blocks)
    live.get_by_role("slider", name="Block", exact=True).fill("3")
    agree(live, blocks, 0, quantity, 3)
    live.get_by_role("button", name="Next").click(click_count=3)
    agree(live, blocks, 100, quantity, 3)


def test_the_curves_have_the_values_of_the_record(stage: Stage) -> None:
    live = stage.show(StreamFigure(RECORD))
    expected = row("pre-norm", 12, 0)["stream"]
    curve = live.locator("g:has(> .live-line)").first
    heights = [float(str(dot.get_attribute("cy"))) for dot in curve.locator(".live-dot").all()]
    ticks = [
        (float(str(text.text_content())), float(str(text.get_attribute("y"))) - 4)
        for text in live.locator(".live-canvas text[text-anchor=end]").all()
    ]
    (low, y_low), (high, y_high) = min(ticks), max(ticks)
    shown = [low * (high / low) ** ((y - y_low) / (y_high - y_low)) for y in heights]
    assert shown == pytest.approx(expected, rel=0.01)
    path = numbers(str(curve.locator("path").get_attribute("d")).replace("L", " ").replace("M", ""))
    assert path[1::2] == pytest.approx(heights, abs=0.06)


def test_keyboard_and_mouse_operate_it(phone_stage: Stage) -> None:
    live = phone_stage.show(StreamFigure(RECORD))
    training(live).focus()
    press(live.page, "ArrowRight", "ArrowRight")
    expect(training(live)).to_have_attribute("aria-valuetext", "step 30")
    agree(live, 12, 30, "stream", 12)
    live.get_by_role("button", name="Back").focus()
    press(live.page, "Enter")
    agree(live, 12, 10, "stream", 12)
    live.get_by_label("Quantity").select_option(NAMES["gradient"])
    live.get_by_role("button", name="Next").click()
    agree(live, 12, 30, "gradient", 12)


def test_the_status_orders_the_stacks_and_announces_no_change(stage: Stage) -> None:
    live = stage.show(StreamFigure(RECORD))
    line = status(live)
    assert line.startswith("Vector norm at block 12, before training: pre-norm ")
    live.get_by_role("button", name="Back").click()
    expect(live.get_by_role("status")).to_have_text(f"As before: {line}")
    live.get_by_role("slider", name="Block", exact=True).fill("0")
    assert "pre-norm 6.81 = post-norm 6.81 = scaled residual 6.81." in status(live)
    live.get_by_label("also residual").check()
    assert tuple(live.locator(".live-readings tbody th").all_inner_texts()) == STACKS


def test_play_stops_at_the_end_and_needs_motion(stage: Stage, moving_stage: Stage) -> None:
    assert stage.show(StreamFigure(RECORD)).get_by_role("button", name="Play").count() == 0
    live = moving_stage.show(StreamFigure(RECORD, step=200))
    live.get_by_role("button", name="Play").click()
    expect(training(live)).to_have_attribute("aria-valuetext", "step 400")
    expect(live.get_by_role("button", name="Play")).to_be_visible()


def test_reset_and_looks(stage: Stage) -> None:
    stage.check_reset(stage.show(StreamFigure(RECORD)))
    stage.check_looks(StreamFigure(RECORD))
    figure = StreamFigure(RECORD, blocks=24, quantity="gradient")
    figure.unnormalised = True
    stage.check_looks(figure)
