"""The masks in the page: weights, changes and verdicts are those of the package."""

import re

import pytest
from playwright.sync_api import Locator, expect

from tests.pages.live import Stage, numbers, press, status
from tests.widgets.test_masks import TOKENS
from tfmr.widgets import MasksFigure
from tfmr.widgets.masks import CAUSAL, PADDING


def agree(live: Locator, figure: MasksFigure) -> None:
    """All numbers are those of the package; hidden keys are 0, and 0/0 is NaN."""
    cells = live.locator(".masks-weights tbody td").evaluate_all(
        "all => all.map(cell => [cell.innerText, cell.classList.contains('live-hidden')])"
    )
    weights = figure.weights().flatten().tolist()
    assert [float(text) for text, _ in cells] == pytest.approx(weights, abs=6e-3, nan_ok=True)
    assert [hidden for _, hidden in cells] == (~figure.mask()).flatten().tolist()
    distances = map(float, live.locator(".masks-number").all_inner_texts())
    assert list(distances) == pytest.approx(figure.changes().tolist(), abs=6e-4, nan_ok=True)


def test_numbers_are_those_of_the_package(stage: Stage) -> None:
    live = stage.show(MasksFigure(TOKENS))
    masks = [*((causal, "none") for causal in CAUSAL), *(("causal", each) for each in PADDING[1:])]
    for i, (causal, padding) in enumerate(masks):
        replaced = (1, 4)[i % 2]
        live.get_by_label("Causal mask").select_option(label=causal)
        live.get_by_label("Padding mask").select_option(label=padding)
        live.get_by_label("Replace the token").select_option(label=f"{replaced} {TOKENS[replaced]}")
        agree(live, MasksFigure(TOKENS, causal=causal, padding=padding, replaced=replaced))


VERDICTS = (
    ("decoder", "causal", "padding", 2, "correct in a decoder."),
    ("decoder", "off by one", "padding", 2, "Leak at position 1: the replaced token comes later."),
    ("decoder", "none", "padding", 2, "Leak at positions 0 and 1: the replaced token comes later."),
    ("decoder", "transposed", "padding", 2, "wrongly hidden from position 3."),
    ("decoder", "causal", "none", 4, "correct in a decoder."),
    (
        "encoder",
        "none",
        "none",
        4,
        "Leak at positions 0, 1, 2 and 3: the replaced token is",
    ),
    ("encoder", "none", "padding", 4, "real token changes. This is correct in an encoder."),
    ("encoder", "causal", "padding", 2, "wrongly hidden from positions 0 and 1."),
    ("decoder", "causal", "opposite", 2, "Every key is hidden from positions 0, 1, 2 and 3"),
)
"""Stack, causal mask, padding mask, the replaced token, and what the status line says."""


def test_the_verdict(stage: Stage) -> None:
    for stack, causal, padding, replaced, verdict in VERDICTS:
        figure = MasksFigure(TOKENS, stack=stack, causal=causal, padding=padding, replaced=replaced)
        assert verdict in status(stage.show(figure))


def test_keyboard_and_mouse_operate_it(phone_stage: Stage) -> None:
    live = phone_stage.show(MasksFigure(TOKENS))
    live.get_by_label("Causal mask").focus()
    press(live.page, "ArrowDown")
    agree(live, MasksFigure(TOKENS, causal="off by one"))
    live.locator("[role=gridcell]").first.focus()
    press(live.page, "ArrowDown", "ArrowRight", "ArrowRight")
    expect(live.locator(".masks-cell")).to_have_text(
        re.compile(r"Query 1 “the”, key 2 “cat”: allowed, weight 0\.\d+")
    )
    press(live.page, "ArrowUp", *["ArrowRight"] * 3)
    expect(live.locator(".masks-cell")).to_have_text(
        "Query 0 “<bos>”, key 5 “<pad>”: hidden by the causal mask and the padding mask."
    )
    live.get_by_label("Padding mask").select_option(label="none")
    live.get_by_label("Replace the token").select_option(label=f"4 {TOKENS[4]}")
    agree(live, MasksFigure(TOKENS, causal="off by one", padding="none", replaced=4))


def test_no_change_is_announced(stage: Stage) -> None:
    live = stage.show(MasksFigure(TOKENS, replaced=4))
    before = status(live)
    live.get_by_label("Causal mask").select_option(label="none")
    expect(live.get_by_role("status")).to_have_text(f"As before: {before}")
    assert numbers(before) == [4.0]


def test_reset_and_looks(stage: Stage) -> None:
    stage.check_reset(stage.show(MasksFigure(TOKENS)))
    stage.check_looks(MasksFigure(TOKENS))
    stage.check_looks(MasksFigure([*"abcdef", "<pad>", "<pad>"], padding="opposite"))
