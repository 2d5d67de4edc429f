"""The arithmetic of each machine, its settings, and the types of inputs."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import tfmr
from tests.errors import rejects
from tfmr.analysis import entropy
from tfmr.attention import (
    MultiHeadAttention,
    mask_to_bias,
    padding_mask,
    scaled_dot_product_attention,
)
from tfmr.config import BlockConfig
from tfmr.dtype import Arithmetic, Precision, Units, choose_arithmetic, find_units
from tfmr.encoder import Encoder
from tfmr.errors import TfmrError
from tfmr.layers import Dropout, FeedForward, LayerNorm, layer_norm
from tfmr.position import rotate_naive
from tfmr.recurrent import LSTM

CPU, GPU, META = torch.device("cpu"), torch.device("cuda", 0), torch.device("meta")
OLD_CPU = Units(CPU)
AVX512 = Units(CPU, avx512=True)
AVX512_BF16 = Units(CPU, avx512=True, bf16=True)
AMX = Units(CPU, avx512=True, bf16=True, amx=True)
TURING = Units(GPU)
AMPERE = Units(GPU, bf16=True, tf32=True)


@pytest.mark.parametrize(
    ("precision", "units", "name", "matmul"),
    [
        ("fp32", OLD_CPU, "fp32", "highest"),
        ("fp32", AVX512, "fp32", "medium"),  # oneDNN, which has no matrix units to use
        ("fp32", AVX512_BF16, "fp32", "medium"),
        ("fp32", AMX, "fp32", "highest"),
        ("fp32", TURING, "fp32", "highest"),
        ("fp32", AMPERE, "fp32", "highest"),
        ("fp32", Units(META), "fp32", "highest"),
        ("auto", OLD_CPU, "fp32", "highest"),
        ("auto", AVX512, "fp32", "medium"),
        ("auto", AVX512_BF16, "bf16", "medium"),
        ("auto", AMX, "bf16", "highest"),
        ("auto", TURING, "fp32", "highest"),
        ("auto", AMPERE, "bf16", "highest"),
        ("auto", Units(META), "fp32", "highest"),
        ("tf32", AMPERE, "tf32", "high"),
        ("bf16", OLD_CPU, "bf16", "highest"),
        ("bf16", AMX, "bf16", "highest"),
        ("bf16", AMPERE, "bf16", "highest"),
    ],
)
def test_the_arithmetic_of_each_machine(
    precision: Precision, units: Units, name: str, matmul: str
) -> None:
    arithmetic = choose_arithmetic(precision, units)
    assert (arithmetic.name, arithmetic.matmul) == (name, matmul)
    assert arithmetic.dtype == (torch.bfloat16 if name == "bf16" else torch.float32)


@pytest.mark.parametrize(
    ("precision", "units"),
    [("tf32", AMX), ("tf32", TURING), ("bf16", TURING), ("bf16", Units(META))],
)
def test_an_arithmetic_without_instructions_is_rejected(precision: Precision, units: Units) -> None:
    with pytest.raises(TfmrError, match=rf'{precision} .*{units.device} .*"fp32"'):
        choose_arithmetic(precision, units)


@pytest.mark.parametrize("units", [OLD_CPU, AVX512, AVX512_BF16, AMX])
def test_the_instructions_of_a_cpu(monkeypatch: pytest.MonkeyPatch, units: Units) -> None:
    found = {
        "_is_amx_tile_supported": units.amx,
        "_is_avx512_bf16_supported": units.bf16,
        "_is_avx512_supported": units.avx512,
    }
    for name, value in found.items():
        monkeypatch.setattr(torch.cpu, name, lambda value=value: value)
    assert find_units(CPU) == units


@pytest.mark.parametrize(
    ("units", "capability"), [(TURING, (7, 5)), (AMPERE, (8, 0)), (AMPERE, (9, 0))]
)
def test_the_instructions_of_a_gpu(
    monkeypatch: pytest.MonkeyPatch, units: Units, capability: tuple[int, int]
) -> None:
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: units.bf16)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    assert find_units(GPU) == units
    assert find_units(META) == Units(META)


def settings() -> list[object]:
    """All settings on which the matmuls of fp32 tensors depend."""
    backends = torch.backends
    newer = [backends.mkldnn.matmul, backends.cuda.matmul, backends.cudnn.conv, backends.cudnn.rnn]
    return [
        torch.get_float32_matmul_precision(),
        backends.cudnn.allow_tf32,
        *(backend.fp32_precision for backend in newer),
    ]


@pytest.mark.parametrize("arithmetic", [Arithmetic("fp32"), Arithmetic("tf32", "high")])
def test_settings_are_restored(arithmetic: Arithmetic) -> None:
    before = settings()
    with arithmetic.applied():
        assert settings()[:2] == [arithmetic.matmul, arithmetic.name == "tf32"]
        outer = settings()
        with pytest.raises(KeyError, match="medium"), Arithmetic("fp32", "medium").applied():
            raise KeyError(settings()[0])
        assert settings() == outer
    assert settings() == before


def test_the_newer_settings_are_restored() -> None:
    before = settings()
    backend = torch.backends.mkldnn.matmul
    try:
        backend.fp32_precision = "bf16"
        with pytest.raises(RuntimeError):  # PyTorch: the older setting is out of date
            torch.get_float32_matmul_precision()
        with Arithmetic("fp32").applied():
            assert torch.get_float32_matmul_precision() == "highest"
            assert backend.fp32_precision == "ieee"
        assert backend.fp32_precision == "bf16"
    finally:
        torch.set_float32_matmul_precision(str(before[0]))
        backend.fp32_precision = before[2]
    assert settings()[:3] == before[:3]


def test_fp32_switches_an_outer_autocast_off() -> None:
    x = torch.ones(2, 2)
    with Arithmetic("bf16").autocast(CPU):
        assert (x @ x).dtype == torch.bfloat16
        with Arithmetic("fp32").autocast(CPU):
            assert (x @ x).dtype == torch.float32


def test_only_one_module_changes_the_arithmetic() -> None:
    setters = re.compile(
        r"set_float32_matmul_precision\(|allow_tf32 *=|fp32_precision *=|autocast\(.*bfloat16"
        r"|set_autocast|set_flags\("
    )
    root = Path(tfmr.__file__).parent.parent
    paths = [path for name in ("tfmr", "benchmarks") for path in (root / name).rglob("*.py")]
    found = {
        path.relative_to(root).as_posix()
        for path in paths
        if setters.search(path.read_text("utf-8"))
    }
    # versus.py also runs older versions of the package, which do not choose their arithmetic.
    assert found == {"tfmr/dtype.py", "benchmarks/versus.py"}


CONFIG = BlockConfig(d_model=4, n_heads=2, d_ff=8)
MODULES: dict[str, nn.Module] = {
    "attention": MultiHeadAttention(4, 2),
    "encoder": Encoder(CONFIG, 1),
    "feed-forward": FeedForward(4, 8),
    "layer norm": LayerNorm(4),
    "LSTM": LSTM(4, 4),
}


FUNCTIONS: list[tuple[Callable[[Any], Any], str]] = [
    (lambda x: scaled_dot_product_attention(x, x, x), "q"),
    (lambda x: scaled_dot_product_attention(*3 * [torch.ones(1, 1)], mask=x), "mask"),
    (padding_mask, "ids"),
    (lambda x: mask_to_bias(x, torch.float32), "mask"),
    (lambda x: layer_norm(x, torch.ones(1), torch.zeros(1)), "x"),
    *((Dropout(0.5), "x"), (Dropout(0.5).eval(), "x")),
    *((rotate_naive, "x"), (entropy, "weights")),
]


@pytest.mark.parametrize(
    ("call", "given", "words"),
    [
        *(
            (
                module,
                torch.ones(1, 2, 4, dtype=dtype),
                [f"x must be {torch.float32}", f"got {dtype}"],
            )
            for module in MODULES.values()
            for dtype in (torch.int64, torch.float64)
        ),
        *((module, [[[1.0] * 4]], ["x must be a tensor", "list"]) for module in MODULES.values()),
        *((call, [[1]], [f"{name} must be a tensor", "got list"]) for call, name in FUNCTIONS),
        *(
            (call, torch.ones(2, 4).long(), [f"{name} must be a floating-point", "got torch.int64"])
            for call, name in FUNCTIONS[-2:]
        ),
        (padding_mask, torch.ones(2, 3), ["ids must be integers", "got torch.float32", "long()"]),
        (padding_mask, torch.ones(2, 3).bool(), ["ids must be integers", "got torch.bool"]),
    ],
)
@pytest.mark.usefixtures("unchecked")
def test_an_input_of_another_type_is_rejected(
    call: Callable[[Any], Any], given: object, words: list[str]
) -> None:
    rejects(lambda: call(given), *words)


def test_autocast_converts_the_types() -> None:
    x = torch.ones(1, 2, 4, dtype=torch.bfloat16)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert MODULES["feed-forward"](x).shape == (1, 2, 4)
