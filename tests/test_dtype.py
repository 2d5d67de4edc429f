"""Where matrices are multiplied in bf16, and the types of inputs."""

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from tfmr.analysis import entropy
from tfmr.attention import (
    MultiHeadAttention,
    mask_to_bias,
    padding_mask,
    scaled_dot_product_attention,
)
from tfmr.config import BlockConfig
from tfmr.dtype import uses_bf16
from tfmr.encoder import Encoder
from tfmr.errors import TfmrError
from tfmr.layers import Dropout, FeedForward, LayerNorm, layer_norm
from tfmr.position import rotate_naive
from tfmr.recurrent import LSTM


@pytest.mark.parametrize("units", [True, False])
def test_auto_selects_bf16_on_a_cpu_with_instructions_for_it(
    monkeypatch: pytest.MonkeyPatch, units: bool
) -> None:
    for found in ("_is_amx_tile_supported", "_is_avx512_bf16_supported"):
        monkeypatch.setattr(torch.cpu, found, lambda: units)
    assert uses_bf16("auto", torch.device("cpu")) is units
    assert uses_bf16("bf16", torch.device("cpu"))
    assert not uses_bf16("fp32", torch.device("cpu"))


@pytest.mark.parametrize("has", [True, False])
def test_auto_selects_bf16_on_a_gpu_that_supports_it(
    monkeypatch: pytest.MonkeyPatch, has: bool
) -> None:
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: has)
    gpu = torch.device("cuda", 0)
    assert uses_bf16("auto", gpu) is has
    if has:
        assert uses_bf16("bf16", gpu)
    else:
        with pytest.raises(
            TfmrError, match=r'bf16 needs a device that .* cuda:0 does not: .*"fp32"'
        ):
            uses_bf16("bf16", gpu)


def test_auto_selects_fp32_on_other_devices() -> None:
    assert not uses_bf16("auto", torch.device("meta"))


CONFIG = BlockConfig(d_model=4, n_heads=2, d_ff=8)
MODULES: dict[str, nn.Module] = {
    "attention": MultiHeadAttention(4, 2),
    "encoder": Encoder(CONFIG, 1),
    "feed-forward": FeedForward(4, 8),
    "layer norm": LayerNorm(4),
    "LSTM": LSTM(4, 4),
}


@pytest.mark.parametrize("module", MODULES.values(), ids=MODULES)
@pytest.mark.parametrize("dtype", [torch.int64, torch.float64])
@pytest.mark.usefixtures("unchecked")
def test_an_input_of_another_type_is_rejected(module: nn.Module, dtype: torch.dtype) -> None:
    message = re.escape(
        f"x must be torch.float32, like the weights: got {dtype}; use x.to(torch.float32)"
    )
    with pytest.raises(TfmrError, match=f"^{message}$"):
        module(torch.ones(1, 2, 4, dtype=dtype))


@pytest.mark.parametrize("module", MODULES.values(), ids=MODULES)
@pytest.mark.usefixtures("unchecked")
def test_a_list_is_rejected(module: nn.Module) -> None:
    with pytest.raises(TfmrError, match=r"^x must be a tensor: got list; use torch\.tensor\(x\)$"):
        module([[[1.0, 2.0, 3.0, 4.0]]])


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda x: scaled_dot_product_attention(x, x, x), "q"),
        (lambda x: scaled_dot_product_attention(*3 * [torch.ones(1, 1)], mask=x), "mask"),
        (padding_mask, "ids"),
        (lambda x: mask_to_bias(x, torch.float32), "mask"),
        (lambda x: layer_norm(x, torch.ones(1), torch.zeros(1)), "x"),
        (Dropout(0.5), "x"),
        (Dropout(0.5).eval(), "x"),
        (rotate_naive, "x"),
        (entropy, "weights"),
    ],
)
@pytest.mark.usefixtures("unchecked")
def test_lists_are_rejected_by_functions(call: Callable[[Any], Any], name: str) -> None:
    with pytest.raises(TfmrError, match=f"^{name} must be a tensor: got list"):
        call([[1]])


@pytest.mark.parametrize(("call", "name"), [(rotate_naive, "x"), (entropy, "weights")])
@pytest.mark.usefixtures("unchecked")
def test_functions_of_floating_point_numbers_reject_integers(
    call: Callable[[Any], Any], name: str
) -> None:
    message = f"{name} must be a floating-point tensor: got torch.int64; use {name}.float()"
    with pytest.raises(TfmrError, match=f"^{re.escape(message)}$"):
        call(torch.ones(2, 4, dtype=torch.int64))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bool])
@pytest.mark.usefixtures("unchecked")
def test_ids_of_another_type_are_rejected(dtype: torch.dtype) -> None:
    message = re.escape(f"ids must be integers: got {dtype}; use ids.long()")
    with pytest.raises(TfmrError, match=f"^{message}$"):
        padding_mask(torch.ones(2, 3, dtype=dtype))


def test_autocast_converts_the_types() -> None:
    x = torch.ones(1, 2, 4, dtype=torch.bfloat16)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert MODULES["feed-forward"](x).shape == (1, 2, 4)
