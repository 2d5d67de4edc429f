"""Positions in the page: every number is that of the package, after mouse and keyboard."""

import math
import re

import pytest
from playwright.sync_api import Locator, expect

from tests.pages.live import Stage, numbers, press, status
from tfmr.position import frequencies
from tfmr.widgets import PositionsFigure


def slider(live: Locator, name: str) -> Locator:
    return live.get_by_role("slider", name=name)


def agree(live: Locator, figure: PositionsFigure) -> None:
    """Clocks, arithmetic, heat map, curves and status line are those of the package."""
    first, second = figure.vectors()
    parts = figure.contributions().tolist()
    product = float(figure.products()[figure.m, figure.n])
    omega = frequencies(figure.size, float(figure.base)).tolist()
    turn = math.radians(figure.angle) if figure.encoding == "rotary" else 0.0
    i = figure.pair
    pair = slice(2 * i, 2 * i + 2)
    angle_m, angle_n = figure.m * omega[i], figure.n * omega[i] + turn

    clocks = live.locator(".pos-pairs .live-choice label")
    shown = [numbers(text) for text in clocks.all_inner_texts()]
    assert [number[0] for number in shown] == list(range(len(parts)))
    assert [number[1] for number in shown] == pytest.approx(parts, abs=6e-3)
    for hand, row in ((".pos-m", first[figure.m]), (".pos-n", second[figure.n])):
        ends = [
            [float(str(line.get_attribute(name))) / 46 for name in ("x2", "y2")]
            for line in live.locator(f".pos-pairs {hand}").all()
        ]
        flipped = [[x, -y] for x, y in row.unflatten(0, (-1, 2)).tolist()]
        assert ends == [pytest.approx(point, abs=1e-3) for point in flipped]

    for name, row, angle in (
        ("m", first[figure.m], angle_m), ("n", second[figure.n], angle_n),
    ):  # fmt: skip
        text = str(live.locator(f".pos-of-{name}").text_content())
        assert numbers(text)[-2:] == pytest.approx(row[pair].tolist(), abs=6e-4)
        [result] = re.findall(r"= (−?[\d.]+) rad", text)
        assert numbers(result) == pytest.approx([angle], abs=6e-4)
    text = str(live.locator(".pos-of-pair").text_content())
    factors = [*first[figure.m, pair], *second[figure.n, pair]]
    a, c, b, d = (float(factor) for factor in factors)
    assert numbers(text.replace(" − ", " ")) == pytest.approx(
        [a, b, c, d, parts[i], angle_n, angle_m], abs=6e-4
    )
    total = numbers(str(live.locator(".pos-sum").text_content()))
    assert total == pytest.approx([len(parts), product], abs=6e-4)
    line = status(live).removeprefix("As before: ")
    assert numbers(line)[:2] == pytest.approx([figure.n - figure.m, product], abs=6e-4)


def curve(live: Locator, index: int) -> list[tuple[float, float]]:
    """The points of a curve of the chart, in the units of its axes."""
    [chart] = [each for each in live.locator(".live-chart").all() if each.locator("path").count()]

    def axis(selector: str, name: str) -> tuple[float, float, float, float]:
        ticks = chart.locator(f"svg {selector}").all()
        places = [
            (numbers(str(tick.text_content()))[0], float(str(tick.get_attribute(name))))
            for tick in ticks
            if re.fullmatch(r"−?[\d.]+", str(tick.text_content()))
        ]
        return (*min(places), *max(places))

    low_x, x0, high_x, x1 = axis("text[text-anchor=middle]", "x")
    low_y, y0, high_y, y1 = axis("text[text-anchor=end]", "y")
    path = str(chart.locator("path").nth(index).get_attribute("d"))
    points = [list(map(float, pair)) for pair in re.findall(r"[ML]([\d.]+) ([\d.]+)", path)]
    return [
        (
            low_x + (high_x - low_x) * (x - x0) / (x1 - x0),
            low_y + (high_y - low_y) * (y + 4 - y0) / (y1 - y0),
        )
        for x, y in points
    ]


