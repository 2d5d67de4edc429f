"""The gradient through time in the page: every number is the one that tfmr measured."""

import json
from statistics import median

import pytest
from playwright.sync_api import Locator, expect

from tests.pages.live import Stage, numbers, press, status
from tests.pages.test_stream_figure import number
from tests.widgets.test_gradient import NETWORKS as CELLS
from tests.widgets.test_gradient import measured_figure
from tfmr.widgets import GradientFigure
from tools import ROOT

NETWORKS = 4


@pytest.fixture
def figure() -> GradientFigure:
    """The figure of the tests in Python, in its first state."""
    figure = measured_figure()
    figure.set_state({"radius": 1.1, "slope": 1.0, "length": 60})
    return figure


def slider(live: Locator, name: str) -> Locator:
    return live.get_by_role("slider", name=name)


def agree(live: Locator, figure: GradientFigure, radius: float, slope: float, length: int) -> None:
    """The table and the status line have the numbers of Python."""
    figure.set_state({"radius": radius, "slope": slope, "length": length})
    measured = figure.measured()
    header = live.locator(".live-readings thead th")
    expect(header).to_have_text(["network", "median norm", "mean factor per step"])
    rows = live.locator(".live-readings tbody tr")
    assert rows.locator("th").all_inner_texts() == ["formula", *measured]
    for row, norms in zip(rows.all(), ([figure.formula()], *measured.values()), strict=True):
        middle, factor = row.locator("td").all_inner_texts()
        assert number(middle) == pytest.approx(median(norms), rel=0.06)
        assert number(factor) == pytest.approx(median(norms) ** (1 / length), abs=6e-4)
    line = status(live)
    power = str(length).translate(str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹"))
    assert line.startswith(
        f"After {length} steps, the formula gives ({radius} · {slope:.2f}){power} = "
    )
    middle = rows.nth(1).locator("td").nth(0).inner_text()
    assert f"The median norm for “RNN, radius {radius}” is {middle}: " in line


def test_numbers_after_mouse_and_keyboard(phone_stage: Stage, figure: GradientFigure) -> None:
    live = phone_stage.show(figure)
    agree(live, figure, 1.1, 1.0, 60)
    assert "= 304: the gradient explodes. The median norm for “RNN, radius 1.1” is " in status(live)
    slider(live, "Spectral radius").fill("1.6")
    slider(live, "Slope").fill("0.55")
    slider(live, "Length").fill("20")
    agree(live, figure, 1.6, 0.55, 20)
    slider(live, "Spectral radius").focus()
    press(live.page, "ArrowLeft", "ArrowLeft")
    slider(live, "Slope").focus()
    press(live.page, "ArrowRight")
    slider(live, "Length").focus()
    press(live.page, "ArrowRight")
    agree(live, figure, 1.4, 0.56, 22)
    slider(live, "Length").fill("2")
    agree(live, figure, 1.4, 0.56, 2)
    assert status(live).count("is stable") == 2
    line = status(live)
    press(live.page, "ArrowLeft")
    slider(live, "Length").fill("2")
    expect(live.get_by_role("status")).to_have_text(f"As before: {line}")


def test_dragging_across_the_chart_sets_the_length(stage: Stage, figure: GradientFigure) -> None:
    live = stage.show(figure)
    area = live.locator(".live-pick").bounding_box()
    assert area
    mouse = live.page.mouse
    for at, length in ((31.2, 32), (14.9, 14), (-20, 2), (80, 60)):
        mouse.move(area["x"] + area["width"] * at / 60, area["y"] + 20)
        if length == 32:
            mouse.down()
        agree(live, figure, 1.1, 1.0, length)
        expect(slider(live, "Length")).to_have_value(str(length))
        mark = live.locator(".live-mark").first.bounding_box()
        assert mark
        middle = mark["x"] + mark["width"] / 2 - area["x"]
        assert middle == pytest.approx(area["width"] * length / 60, abs=1)
    mouse.up()


def test_the_curves_have_the_measured_values(stage: Stage, figure: GradientFigure) -> None:
    live = stage.show(figure)
    chart = live.locator(".live-chart")
    ticks = [
        (float(str(text.text_content()).removeprefix("10").replace("−", "-") or 0), text)
        for text in chart.locator("text[text-anchor=end]").all()
        if text.text_content() != "1"
    ]
    heights = {power: float(str(text.get_attribute("y"))) - 4 for power, text in ticks}
    (low, bottom), (high, top) = min(heights.items()), max(heights.items())
    curves = chart.locator("g:has(> .live-line)")
    assert curves.count() == 1 + NETWORKS
    path = str(curves.nth(1).locator("path").get_attribute("d"))
    assert path.count("M") == 5
    seeds = figure.scaled[figure.radii.index(1.1)]
    for drawn, seed in zip(path.split("M")[1:], seeds, strict=True):
        points = numbers(drawn.replace("L", " "))
        powers = [low + (y - bottom) / (top - bottom) * (high - low) for y in points[1::2]]
        assert powers == pytest.approx(seed, abs=0.02)
    dashed = numbers(str(curves.nth(0).locator("path").get_attribute("d")).replace("L", " ")[1:])
    assert len(dashed) == 2 * 61
    assert chart.locator(".live-mark").count() == 1 + NETWORKS


def test_the_text_is_about_the_networks_that_are_shown(
    stage: Stage, figure: GradientFigure
) -> None:
    live = stage.show(figure)
    assert live.locator(".live-task").inner_text() == (
        "Try: find the networks with a stable gradient."
    )
    assert "LSTM" in str(live.locator(".live-shows").text_content())
    live = stage.show(GradientFigure({"RNN, untrained": CELLS["RNN, untrained"]}, radius=0.9))
    assert live.locator(".live-task").inner_text() == (
        "Try: move the spectral radius from 0.9 to 1.1."
    )
    assert "LSTM" not in str(live.locator(".live-shows").text_content())


@pytest.mark.parametrize("chapter", ["01-sequences-and-recurrence", "02-gates"])
def test_the_chapters_begin_where_the_task_does(chapter: str) -> None:
    notebook = json.loads((ROOT / "book" / f"{chapter}.ipynb").read_text("utf-8"))
    widgets = notebook["metadata"]["widgets"]["application/vnd.jupyter.widget-state+json"]["state"]
    states = [widget["state"] for widget in widgets.values()]
    assert [state["radius"] for state in states if "radius" in state] == [0.9]


def test_reset_and_looks(stage: Stage, figure: GradientFigure) -> None:
    stage.check_reset(stage.show(figure))
    stage.check_looks(figure)
