"""One word in two contexts in the page: the numbers are those of Python, by mouse and keyboard."""

from itertools import pairwise

import pytest
from playwright.sync_api import Locator, expect

from tests.pages.live import Stage, numbers, press, status
from tfmr.widgets import ContextsFigure
from tfmr.widgets.contexts import EXAMPLES, PLACES, measure


def select(live: Locator, name: str, option: str) -> None:
    live.get_by_label(name, exact=True).select_option(label=option)


def slider(live: Locator) -> Locator:
    return live.get_by_role("slider", name="After")


def agree(live: Locator, example: int, first: int, second: int, place: int) -> None:
    """The sentence, the table, the curves and the status line are those of Python."""
    shown, words = EXAMPLES[example], measure(EXAMPLES[example])
    contexts = [shown.contexts[i] for i in (first, second)]
    filled = shown.sentence.format(context=" / ".join(contexts), word=words[0].name)
    assert live.locator(".con-sentences").inner_text() == filled
    paths = [word.cosines[first, second].tolist() for word in words]
    rows = live.locator(".live-readings tbody tr")
    assert rows.locator("th").all_inner_texts() == [word.name for word in words]
    assert live.locator(".live-readings thead th").all_inner_texts()[2:] == contexts
    for row, word, path in zip(rows.all(), words, paths, strict=True):
        translations = [word.translations[i] for i in (first, second)]
        assert row.locator("td").all_inner_texts() == [f"{path[place]:.3f}", *translations]
    label = live.get_by_role("img").get_attribute("aria-label") or ""
    assert numbers(label.partition(". ")[2]) == [value for path in paths for value in path]
    curves = live.locator("g:has(> .live-line)").all()
    for curve, path in zip(curves, paths, strict=True):
        heights = [float(str(dot.get_attribute("cy"))) for dot in curve.locator("circle").all()]
        assert heights == pytest.approx([height(live, value) for value in path], abs=0.1)
    line = status(live).removeprefix("As before: ")
    if first == second:
        assert line == "This is the same sentence twice, so every cosine is 1."
        return
    own, *others = (path[place] for path in paths)
    low, high = min(others), max(others)
    compared = " and ".join(
        f"{context} (“{words[0].translations[i]}”)"
        for context, i in zip(contexts, (first, second), strict=True)
    )
    assert line == (
        f"{PLACES[place].capitalize()}: {words[0].name} with {compared}: cosine {own:.3f}, "
        f"controls {low:.3f}{'' if low == high else f' to {high:.3f}'}."
    )


def height(live: Locator, value: float) -> float:
    """Where a cosine is drawn, by the ticks of the axis."""
    ticks = live.locator(".live-canvas text[text-anchor=end]").all()
    (high, top), *_, (low, bottom) = sorted(
        ((float(str(t.text_content())), float(str(t.get_attribute("y"))) - 4) for t in ticks),
        reverse=True,
    )
    return top + (high - value) / (high - low) * (bottom - top)


@pytest.mark.parametrize("example", range(len(EXAMPLES)))
def test_every_number_is_that_of_python(stage: Stage, example: int) -> None:
    live = stage.show(ContextsFigure())
    agree(live, 0, 0, 1, 4)
    select(live, "Word", EXAMPLES[example].words[0])
    for first, second, place in ((0, 1, 4), (0, 2, 2), (5, 3, 1), (4, 3, 0), (2, 2, 3)):
        select(live, "Context 1", EXAMPLES[example].contexts[first])
        select(live, "Context 2", EXAMPLES[example].contexts[second])
        slider(live).fill(str(place))
        agree(live, example, first, second, place)


def test_the_keyboard_operates_every_control(phone_stage: Stage) -> None:
    live = phone_stage.show(ContextsFigure())
    live.get_by_label("Context 1", exact=True).focus()
    press(live.page, "ArrowDown", "ArrowDown", "Tab", "ArrowDown", "Tab", "ArrowDown", "ArrowDown")
    press(live.page, "Tab", "ArrowLeft", "ArrowLeft", "ArrowLeft")
    expect(slider(live)).to_have_attribute("aria-valuetext", "block 1")
    agree(live, 2, 2, 2, 1)
    live.get_by_label("Context 2", exact=True).focus()
    press(live.page, "ArrowUp")
    agree(live, 2, 2, 1, 1)


def test_no_status_line_is_longer_than_its_place(phone_stage: Stage) -> None:
    live = phone_stage.show(ContextsFigure())
    height = live.evaluate("live => live.offsetHeight")
    for example in EXAMPLES:
        select(live, "Word", example.words[0])
        for first, second in pairwise(example.contexts):
            select(live, "Context 1", first)
            select(live, "Context 2", second)
            for place in range(len(PLACES)):
                slider(live).fill(str(place))
                assert live.evaluate("live => live.offsetHeight") == height, status(live)


def test_the_place_follows_the_pointer(stage: Stage) -> None:
    live = stage.show(ContextsFigure(first=1, second=2))
    box = live.locator(".live-pick").bounding_box()
    assert box is not None
    mouse = live.page.mouse
    mouse.move(box["x"] + 0.7 * box["width"], box["y"] + 50)
    mouse.down()
    agree(live, 0, 1, 2, 3)
    mouse.move(box["x"] + 0.3 * box["width"], box["y"] + 80, steps=3)
    agree(live, 0, 1, 2, 1)
    mouse.move(box["x"] - 20, box["y"] + 80)
    mouse.up()
    agree(live, 0, 1, 2, 0)


def test_reset_and_looks(stage: Stage) -> None:
    stage.check_reset(stage.show(ContextsFigure()))
    stage.check_looks(ContextsFigure())
    stage.check_looks(ContextsFigure("trägt", place=1))
