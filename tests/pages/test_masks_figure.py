"""The masks in the page: weights, changes and verdicts are those of the package."""

import re

import pytest
from playwright.sync_api import Locator, expect

from tests.pages.live import Stage, choose, numbers, press, status
from tests.widgets.test_masks import TOKENS
from tfmr.widgets import MasksFigure
from tfmr.widgets.masks import CAUSAL, PADDING


def agree(live: Locator, figure: MasksFigure) -> None:
    """All numbers are those of the package; hidden keys are 0, and 0/0 is NaN."""
    rows = live.locator(".masks-weights tbody tr").all()
    texts = [row.locator("td").all_inner_texts() for row in rows]
    assert [list(map(float, row)) for row in texts] == [
        pytest.approx(row, abs=6e-3, nan_ok=True) for row in figure.weights().tolist()
    ]
    classes = [[cell.get_attribute("class") for cell in row.locator("td").all()] for row in rows]
    hidden = [["live-hidden" in str(name) for name in row] for row in classes]
    assert hidden == (~figure.mask()).tolist()
    distances = map(float, live.locator(".masks-number").all_inner_texts())
    assert list(distances) == pytest.approx(figure.changes().tolist(), abs=6e-4, nan_ok=True)


@pytest.mark.parametrize("causal", CAUSAL)
@pytest.mark.parametrize("padding", PADDING)
def test_numbers_are_those_of_the_package(stage: Stage, causal: str, padding: str) -> None:
    live = stage.show(MasksFigure(TOKENS))
    choose(live, "Causal mask", causal)
    choose(live, "Padding mask", padding)
    for replaced in (1, 4):
        choose(live, "Replace the token", f"{replaced} {TOKENS[replaced]}")
        agree(live, MasksFigure(TOKENS, causal=causal, padding=padding, replaced=replaced))


@pytest.mark.parametrize(
    ("stack", "causal", "padding", "replaced", "verdict"),
    [
        ("decoder", "causal", "padding", 2, "This is correct in a decoder."),
        (
            "decoder",
            "off by one",
            "padding",
            2,
            "Leak at position 1: the replaced token comes later.",
        ),
        (
            "decoder",
            "none",
            "padding",
            2,
            "Leak at positions 0 and 1: the replaced token comes later.",
        ),
        ("decoder", "transposed", "padding", 2, "token is wrongly hidden from position 3."),
        ("decoder", "causal", "none", 4, "This is correct in a decoder."),
        (
            "encoder",
            "none",
            "none",
            4,
            "Leak at positions 0, 1, 2 and 3: the replaced token is padding.",
        ),
        (
            "encoder",
            "none",
            "padding",
            4,
            "real token changes. This is correct in an encoder.",
        ),
        ("encoder", "causal", "padding", 2, "token is wrongly hidden from positions 0 and 1."),
        ("decoder", "causal", "opposite", 2, "Every key is hidden from positions 0, 1, 2 and 3"),
    ],
)
def test_the_verdict(
    stage: Stage, stack: str, causal: str, padding: str, replaced: int, verdict: str
) -> None:
    figure = MasksFigure(TOKENS, stack=stack, causal=causal, padding=padding, replaced=replaced)
    assert verdict in status(stage.show(figure))


def test_keyboard_and_mouse_operate_it(each_stage: Stage) -> None:
    live = each_stage.show(MasksFigure(TOKENS))
    group = live.get_by_role("group", name="Causal mask")
    group.get_by_role("radio", name="causal", exact=True).focus()
    press(live.page, "ArrowRight")
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
    choose(live, "Padding mask", "none")
    choose(live, "Replace the token", f"4 {TOKENS[4]}")
    agree(live, MasksFigure(TOKENS, causal="off by one", padding="none", replaced=4))


def test_no_change_is_announced(stage: Stage) -> None:
    live = stage.show(MasksFigure(TOKENS, replaced=4))
    before = status(live)
    choose(live, "Causal mask", "none")
    expect(live.get_by_role("status")).to_have_text(f"Unchanged: {before}")
    assert numbers(before) == [4.0]


def test_reset_and_looks(stage: Stage) -> None:
    stage.check_reset(stage.show(MasksFigure(TOKENS)))
    stage.check_looks(MasksFigure(TOKENS))
    stage.check_looks(MasksFigure([*"abcdef", "<pad>", "<pad>"], padding="opposite"))
