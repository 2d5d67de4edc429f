"""The heads of a trained model in the page: maps and measures are those of Python."""

from pathlib import Path

import pytest
import torch
from playwright.sync_api import Locator, expect

from tests.pages.conftest import Visit
from tests.pages.live import Stage, choose, numbers, press, status
from tests.pages.test_translator_figure import PATIENCE, bars
from tfmr.widgets import HeadsFigure
from tfmr.widgets.heads import MEASURES, SENTENCES, measure, uniform
from tfmr.widgets.translator import write_models
from tools import ROOT

NAMES = {
    "encoder": "Encoder self-attention",
    "self": "Decoder self-attention",
    "cross": "Cross-attention",
}
FIRST = 4
"""The query that is shown first."""
OWN = "Zwei kleine Hunde laufen am Strand durch das Wasser."


@pytest.fixture(scope="module", autouse=True)
def models(stage_folder: Path) -> None:
    """The models of the site, for the figures on the stage."""
    write_models(stage_folder / "_static" / "models")


def radio(live: Locator, kind: str, block: int, head: int) -> Locator:
    """The small map of a head; blocks and heads are counted from 0."""
    group = live.get_by_role("group", name=NAMES[kind], exact=True)
    return group.get_by_role("radio", name=f"block {block + 1}, head {head + 1}: ")


def agree(live: Locator, figure: HeadsFigure, query: int) -> None:
    """The numbers of all heads, of the selected head, and of one query are those of Python."""
    maps = figure.maps()
    for kind, name in NAMES.items():
        # The maps of all heads are in the page even while the map of one is shown.
        shown = live.locator(".heads-kind", has_text=name).locator("b").all_text_contents()
        if kind in MEASURES[figure.measure]:
            expected = measure(maps[kind], kind, figure.measure).flatten().tolist()
            assert [float(text) for text in shown] == pytest.approx(expected, abs=6e-3)
        else:
            assert shown == ["–"] * 12
    weights = maps[figure.kind][figure.block, figure.head]
    known = [each for each, kinds in MEASURES.items() if figure.kind in kinds]
    rows = live.locator(".heads-measures tbody tr").all()
    for row, each in zip(rows, known, strict=True):
        assert each in str(row.locator("th").text_content())
        values = [float(text) for text in row.locator("td").all_text_contents()]
        even = uniform(weights, figure.kind)
        expected = [float(measure(w, figure.kind, each)) for w in (weights, even)]
        assert values == pytest.approx(expected, abs=6e-3), each
    largest = weights[query].sort(descending=True).values[:5].tolist()
    assert [weight for _, weight in bars(live, ".heads-weights")] == pytest.approx(
        largest, abs=6e-4
    )


def test_stored_maps_are_shown_without_a_download(stage: Stage) -> None:
    requests: list[str] = []
    stage.visit.page.on("request", lambda request: requests.append(request.url))
    figure = HeadsFigure()
    live = stage.show(figure)
    choose(live, "Head", "all heads")
    agree(live, figure, FIRST)
    for kind, block, head, query, name in (
        ("encoder", 1, 2, 3, "entropy in nats"),
        ("self", 2, 0, 2, "weight on the next token"),
        ("cross", 0, 3, 1, "weight on the first token"),
    ):
        radio(live, kind, block, head).check()
        live.get_by_label("Measure").select_option(label=name)
        named = "previous token" if kind == "encoder" else "other"
        choose(live, "Head", named)
        live.get_by_label("Query").select_option(index=query)
        figure.kind, figure.block, figure.head = kind, block, head
        figure.measure = next(each for each in MEASURES if each in name)
        agree(live, figure, query)
        choose(live, "Head", "all heads")
    live.get_by_label("Sentence", exact=True).select_option(label=SENTENCES[1])
    figure.text = SENTENCES[1]
    agree(live, figure, 1)
    assert not [url for url in requests if "/models/" in url]


def test_the_small_maps_have_the_weights(stage: Stage) -> None:
    """Each square of a map is on a path whose depth is the square root of its weight."""
    figure = HeadsFigure()
    figure.overview = True
    live = stage.show(figure)
    weights = figure.maps()["encoder"][1, 2]
    found = torch.zeros(weights.shape, dtype=torch.float64)
    for path in radio(live, "encoder", 1, 2).locator("xpath=..").locator("path").all():
        depth = numbers(str(path.get_attribute("style")))[0]
        for square in str(path.get_attribute("d")).split("M")[1:]:
            column, row = (int(each) for each in square.split("h")[0].split())
            found[row, column] = depth
    expected = weights.sqrt().where(weights >= 0.01, torch.zeros((), dtype=torch.float64))
    assert (found - expected).min() >= -1e-4
    assert (found - expected).max() < 1 / 8


