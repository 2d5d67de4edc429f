"""Configurations of blocks and models (the values of TransformerConfig: tests/test_model.py)."""

import pytest

from tfmr.config import BlockConfig, TransformerConfig
from tfmr.errors import TfmrError


def test_the_defaults_are_those_of_the_base_model() -> None:
    base = TransformerConfig.base()
    block = BlockConfig()
    for name in ("d_model", "n_heads", "d_ff", "dropout", "norm", "activation"):
        assert getattr(base, name) == getattr(block, name)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"d_model": 10, "n_heads": 3}, "divisible.*n_heads.*got d_model=10, n_heads=3"),
        ({"d_ff": 0}, "d_ff.*got 0"),
        ({"n_heads": True}, "n_heads.*got True"),
        ({"dropout": -0.1}, r"\[0, 1\).*got -0.1"),
        ({"norm": "mid"}, "norm.*post, pre.*got 'mid'"),
        ({"activation": "tanh"}, "activation.*relu, gelu.*got 'tanh'"),
    ],
)
def test_an_invalid_block(unchecked, values: dict, message: str) -> None:
    with pytest.raises(TfmrError, match=message):
        BlockConfig(**values)


def test_vocabulary_sizes_are_required_keywords() -> None:
    with pytest.raises(TypeError, match="source_vocab"):
        TransformerConfig(30, 30)  # type: ignore[call-arg]
