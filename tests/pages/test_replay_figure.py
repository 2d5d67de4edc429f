"""The replayed training in the page: every number is that of the record."""

import math

import pytest
from playwright.sync_api import Locator, expect

from tests.pages.live import Stage, choose, numbers, press, status
from tests.widgets.test_replay import RECORD, REFERENCE, ROWS
from tfmr.widgets import ReplayFigure

SOURCE = RECORD["settings"]["source"].split()
TARGET = [*REFERENCE.split(), "<eos>"]


def training(live: Locator) -> Locator:
    return live.get_by_role("slider", name="Step")


def agree(live: Locator, index: int, word: int) -> None:
    """Status line, sentences and map are those of a row of the record."""
    row = ROWS[index]
    line = status(live).removeprefix("As before: ")
    when = "Before training" if row["step"] == 0 else f"After {row['step']} steps"
    assert line.startswith(f"{when}: training loss ")
    train, valid, rate, *rest = numbers(line.split(": ", 1)[1])
    assert train == pytest.approx(row["train_loss"], abs=0.0051)
    assert valid == pytest.approx(row["valid_loss"], abs=0.0051)
    assert rate == pytest.approx(row["learning_rate"], abs=0.0000051)
    assert rest[0] == pytest.approx(max(row["weights"][word]), abs=0.0051)
    best = SOURCE[row["weights"][word].index(max(row["weights"][word]))]
    assert f"“{best}”" in line
    equal = "equals" if row["output"] == REFERENCE else "differs from"
    assert f"The translation {equal} the reference." in line
    assert live.locator(".rep-translation [lang=fr]").inner_text() == (
        row["output"] or "(no token)"
    )
    other = [token for i, token in enumerate(row["output"].split()) if TARGET[i : i + 1] != [token]]
    assert live.locator(".rep-other").all_inner_texts() == other, "underlined tokens"
    found = numbers(live.locator(".rep-caption").inner_text())
    assert found[-1] == pytest.approx(row["entropy"], abs=0.0051)
    stated = line.split("the reference. ")[1]
    assert stated.startswith(f"“{TARGET[word]}” attends ")
    assert stated in str(live.locator(".rep-map svg").get_attribute("aria-label"))


def squares(live: Locator) -> list[list[float]]:
    """The depth of the colour of each square of the map; 0 where there is none."""
    found = []
    for group in live.locator(".tra-row").all():
        line = [0.0] * len(SOURCE)
        ground = group.locator(".tra-ground")
        left, width = (float(str(ground.get_attribute(name))) for name in ("x", "width"))
        for square in group.locator("rect:not(.tra-ground)").all():
            at = (float(str(square.get_attribute("x"))) - left) / (width / len(SOURCE))
            line[int(at)] = numbers(str(square.get_attribute("style")))[0]
        found.append(line)
    return found


def map_agrees(live: Locator, index: int, word: int) -> None:
    """The squares are the weights of a row of the record, and the frame is around a token's row."""
    for shown, expected in zip(squares(live), ROWS[index]["weights"], strict=True):
        assert shown == pytest.approx([w if w >= 0.01 else 0.0 for w in expected], abs=1e-4)
    frame, ground = live.locator(".tra-selected"), live.locator(".tra-ground").nth(word)
    assert frame.get_attribute("y") == ground.get_attribute("y")


def test_every_step_is_that_of_the_record(phone_stage: Stage) -> None:
    live = phone_stage.show(ReplayFigure(RECORD))
    map_agrees(live, 0, 0)
    for index in range(len(ROWS)):
        agree(live, index, 0)
        live.get_by_role("button", name="Next").click()
    live.get_by_label("Reference token", exact=True).select_option(label="chapeaux")
    word = TARGET.index("chapeaux")
    agree(live, len(ROWS) - 1, word)
    map_agrees(live, len(ROWS) - 1, word)
    live.locator(".tra-row").nth(1).click()
    agree(live, len(ROWS) - 1, 1)


def scaled(values: list[float]) -> list[float]:
    """Values scaled to 0 … 1: places in a drawing are linear in the values."""
    return [(value - min(values)) / (max(values) - min(values)) for value in values]