def test_any_sentence_is_computed_in_the_page(phone_stage: Stage) -> None:
    figure = HeadsFigure(measure="distance")
    live = phone_stage.show(figure)
    page = live.page
    live.get_by_text("Your own sentence").click()
    live.get_by_label("Sentence in German").focus()
    press(page, "Control+A")
    page.keyboard.type(OWN)
    agree(live, figure, FIRST)
    press(page, "Enter")
    selector = live.get_by_label("Sentence", exact=True)
    expect(selector).to_contain_text("your own sentence", timeout=PATIENCE)
    figure.text = OWN
    agree(live, figure, FIRST)
    choose(live, "Head", "all heads")
    radio(live, "encoder", 1, 2).focus()
    press(page, "ArrowRight", "ArrowRight", "ArrowRight", "ArrowRight")
    figure.block = 2
    agree(live, figure, FIRST)
    live.get_by_label("Sentence in German").fill(" ")
    live.get_by_role("button", name="Compute the maps").click()
    assert status(live) == "There is nothing to translate: type a sentence."
    agree(live, figure, FIRST)
    selector.select_option(label=SENTENCES[1])
    figure.text = SENTENCES[1]
    agree(live, figure, FIRST)


def compute(live: Locator, text: str) -> None:
    """Type a sentence and press the button."""
    live.get_by_label("Sentence in German").fill(text)
    live.get_by_role("button", name="compute the maps").click()


def test_a_message_remains_until_something_else_is_selected(stage: Stage) -> None:
    live = stage.show(HeadsFigure())
    live.get_by_text("Your own sentence").click()
    line = live.get_by_role("status")
    for select, expected in (
        (lambda: choose(live, "Head", "diffuse"), " attends most to "),
        (lambda: live.get_by_label("Query").select_option(index=3), " attends most to "),
        (lambda: choose(live, "Head", "all heads"), "Block 1, head 1: "),
        (lambda: live.get_by_label("Measure").select_option(index=3), "on the first token"),
        (lambda: radio(live, "cross", 1, 1).check(), "Block 2, head 2: "),
    ):
        compute(live, " ")
        expect(line).to_contain_text("There is nothing to translate")
        select()
        expect(line).to_contain_text(expected)


def test_an_example_replaces_a_sentence_that_is_computed(stage: Stage) -> None:
    """The end of the computation shows neither a message nor an earlier sentence."""
    live = stage.show(HeadsFigure())
    live.get_by_text("Your own sentence").click()
    compute(live, OWN)
    selector = live.get_by_label("Sentence", exact=True)
    expect(selector).to_contain_text("your own sentence", timeout=PATIENCE)
    compute(live, "Ein Mann und eine Frau " * 8)
    live.get_by_role("button", name="Cancel").wait_for()
    selector.select_option(label=SENTENCES[0])
    expect(live.get_by_role("status")).to_contain_text(" attends most to ")
    expect(live.get_by_role("button", name="Cancel")).to_have_count(0)
    expect(selector).not_to_contain_text("your own sentence")


def test_the_named_heads_are_those_of_the_chapter(stage: Stage) -> None:
    """Each is shown with its map, and with a statement that the outputs of the chapter support."""
    chapter = (ROOT / "book" / "13-inside-a-trained-model.ipynb").read_text("utf-8")
    live = stage.show(HeadsFigure())
    for name, kind, block, head, statement, output in (
        ("previous token", "encoder", 1, 2, "Half of its weight is on the previous token",
         "encoder  previous     2    3    0.50"),
        ("first token", "self", 1, 3, "0.37 of its weight is on the first token, compared with "
         "0.24 for uniform attention", "decoder  first        2    4    0.37     0.24"),
        ("diffuse", "self", 0, 0, "removing it raises the loss by 0.041 nats",
         "decoder, block 1, head 1: cost 0.041 nats"),
        ("word alignment", "cross", 2, 0, "18 of the chapter's 19 pairs",
         "block 3, head 1: 18 of 19"),
    ):  # fmt: skip
        choose(live, "Head", name)
        place = f"{NAMES[kind]}, block {block + 1}, head {head + 1}."
        expect(live.locator(".heads-says")).to_contain_text(place)
        expect(live.locator(".heads-says")).to_contain_text(statement)
        assert output in chapter
        choose(live, "Head", "all heads")
        expect(radio(live, kind, block, head)).to_be_checked()
    radio(live, "cross", 1, 1).check()
    choose(live, "Head", "other")
    expect(live.locator(".heads-says")).to_have_text("Cross-attention, block 2, head 2.")
    weights = HeadsFigure().maps()["cross"][1, 1]
    live.get_by_label("Query").select_option(label="woman")
    shown = numbers(status(live))
    entropies = [measure(each, "cross", "entropy") for each in (weights, uniform(weights, "cross"))]
    assert shown == pytest.approx([float(weights[1].max()), *map(float, entropies)], abs=6e-3)
    assert status(live).startswith("“woman” attends most to “Frau” (")


