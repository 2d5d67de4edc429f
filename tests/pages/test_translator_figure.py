"""The translator in the page: it translates as Python does, however it is operated."""

import itertools
import re
from pathlib import Path

import pytest
import torch
from playwright.sync_api import Locator, expect

from tests.pages.conftest import CONTRAST
from tests.pages.live import RULES, THEMES, WIDTHS, Stage, choose, numbers, press, status
from tests.widgets.page_engine import ODD
from tfmr.analysis import record_attention
from tfmr.data.text import canonical
from tfmr.special_tokens import BOS, EOS
from tfmr.widgets import TranslatorFigure
from tfmr.widgets.translator import find_model, write_models

GERMAN = "Ein kleiner Junge springt von einem Felsen ins Wasser."
PATIENCE = 60_000
"""Milliseconds, for a busy machine."""
STRONGEST = """map => {
    const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
    const light = (colour) => {
        canvas.fillStyle = colour;
        canvas.fillRect(0, 0, 1, 1);
        const part = (c) => (c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
        const [r, g, b] = [...canvas.getImageData(0, 0, 1, 1).data].map(part);
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const fill = (rect) => light(getComputedStyle(rect).fill);
    const ground = fill(map.querySelector(".tra-ground"));
    const squares = [...map.querySelectorAll(".tra-row rect:not(.tra-ground)")].map(fill);
    return Math.max(...squares.map(square =>
        (Math.max(square, ground) + 0.05) / (Math.min(square, ground) + 0.05)));
}"""
"""The contrast of the largest weight of a map with its ground."""

OWN_ERROR = """() => {
    const { fetch } = window;
    window.fetch = (address, { signal }) => fetch(address, { signal }).catch(() => {
        throw new DOMException("The operation was aborted.", "AbortError");
    });
}"""
"""As some browsers do, reject an aborted request without the reason of the signal."""
EXPOSE = """() => {
    const { render } = window.tfmrModules["translator.js"];
    window.tfmrModules["translator.js"] = {
        render(given) {
            window.figure = given.model;
            return render(given);
        },
    };
    location.hash = "live-stage-1&name=pocket-en-ko";
}"""
"""Start the figure again, with its traits within reach, as for Python."""


@pytest.fixture(scope="module", autouse=True)
def models(stage_folder: Path) -> None:
    """The models of the site, for the figures on the stage."""
    write_models(stage_folder / "_static" / "models")


def translate(live: Locator, text: str) -> None:
    """Type a text and press the button; wait for the end."""
    live.get_by_label("Sentence in").fill(text)
    live.get_by_role("button", name="ranslate").click()
    expect(live.get_by_role("button", name="Cancel")).to_have_count(0, timeout=PATIENCE)


def bars(live: Locator, place: str) -> list[tuple[str, float]]:
    """The names and the numbers of a table with bars."""
    names = live.locator(f"{place} tbody th").all_text_contents()
    values = live.locator(f"{place} .tra-number").all_text_contents()
    return [(name, numbers(value)[0]) for name, value in zip(names, values, strict=True)]


