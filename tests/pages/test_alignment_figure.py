"""The attention weights and effects in the page: every number is that of the record."""

import re
from typing import Any

import pytest
from playwright.sync_api import Locator, expect

from tests.pages.live import Stage, numbers, press, status
from tests.widgets.test_alignment import RECORD, SEEDS, SENTENCES, row_of
from tfmr.widgets import AlignmentFigure


def select(live: Locator, name: str, index: int) -> None:
    live.get_by_label(name, exact=True).select_option(index=index)


def agree(live: Locator, seed: int, sentence: int, word: int) -> None:
    """The lists, the table and the status line are those of a row of the record."""
    row = row_of(seed, sentence)
    source, target = row["source"].split(), [*row["target"].split(), "end"]
    options = live.get_by_label("French word", exact=True).locator("option")
    assert options.all_text_contents() == target
    weights, without = row["weights"][word], row["without"][word]
    probability = row["probability"][word]
    table = live.locator(".align-words")
    caption = str(table.locator("caption").text_content())
    assert caption == f"“{target[word]}”: probability {probability:.3f}"
    lines = table.locator("tbody tr").all()
    assert [str(line.locator("th").text_content()) for line in lines] == source
    for line, weight, without_it in zip(lines, weights, without, strict=True):
        found = line.locator("td").all_text_contents()
        assert [float(text) for text in found] == [weight, without_it]
        bar = str(line.locator(".tra-bar").get_attribute("style"))
        assert numbers(bar) == pytest.approx([100 * weight], abs=0.01)
    lowest = [float(str(cell.text_content())) for cell in table.locator(".align-lowest").all()]
    assert lowest == [x for x in without if x == min(without) <= probability]
    assert expected_status(row, source, target, word) == status(live).removeprefix("As before: ")


def expected_status(row: dict[str, Any], source: list[str], target: list[str], word: int) -> str:
    """The status line for a word without ties."""
    weights, without = row["weights"][word], row["without"][word]
    now, weight = row["probability"][word], max(weights)
    largest, lowest = source[weights.index(weight)], source[without.index(min(without))]
    after = without[weights.index(weight)]
    line = f"“{target[word]}”: largest weight on “{largest}” ({weight:.3f})."
    if min(without) >= now:
        return f"{line} Masking any single English word does not lower the probability, {now:.3f}."
    change = f"falls from {now:.3f} to {after:.3f}" if after < now else (
        f"rises from {now:.3f} to {after:.3f}" if after > now else f"remains {now:.3f}"
    )  # fmt: skip
    line += f" Without it, the probability {change}"
    if largest == lowest:
        return f"{line}, the largest effect."
    weight = weights[source.index(lowest)]
    return f"{line}; without “{lowest}” (weight {weight:.3f}) it falls to {min(without):.3f}."


def squares(live: Locator) -> list[list[float]]:
    """The depth of the colour of each square of the map; 0 where there is none."""
    found = []
    for group in live.locator(".tra-row").all():
        ground = group.locator(".tra-ground")
        left, width, cell = (
            float(str(ground.get_attribute(name))) for name in ("x", "width", "height")
        )
        line = [0.0] * round(width / cell)
        for square in group.locator("rect:not(.tra-ground)").all():
            at = int((float(str(square.get_attribute("x"))) - left) / cell)
            line[at] = numbers(str(square.get_attribute("style")))[0]
        found.append(line)
    return found


@pytest.mark.parametrize("quantity", ["weights", "effects"])
def test_the_map_is_that_of_the_record(stage: Stage, quantity: str) -> None:
    live = stage.show(AlignmentFigure(RECORD, quantity=quantity))
    for seed, sentence in ((0, 0), (1, 3), (4, 4)):
        select(live, "Seed", SEEDS.index(seed))
        select(live, "Sentence", sentence)
        row = row_of(seed, sentence)
        expected = row["weights"]
        if quantity == "effects":
            expected = [
                [max(0, p - each) for each in line]
                for p, line in zip(row["probability"], row["without"], strict=True)
            ]
        for shown, line in zip(squares(live), expected, strict=True):
            # Three decimals and fp32 do not decide whether 0.01 is drawn.
            assert shown == pytest.approx([x if x >= 0.01 else 0 for x in line], abs=2e-4) or any(
                abs(x - 0.01) < 1e-6 for x in line
            )


def test_every_number_is_that_of_the_record(phone_stage: Stage) -> None:
    live = phone_stage.show(AlignmentFigure(RECORD))
    for seed in SEEDS:
        select(live, "Seed", SEEDS.index(seed))
        for sentence in range(len(SENTENCES)):
            select(live, "Sentence", sentence)
            agree(live, seed, sentence, 1)
    for word in (0, 2, 4):
        select(live, "French word", word)
        agree(live, SEEDS[-1], len(SENTENCES) - 1, word)


PAINTED = """(square, weight) => {
    square.style.fill = square.style.fill.replace(/calc[(][0-9.]+/, `calc(${weight}`);
    return getComputedStyle(square).fill;
}"""
"""The colour of a square of a weight."""


@pytest.mark.parametrize("quantity", ["weights", "effects"])
def test_the_map_has_a_scale(stage: Stage, quantity: str) -> None:
    live = stage.show(AlignmentFigure(RECORD, quantity=quantity))
    scale = live.locator(".align-scale")
    assert scale.inner_text().split() == ["0", "1"]
    gradient = scale.locator("i").evaluate("e => getComputedStyle(e).backgroundImage")
    square = live.locator(".tra-row rect:not(.tra-ground)").first
    ends = [square.evaluate(PAINTED, weight) for weight in (0, 1)]
    assert re.findall(r"color\([^)]*\)", gradient) == ends
    assert ends[0] != ends[1]
    live.page.emulate_media(forced_colors="active")
    assert "gradient" in scale.locator("i").evaluate("e => getComputedStyle(e).backgroundImage")
    live.page.emulate_media(forced_colors="none")


