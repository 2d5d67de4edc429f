"""The attention bench in the page: its numbers are those of the package, however it is operated."""

import math
import re

import pytest
import torch
from playwright.sync_api import Locator, expect

from tests.pages.live import Stage, cells, choose, numbers, press, status
from tfmr.widgets import AttentionFigure

TOKENS = ["I", "am", "good"]
Q = [[1.0, 2.0], [1.0, 0.0], [1.0, -1.0]]
K = [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]
V = [[2.0, 0.0], [1.0, 1.0], [0.0, 4.0]]
PRODUCT, DIVIDED, MASKED, WEIGHT = range(4)


def figure(**changes: object) -> AttentionFigure:
    return AttentionFigure(**{"tokens": TOKENS, "q": Q, "k": K, "v": V} | changes)


def agree(live: Locator, expected: AttentionFigure) -> None:
    """All numbers of the figure are those of the package."""
    i = expected.selected
    weights = expected.weights()
    steps = torch.tensor(cells(live.locator(".att-steps")))
    products = torch.tensor(expected.q) @ torch.tensor(expected.k).T
    if expected.dot_products is not None:
        products = torch.tensor(expected.dot_products)
    torch.testing.assert_close(steps[:, PRODUCT], products[i], atol=6e-3, rtol=0)
    divided = products / math.sqrt(len(expected.q[0])) if expected.scaled else products
    torch.testing.assert_close(steps[:, DIVIDED], divided[i], atol=6e-3, rtol=0)
    torch.testing.assert_close(steps[:, WEIGHT], weights[i], atol=6e-4, rtol=0)
    torch.testing.assert_close(
        torch.tensor(cells(live.locator(".att-map"))), weights, atol=6e-3, rtol=0
    )
    [output] = cells(live.locator(".att-output"))
    assert output == pytest.approx(expected.output()[i].tolist(), abs=6e-3)


@pytest.mark.parametrize("scaled", [True, False])
@pytest.mark.parametrize("causal", [True, False])
def test_numbers_are_those_of_the_package(stage: Stage, scaled: bool, causal: bool) -> None:
    live = stage.show(figure())
    live.get_by_label("÷ √dk").set_checked(scaled)
    live.get_by_label("causal mask").set_checked(causal)
    for selected, token in enumerate(TOKENS):
        choose(live, "Query", token)
        agree(live, figure(selected=selected, causal=causal, scaled=scaled))


@pytest.mark.parametrize(
    ("vector", "changes"),
    [
        ("query of “I”", {"q": [[1.0, 1.5], *Q[1:]]}),
        ("key of “good”", {"k": [*K[:2], [1.0, 1.5]]}),
        ("value of “am”", {"v": [V[0], [1.0, 1.5], V[2]]}),
    ],
)
def test_a_vector_can_be_changed(stage: Stage, vector: str, changes: dict[str, object]) -> None:
    live = stage.show(figure())
    live.get_by_label("Change").select_option(label=vector)
    live.locator(".att-editor input[type=range]").last.fill("1.5")
    agree(live, figure(**changes))


def test_a_dot_product_can_be_set(phone_stage: Stage) -> None:
    live = phone_stage.show(figure())
    live.get_by_label("Change").select_option("dot products")
    agree(live, figure())
    live.get_by_role("slider", name="“am”").fill("-4")
    changed = figure()
    changed.dot_products = [[1.0, -4.0, 3.0], [1.0, 0.0, 1.0], [1.0, -1.0, 0.0]]
    agree(live, changed)
    live.get_by_label("causal mask").check()
    changed.causal = True
    agree(live, changed)
    live.get_by_label("Change").select_option("query of “I”")
    agree(live, figure(causal=True))


def test_the_keyboard_operates_it(stage: Stage) -> None:
    live = stage.show(figure())
    live.get_by_role("radio", name="I", exact=True).focus()
    press(live.page, "ArrowRight")
    agree(live, figure(selected=1))
    slider = live.locator(".att-editor input[type=range]").first
    slider.focus()
    press(live.page, *["ArrowLeft"] * 5)
    agree(live, figure(selected=1, q=[Q[0], [0.5, 0.0], Q[2]]))


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (PRODUCT, [1, 1, 2, 1, 3]),
        (DIVIDED, [3, 2, 3, math.sqrt(2), 3 / math.sqrt(2)]),
        (MASKED, [3, 1, 3 / math.sqrt(2), 3 / math.sqrt(2)]),
    ],
)
def test_the_arithmetic_of_a_cell_is_spelled_out(
    stage: Stage, column: int, expected: list[float]
) -> None:
    live = stage.show(figure())
    live.locator(".att-steps tbody tr").last.locator("td").nth(column).click()
    formula = live.locator(".att-formula").inner_text()
    result = live.locator(".att-arithmetic strong").inner_text()
    shown = numbers(f"{formula} = {result}")
    if column == PRODUCT:
        assert shown == pytest.approx([1, 1, 2, 1, 3], abs=6e-3)
    else:
        assert shown[-1] == pytest.approx(expected[-1], abs=6e-3)
        assert shown[0] == pytest.approx(expected[0], abs=6e-3)


def test_the_arithmetic_of_a_weight_and_of_the_output(stage: Stage) -> None:
    live = stage.show(figure())
    live.locator(".att-steps [role=gridcell]").first.focus()
    press(live.page, "ArrowRight", "ArrowRight", "ArrowRight", "ArrowDown")
    weights = figure().weights()[0].tolist()
    scores = [1 / math.sqrt(2), math.sqrt(2), 3 / math.sqrt(2)]
    powers = [math.exp(score) for score in scores]
    shown = numbers(live.locator(".att-formula").inner_text())
    assert shown == pytest.approx([scores[1], *scores, powers[1], sum(powers)], abs=6e-3)
    assert numbers(live.locator(".att-arithmetic strong").inner_text()) == pytest.approx(
        [weights[1]], abs=6e-4
    )
    live.locator(".att-output [role=gridcell]").last.click()
    shown = numbers(live.locator(".att-formula").inner_text())
    assert shown[::2] == pytest.approx(weights, abs=6e-4)
    assert shown[1::2] == [row[1] for row in V]
    # A cell of the map selects its query and its key.
    live.locator(".att-map tbody tr").nth(1).locator("td").nth(2).click()
    expect(live.get_by_role("radio", name="am", exact=True)).to_be_checked()
    expect(live.locator(".att-arithmetic")).to_contain_text("key “good”")


def test_the_status_reads_a_tie_as_a_tie_and_announces_no_change(stage: Stage) -> None:
    live = stage.show(figure(selected=1))
    weights = figure().weights()[1].tolist()
    assert status(live).startswith(
        f"“am” attends equally to “I” and “good” ({weights[0]:.3f} each), then to “am”"
    )
    live.get_by_label("Change").select_option("dot products")
    expect(live.get_by_role("status")).to_have_text(re.compile("As before: “am” attends equally"))


def test_reset_restores_everything(stage: Stage) -> None:
    live = stage.show(figure())
    stage.check_reset(live)
    live.get_by_label("Change").select_option(label="key of “good”")
    live.get_by_role("button", name="Reset").click()
    selector = live.get_by_label("Change")
    assert selector.evaluate("e => e.selectedOptions[0].label") == "query of “I”"


def test_looks(stage: Stage) -> None:
    stage.check_looks(figure())
    nine = ["the", "dog", "did", "not", "eat", "because", "it", "was", "hungry"]
    rows = [[float((i * j) % 5 - 2) for j in range(4)] for i in range(9)]
    stage.check_looks(figure(tokens=nine, q=rows, k=rows, v=rows))
