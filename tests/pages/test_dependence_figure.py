"""Masks and dependence in the page: the drawing is that of Python, by pointer and by keyboard."""

import pytest
from playwright.sync_api import Locator, expect

from tests.pages.live import Stage, choose, numbers, press, status
from tfmr.widgets import DependenceFigure
from tfmr.widgets.dependence import FAMILIES, SOURCE, TOKENS, family_masks

SHOWN = """svg => {
    return [...svg.querySelectorAll(".dep-tile")].map(tile => {
        const { x, y, width, height } = tile.getBBox();
        const inside = [...svg.querySelectorAll("text")].filter(text => {
            const at = text.getBBox();
            return Math.abs(at.x + at.width / 2 - x - width / 2) < width / 2
                && Math.abs(at.y + at.height / 2 - y - height / 2) < height / 2;
        });
        return [!tile.style.fill.includes("0.0000"), inside.map(e => e.textContent).join()];
    });
}"""
"""Whether each tile is filled, and the text on it, in the order of the document."""


def names(row: list[bool]) -> str:
    """The tokens of a row, as a list of English words."""
    *others, last = (token for token, use in zip(TOKENS, row, strict=True) if use)
    return f"{', '.join(others)} and {last}" if others else last


def sided(position: int, family: str) -> str:
    """The name of a token in a view; in the encoder–decoder, it states the side."""
    side = ("source " if position < SOURCE else "target ") if family == "encoder–decoder" else ""
    return f"{side}{TOKENS[position]}"


def agree(live: Locator, figure: DependenceFigure) -> None:
    """Tiles, texts, the status line and the text alternative are those of Python."""
    drawing = live.locator(".live-canvas svg")
    mask, depends = family_masks()[figure.family].tolist(), figure.depends().tolist()
    expected = [[may, "" if may else "−∞"] for row in mask for may in row]
    expected += [[on, TOKENS[key] if on else ""] for row in depends for key, on in enumerate(row)]
    assert drawing.evaluate(SHOWN) == expected
    rows = [sided(position, figure.family) for position in range(len(TOKENS))]
    assert drawing.locator("text[text-anchor=end]").all_text_contents()[1 : 1 + len(rows)] == rows
    output = rows[figure.position]
    assert f"The output at {output} depends on" in drawing.locator("text").all_text_contents()
    line = status(live)
    assert f"the output at {output} depends on {names(depends[0])}" in line
    assert f"on {names(depends[-1])}. The mask" in line
    assert numbers(line)[-2:] == [sum(map(sum, mask)), len(TOKENS) ** 2]
    label = str(drawing.get_attribute("aria-label"))
    for number, row in enumerate(depends, 1):
        assert f"{number} block{'s' * (number > 1)}, the output at {output} depends on" in label
        assert f"depends on {names(row)}" in label
    for token, row in zip(rows, mask, strict=True):
        assert f" {token} attends to {names(row)}" in label


@pytest.mark.parametrize("family", FAMILIES)
def test_every_output_has_the_dependences_of_python(stage: Stage, family: str) -> None:
    live = stage.show(DependenceFigure())
    agree(live, DependenceFigure())
    choose(live, "Model", family)
    for position, token in enumerate(TOKENS):
        choose(live, "Output at", token)
        agree(live, DependenceFigure(family=family, position=position))


def test_keyboard_operates_it(phone_stage: Stage) -> None:
    live = phone_stage.show(DependenceFigure())
    live.get_by_role("radio", name="decoder only").focus()
    press(live.page, "ArrowRight", "ArrowRight")
    expect(live.get_by_role("radio", name="local decoder")).to_be_checked()
    agree(live, DependenceFigure(family="local decoder"))
    live.get_by_role("radio", name="y", exact=True).focus()
    press(live.page, "ArrowLeft")
    agree(live, DependenceFigure(family="local decoder", position=3))


def test_a_pointer_selects_the_output(stage: Stage) -> None:
    live = stage.show(DependenceFigure())
    mouse = live.page.mouse
    for number, (dx, dy) in enumerate(((0, 1), (1, 0))):  # down the mask, across the blocks
        box = live.locator(".live-pick").nth(number).bounding_box()
        assert box is not None
        wide, high = box["width"] / len(TOKENS), box["height"] / len(TOKENS)
        x, y = box["x"] + wide / 2, box["y"] + high / 2
        mouse.move(x + dx * wide, y + dy * high)
        mouse.down()
        agree(live, DependenceFigure(position=1))
        mouse.move(x + dx * 5 * wide, y + dy * 5 * high)
        agree(live, DependenceFigure(position=5))
        mouse.move(x - dx * 2 * wide, y - dy * 2 * high)  # outside
        agree(live, DependenceFigure(position=0))
        mouse.up()
        mouse.move(x + dx * 3 * wide, y + dy * 3 * high)
        agree(live, DependenceFigure(position=0))


def test_a_finger_selects_the_output(phone_stage: Stage) -> None:
    live = phone_stage.show(DependenceFigure())
    live.locator(".live-pick").first.tap(position={"x": 5, "y": 5})
    agree(live, DependenceFigure(position=0))
    live.locator(".live-pick").last.tap(position={"x": 5 + 2.5 * 40, "y": 5})
    agree(live, DependenceFigure(position=2))


def test_scrolling_by_touch_keeps_the_output(phone_stage: Stage) -> None:
    live = phone_stage.show(DependenceFigure())
    area = live.locator(".live-pick").first
    where = {"clientX": 200, "clientY": 420, "pointerId": 1, "isPrimary": True}
    area.evaluate("e => { e.setPointerCapture = () => {}; }")
    area.dispatch_event("pointerdown", where)
    expect(live.get_by_role("radio", name="y", exact=True)).not_to_be_checked()
    area.dispatch_event("pointercancel", where)
    agree(live, DependenceFigure())


def test_reset_and_looks(stage: Stage) -> None:
    stage.check_reset(stage.show(DependenceFigure()))
    stage.check_looks(DependenceFigure())
    stage.check_looks(DependenceFigure(family="local decoder", position=5))