def check_numbers(live: Locator, name: str, text: str, target: int, source: int) -> None:
    """Compare alternatives and attention weights with Python, for one token of each side."""
    saved = find_model(name).load()
    model, tokenizer = saved.model(), saved.tokenizer
    ids = tokenizer.encode(text)
    options = live.get_by_role("group", name="Generated").locator("span").all()
    generated = [option.inner_text() for option in options]
    names = {token: id for id, token in enumerate(tokenizer.tokens(range(tokenizer.vocab_size)))}
    output = [names[token] for token in generated]
    assert output[-1] == EOS
    with torch.inference_mode(), record_attention(model) as maps:
        logits = model(torch.tensor([ids]), torch.tensor([[BOS, *output[:-1]]]))[0]
    expected = logits[target].softmax(-1)
    shown = bars(live, ".tra-alternatives")
    assert len(shown) == 5
    best = expected[EOS:].topk(5).values.tolist()
    assert [probability for _, probability in shown] == pytest.approx(best, abs=6e-4)
    for token, probability in shown:
        assert probability == pytest.approx(float(expected[names[token]]), abs=6e-4)
    inputs = ["<bos>", *generated[:-1]]
    sources = tokenizer.tokens(ids)
    for kind, module, keys, row in (
        ("cross-attention", "decoder.blocks.{}.cross_attention", sources, target),
        ("decoder self-attention", "decoder.blocks.{}.self_attention", inputs, target),
        ("encoder self-attention", "encoder.blocks.{}.attention", sources, source),
    ):
        choose(live, "View", "attention")
        live.get_by_label("Attention", exact=True).select_option(label=kind)
        if kind.startswith("encoder"):
            live.get_by_label("Query", exact=True).select_option(index=source)
        for layer, head in ((1, 2), (2, 1)):
            live.get_by_label("Block", exact=True).select_option(label=str(layer))
            live.get_by_label("Head", exact=True).select_option(label=str(head))
            [weights] = maps[module.format(layer - 1)]
            largest = weights[0, head - 1, row].topk(min(5, len(keys)))
            found = bars(live, ".tra-weights")
            assert [weight for _, weight in found] == pytest.approx(
                largest.values.tolist(), abs=6e-4
            ), kind
            assert found[0][0] == keys[int(largest.indices[0])]
            label = live.locator("svg[role=img]").get_attribute("aria-label") or ""
            assert f"{kind}, block {layer}, head {head}" in label


def test_it_begins_with_a_stored_translation(stage: Stage) -> None:
    page, figure = stage.visit.page, TranslatorFigure()
    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    live = stage.show(figure)
    shown = live.locator(".tra-translation")
    expect(shown).to_have_text(figure.translate())
    expect(live.get_by_label("Sentence in")).to_have_value(figure.text)
    line = (
        f"The stored translation is “{figure.translate()}”: 6 source tokens and 9 generated tokens."
    )
    assert status(live) == line
    live.get_by_role("group", name="Generated").get_by_role("radio").nth(2).check()
    check_numbers(live, figure.name, figure.text, target=2, source=4)
    assert not [url for url in requests if "/models/" in url]

    live.get_by_label("Languages").select_option(label="English → French")
    expect(live.get_by_role("status")).to_have_text("No translation yet.")
    expect(shown).to_have_count(0)
    live.get_by_label("Languages").select_option(label="German → English")
    expect(live.get_by_role("status")).to_have_text(line)
    choose(live, "Search", "beam of 4")
    live.get_by_label("Languages").select_option(label="English → French")
    live.get_by_label("Languages").select_option(label="German → English")
    expect(live.get_by_role("status")).to_contain_text("No translation yet.")


@pytest.mark.parametrize("change", ["name=pocket-en-fr", "beam=4", "text=Zwei"])
def test_the_stored_translation_is_not_that_of_an_address(stage: Stage, change: str) -> None:
    figure = TranslatorFigure("pocket-en-ko")
    live = stage.show(figure)
    expect(live.locator(".tra-translation")).to_have_text(figure.translate())
    live.page.evaluate("change => { location.hash = `live-stage-1&${change}`; }", change)
    expect(live.get_by_role("status")).to_have_text("No translation yet.")
    expect(live.locator(".tra-translation")).to_have_count(0)


@pytest.mark.parametrize(
    ("name", "beam"), [("multi30k-de-en", 4), ("pocket-en-fr", 1), ("pocket-en-ko", 4)]
)
def test_it_translates_as_python_does(stage: Stage, name: str, beam: int) -> None:
    figure = TranslatorFigure(name, beam=beam)
    live = stage.show(figure)
    for text in find_model(name).examples[:2]:
        translate(live, text)
        figure.text = text
        expect(live.locator(".tra-translation")).to_have_text(figure.translate())
        assert status(live).startswith(f"The translation is “{figure.translate()}”: ")


