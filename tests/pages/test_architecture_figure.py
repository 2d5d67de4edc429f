"""The map of the architecture in the page: its costs are those of the package's model."""

from dataclasses import replace

import pytest
from playwright.sync_api import Locator, expect

from tests.pages.conftest import SITE, Visit
from tests.pages.live import Stage, numbers, press, status
from tests.widgets.test_architecture import SMALL, figure
from tfmr.config import TransformerConfig
from tfmr.figures.map import PARTS
from tfmr.figures.palette import ENCODER, INK, rgb
from tfmr.widgets import ArchitectureFigure

ONE_BLOCK = ("embedding", "position", "output", "softmax", "loss", "decoding")


def select(live: Locator, part: int) -> None:
    live.get_by_label("Part", exact=True).select_option(index=part)


def agree(live: Locator, expected: ArchitectureFigure, parts: range = range(len(PARTS))) -> None:
    """The costs of the parts, and their shares of the model, are those of the package."""
    measured = expected.measured()
    total = measured["total"]
    [sizes] = (model for model in expected.models if model["name"] == expected.model_name)
    for part in parts:
        select(live, part)
        kind = expected.drawing["blocks"][part]["kind"]
        costs = measured.get(kind, (0, 0))
        for i, name in enumerate(("parameters", "FLOPs")):
            cells = live.locator(f"[data-cost={name}] td")
            text = cells.first.locator("b").text_content() or ""
            # FLOPs are counted in matrix multiplications only.
            assert (text == "–") == (name == "FLOPs" and costs[i] == 0), (kind, name)
            [one] = numbers(text) or [0.0]
            blocks = (
                1
                if kind in ONE_BLOCK
                else sizes["n_encoder" if PARTS[part].side == "encoder" else "n_decoder"]
            )
            assert one * blocks == costs[i], (kind, name)
            share = numbers(cells.last.text_content() or "") or [0.0]
            assert share == pytest.approx([100 * costs[i] / total[i]], abs=0.051), (kind, name)


def test_costs_are_those_of_the_package(stage: Stage) -> None:
    live = stage.show(figure())
    live.get_by_role("slider", name="Source").fill("3")
    live.get_by_role("slider", name="Target").fill("128")
    agree(live, figure(source_length=3, target_length=128))


def test_another_model(stage: Stage) -> None:
    live = stage.show(figure())
    live.get_by_label("Model", exact=True).select_option(label="base")
    agree(live, figure(model="base"), range(2, 8))
    assert "63.1 million" in status(live)
    assert "d_model 512, 8 heads, d_ff 2048, 6 + 6 blocks, 37,000 tokens" in str(
        live.locator(".live-shows").text_content()
    )


def test_the_status_names_what_is_not_counted_and_what_is_shared(stage: Stage) -> None:
    live = stage.show(figure(model="base"))
    uncounted = "no matrix multiplication, so its FLOPs are not counted."
    select(live, 20)
    assert status(live) == f"Softmax: no parameters; {uncounted}"
    select(live, 5)
    assert status(live).endswith(f"; {uncounted}")
    for part in (0, 8, 19):
        select(live, part)
        assert " 18.9 million parameters (shared by three parts), 30.0 % of " in status(live)
    select(live, 3)
    assert "shared" not in status(live)


SHAPES = {
    0: ["9", "(9, 16)"],
    3: ["(9, 16)", "(4, 9, 4)", "(9, 16)"],
    4: ["(4, 9, 4)", "(4, 9, 9)", "(4, 9, 4)"],
    6: ["(9, 16)", "(9, 24)", "(9, 16)"],
    15: ["(4, 5, 4)", "(4, 9, 4)", "(4, 5, 9)", "(4, 5, 4)"],
    19: ["(5, 16)", "(5, 50)"],
}
"""The shapes of some parts for 9 source and 5 target tokens."""


def test_shapes(stage: Stage) -> None:
    live = stage.show(figure(source_length=9, target_length=5))
    for part, shapes in SHAPES.items():
        select(live, part)
        assert live.locator(".arch-shapes td").all_text_contents() == shapes


def test_point_click_and_arrow_keys(phone_stage: Stage) -> None:
    live = phone_stage.show(figure(part=0))
    title = live.locator(".arch-title")
    line = status(live)
    live.locator(".arch-block").nth(19).hover()
    expect(title).to_have_text("Output projection")
    assert status(live) == line
    live.locator(".live-title").hover()
    expect(title).to_have_text("Embedding of the encoder")
    live.locator(".arch-block").nth(18).click()
    expect(
        live.get_by_role("radio", name="Add & norm of the decoder", checked=True)
    ).to_be_focused()
    press(live.page, "ArrowRight", "ArrowUp", "ArrowDown")
    expect(title).to_have_text("Output projection")
    assert status(live).startswith("Output projection: 800 parameters")
    expect(live.locator(".arch-block[tabindex='0']")).to_be_focused()
    live.get_by_label("Model", exact=True).select_option(label="base")
    agree(live, figure(model="base"), range(14, 20))


def test_residual_connections_and_the_encoder_output_have_their_colours(stage: Stage) -> None:
    live = stage.show(figure())
    for kind, colour in (("residual", INK), ("memory", ENCODER)):
        expected = [round(255 * part) for part in rgb(colour)]
        line = live.locator(f".arch-{kind} .arch-line").first
        head = live.locator(f".arch-{kind} .arch-head").first
        assert numbers(line.evaluate("e => getComputedStyle(e).stroke")) == expected
        assert numbers(head.evaluate("e => getComputedStyle(e).fill")) == expected


def test_colours_show_the_share_of_the_costs(stage: Stage) -> None:
    live = stage.show(figure(model="base"))
    before = status(live)
    live.get_by_label("Colour by", exact=True).select_option(label="FLOPs")
    expect(live.get_by_role("status")).to_have_text(f"As before: {before}")
    fills = [
        numbers(str(box.evaluate("e => e.style.fill")).split("calc(")[1])[0]
        for box in live.locator(".arch-name").all()
    ]
    measured = figure(model="base").measured()
    for fill, block in zip(fills, figure().drawing["blocks"], strict=True):
        is_stack = block["kind"] in ("encoder", "decoder")
        flops = 0 if is_stack else measured.get(block["kind"], (0, 0))[1]
        assert fill == pytest.approx(min(1, flops / measured["total"][1] / 0.35), abs=1e-3)


def test_links_lead_to_the_chapter_and_the_source(visit: Visit) -> None:
    page = visit.open("10-transformer.html")
    live = page.locator(".live", has_text="The Transformer")
    for part in range(len(PARTS)):
        select(live, part)
        for link in live.locator(".arch-links a").all():
            name, _, anchor = str(link.get_attribute("href")).removeprefix("./").partition("#")
            text = (SITE / name).read_text("utf-8")
            assert not anchor or f'id="{anchor}"' in text, f"{name}#{anchor}"
        assert live.locator(".arch-links a").count() == 2


def test_reset_and_looks(stage: Stage) -> None:
    stage.check_reset(stage.show(figure()))
    stage.check_looks(figure(model="base", part=15))
    big = replace(TransformerConfig.big(), n_encoder=12, n_decoder=12)
    live = stage.show(figure(models={"big": big, "small": SMALL}, model="big", part=10))
    assert "12 blocks" in status(live)