def test_a_weight_is_no_effect(stage: Stage) -> None:
    live = stage.show(AlignmentFigure(RECORD, seed=1, word=3))
    assert status(live) == (
        "“ne”: largest weight on “choose” (0.526). Without it, the probability "
        "rises from 0.949 "
        "to 0.975; without “not” (weight 0.328) it falls to 0.630."
    )
    label = live.locator(".align-map svg").get_attribute("aria-label")
    assert status(live) in str(label)


def test_the_mouse_selects_a_word(stage: Stage) -> None:
    live = stage.show(AlignmentFigure(RECORD))
    boxes = [row.locator(".tra-ground").bounding_box() for row in live.locator(".tra-row").all()]
    points = [(box["x"] + 30, box["y"] + box["height"] / 2) for box in boxes if box]
    mouse = live.page.mouse
    mouse.click(*points[2])
    agree(live, 0, 0, 2)
    frame = live.locator(".tra-selected").bounding_box()
    assert frame
    assert frame["y"] == pytest.approx(points[2][1] - frame["height"] / 2, abs=2)
    mouse.move(*points[3])
    agree(live, 0, 0, 2)
    mouse.down()
    mouse.move(*points[5], steps=4)
    agree(live, 0, 0, 5)
    mouse.up()
    mouse.move(*points[7])
    agree(live, 0, 0, 5)


def test_the_keyboard_operates_it(phone_stage: Stage) -> None:
    live = phone_stage.show(AlignmentFigure(RECORD))
    for name, keys in (("French word", 3), ("Seed", 1), ("Sentence", 1), ("Map", 1)):
        live.get_by_label(name, exact=True).focus()
        press(live.page, *["ArrowDown"] * keys)
    agree(live, 1, 1, 4)
    label = live.locator(".align-map svg").get_attribute("aria-label")
    assert str(label).startswith("Map of the effects: a row for each of 10 French words")
    live.get_by_role("radio", name="numbers").check()
    expect(live.locator(".align-words")).to_be_visible()
    expect(live.locator(".align-map")).to_be_hidden()


def test_a_shorter_sentence_shows_its_last_word(stage: Stage) -> None:
    live = stage.show(AlignmentFigure(RECORD, sentence=4, word=10))
    select(live, "Sentence", 3)
    expect(live.locator(".align-words caption")).to_contain_text("“end”")
    assert status(live).startswith("“end”: largest weight on “.” (0.601).")


def test_ties_are_stated(stage: Stage) -> None:
    def shown(weights: list[float], without: list[float]) -> str:
        row = {"seed": 0, "source": "a b c", "target": "x", "probability": [0.5] * 2}
        made = {**row, "weights": [weights] * 2, "without": [without] * 2}
        return status(stage.show(AlignmentFigure({"kind": "alignment", "rows": [made]}, word=0)))

    assert shown([0.4, 0.4, 0.2], [0.5, 0.1, 0.5]) == (
        "“x”: largest weight on “a” and “b” (0.400 each). The probability is 0.500, and "
        "lowest "
        "without “b” (0.100)."
    )
    assert shown([0.6, 0.4, 0.0], [0.1, 0.1, 0.5]) == (
        "“x”: largest weight on “a” (0.600). Without it, the probability falls from "
        "0.500 to 0.100, "
        "as without “b”."
    )
    assert shown([0.6, 0.4, 0.0], [0.5, 0.1, 0.1]) == (
        "“x”: largest weight on “a” (0.600). Without it, the probability remains 0.500; "
        "without “b” "
        "and “c” it falls to 0.100."
    )
    assert shown([0.6, 0.4, 0.0], [0.7, 0.5, 0.5]) == (
        "“x”: largest weight on “a” (0.600). Masking any single English word does not "
        "lower the probability, "
        "0.500."
    )


def test_no_status_line_is_longer_than_its_place(phone_stage: Stage) -> None:
    """Every word of every sentence with every seed: the height does not change."""
    live = phone_stage.show(AlignmentFigure(RECORD))
    height = live.evaluate("live => live.offsetHeight")
    for seed in range(len(SEEDS)):
        select(live, "Seed", seed)
        for sentence, source in enumerate(SENTENCES):
            select(live, "Sentence", sentence)
            for word in range(len(row_of(SEEDS[seed], sentence)["probability"])):
                select(live, "French word", word)
                found = live.evaluate("live => live.offsetHeight")
                assert found == height, (source, status(live))


def test_what_the_figure_asks_to_try(stage: Stage) -> None:
    live = stage.show(AlignmentFigure(RECORD))
    assert re.search("select ne, then another seed", live.locator(".live-task").inner_text())
    select(live, "French word", 3)
    assert status(live).startswith("“ne”: largest weight on “not” (")
    select(live, "Seed", 1)
    assert status(live).startswith("“ne”: largest weight on “choose” (")


def test_reset_and_looks(stage: Stage) -> None:
    stage.check_reset(stage.show(AlignmentFigure(RECORD)))
    stage.check_looks(AlignmentFigure(RECORD, seed=1, word=3))
    stage.check_looks(AlignmentFigure(RECORD, sentence=4, quantity="effects"))