def test_the_curves_have_the_values_of_the_record(stage: Stage) -> None:
    live = stage.show(ReplayFigure(RECORD, step=ROWS[3]["step"]))
    curves = live.locator("g:has(> .live-line)").all()
    names = ("train_loss", "valid_loss", "learning_rate")
    marks = live.locator(".live-mark").all()
    for curve, mark, name in zip(curves, marks, names, strict=True):
        dots = curve.locator("circle").all()
        across, down = ([float(str(dot.get_attribute(c))) for dot in dots] for c in ("cx", "cy"))
        steps, values = ([row[key] for row in ROWS] for key in ("step", name))
        assert scaled(across) == pytest.approx(scaled(steps), abs=1e-3)
        assert scaled([-y for y in down]) == pytest.approx(scaled(values), abs=1e-3), name
        assert float(str(mark.get_attribute("cx"))) == across[3], "the mark is at the step"
        assert float(str(mark.get_attribute("cy"))) == down[3], name
    label = live.locator("svg[aria-label^='Training loss']").get_attribute("aria-label")
    now = [ROWS[3]["train_loss"], ROWS[3]["valid_loss"]]
    assert numbers(str(label))[-2:] == pytest.approx(now, abs=0.0051)


def test_pointing_at_a_chart_selects_the_closest_step(stage: Stage) -> None:
    live = stage.show(ReplayFigure(RECORD))
    mouse, longest = live.page.mouse, ROWS[-1]["step"]
    for number, view in enumerate(("losses", "learning rate")):
        choose(live, "View", view)
        area = live.locator(".live-pick").nth(number).bounding_box()
        assert area
        for part in (0.1, 0.45, 1.0):
            mouse.move(area["x"] + part * area["width"], area["y"] + 20)
            if part == 0.1:
                mouse.down()
            nearest = min(ROWS, key=lambda row: abs(row["step"] - part * longest))
            expect(training(live)).to_have_attribute("aria-valuetext", str(nearest["step"]))
        mouse.up()
    choose(live, "View", "map")
    agree(live, len(ROWS) - 1, 0)


def test_the_text_has_the_entropies_of_the_record(stage: Stage) -> None:
    live = stage.show(ReplayFigure(RECORD))
    expected = [ROWS[0]["entropy"], ROWS[-1]["entropy"], math.log(len(SOURCE))]
    text = str(live.locator(".live-shows p").text_content())
    assert numbers(text) == pytest.approx(expected, abs=0.0051)


def test_the_keyboard_operates_it(stage: Stage) -> None:
    live = stage.show(ReplayFigure(RECORD))
    training(live).focus()
    press(live.page, "End", "ArrowLeft")
    step = ROWS[-2]["step"]
    expect(training(live)).to_have_attribute("aria-valuetext", str(step))
    agree(live, len(ROWS) - 2, 0)
    live.get_by_label("Reference token", exact=True).focus()
    press(live.page, "ArrowDown")
    agree(live, len(ROWS) - 2, 1)
    training(live).focus()
    press(live.page, "Home")
    line = status(live)
    live.get_by_role("button", name="Back").focus()
    press(live.page, "Enter")
    expect(live.get_by_role("status")).to_have_text(f"As before: {line}")


def test_play_stops_at_the_end(moving_stage: Stage) -> None:
    live = moving_stage.show(ReplayFigure(RECORD, step=ROWS[-2]["step"]))
    live.get_by_role("button", name="Play").click()
    last = ROWS[-1]["step"]
    expect(training(live)).to_have_attribute("aria-valuetext", str(last))
    expect(live.get_by_role("button", name="Play")).to_be_visible()


def test_a_tie_is_read_as_a_tie(stage: Stage) -> None:
    row = {**ROWS[0], "weights": [[0.4, 0.4, *[0.02] * 8, *[0.0] * (len(SOURCE) - 10)]] * 11}
    live = stage.show(ReplayFigure({**RECORD, "rows": [row]}))
    assert f"attends most to “{SOURCE[0]}” and “{SOURCE[1]}” (0.40 each)." in status(live)
    row = {**ROWS[0], "weights": [[1 / len(SOURCE)] * len(SOURCE)] * 11}
    live = stage.show(ReplayFigure({**RECORD, "rows": [row]}))
    assert "attends equally to all source tokens (0.10 each)." in status(live)


def test_reset_and_looks(stage: Stage) -> None:
    stage.check_reset(stage.show(ReplayFigure(RECORD)))
    stage.check_looks(ReplayFigure(RECORD, step=100))
