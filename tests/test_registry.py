"""The kinds of model, and the conversion between dataclasses and plain dictionaries."""

import dataclasses
from dataclasses import dataclass, field
from typing import Literal

import pytest
import torch

from tfmr import registry
from tfmr.config import TransformerConfig
from tfmr.errors import TfmrError, require
from tfmr.model import Transformer
from tfmr.seq2seq import Seq2Seq, Seq2SeqConfig

TRANSFORMER = TransformerConfig(source_vocab=7, target_vocab=7, d_model=8, n_heads=2, d_ff=8)
SEQ2SEQ = Seq2SeqConfig(source_vocab=7, target_vocab=7, cell="gru", attention=False, d_model=8)


@dataclass(frozen=True)
class Inner:
    size: int
    norm: Literal["pre", "post"] = "pre"


@dataclass(frozen=True)
class Settings:
    """One field of each type."""

    peak_lr: float = 1.0
    warmup: int = 3
    compile: bool = False
    name: str = "a"
    betas: tuple[float, float] = (0.5, 0.75)
    limits: tuple[int, ...] = ()
    inner: Inner = field(default_factory=lambda: Inner(1))

    def __post_init__(self) -> None:
        require(self.peak_lr > 0, f"peak_lr must be positive: got {self.peak_lr}")


@pytest.mark.parametrize(("config", "model"), [(TRANSFORMER, Transformer), (SEQ2SEQ, Seq2Seq)])
def test_a_config_survives_the_conversion_and_builds_its_model(config, model: type) -> None:
    values = registry.config_to_dict(config)
    assert values == {"kind": registry.kind_of(config), **dataclasses.asdict(config)}
    assert registry.config_from_dict(values, "x") == config
    with torch.device("meta"):
        assert type(registry.build_model(config)) is model


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "mamba"}, "x.*kind transformer.*seq2seq, got 'mamba'"),
        ({"kind": ["seq2seq"]}, r"got \['seq2seq'\]"),
        ({"kind": None}, "got None"),
        ({"dmodel": 8}, r"x.*key dmodel.*d_model\? \(known.*d_model"),
        ({"n_heads": 3}, "x.*d_model.*divisible.*n_heads"),
        ({"n_heads": "2"}, "x.*n_heads.*got '2'"),
    ],
)
def test_an_invalid_config_is_refused(change: dict, message: str) -> None:
    with pytest.raises(TfmrError, match=message):
        registry.config_from_dict(registry.config_to_dict(TRANSFORMER) | change, "x")


def test_missing_keys_take_their_defaults_and_integers_become_floats() -> None:
    assert registry.structure(Settings, {}, "x") == Settings()
    values = {"peak_lr": 2, "betas": [0, 0.5], "limits": [1, 2, 3], "inner": {"size": 2}}
    settings = registry.structure(Settings, values, "x")
    assert settings == Settings(2.0, betas=(0.0, 0.5), limits=(1, 2, 3), inner=Inner(2))
    assert type(settings.peak_lr) is type(settings.betas[0]) is float
    assert registry.structure(Settings, registry.unstructure(settings), "x") == settings
    assert registry.unstructure(settings)["limits"] == [1, 2, 3]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"warmpu": 3}, "x: unknown key warmpu, did you mean warmup? (known: peak_lr, warmup, c"),
        ({"zzz": 3}, "x: unknown key zzz (known: peak_lr"),
        ({"peak_lr": "1"}, "x: peak_lr: expected a number, got '1'"),
        ({"peak_lr": True}, "x: peak_lr: expected a number, got True"),
        ({"warmup": 3.0}, "x: warmup: expected an integer, got 3.0"),
        ({"warmup": True}, "x: warmup: expected an integer, got True"),
        ({"compile": 1}, "x: compile: expected true or false, got 1"),
        ({"name": 1}, "x: name: expected a string, got 1"),
        ({"betas": [0.5]}, "x: betas: expected a list of 2 values, got [0.5]"),
        ({"betas": [0.5, "a"]}, "x: betas: expected a number, got 'a'"),
        ({"limits": "12"}, "x: limits: expected a list, got '12'"),
        ({"limits": [1.5]}, "x: limits: expected an integer, got 1.5"),
        ({"inner": {"size": 1, "norm": "both"}}, "x: inner.norm: expected one of pre, post, got"),
        ({"inner": {"size": 1, "norm": ["pre"]}}, "inner.norm: expected one of pre, post, got ["),
        ({"inner": {}}, "x: inner.size: required, but missing"),
        ({"inner": 3}, "x: inner: expected a table of keys and values, got 3"),
        ([], "x: expected a table of keys and values, got []"),
        ({"peak_lr": -1.0}, "x: peak_lr must be positive: got -1.0"),
        ({"warmup": "a", "name": 1}, "x: warmup: expected an integer, got 'a'; name: expected"),
    ],
)
def test_an_error_names_the_key_what_was_expected_and_what_was_given(
    values: object, message: str
) -> None:
    with pytest.raises(TfmrError) as error:
        registry.structure(Settings, values, "x")
    assert message in str(error.value)
