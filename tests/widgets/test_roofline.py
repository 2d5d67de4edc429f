"""RooflineFigure in Python: its costs are those of chapter 16 and of counted operations."""

import pytest
import torch

from tfmr.complexity import counted_flops
from tfmr.exercises.ch16_versions import matmul_seconds
from tfmr.widgets import RooflineFigure
from tfmr.widgets.roofline import DEVICES, SIZES, Computation, computations
from tools import ROOT
from tools.notebooks import read

CHAPTER = read(ROOT / "book/16-one-device.ipynb")
COMPUTATIONS = {each.name: each for each in computations()}


def least(computation: str, device: str = "H100") -> int | None:
    return RooflineFigure(computation=computation, device=device).bound()[2]


@pytest.mark.parametrize("size", [1, 10, 448, SIZES[-1]])
@pytest.mark.parametrize("d", [512, 4096])
@pytest.mark.parametrize("device", DEVICES)
def test_a_matrix_product_takes_as_long_as_in_the_exercise(device: str, d: int, size: int) -> None:
    name = f"matrix product, d = {d:,}"
    flops, moved = COMPUTATIONS[name].costs(size)
    _, rate, _ = RooflineFigure(computation=name, device=device, size=size).bound()
    assert flops / rate == pytest.approx(matmul_seconds(size, d, d, 2, *DEVICES[device][:2]))
    assert moved == 2 * (size * d + d * d + size * d)


def test_attention_has_the_counted_flops_and_moves_its_tensors() -> None:
    n, d, heads = 6, 4096, 32
    tiles, stored = (COMPUTATIONS[f"prefill attention, {how}"] for how in ("tiled", "stored"))

    def attend(x: torch.Tensor) -> torch.Tensor:
        q = x.view(n, heads, -1).transpose(0, 1)
        return (q @ q.mT).softmax(dim=-1) @ q

    flops = counted_flops(attend, torch.randn(n, d))
    assert (flops, 2 * 4 * n * d) == tiles.costs(n)
    # Scores and weights, each written once and read once.
    assert (flops, 2 * 4 * n * d + 2 * 4 * heads * n * n) == stored.costs(n)
    # Each of these is in memory once.
    assert stored.held == (0, 2 * 4 * d, 2 * 2 * heads)
    assert tiles.held == tiles.moved


def test_a_decoding_step_has_the_costs_of_chapter_16() -> None:
    [alt] = [
        output["data"]["text/plain"]
        for cell in CHAPTER.cells
        for output in cell.get("outputs", ())
        if output.get("data", {}).get("text/plain", "").startswith("Roofline: ")
    ]
    for texts, size in (("1 text", 1), ("8 texts", 8)):
        computation = "decoding, cache of 8,192"
        intensity, rate, _ = RooflineFigure(computation=computation, size=size).bound()
        placed = f"decoding, {texts}: {intensity:.3g} FLOPs per byte, {rate:.2e} FLOP/s"
        assert placed in alt


def test_what_the_chapter_and_the_figure_state() -> None:
    text = " ".join(cell.source for cell in CHAPTER.cells)
    assert least("matrix product, d = 4,096") == 345
    assert "a multiplication with fewer than 345 tokens is limited by memory" in text
    assert least("matrix product, d = 512") is None
    assert least("decoding, cache of 128") == 440
    assert "decoding of 440 texts or more with 128 cached tokens each by arithmetic" in text
    for never in ("decoding, cache of 8,192", "prefill attention, stored"):
        assert least(never) is least(never, "A100") is None
    assert least("prefill attention, tiled", "A100") == 416
    assert COMPUTATIONS["addition of two tensors"].costs(1) == (4096, 3 * 2 * 4096)


def test_costs_are_polynomials() -> None:
    assert Computation("", "", (1, 2, 3), (4, 0, 0), (4, 0, 0)).costs(10) == (321, 4)
    assert SIZES[:12] == (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16)
    assert len(SIZES) == len(set(SIZES))


def test_the_summary_states_the_bound() -> None:
    assert RooflineFigure(size=448).summary() == (
        "the roofline of an H100 and a computation (decoding, cache of 128, size 448): at 299.1"
        " FLOPs per byte, arithmetic limits the rate to 989 TFLOP/s."
    )
    assert ", memory limits the rate to 3.36 TFLOP/s" in RooflineFigure().summary()
