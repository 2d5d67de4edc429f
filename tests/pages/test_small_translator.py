"""The translator of the cover: a stored result first, its model on touch, and its warnings."""

from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.pages.conftest import Visit, guarded
from tests.pages.live import Stage, numbers, press, status
from tfmr.widgets import TranslatorFigure
from tfmr.widgets.translator import find_model, write_models

NAME = "pocket-en-fr"
SENTENCE = "The child buys every beautiful tree."


@pytest.fixture(scope="module", autouse=True)
def models(stage_folder: Path) -> None:
    """The models of the site, for the figures on the stage."""
    write_models(stage_folder / "_static" / "models")


def small() -> TranslatorFigure:
    return TranslatorFigure(NAME, brief=True)


def tokens(live: Locator) -> Locator:
    return live.get_by_role("group", name="Generated").get_by_role("radio")


def check_weights(live: Locator, text: str, target: int) -> None:
    """Compare the weights of a generated token with those of Python."""
    shipped = find_model(NAME)
    source, generated, maps = shipped.attention_maps(text)
    names = shipped.load().tokenizer.tokens
    tokens(live).nth(target).check()
    shown = [part.inner_text().split() for part in live.locator(".tra-chips li").all()]
    assert [name for name, _ in shown] == names(source)
    row = maps["cross"][-1].mean(dim=0)[target]
    found = [numbers(weight)[0] for _, weight in shown]
    assert found == pytest.approx(row.tolist(), abs=6e-4)
    key = names(source)[int(row.argmax())]
    token = names(generated)[target]
    expect(live.get_by_role("status")).to_contain_text(f"“{token}” attends most to “{key}” (")


def requested(page: Page) -> list[str]:
    """The addresses of the models that the page requests from now on."""
    found: list[str] = []
    page.on("request", lambda request: found.append(request.url) if "models/" in request.url else 0)
    return found


def test_a_stored_result_is_shown_before_the_model_is_loaded(stage: Stage) -> None:
    found = requested(stage.visit.page)
    figure = small()
    live = stage.show(figure)
    expect(live.locator(".tra-translation")).to_have_text(figure.translate())
    for target in (0, 5):
        check_weights(live, figure.text, target)
    assert found == [], "selecting a token needs no model"


@pytest.mark.parametrize("way", ["touch", "focus", "example"])
def test_the_model_is_loaded_when_the_reader_begins_to_use_a_control(
    stage: Stage, way: str
) -> None:
    found = requested(stage.visit.page)
    live = stage.show(small())
    live.page.wait_for_load_state("networkidle")
    assert found == []
    with live.page.expect_response("**/models/*"):
        if way == "touch":
            live.get_by_label("Sentence in").click()
        elif way == "focus":
            live.get_by_role("button", name="Reset").focus()
            press(live.page, "Tab")
        else:
            live.get_by_label("Example").select_option(label=SENTENCE)
    if way == "example":
        expect(live.locator(".tra-translation")).to_have_text("l'enfant achète chaque bel arbre.")
        check_weights(live, SENTENCE, 0)
    expect(live.get_by_role("button", name="Translate")).to_be_visible()
    assert len(found) == 1


def test_a_sentence_is_translated_by_keyboard_while_the_model_is_still_loading(
    phone_stage: Stage,
) -> None:
    page = phone_stage.visit.page
    held: list[Any] = []
    page.route("**/models/*", lambda route: held.append(route))
    live = phone_stage.show(small())
    height = live.evaluate("e => e.offsetHeight")
    before = live.locator(".tra-translation").inner_text()
    live.get_by_label("Sentence in").focus()
    press(page, "Control+A")
    page.keyboard.type("The red boxes are not heavy.")
    expect(live.get_by_role("progressbar")).to_be_visible()
    press(page, "Enter", "Enter")
    assert live.locator(".tra-translation").inner_text() == before
    assert live.evaluate("e => e.offsetHeight") == height
    assert len(held) == 1, "what is being loaded is not loaded again"
    held[0].continue_()
    expect(live.locator(".tra-translation")).to_have_text("les boîtes rouges ne sont pas lourdes.")
    assert live.get_by_role("progressbar").count() == 0
    check_weights(live, "The red boxes are not heavy.", 3)
    assert live.evaluate("e => e.offsetHeight") == height
    page.unroute("**/models/*")


def test_it_warns_outside_its_domain(stage: Stage) -> None:
    live = stage.show(small())
    height = live.evaluate("e => e.offsetHeight")
    field = live.get_by_label("Sentence in")
    for text, message in {
        "The zebra sings.": "The model's vocabulary lacks “zebra”",
        "Three is two.": "Doubtful: the translation is “trois",
        "le loup chante": "Doubtful: the translation is",
        SENTENCE: "The translation is “l'enfant",
    }.items():
        field.fill(text)
        field.press("Enter")
        expect(live.get_by_role("status")).to_contain_text(message)
        doubtful = message.startswith("Doubtful")
        expect(live.locator(".tra-note")).to_have_count(int(doubtful))
        if doubtful:
            expect(live.locator(".tra-note")).to_contain_text("it is at least 0.85")
        if "zebra" in text:
            assert "wolf" not in live.locator(".tra-result").inner_text()
        assert live.evaluate("e => e.offsetHeight") == height
    words = live.locator(".live-shows p").text_content() or ""
    assert "pocket grammar" in words
    assert {"wolf", "castle"} <= set(words.partition("words: ")[2].rstrip(".").split(", "))


