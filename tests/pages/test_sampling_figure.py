"""Sampling in the page: probabilities, entropies and samples are those of the package."""

import math
import re

import pytest
import torch
from playwright.sync_api import Locator, expect

from tests.pages.live import Stage, numbers, press, status
from tests.widgets.test_sampling import sampling_figure
from tfmr.decode import Sampling
from tfmr.special_tokens import EOS
from tfmr.widgets import SamplingFigure
from tfmr.widgets.sampling import NAMED


def slider(live: Locator, name: str) -> Locator:
    return live.get_by_role("slider", name=name)


def stages(figure: SamplingFigure) -> list[torch.Tensor]:
    """The distribution of the model, and after temperature, top-k and top-p, by the package."""
    final = figure.sampling()
    found = []
    for sampling in (
        Sampling(),
        Sampling(final.temperature),
        Sampling(final.temperature, final.top_k),
        final,
    ):
        tokens, probs = sampling.candidates(figure.scores())
        full = torch.zeros(figure.scores().shape[1], dtype=torch.float64)
        found.append(full.scatter(0, tokens[0], probs[0])[EOS:])
    return found


def entropy(probs: torch.Tensor) -> float:
    kept = probs[probs > 0]
    return -float((kept * kept.log()).sum())


def agree(live: Locator, figure: SamplingFigure) -> None:
    """The table, the status line and the samples are those of the package."""
    all_stages = stages(figure)
    texts = live.locator(".sam-table tbody td").all_text_contents()
    for stage, probs in enumerate(all_stages):
        column = texts[stage::5]
        named = probs[:NAMED].tolist()
        kept = int((probs > 0).sum())
        shown = [0.0 if text == "cut" else numbers(text)[0] for text in column]
        assert shown[: NAMED + 1] == pytest.approx([*named, float(probs[NAMED:].sum())], abs=6e-4)
        cut = [text == "cut" for text in column[: NAMED + 1]]
        assert cut == [*(p == 0 for p in named), kept <= NAMED]
        assert shown[NAMED + 1] == kept
        assert shown[NAMED + 2] == pytest.approx(entropy(probs), abs=6e-3)
        assert shown[NAMED + 3] == pytest.approx(math.exp(entropy(probs)), rel=0.01, abs=6e-3)

    final = all_stages[-1]
    stored = figure.prefixes[figure.selected]
    line = status(live).removeprefix("As before: ")
    assert f"After “{stored['prefix']}”, " in line
    kept = int((final > 0).sum())
    assert numbers(line)[:2] == [kept, len(final)]
    [shown_entropy] = re.findall(r"entropy is ([\d.]+) nats", line)
    assert float(shown_entropy) == pytest.approx(entropy(final), abs=6e-4)

    drawn = torch.bincount(figure.samples().clamp(max=NAMED), minlength=NAMED + 1).tolist()
    expected = [*final[:NAMED].tolist(), float(final[NAMED:].sum())]
    for text, n, p in zip(texts[4::5], drawn, expected, strict=False):
        shown = [n, pytest.approx(p * figure.draws, abs=0.06)] if p > 0 and figure.draws else []
        assert numbers(text) == shown
    if figure.draws:
        assert f"Of {figure.draws} samples, {drawn[0]} are " in line


def test_by_mouse(phone_stage: Stage) -> None:
    figure = sampling_figure()
    live = phone_stage.show(figure)
    agree(live, figure)
    live.get_by_role("button", name="Draw 100").click()
    live.get_by_role("button", name="Draw 1", exact=True).click()
    slider(live, "Temperature").fill("1.5")
    slider(live, "Top-p").fill("0.9")
    figure.set_state({"draws": 101, "temperature": 1.5, "top_p": 0.9})
    agree(live, figure)
    live.get_by_label("Next token after").select_option(index=2)
    slider(live, "Top-k").fill("3")
    live.get_by_role("button", name="New seed").click()
    figure.set_state({"selected": 2, "top_k": 4, "seed": 1})
    agree(live, figure)


def test_by_keyboard_with_the_arithmetic_of_a_token(stage: Stage) -> None:
    figure = sampling_figure()
    live = stage.show(figure)
    slider(live, "Top-k").focus()
    press(live.page, "End", *["ArrowLeft"] * 12)  # the fifth of 17 values
    slider(live, "Temperature").focus()
    press(live.page, *["ArrowRight"] * 10)
    slider(live, "Top-p").focus()
    press(live.page, *["ArrowLeft"] * 12)
    figure.set_state({"top_k": 5, "temperature": 1.5, "top_p": 0.88})
    agree(live, figure)

    probs = [each.tolist() for each in stages(figure)]
    logs = figure.scores()[0, EOS:]
    powers = [((logs - logs[0]) / temperature).exp() for temperature in (1.0, 1.5)]
    lines = live.locator(".sam-arithmetic p > span")

    def shown(stage: int) -> list[float]:
        return numbers(lines.nth(stage).inner_text())

    step = float(logs[1] - logs[0])
    for stage, divided in enumerate(([], [1.5])):
        power, total = float(powers[stage][1]), float(powers[stage].sum())
        expected = [step, *divided, power, total, probs[stage][1]]
        assert shown(stage) == pytest.approx(expected, abs=6e-4)
    kept = sum(probs[1][:5])
    assert shown(2) == pytest.approx([2, 5, probs[1][1], kept, probs[2][1]], abs=6e-4)
    kept = sum(p for p, q in zip(probs[2], probs[3], strict=True) if q > 0)
    expected = [probs[2][0], 0.88, probs[2][1], kept, probs[3][1]]
    assert shown(3) == pytest.approx(expected, abs=6e-4)
    live.get_by_label("Computation of").focus()
    press(live.page, *["ArrowDown"] * 3)
    before = sum(probs[2][:4])
    assert before > 0.88
    assert probs[3][4] == 0
    expect(lines.last).to_have_text(f"{before:.3f} before it ≥ 0.88: cut")
    press(live.page, *["ArrowDown"] * 3)
    expect(lines.nth(2)).to_have_text("rank 8 > 5: cut")
    expect(lines.last).to_have_text("already cut")


def test_one_token_remains_and_no_change_is_announced(stage: Stage) -> None:
    figure = sampling_figure()
    live = stage.show(figure)
    slider(live, "Top-k").fill("0")
    line = status(live)
    assert line == (
        "After “A small dog”, 1 of 4,998 tokens remains; most probable: “▁runs” 1.000. "
        "The entropy is 0.000 nats."
    )
    slider(live, "Temperature").fill("2")
    expect(live.get_by_role("status")).to_have_text(f"As before: {line}")
    figure.set_state({"top_k": 1, "temperature": 2.0})
    agree(live, figure)


def test_the_buttons_remain_beside_the_table(stage: Stage) -> None:
    live = stage.show(sampling_figure())
    controls = live.locator(".live-controls").bounding_box()
    last = live.get_by_role("button", name="New seed").bounding_box()
    assert controls is not None
    assert last is not None
    assert last["x"] + last["width"] <= controls["x"] + controls["width"] + 1


def test_reset_and_looks(stage: Stage) -> None:
    figure = sampling_figure()
    stage.check_reset(stage.show(figure))
    figure.set_state({"selected": 2, "temperature": 1.05, "top_k": 1000, "top_p": 0.99})
    figure.draws = 1000
    stage.check_looks(figure)
