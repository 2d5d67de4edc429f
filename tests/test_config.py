"""Configurations of blocks and models: defaults, values out of range, no changes."""

import importlib
import pkgutil
from dataclasses import is_dataclass

import pytest

import tfmr
from tests.errors import rejects
from tfmr.config import BlockConfig, TransformerConfig
from tfmr.errors import TfmrError


def test_the_defaults_and_presets_are_those_of_table_3() -> None:
    base, big = TransformerConfig.base(), TransformerConfig.big()
    assert (base.d_model, base.n_heads, base.d_ff, base.dropout) == (512, 8, 2048, 0.1)
    assert (big.d_model, big.n_heads, big.d_ff, big.dropout) == (1024, 16, 4096, 0.3)
    block, model = BlockConfig(), TransformerConfig(source_vocab=9, target_vocab=9)
    for config in (base, big, model):
        assert (config.n_encoder, config.n_decoder, config.norm) == (6, 6, "post")
        assert (config.activation, config.position) == ("relu", "sinusoidal")
        assert (config.tie, config.max_length) == ("three-way", 256)
    for name in ("d_model", "n_heads", "d_ff", "dropout", "norm", "activation", "eps"):
        assert getattr(base, name) == getattr(block, name) == getattr(model, name)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"d_model": 10, "n_heads": 3}, "divisible.*n_heads.*got d_model=10, n_heads=3"),
        ({"d_ff": 0}, "d_ff.*got 0"),
        ({"d_ff": 2.5}, "d_ff.*got 2.5"),
        ({"n_heads": True}, "n_heads.*got True"),
        ({"dropout": -0.1}, r"\[0, 1\).*got -0.1"),
        ({"dropout": 1.0}, r"\[0, 1\).*got 1.0"),
        ({"norm": "mid"}, "norm.*post, pre.*got 'mid'"),
        ({"activation": "tanh"}, "activation.*relu, gelu.*got 'tanh'"),
    ],
)
def test_an_invalid_block(unchecked, values: dict, message: str) -> None:
    with pytest.raises(TfmrError, match=message):
        BlockConfig(**values)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"n_encoder": 0}, ["n_encoder", "got 0"]),
        ({"position": "none"}, ["position", "sinusoidal, learned, rotary", "got 'none'"]),
        ({"tie": "all"}, ["tie", "three-way, target, none", "got 'all'"]),
        ({"d_model": 9, "n_heads": 3}, ["got d_model=9, n_heads=3"]),
        ({"d_model": 12, "n_heads": 4, "position": "rotary"}, ["d_model / n_heads", "got d_model"]),
        ({"target_vocab": 40}, ["source_vocab=30, target_vocab=40", "joint vocabulary"]),
    ],
)
def test_an_invalid_model(unchecked, values: dict, words: list[str]) -> None:
    sizes = {"source_vocab": 30, "target_vocab": 30, "d_model": 12, "n_heads": 4}
    TransformerConfig(**sizes)
    rejects(lambda: TransformerConfig(**(sizes | values)), *words)


def test_vocabulary_sizes_are_required_keywords() -> None:
    with pytest.raises(TypeError, match="source_vocab"):
        TransformerConfig(30, 30)  # type: ignore[call-arg]


def test_of_the_public_dataclasses_only_states_can_be_changed() -> None:
    """All other dataclasses are frozen: they are checked when they are made, and shared."""
    changeable = {"TransformerState", "Seq2SeqState", "LanguageModelState", "World"}
    packages = ("commands", "figures", "widgets", "__main__", "notebook")
    for module in pkgutil.walk_packages(tfmr.__path__, "tfmr."):
        if module.name.split(".")[1] not in packages:
            for name, value in vars(importlib.import_module(module.name)).items():
                if isinstance(value, type) and is_dataclass(value) and name[0] != "_":
                    assert value.__dataclass_params__.frozen == (name not in changeable), name