def test_a_model_that_cannot_be_loaded_leaves_the_stored_result(stage: Stage) -> None:
    live = stage.show(small())
    before = live.locator(".tra-translation").inner_text()
    live.page.route("**/models/*", lambda route: route.abort())
    failed = "the site cannot be reached"
    live.get_by_label("Sentence in").focus()
    expect(live.get_by_role("status")).to_contain_text(failed)
    tokens(live).nth(2).check()
    expect(live.get_by_role("status")).to_contain_text("“courageux” attends most to “brave”")
    live.get_by_label("Sentence in").press("Enter")
    expect(live.get_by_role("status")).to_contain_text(failed)
    expect(live.locator(".tra-translation")).to_have_text(before)
    live.page.unroute("**/models/*")
    live.get_by_label("Example").focus()
    expect(live.get_by_role("status")).to_contain_text("“courageux” attends most to “brave”")
    live.get_by_label("Example").select_option(label=SENTENCE)
    expect(live.locator(".tra-translation")).to_have_text("l'enfant achète chaque bel arbre.")
    stage.visit.errors.clear()  # the browser reports the request that failed


def test_cancel_and_reset(stage: Stage) -> None:
    page = stage.visit.page
    page.route("**/models/*", lambda route: None)
    live = stage.show(small())
    live.get_by_label("Sentence in").focus()
    live.get_by_role("button", name="Cancel").click()
    expect(live.get_by_role("status")).to_contain_text("Cancelled.")
    live.get_by_label("Sentence in").fill("The bear sings.")
    live.get_by_role("button", name="Reset").click()
    assert status(live).startswith("The translation is “le loup courageux")
    expect(live.get_by_label("Sentence in")).to_have_value("The brave wolf sings in the garden.")
    expect(live.get_by_role("progressbar")).to_have_count(0)
    page.unroute("**/models/*")


def test_the_stored_sentence_is_an_example(stage: Stage) -> None:
    page = stage.visit.page
    text = "The wolf sings."
    assert text not in find_model(NAME).examples
    held: list[Any] = []
    page.route("**/models/*", lambda route: held.append(route))
    live = stage.show(TranslatorFigure(NAME, text, brief=True))
    before = live.locator(".tra-translation").inner_text()
    example = live.get_by_label("Example")
    expect(example.locator("option:checked")).to_have_text(text)
    example.select_option(label=SENTENCE)
    expect(live.get_by_role("progressbar")).to_be_visible()
    example.select_option(label="your own sentence")
    held[0].continue_()
    expect(live.get_by_role("progressbar")).to_have_count(0)
    assert len(held) == 1
    expect(live.get_by_label("Sentence in")).to_have_value("")
    expect(live.locator(".tra-translation")).to_have_text(before)
    example.select_option(label=SENTENCE)
    expect(live.locator(".tra-translation")).to_have_text("l'enfant achète chaque bel arbre.")
    example.select_option(label=text)
    expect(live.locator(".tra-translation")).to_have_text(before)
    page.unroute("**/models/*")


def test_typing_is_not_announced(stage: Stage) -> None:
    live = stage.show(small())
    field = live.get_by_label("Sentence in")
    with live.page.expect_response("**/models/*"):
        field.focus()
    expect(live.get_by_role("progressbar")).to_have_count(0)
    expect(live.get_by_role("status")).to_contain_text("The translation is")
    before = status(live)
    press(live.page, "a")
    live.page.wait_for_timeout(200)
    assert status(live) == before


def test_equal_weights_are_reported(stage: Stage) -> None:
    figure = small()
    source, target = figure.stored["source"], figure.stored["target"]
    weights = [[0.1, 0.25, 0.25, 0.2, *[0.0] * (len(source) - 4)] for _ in target]
    figure.stored = {**figure.stored, "weights": weights}
    live = stage.show(figure)
    names = f"“{source[1]}” and “{source[2]}” (0.250 each)"
    expect(live.get_by_role("status")).to_contain_text(f"“{target[1]}” attends most to {names}.")
    assert f"“{target[1]}” to “{source[1]}” (0.250)" in repr(figure)


def test_a_link_cannot_select_a_search_that_it_does_not_offer(stage: Stage) -> None:
    live = stage.show(small())
    live.page.evaluate("() => { location.hash = 'live-stage-1&beam=4'; }")
    expect(live.get_by_role("status")).to_contain_text("beam")


def test_reset_and_looks(stage: Stage) -> None:
    stage.check_reset(stage.show(small()))
    stage.check_looks(small())


def test_the_cover_shows_it_first_and_also_without_javascript(
    visit: Visit, chromium: Browser, address: str
) -> None:
    page = visit.open("index.html")
    place = page.locator(".cover-live .live")
    box = place.locator(".tra-translation").bounding_box()
    assert box
    assert box["y"] + box["height"] < 720, "below the first screen"
    for other in guarded(chromium, address, java_script_enabled=False):
        other.page.goto(f"{address}/index.html")
        text = other.page.locator(".cover-live").inner_text()
        assert "“les boîtes rouges ne sont pas lourdes.”" in text
        assert "“pas” to “not” (" in text
        assert "needs JavaScript" in text
