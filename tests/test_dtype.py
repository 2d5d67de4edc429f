"""Matrices are multiplied in bf16 where that is faster, and not where it does not exist."""

import pytest
import torch

from tfmr.dtype import type_of_products, uses_bf16
from tfmr.errors import TfmrError


@pytest.mark.parametrize("units", [True, False])
def test_auto_takes_bf16_on_a_cpu_that_gains(monkeypatch: pytest.MonkeyPatch, units: bool) -> None:
    for found in ("_is_amx_tile_supported", "_is_avx512_bf16_supported"):
        monkeypatch.setattr(torch.cpu, found, lambda: units)
    assert uses_bf16("auto", torch.device("cpu")) is units
    assert uses_bf16("bf16", torch.device("cpu"))
    assert not uses_bf16("fp32", torch.device("cpu"))


@pytest.mark.parametrize("has", [True, False])
def test_auto_takes_bf16_on_a_gpu_that_has_it(monkeypatch: pytest.MonkeyPatch, has: bool) -> None:
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


def test_auto_leaves_a_device_alone_that_has_no_bf16() -> None:
    assert not uses_bf16("auto", torch.device("meta"))


@pytest.mark.parametrize("has", [True, False])
def test_what_pytorch_allows_is_taken_where_it_is_fast(
    monkeypatch: pytest.MonkeyPatch, has: bool
) -> None:
    for found in ("_is_amx_tile_supported", "_is_avx512_bf16_supported"):
        monkeypatch.setattr(torch.cpu, found, lambda: has)
    single, double = torch.zeros(1), torch.zeros(1, dtype=torch.float64)
    before = torch.get_float32_matmul_precision()
    try:
        for precision in ("highest", "high", "medium"):
            torch.set_float32_matmul_precision(precision)
            taken = precision == "medium" and has
            assert type_of_products(single) == (torch.bfloat16 if taken else torch.float32)
            assert type_of_products(single.to("meta")) == torch.float32
            assert type_of_products(double) == torch.float64
    finally:
        torch.set_float32_matmul_precision(before)
