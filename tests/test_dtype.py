"""Where matrices are multiplied in bf16."""

import pytest
import torch

from tfmr.dtype import uses_bf16
from tfmr.errors import TfmrError


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