def test_alternatives_and_weights_are_those_of_python(stage: Stage) -> None:
    live = stage.show(TranslatorFigure(text=GERMAN))
    translate(live, GERMAN)
    live.get_by_role("group", name="Generated").get_by_role("radio").nth(3).check()
    check_numbers(live, "multi30k-de-en", GERMAN, target=3, source=5)


def test_it_is_operated_by_keyboard(phone_stage: Stage) -> None:
    live = phone_stage.show(TranslatorFigure("pocket-en-fr"))
    page = live.page
    live.get_by_label("Sentence in").focus()
    press(page, "Control+A")
    page.keyboard.type("The red boxes are not heavy.")
    press(page, "Enter")
    expect(live.locator(".tra-translation")).to_be_visible(timeout=PATIENCE)
    expected = TranslatorFigure("pocket-en-fr", "The red boxes are not heavy.").translate()
    assert live.locator(".tra-translation").inner_text() == expected
    tokens = live.get_by_role("group", name="Generated").get_by_role("radio")
    tokens.first.focus()
    press(page, "ArrowRight", "ArrowRight")
    assert tokens.nth(2).is_checked()
    check_numbers(live, "pocket-en-fr", "the red boxes are not heavy .", target=2, source=1)


def test_a_row_of_the_map_is_selected_by_a_click(stage: Stage) -> None:
    live = stage.show(TranslatorFigure("pocket-en-fr"))
    translate(live, "The red boxes are not heavy.")
    choose(live, "View", "attention")
    live.locator(".tra-row").nth(2).click()
    assert live.get_by_role("group", name="Generated").get_by_role("radio").nth(2).is_checked()


def test_any_text_has_an_answer(stage: Stage) -> None:
    """Other odd texts are compared in ``tests/widgets/test_transformer_js.py``."""
    live = stage.show(TranslatorFigure())
    figure = TranslatorFigure()
    for text in [*ODD[2:8:2], "Ein Mann " * 1111]:
        translate(live, text)
        figure.text = text
        if not canonical(text) or len(text) > 5000:
            expect(live.locator(".tra-translation")).to_have_count(0)
            wanted = "The sentence has" if canonical(text) else "There is nothing to translate"
            assert status(live).removeprefix("As before: ").startswith(wanted)
        else:
            shown = live.locator(".tra-translation").text_content()
            assert shown == (figure.translate() or "(no token)")
    assert stage.visit.errors == []
    translate(live, "犬 und 😀")
    assert status(live).startswith("Doubtful: the translation is “")
    expect(live.locator(".tra-note").first).to_contain_text("no token for “犬” and “😀”")
    live = stage.show(TranslatorFigure("pocket-en-fr"))
    translate(live, "the zebra likes <b>jazz</b>")
    assert "“zebra”, " in status(live)
    assert "“<b>jazz</b>”" in status(live)


def test_a_model_is_loaded_on_request_and_loading_can_be_cancelled(stage: Stage) -> None:
    requests: list[str] = []
    page = stage.visit.page
    page.on("request", lambda request: requests.append(request.url))
    held: list[object] = []
    page.route("**/models/*", lambda route: held.append(route))
    live = stage.show(TranslatorFigure())
    button = live.get_by_role("button", name=re.compile(r"Load the model \(2\.9 MB\)"))
    assert not [url for url in requests if "/models/" in url]
    button.click()
    expect(live.get_by_role("progressbar")).to_be_visible()
    live.get_by_role("button", name="Cancel").click()
    assert status(live) == "Cancelled."
    page.unroute("**/models/*")
    translate(live, "Zwei Hunde.")
    expect(live.locator(".tra-translation")).to_be_visible()
    assert stage.visit.foreign == []


@pytest.mark.parametrize("control", ["Languages", "Reset"])
def test_another_model_or_a_reset_ends_loading_without_a_message(
    stage: Stage, control: str
) -> None:
    page = stage.visit.page
    page.route("**/models/*", lambda route: None)
    live = stage.show(TranslatorFigure())
    page.evaluate(OWN_ERROR)
    live.get_by_role("button", name="Load the model").click()
    expect(live.get_by_role("progressbar")).to_be_visible()
    with page.expect_event("requestfailed"):
        if control == "Reset":
            live.get_by_role("button", name="Reset").click()
        else:
            live.get_by_label("Languages").select_option(index=1)
    expected = "The stored translation is" if control == "Reset" else "No translation yet."
    expect(live.get_by_role("status")).to_contain_text(expected)
    expect(live.get_by_role("button", name="Cancel")).to_have_count(0)
    page.unroute("**/models/*")