def test_sinusoidal_positions_by_mouse(phone_stage: Stage) -> None:
    live = phone_stage.show(PositionsFigure())
    agree(live, PositionsFigure())
    slider(live, "Row m").fill("40")
    slider(live, "Row n").fill("7")
    live.get_by_label("dmodel").select_option("16")
    live.get_by_label("Base").select_option("100")
    live.locator(".pos-pairs label").nth(6).click()
    figure = PositionsFigure(size=16, base=100, m=40, n=7, pair=6)
    agree(live, figure)

    # The heat map: the tint and the sign of every entry of the table.
    table = figure.vectors()[0]
    styles = live.locator(".pos-tile").evaluate_all("all => all.map(e => e.getAttribute('style'))")
    tints = [
        (-1 if "orange" in style else 1) * float(re.findall(r"calc\(([\d.]+)", style)[0])
        for style in styles
    ]
    assert tints == pytest.approx(table.flatten().tolist(), abs=1e-4)

    # The curves: position 40 with every position, pair 6 alone, and all distances.
    products, parts = figure.products(), figure.vectors()[0][:, 12:14]
    by_distance = curve(live, 1)
    assert [x for x, _ in by_distance] == pytest.approx([n - 40 for n in range(50)], abs=0.05)
    assert [y for _, y in by_distance] == pytest.approx(products[40].tolist(), abs=0.01)
    alone = (parts[40] @ parts.T).tolist()
    assert [y for _, y in curve(live, 2)] == pytest.approx(alone, abs=0.01)
    everywhere = [*products[-1, :-1].tolist(), *products[0].tolist()]
    assert [y for _, y in curve(live, 0)] == pytest.approx(everywhere, abs=0.01)
    assert live.locator(".live-mark").count() == 2

    live.get_by_label("dmodel").select_option("4")  # has two pairs, so pair 6 becomes pair 1
    agree(live, PositionsFigure(size=4, base=100, m=40, n=7, pair=1))


def test_the_longest_arithmetic_is_no_higher_than_the_chart(phone_stage: Stage) -> None:
    live = phone_stage.show(PositionsFigure(size=16, m=47, n=45))
    arithmetic, chart = (
        live.locator(view).evaluate("e => e.offsetHeight")
        for view in (".pos-arithmetic", ".live-chart >> nth=0")
    )
    assert arithmetic <= chart


def test_rotary_positions_by_keyboard(stage: Stage) -> None:
    live = stage.show(PositionsFigure())
    live.get_by_label("Encoding").focus()
    press(live.page, "ArrowDown")
    agree(live, PositionsFigure(encoding="rotary"))
    slider(live, "Angle").focus()
    press(live.page, *["ArrowRight"] * 6)
    slider(live, "Key n").focus()
    press(live.page, *["ArrowLeft"] * 7)
    agree(live, PositionsFigure(encoding="rotary", angle=90, n=1))
    slider(live, "Angle").fill("-135")
    live.locator(".pos-pairs input").nth(1).focus()
    press(live.page, "ArrowLeft")
    agree(live, PositionsFigure(encoding="rotary", angle=-135, n=1, pair=0))
    assert curve(live, 1)[8][1] == pytest.approx(
        float(PositionsFigure(encoding="rotary", angle=-135).products()[3, 8]), abs=0.01
    )


def test_pointing_at_the_chart_moves_n(stage: Stage) -> None:
    live = stage.show(PositionsFigure())
    area = live.locator(".live-pick").bounding_box()
    assert area
    mouse, middle = live.page.mouse, area["y"] + area["height"] / 2

    def at(distance: int) -> float:
        return area["x"] + area["width"] * (distance + 49) / 98

    mouse.move(at(20), middle)
    mouse.down()
    agree(live, PositionsFigure(n=23))
    mouse.move(at(-2), middle)
    agree(live, PositionsFigure(n=1))
    mouse.move(at(-40), middle)  # before the first position
    mouse.up()
    agree(live, PositionsFigure(n=0))
    mouse.move(at(30), middle)
    agree(live, PositionsFigure(n=0))


def test_moving_both_is_announced_as_unchanged(stage: Stage) -> None:
    live = stage.show(PositionsFigure(m=9, n=4))
    before, hands = status(live), live.locator(".pos-pairs label svg").nth(1).inner_html()
    assert live.locator(".live-task").inner_text() == "Try: drag Move both. What stays the same?"
    slider(live, "Move both").focus()
    press(live.page, "ArrowRight", "ArrowRight")
    expect(slider(live, "Move both")).to_have_attribute("aria-valuetext", "11, 6")
    expect(live.get_by_role("status")).to_have_text(f"As before: {before}")
    agree(live, PositionsFigure(m=11, n=6))
    assert live.locator(".pos-pairs label svg").nth(1).inner_html() != hands
    press(live.page, "End")
    agree(live, PositionsFigure(m=49, n=44))
    slider(live, "Row m").fill("44")
    assert "At distance 0, the dot product is 4.000" in status(live)


def test_reset_and_looks(stage: Stage) -> None:
    stage.check_reset(stage.show(PositionsFigure()))
    stage.check_looks(PositionsFigure(encoding="rotary", size=16, m=0, n=49, angle=-135, pair=7))
