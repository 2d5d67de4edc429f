"""The formulas of the memory of the family, compared with the counted bytes."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tfmr.attention import SHORT
from tfmr.family import (
    GPT,
    T5,
    Bert,
    BertConfig,
    GPTConfig,
    Llama,
    LlamaConfig,
    T5Config,
    ViT,
    ViTConfig,
)
from tfmr.family.memory import (
    bert_formula,
    gpt_formula,
    llama_formula,
    t5_formula,
    vit_formula,
)
from tfmr.training_memory import activation_bytes

B, V = 3, 31
SIZES = {"d_model": 24, "n_heads": 4, "d_ff": 40, "n_layers": 2}
LANGUAGE = {**SIZES, "vocab": V, "max_length": 100}
LENGTHS = (7, SHORT, SHORT + 1)


def ids(length: int) -> Tensor:
    return torch.randint(3, V, (B, length))


def counted(model: nn.Module, *inputs: Tensor) -> int:
    """The bytes that autograd stores with the cross-entropy of all logits."""
    shape = model(*inputs).shape
    labels = torch.randint(shape[-1], shape[:-1]).flatten()
    return activation_bytes(
        lambda: F.cross_entropy(model(*inputs).flatten(0, -2), labels), model.train()
    )


@pytest.mark.parametrize("dropout", [0.0, 0.1])
@pytest.mark.parametrize("length", LENGTHS)
def test_gpt_and_bert(length: int, dropout: float) -> None:
    gpt = GPT(GPTConfig(**LANGUAGE, dropout=dropout))
    assert counted(gpt, ids(length)) == gpt_formula(gpt.config, B, length)
    bert = Bert(BertConfig(**LANGUAGE, dropout=dropout))
    assert counted(bert, ids(length)) == bert_formula(bert.config, B, length)


@pytest.mark.parametrize("changes", [
    {}, {"n_kv_heads": 4}, {"n_kv_heads": 1}, {"n_heads": 1, "n_kv_heads": 1}, {"dropout": 0.1},
    {"norm": "post"}, {"norm_kind": "layer"}, {"inner": "relu"}, {"inner": "gelu"},
    {"position": "learned"}, {"bias": True}, {"tied": True},
])  # fmt: skip
@pytest.mark.parametrize("length", LENGTHS)
def test_llama(length: int, changes: dict[str, object]) -> None:
    model = Llama(replace(LlamaConfig(**LANGUAGE, n_kv_heads=2), **changes))
    assert counted(model, ids(length)) == llama_formula(model.config, B, length)


@pytest.mark.parametrize("dropout", [0.0, 0.1])
@pytest.mark.parametrize(("source", "target"), [(7, 5), (5, 7), (SHORT + 1, 9), (9, SHORT + 2)])
def test_t5(source: int, target: int, dropout: float) -> None:
    model = T5(T5Config(V, d_model=12, d_k=5, d_ff=40, n_encoder=2, n_decoder=3, n_heads=2,
                        dropout=dropout))  # fmt: skip
    assert counted(model, ids(source), ids(target)) == t5_formula(model.config, B, source, target)


@pytest.mark.parametrize("dropout", [0.0, 0.1])
@pytest.mark.parametrize(("image_size", "channels"), [(8, 1), (32, 3)])
def test_vit(image_size: int, channels: int, dropout: float) -> None:
    """With 5 and with 65 tokens per image; the second number needs the fused kernel."""
    model = ViT(ViTConfig(**SIZES, image_size=image_size, patch_size=4, channels=channels,
                          n_classes=10, dropout=dropout))  # fmt: skip
    images = torch.randn(B, channels, image_size, image_size)
    assert counted(model, images) == vit_formula(model.config, B)
