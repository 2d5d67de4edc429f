"""The live figure of chapter 4 in the page: it answers, with the numbers of the package."""

import json
import re

import pytest
import torch
from playwright.sync_api import Locator, Page

from tests.pages.conftest import SITE, Visit
from tfmr.widgets import AttentionFigure

NAME = "04-self-attention.html"


@pytest.fixture(scope="module")
def figure() -> AttentionFigure:
    """The same figure in Python, made from the state that the page holds."""
    text = (SITE / NAME).read_text(encoding="utf-8")
    found = re.search(
        r'<script type="application/vnd.jupyter.widget-state\+json">(.*?)</script>', text, re.S
    )
    assert found, "the page holds no state of a live figure"
    states = [model["state"] for model in json.loads(found.group(1))["state"].values()]
    (state,) = (
        each for each in states if each.get("_anywidget_id", "").endswith(".AttentionFigure")
    )
    assert "_esm" not in state
    names = ("tokens", "q", "k", "v", "selected", "causal", "scaled")
    return AttentionFigure(**{name: state[name] for name in names})


@pytest.fixture
def live(visit: Visit) -> Locator:
    page = visit.open(NAME)
    return page.locator(".att").first


def shown(live: Locator) -> list[float]:
    return [float(text) for text in live.locator(".att-weight").all_inner_texts()]


def agree(live: Locator, figure: AttentionFigure) -> None:
    weights = figure.weights()
    assert shown(live) == pytest.approx(weights[figure.selected].tolist(), abs=6e-4)
    tiles = live.locator(".att-map tbody tr").nth(0).locator("td").all_inner_texts()
    assert [float(text or 0) for text in tiles] == pytest.approx(weights[0].tolist(), abs=6e-3)
    output = weights[figure.selected] @ torch.tensor(figure.v)
    numbers = [
        float(text.replace("−", "-")) for text in live.locator(".att-vector span").all_inner_texts()
    ]
    assert numbers == pytest.approx(output.tolist(), abs=6e-3)


@pytest.mark.parametrize("scaled", [True, False])
@pytest.mark.parametrize("causal", [True, False])
def test_numbers_are_those_of_the_package(
    live: Locator, figure: AttentionFigure, scaled: bool, causal: bool
) -> None:
    live.get_by_label("divide by").set_checked(scaled)
    live.get_by_label("causal mask").set_checked(causal)
    for selected in {0, len(figure.tokens) // 2, len(figure.tokens) - 1}:
        live.locator(".att-words label").nth(selected).click()
        again = AttentionFigure(
            figure.tokens, figure.q, figure.k, figure.v,
            selected=selected, causal=causal, scaled=scaled,
        )  # fmt: skip
        agree(live, again)


def test_keyboard_and_reset(live: Locator, figure: AttentionFigure) -> None:
    page: Page = live.page
    agree(live, figure)
    words = live.locator(".att-words input")
    words.nth(figure.selected).focus()
    page.keyboard.press("ArrowRight")
    moved = (figure.selected + 1) % len(figure.tokens)
    assert words.nth(moved).is_checked()
    assert f"“{figure.tokens[moved]}” attends most to" in live.get_by_role("status").inner_text()

    slider = live.locator("input[type=range]").first
    before = shown(live)
    slider.focus()
    for _ in range(5):
        page.keyboard.press("ArrowLeft")
    assert shown(live) != before
    changed = [list(row) for row in figure.q]
    changed[moved][0] = float(slider.input_value())
    agree(
        live,
        AttentionFigure(
            figure.tokens, changed, figure.k, figure.v,
            selected=moved, causal=figure.causal, scaled=figure.scaled,
        ),
    )  # fmt: skip

    live.get_by_role("button", name="Reset").click()
    agree(live, figure)
    assert words.nth(figure.selected).is_checked()


def test_keys_can_be_touched(live: Locator, figure: AttentionFigure) -> None:
    live.get_by_label("Vector").select_option(label=f"key of “{figure.tokens[0]}”")
    slider = live.locator("input[type=range]").last
    slider.fill("1.5")
    changed = [list(row) for row in figure.k]
    changed[0][-1] = 1.5
    agree(
        live,
        AttentionFigure(
            figure.tokens, figure.q, changed, figure.v,
            selected=figure.selected, causal=figure.causal, scaled=figure.scaled,
        ),
    )  # fmt: skip


def test_every_control_has_a_name(live: Locator) -> None:
    for control in live.locator("input, select, button").all():
        assert control.evaluate(
            "c => [...(c.labels ?? []), c].map(e => e.textContent).join('').trim()"
        )


def test_it_fits_a_phone_and_takes_a_tap(visit: Visit, figure: AttentionFigure) -> None:
    page = visit.open(NAME, width=390, theme="dark")
    live = page.locator(".att").first
    assert live.evaluate("e => e.scrollWidth <= e.clientWidth + 1")
    live.locator(".att-words label").last.click()
    assert live.locator(".att-words input").last.is_checked()
