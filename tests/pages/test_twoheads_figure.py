"""Two heads in the page: every weight is that of Python, by mouse, by touch and by keyboard."""

import re
from typing import Any

import pytest
from playwright.sync_api import Locator, expect

from tests.pages.live import Stage, cells, choose, numbers, press, status
from tfmr.widgets import TwoHeadsFigure
from tfmr.widgets.twoheads import LENGTH

WIDEST = 14
"""Pixels of a line whose weight is 1."""


def agree(live: Locator, figure: TwoHeadsFigure) -> None:
    """The table, the lines and their text have the weights of Python."""
    weights = figure.weights()
    tokens = ["Ein", "Mann", "spielt", figure.played, "mit", "einem", figure.noun, "."]
    group = live.get_by_role("group", name="Query")
    assert group.locator("label").all_inner_texts() == tokens
    expect(group.get_by_role("radio").nth(figure.query)).to_be_checked()
    table = live.get_by_role("table")
    assert table.locator("tbody th").all_inner_texts() == tokens
    for shown, expected in zip(cells(table), weights.T.tolist(), strict=True):
        assert shown == pytest.approx(expected, abs=0.00501)
    drawing = live.get_by_role("img")
    label = str(drawing.get_attribute("aria-label"))
    assert f"“{tokens[figure.query]}”" in label
    stated = [float(found) for found in re.findall(r"\d\.\d\d", label)]
    assert stated == pytest.approx(weights.flatten().tolist(), abs=0.00501)
    drawn = {(line["head"], line["to"]): line for line in lines(drawing)}
    for head, row in enumerate(weights.tolist()):
        for key, weight in enumerate(row):
            line = drawn.pop((head, key), None)
            assert (line is None) == (weight < 0.005)
            if line:
                assert line["from"] == figure.query
                assert line["width"] / WIDEST == pytest.approx(weight, abs=0.00501)
    assert drawn == {}


def lines(drawing: Locator) -> list[dict[str, Any]]:
    """The head, the query, the key and the width of every line, by its colour and its ends."""
    found = []
    for path in drawing.locator("path").all():
        style = str(path.get_attribute("style"))
        points = numbers(re.sub(r"[MC]", " ", str(path.get_attribute("d"))))
        head = int("--live-blue" in style)
        start, end = ((points[at] - (head - 0.5) * 12) / 44 - 0.5 for at in (1, -1))
        width = numbers(style.partition("stroke-width")[2])[0]
        found.append({"head": head, "from": start, "to": end, "width": width})
    return found


def test_every_weight_is_that_of_python(stage: Stage) -> None:
    figure = TwoHeadsFigure()
    live = stage.show(figure)
    agree(live, figure)
    for word, trait, value in (
        ("Word 7", "noun", "Ball"),
        ("Word 4", "played", "Gitarre"),
        ("Word 7", "noun", "Freund"),
    ):
        live.get_by_label(word).select_option(value)
        setattr(figure, trait, value)
        agree(live, figure)
    for figure.query, token in enumerate(["Ein", "Mann", "spielt", "Gitarre", "mit"]):
        choose(live, "Query", token)
        agree(live, figure)


def test_the_translation_is_that_of_the_model(stage: Stage) -> None:
    live = stage.show(TwoHeadsFigure())
    line = live.locator(".two-translation")
    expect(line).to_have_text("→ A man is playing tennis with a racket.")
    live.get_by_label("Word 4").select_option("Baseball")
    expect(line).to_have_text("→ A man is playing baseball with a bat.")


def test_the_keyboard_moves_the_query(phone_stage: Stage) -> None:
    figure = TwoHeadsFigure(query=3)
    live = phone_stage.show(figure)
    live.get_by_role("radio", name="Tennis").focus()
    press(live.page, "ArrowUp")
    figure.query = 2
    agree(live, figure)
    press(live.page, "ArrowUp", "ArrowUp", "ArrowUp")
    figure.query = LENGTH - 1
    agree(live, figure)


def middle(live: Locator, query: int) -> tuple[float, float]:
    """The place on the drawing beside a query."""
    box = live.get_by_role("img").bounding_box()
    assert box is not None
    return box["x"] + box["width"] / 2, box["y"] + (query + 0.5) * box["height"] / LENGTH


def test_the_query_follows_the_mouse_and_the_finger(stage: Stage, phone_stage: Stage) -> None:
    figure = TwoHeadsFigure()
    live = stage.show(figure)
    mouse = live.page.mouse
    mouse.move(*middle(live, 0))
    agree(live, figure)
    mouse.down()
    figure.query = 0
    agree(live, figure)
    mouse.move(*middle(live, 4), steps=3)
    figure.query = 4
    agree(live, figure)
    mouse.move(middle(live, 7)[0], middle(live, 7)[1] + 200)
    mouse.up()
    figure.query = 7
    agree(live, figure)
    mouse.move(*middle(live, 2))
    agree(live, figure)
    live = phone_stage.show(figure)
    live.page.touchscreen.tap(*middle(live, 2))
    figure.query = 2
    agree(live, figure)


def test_a_finger_that_scrolls_leaves_the_query(phone_stage: Stage) -> None:
    figure = TwoHeadsFigure()
    live = phone_stage.show(figure)
    x, y = middle(live, 1)
    place = {"clientX": x, "clientY": y, "pointerId": 1, "isPrimary": True}
    drawing = live.get_by_role("img")
    drawing.evaluate("drawing => { drawing.setPointerCapture = () => {}; }")
    drawing.dispatch_event("pointerdown", place)
    expect(live.get_by_role("radio", name="Mann")).to_be_checked()
    drawing.dispatch_event("pointercancel", place)
    agree(live, figure)


def test_the_status_says_whether_one_row_could_contain_both_weights(stage: Stage) -> None:
    live = stage.show(TwoHeadsFigure())
    assert status(live) == (
        "“Schläger” attends most to “Tennis” (0.86) in head 2 and to “mit” (0.91) in head 3. "
        "Together 1.77: one row, which sums to 1, cannot contain both."
    )
    live.get_by_label("Word 7").select_option("Freund")
    assert status(live) == (
        "“Freund” attends most to “Mann” (0.35) in head 2 and to “mit” (0.62) in head 3. "
        "Together 0.97: one row, which sums to 1, could contain both."
    )
    choose(live, "Query", "mit")
    assert status(live).endswith("Both heads give their largest weight to the same token.")


def test_the_status_reports_ties(stage: Stage) -> None:
    figure = TwoHeadsFigure(query=0)
    rows = ["0 30 30 30 10 0 0 0", "0 0 0 0 30 0 0 70"]
    figure.sentences = [{**each, "weights": rows} for each in figure.sentences]
    assert status(stage.show(figure)) == (
        "“Ein” attends most to “Mann”, “spielt” and “Tennis” (0.30 each) in head 2 and to “.” "
        "(0.70) in head 3. Together 1.00: one row, which sums to 1, could contain both."
    )


def test_reset_and_looks(stage: Stage) -> None:
    stage.check_reset(stage.show(TwoHeadsFigure()))
    stage.check_looks(TwoHeadsFigure())
    stage.check_looks(TwoHeadsFigure(played="Gitarre", noun="Freund", query=1))
