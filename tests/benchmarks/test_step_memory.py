"""The peak memory of a training step: a case by hand, and small models beside the formula."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

from benchmarks import step_memory
from benchmarks.record import read
from benchmarks.step_memory import Case, StepMemory
from tfmr.config import TransformerConfig
from tfmr.family import GPT, GPTConfig
from tfmr.family.memory import gpt_formula

SMALL = GPTConfig(vocab=200, d_model=64, n_heads=4, d_ff=256, n_layers=4, max_length=64)


def case(config: GPTConfig, length: int) -> Case:
    return Case(
        lambda: GPT(config),
        lambda: (torch.randint(3, config.vocab, (step_memory.BATCH, length)),),
        gpt_formula(config, step_memory.BATCH, length),
    )


def test_one_linear_layer_by_hand() -> None:
    d = 500
    layer = Case(lambda: nn.Linear(d, d, bias=False), lambda: (torch.randn(1, d),), 0)
    row = step_memory.measure("linear", layer)
    assert row["parameters"] == d**2
    # Weights, gradients and the state of Adam; Adam needs a temporary tensor for its denominator.
    assert 16 * d**2 < row["gradients_kept"] < 24.1 * d**2
    assert row["predicted"] == 16 * d**2


@pytest.mark.parametrize("length", [8, 60])
def test_a_small_gpt_needs_what_the_formula_predicts_and_temporary_tensors(length: int) -> None:
    row = step_memory.measure("GPT", case(SMALL, length))
    assert row["predicted"] <= row["gradients_kept"] < 1.25 * row["predicted"]
    assert row["gradients_released"] < row["gradients_kept"]


def test_the_record_has_every_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small = TransformerConfig(
        16, 2, 32, source_vocab=50, target_vocab=50, n_encoder=1, n_decoder=1, max_length=40
    )
    for name in ("base", "big"):
        monkeypatch.setattr(TransformerConfig, name, lambda: small)
    sizes = {"d_model": 16, "n_heads": 2, "d_ff": 32}
    for name, options in {
        "BertConfig": {**sizes, "n_layers": 1, "vocab": 50},
        "GPTConfig": {**sizes, "n_layers": 1, "vocab": 50},
        "T5Config": {**sizes, "n_encoder": 1, "n_decoder": 1, "vocab": 50, "d_k": 8},
        "ViTConfig": {**sizes, "n_layers": 1, "image_size": 8, "patch_size": 4},
    }.items():
        config = replace(getattr(step_memory, name)(), **options)
        monkeypatch.setattr(step_memory, name, lambda config=config: config)
    llama = replace(step_memory.LLAMA, **sizes, n_kv_heads=1, n_layers=1, vocab=50)
    monkeypatch.setattr(step_memory, "LLAMA", llama)
    out = tmp_path / "x.json"
    StepMemory(length=6, out=out)()
    rows = read(out)["rows"]
    assert len(rows) == 7
    for row in rows:
        assert row["predicted"] == 16 * row["parameters"] + row["activations"]
        assert row["gradients_kept"] >= row["predicted"]