def test_the_status_names_the_largest_head_and_a_tie(stage: Stage) -> None:
    figure = HeadsFigure(head=0, block=0)
    figure.overview = True
    live = stage.show(figure)
    largest = "The largest mean of the 12 heads of encoder self-attention: block 2, head 3 (0.58)."
    assert status(live) == (
        f"Block 1, head 1: the mean weight on the previous token is 0.15. {largest}"
    )
    radio(live, "encoder", 1, 2).check()
    line = f"Block 2, head 3: the mean weight on the previous token is 0.58. {largest}"
    expect(live.get_by_role("status")).to_have_text(line)
    live.get_by_label("Sentence", exact=True).select_option(label=SENTENCES[0])
    expect(live.get_by_role("status")).to_have_text(f"As before: {line}")
    radio(live, "cross", 0, 0).check()
    assert status(live).startswith(
        "The measure “weight on the previous token” is not defined for cross-attention: "
    )
    figure = HeadsFigure()
    figure.overview = True
    stored = figure.stored[0]
    blocks = stored["maps"]["encoder"]
    tied = {**stored["maps"], "encoder": [blocks[0], blocks[1], [blocks[1][2], *blocks[2][1:]]]}
    figure.stored = [{**stored, "maps": tied}]
    assert "block 2, head 3 and block 3, head 1 (0.58 each)." in status(stage.show(figure))


def test_the_first_query_has_a_previous_token(stage: Stage) -> None:
    live = stage.show(HeadsFigure())
    assert live.get_by_label("Query").evaluate("e => e.selectedOptions[0].text") == "Park"
    assert status(live).startswith("“Park” attends most to “im” (0.876).")


def test_all_heads_are_shown_with_a_measure_that_the_selected_one_has(stage: Stage) -> None:
    live = stage.show(HeadsFigure())
    choose(live, "Head", "word alignment")
    choose(live, "Head", "all heads")
    assert status(live).startswith("Block 3, head 1: the mean entropy in nats is ")
    choose(live, "Head", "previous token")
    live.get_by_role("radio", name="all heads").focus()
    choose(live, "Head", "all heads")
    assert status(live).startswith("Block 2, head 3: the mean entropy in nats is ")


def test_all_heads_are_labelled_and_the_map_is_whole(visit: Visit) -> None:
    live = visit.open("13-inside-a-trained-model.html").locator(".live")
    height = live.evaluate("e => e.offsetHeight")
    choose(live, "Head", "all heads")
    labels = [f"head {n}" for n in range(1, 5)] + [f"block {n}" for n in range(1, 4)]
    for group in live.locator(".heads-kind").all():
        assert group.locator("i").all_inner_texts() == labels
    column = "all => new Set(all.map(e => e.getBoundingClientRect().x)).size"
    assert live.locator(".heads-kind").first.locator("label").evaluate_all(column) == 4
    radio(live, "cross", 2, 0).check()
    box = live.locator(".heads-all .heads-map")
    for sentence in SENTENCES:
        live.get_by_label("Sentence", exact=True).select_option(label=sentence)
        for size in ("Height", "Width"):
            expect(box).to_have_js_property(f"scroll{size}", box.evaluate(f"e => e.client{size}"))
        assert live.locator(".heads-all").evaluate("e => e.scrollHeight <= e.clientHeight")
        assert live.evaluate("e => e.offsetHeight") == height


def test_reset_and_looks(stage: Stage) -> None:
    stage.check_reset(stage.show(HeadsFigure()))
    figure = HeadsFigure(kind="cross", block=2, measure="entropy")
    figure.overview = True
    stage.check_looks(figure)