def test_python_can_select_another_model_while_one_is_loaded(stage: Stage) -> None:
    page = stage.visit.page
    live = stage.show(TranslatorFigure())
    page.evaluate(EXPOSE)
    languages = live.get_by_label("Languages").locator("option:checked")
    expect(languages).to_have_text("English → Korean")
    page.route("**/models/*", lambda route: None)
    live.get_by_role("button", name="Load the model").click()
    expect(live.get_by_role("progressbar")).to_be_visible()
    page.evaluate("() => window.figure.set('name', 'pocket-en-fr')")
    live.get_by_label("Sentence in").fill("The red boxes are not heavy.")
    live.get_by_label("Sentence in").press("Enter")
    page.unroute("**/models/*")
    expected = TranslatorFigure("pocket-en-fr", "The red boxes are not heavy.").translate()
    expect(live.locator(".tra-translation")).to_have_text(expected)


ANSWERS = {
    "status 404": {"status": 404},
    "incomplete": {"body": "tfmrModel({"},
    "has the format": {"body": 'tfmrModel({"format":"tfmr-page-model-9"});\n'},
}
"""What the status line says, and the answer of the server."""


def test_a_failure_to_load_is_explained(stage: Stage) -> None:
    live = stage.show(TranslatorFigure())
    for message, answer in ANSWERS.items():
        live.page.route("**/models/*", lambda route, _, answer=answer: route.fulfill(**answer))
        translate(live, "Zwei Hunde.")
        assert message in status(live)
        live.page.unroute("**/models/*")
    translate(live, "Zwei Hunde.")
    expect(live.locator(".tra-translation")).to_be_visible()
    stage.visit.errors.clear()  # the browser reports the answer 404


def test_the_page_responds_while_it_computes(stage: Stage) -> None:
    """No slice of a long translation takes a large part of its time, on any machine."""
    live = stage.show(TranslatorFigure(beam=4))
    translate(live, "Zwei Hunde.")
    live.page.evaluate(
        """() => {
            window.ticks = [performance.now()];
            window.ticking = setInterval(() => window.ticks.push(performance.now()), 1);
        }"""
    )
    translate(live, "Ein Mann und eine Frau " * 10)
    ticks = live.page.evaluate("() => (clearInterval(window.ticking), window.ticks)")
    pauses = [after - before for before, after in itertools.pairwise(ticks)]
    assert max(pauses) < sum(pauses) / 4


def test_reset_and_looks(stage: Stage) -> None:
    stage.check_reset(stage.show(TranslatorFigure()))
    stage.check_looks(TranslatorFigure())


def test_a_translation_looks_right(stage: Stage) -> None:
    live = stage.show(TranslatorFigure())
    translate(live, GERMAN)
    kinds = ["encoder self-attention", "decoder self-attention", "cross-attention"]
    for width, kind in itertools.product(WIDTHS, kinds):
        live.page.set_viewport_size({"width": width, "height": 900})
        choose(live, "View", "attention")
        live.get_by_label("Attention", exact=True).select_option(label=kind)
        for theme, rules in zip(THEMES, (RULES, [CONTRAST]), strict=True):
            stage.visit.set_theme(theme)
            for rule in rules:
                assert live.page.evaluate(rule) == [], f"{theme}, {width}, {kind}"
            if not kind.startswith("encoder"):  # this head has no large weight
                assert live.locator("svg[role=img]").evaluate(STRONGEST) > 3, f"{theme}, {kind}"
        assert len(live.get_by_role("img").get_attribute("aria-label") or "") > 30
    assert stage.visit.errors == []
    assert stage.visit.foreign == []
