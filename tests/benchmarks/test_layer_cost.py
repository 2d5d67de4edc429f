"""Cost of the layers: what is measured, and the record."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from benchmarks import layer_cost
from benchmarks.record import read
from tfmr.complexity import (
    attention_flops,
    counted_flops,
    feed_forward_flops,
    projection_flops,
    saved_bytes,
)
from tfmr.config import BlockConfig
from tfmr.encoder import EncoderBlock
from tfmr.errors import TfmrError


@pytest.fixture(autouse=True)
def threads() -> Iterator[None]:
    """The benchmark sets the number of threads."""
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def test_the_two_parts_have_the_flops_of_an_encoder_block() -> None:
    x = torch.randn(1, 80, 64)
    attention, linear = (
        counted_flops(layer_cost.Attention(1), x),
        counted_flops(layer_cost.LinearPart(64), x),
    )
    assert attention == attention_flops(80, 64)
    assert linear == projection_flops(80, 64) + feed_forward_flops(80, 64, 256)
    block = EncoderBlock(BlockConfig(d_model=64, n_heads=1, d_ff=256))
    assert attention + linear == counted_flops(lambda x: block(x, None), x)


@pytest.mark.parametrize("name", layer_cost.LAYERS)
def test_training_computes_all_gradients(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    grad = torch.autograd.grad

    def spy(out, inputs, direction):
        gradients = grad(out, inputs, direction)
        asked.append(sum(gradient.numel() for gradient in gradients))
        return gradients

    monkeypatch.setattr(torch.autograd, "grad", spy)
    layer = layer_cost.LAYERS[name](64)
    assert saved_bytes(layer_cost.call(layer, "forward", (2, 5, 64))) == 0
    assert asked == []
    layer_cost.call(layer, "training", (2, 5, 64))()
    assert asked == [2 * 5 * 64 + sum(p.numel() for p in layer.parameters())]


def test_the_record_has_every_case(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layer_cost, "run_in_new_process", lambda function, *args: function(*args))
    monkeypatch.setattr(layer_cost, "MIN_SECONDS", 1e-4)
    layer_cost.LayerCost(
        sizes=(64,), lengths=(3, 70), batches=(2, 3), length=4, d_model=64, rounds=2, out=tmp_path,
    )()  # fmt: skip
    first, second = (read(tmp_path / f"layer-{part}.json") for part in ("length", "parallelism"))
    cases = [(r["layer"], r["mode"], r["length"]) for r in first["rows"]]
    assert cases == [
        (name, mode, n) for n in (3, 70) for mode in layer_cost.MODES for name in layer_cost.LAYERS
    ]
    cases = [(r["batch"], r["layer"]) for r in second["rows"]]
    assert cases == [(b, name) for b in (2, 3) for name in layer_cost.PARALLEL]
    for row in first["rows"] + second["rows"]:
        assert len(row["seconds"]) == 2
        assert min(*row["seconds"], row["flops"]) > 0
        assert row["bytes"] > 0 if row["batch"] == 1 else row["bytes"] is None
    assert len(first["settings"]["load_average"]) == 2
    assert len(second["settings"]["load_average"]) == 2


@pytest.mark.parametrize(
    ("name", "dilation"), [("convolution", 1), ("dilated convolution", layer_cost.DILATION)]
)
def test_the_memory_of_the_forward_pass(name: str, dilation: int) -> None:
    """The padded input, the three shifted copies, and their product, all at the same time."""
    [row] = layer_cost.measure((name,), "forward", (1, 50, 64), rounds=1)
    assert row["bytes"] == 4 * 64 * ((50 + 2 * dilation) + 3 * 50 + 50)


@pytest.mark.parametrize("name", layer_cost.LAYERS)
def test_training_needs_more_memory_than_the_forward_pass(name: str) -> None:
    rows = [
        layer_cost.measure((name,), mode, (1, 70, 64), rounds=1)[0] for mode in layer_cost.MODES
    ]
    assert rows[0]["bytes"] < rows[1]["bytes"]


def test_a_size_without_whole_heads_raises(tmp_path: Path) -> None:
    with pytest.raises(TfmrError, match=r"multiples.*64, got 100"):
        layer_cost.LayerCost(sizes=(100,), out=tmp_path)()
