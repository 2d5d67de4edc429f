"""The gates in the page: every number is the one that tfmr computes."""

import math

import pytest
from playwright.sync_api import Locator, expect

from tests.pages.live import Stage, cells, choose, numbers, press, status
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


def table(live: Locator, name: str) -> Locator:
    return live.locator(f".gates-{name}").locator("table").first


def shown_up_to(grid: Locator, step: int) -> list[list[float]]:
    """The numbers of the first steps; the later cells must be empty and hatched."""
    rows = []
    for row in grid.locator("tbody tr").all():
        texts = row.locator("td").all_inner_texts()
        assert [text.strip() for text in texts[step:]] == [""] * len(texts[step:])
        assert row.locator("td.live-hidden").count() == len(texts) - step
        rows.append([numbers(text)[0] for text in texts[:step]])
    return rows


def agree(live: Locator, figure: GatesFigure) -> None:
    """All tables, the arithmetic and the status line have the numbers of Python."""
    trace = figure.trace()
    step, unit = figure.step, figure.unit - 1
    letters = ROWS[figure.cell]
    close = {"abs": 0.00501}
    for letter, row in zip(letters, shown_up_to(table(live, "time"), step), strict=True):
        assert row == pytest.approx([each[unit] for each in trace[letter][:step]], **close)
    for j, row in enumerate(shown_up_to(table(live, "prediction"), step)):
        assert row == pytest.approx([each[j] for each in trace["p"][:step]], **close)
    now = [trace[letter][step - 1] for letter in letters]
    for row, expected in zip(cells(table(live, "step")), now, strict=True):
        assert row == pytest.approx(expected, **close)
    lines = live.locator(".gates-line")
    results = [numbers(text)[0] for text in lines.locator("strong").all_inner_texts()]
    assert results == pytest.approx([values[unit] for values in now], abs=5.1e-4)
    line = status(live)
    token = figure.sequence[step - 1]
    at = {letter: trace[letter][step - 1][unit] for letter in letters}
    if figure.cell == "LSTM":
        stated = [at["f"], at["i"], at["g"], at["i"] * at["g"]]
    else:
        stated = [at["z"], 1 - at["z"], at["n"]]
    assert line.startswith(f"Step {step}, “{token}”: unit {unit + 1} of the {figure.cell} keeps ")
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
    choose(live, "Token of step 4", "C")
    live.get_by_role("button", name="Next").click()
    figure.set_state(
        {"cell": "GRU", "unit": 3, "step": 5, "sequence": [*SEQUENCE[:3], "C", *SEQUENCE[4:]]}
    )
    agree(live, figure)
    table(live, "time").locator('[data-cell="0,5"]').click()  # within what a phone shows
    live.get_by_role("slider", name="Step").focus()
    press(live.page, "ArrowRight")
    table(live, "step").get_by_role("gridcell", selected=True).focus()
    press(live.page, "ArrowLeft", "ArrowDown")
    figure.set_state({"unit": 2, "step": 7})
    agree(live, figure)
    expect(live.locator(".gates-line[aria-current=true]")).to_have_attribute("data-letter", "z")


def test_the_formulas_have_the_printed_results(stage: Stage) -> None:
    live = stage.show(gates_figure(step=5))
    for cell in ROWS:
        choose(live, "Cell", cell)
        for unit in "123":
            choose(live, "Unit", unit)
            lines = live.locator(".gates-line").all_inner_texts()
            for line, symbols in zip(lines, LINES[cell], strict=True):
                shown, formula, result = line.replace("\n", " ").rsplit("=", 2)
                assert shown.strip() == symbols
                assert value_of(formula) == pytest.approx(numbers(result)[0], abs=0.06)


def test_the_status_names_the_latest_letter_and_no_change(stage: Stage) -> None:
    live = stage.show(gates_figure(step=1))
    line = status(live)
    assert "latest letter" in line
    live.get_by_role("button", name="Back").click()
    expect(live.get_by_role("status")).to_have_text(f"Unchanged: {line}")
    choose(live, "Token of step 1", "x")
    assert status(live).endswith("; no letter so far.")


def test_equal_probabilities_are_a_tie(stage: Stage) -> None:
    figure = gates_figure()
    weights = figure.weights["LSTM"]
    equal = {"w_o": [[0.0] * 3] * 3, "b_o": [0.0] * 3}
    figure.set_state({"weights": figure.weights | {"LSTM": weights | equal}})
    assert "Prediction: a tie of “A”, “B” and “C” (0.333 each); the latest letter is “A”." in (
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
