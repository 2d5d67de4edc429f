"""The gates in the page: every number is the one that tfmr computes."""

import math

import pytest
from playwright.sync_api import Locator, expect

from tests.pages.live import Stage, choose, numbers, press, status
from tests.widgets.test_gates import SEQUENCE, gates_figure
from tfmr.widgets import GatesFigure

ROWS = {"LSTM": "ifgoch", "GRU": "rznh"}
LINES = {
    "LSTM": [
        "input gate i = σ(x + b + h·W)",
        "forget gate f = σ(x + b + h·W)",
        "candidate g = tanh(x + b + h·W)",
        "output gate o = σ(x + b + h·W)",
        "cell state c = f · previous c + i · g",
        "hidden state h = o · tanh(c)",
    ],
    "GRU": [
        "reset gate r = σ(x + b + h·W)",
        "update gate z = σ(x + b + h·W)",
        "candidate n = tanh(x + b + r · (h·W + b′))",
        "hidden state h = (1 − z) · n + z · previous h",
    ],
}
"""Name, letter and formula of each value, as :mod:`tfmr.recurrent` computes it."""


def table(live: Locator) -> list[list[str]]:
    """The texts of the cells, in the order of the rows."""
    rows = live.locator(".gates-time tbody tr").all()
    return [[text.strip() for text in row.locator("td").all_text_contents()] for row in rows]


def pick(live: Locator, name: str) -> None:
    """Select the value of which the arithmetic is shown."""
    live.get_by_label("Arithmetic of").select_option(name)


def agree(live: Locator, figure: GatesFigure) -> None:
    """All tables, the arithmetic and the status line have the numbers of Python."""
    trace = figure.trace()
    step, unit = figure.step, figure.unit - 1
    letters = ROWS[figure.cell]
    close = {"abs": 0.00501}
    *rows, predictions = table(live)
    for letter, row in zip(letters, rows, strict=True):
        *shown, now = row
        assert shown[step:] == [""] * (len(figure.sequence) - step), "later steps are empty"
        expected = [each[unit] for each in trace[letter][:step]]
        assert [numbers(text)[0] for text in shown[:step]] == pytest.approx(expected, **close)
        assert numbers(now)[0] == pytest.approx(expected[-1], **close)
    likeliest = [figure.vocabulary[each.index(max(each))] for each in trace["p"][:step]]
    assert [text for text in predictions[:-1] if text] == likeliest
    assert numbers(predictions[-1])[0] == pytest.approx(max(trace["p"][step - 1]), **close)
    hatched = live.locator(".gates-time .live-hidden").count()
    assert hatched == (len(letters) + 1) * (len(figure.sequence) - step)
    line = live.locator(".gates-line")
    letter = str(line.get_attribute("data-letter"))
    result = numbers(line.locator("strong").inner_text())
    assert result == pytest.approx([trace[letter][step - 1][unit]], abs=5.1e-4)
    line = status(live).removeprefix("As before: ")
    token = figure.sequence[step - 1]
    at = {letter: trace[letter][step - 1][unit] for letter in letters}
    if figure.cell == "LSTM":
        stated = [at["f"], at["i"], at["g"], at["i"] * at["g"]]
    else:
        stated = [at["z"], 1 - at["z"], at["n"]]
    assert line.startswith(f"Step {step}, “{token}”: unit {unit + 1} keeps ")
    assert numbers(line)[2 : 2 + len(stated)] == pytest.approx(stated, **close)
    last = trace["p"][step - 1]
    prediction = figure.vocabulary[last.index(max(last))]
    assert f"“{prediction}” ({max(last):.3f})" in line
    latest = [token for token in figure.sequence[:step] if token in figure.vocabulary[:3]][-1]
    wrong = f"; the latest letter is “{latest}”."
    assert line.endswith(", the latest letter." if prediction == latest else wrong)


def value_of(formula: str) -> float:
    """The value of a formula with its numbers, as the figure writes it."""
    text = formula.replace("·", "*").replace("−", "-").replace("σ", "sigmoid")
    functions = {"sigmoid": lambda a: 1 / (1 + math.exp(-a)), "tanh": math.tanh}
    return float(eval(text, {"__builtins__": {}}, functions))


def test_numbers_after_mouse_and_keyboard(phone_stage: Stage) -> None:
    figure = gates_figure(step=4, unit=2)
    live = phone_stage.show(figure)
    agree(live, figure)
    choose(live, "Cell", "GRU")
    choose(live, "Unit", "3")
    live.get_by_label("Token of step 4").select_option("C")
    live.get_by_role("button", name="Next").click()
    figure.set_state(
        {"cell": "GRU", "unit": 3, "step": 5, "sequence": [*SEQUENCE[:3], "C", *SEQUENCE[4:]]}
    )
    agree(live, figure)
    live.locator(".gates-time tbody tr").nth(2).locator("td").nth(5).click()
    figure.set_state({"step": 6})
    agree(live, figure)
    expect(live.locator(".gates-line")).to_have_attribute("data-letter", "n")
    live.get_by_role("slider", name="Step").focus()
    press(live.page, "ArrowRight")
    live.get_by_label("Arithmetic of").focus()
    press(live.page, "ArrowUp")
    figure.set_state({"step": 7})
    agree(live, figure)
    expect(live.locator(".gates-line")).to_have_attribute("data-letter", "z")
    expect(live.locator(".gates-time tbody tr[aria-current]")).to_contain_text("update gate z")
    expect(live.locator(".gates-time thead [aria-current]")).to_have_text(figure.sequence[6])


def test_the_formulas_have_the_printed_results(stage: Stage) -> None:
    live = stage.show(gates_figure(step=5))
    for cell in ROWS:
        choose(live, "Cell", cell)
        for unit in "123":
            choose(live, "Unit", unit)
            for symbols in LINES[cell]:
                pick(live, symbols.partition(" = ")[0])
                line = live.locator(".gates-line").inner_text()
                shown, formula, result = line.replace("\n", " ").rsplit("=", 2)
                assert shown.strip() == symbols
                assert value_of(formula) == pytest.approx(numbers(result)[0], abs=0.06)


def test_the_status_names_the_latest_letter_and_no_change(stage: Stage) -> None:
    live = stage.show(gates_figure(step=1))
    line = status(live)
    assert "latest letter" in line
    live.get_by_role("button", name="Back").click()
    expect(live.get_by_role("status")).to_have_text(f"As before: {line}")
    live.get_by_label("Token of step 1").select_option("x")
    assert status(live).endswith("; no letter so far.")


def test_equal_probabilities_are_a_tie(stage: Stage) -> None:
    figure = gates_figure()
    weights = figure.weights["LSTM"]
    equal = {"w_o": [[0.0] * 3] * 3, "b_o": [0.0] * 3}
    figure.set_state({"weights": figure.weights | {"LSTM": weights | equal}})
    assert "Prediction: a tie between “A”, “B” and “C” (0.333 each); the latest letter is “A”." in (
        status(stage.show(figure))
    )


def test_play_runs_to_the_end(moving_stage: Stage) -> None:
    live = moving_stage.show(gates_figure(step=7))
    live.get_by_role("button", name="Play").click()
    expect(live.get_by_role("slider", name="Step")).to_have_attribute("aria-valuetext", "8: x")
    expect(live.get_by_role("button", name="Play")).to_be_visible()


def test_reset_and_looks(stage: Stage) -> None:
    stage.check_reset(stage.show(gates_figure(step=4)))
    stage.check_looks(gates_figure(step=4))
