"""TOML tables: what is written is what is meant, and a slip of the pen is named."""

import dataclasses
import math
import tomllib
from dataclasses import dataclass
from typing import Literal

import pytest
from tfmr.train.tables import fill, to_toml

from tfmr.errors import TfmrError, require


@dataclass(frozen=True)
class Settings:
    """One field of each type."""

    peak_lr: float = 1.0
    warmup: int = 3
    compile: bool = False
    name: str = "a"
    norm: Literal["pre", "post"] = "pre"
    betas: tuple[float, float] = (0.5, 0.75)
    marks: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        require(self.peak_lr > 0, f"peak_lr must be positive: got {self.peak_lr}")


def test_what_is_left_out_has_its_default_and_a_whole_number_may_be_a_float() -> None:
    assert fill(Settings, {}, "x") == Settings()
    table = {"peak_lr": 2, "betas": [0, 0.5], "marks": [1, 2, 3], "norm": "post"}
    filled = fill(Settings, table, "x")
    assert filled == Settings(peak_lr=2.0, betas=(0.0, 0.5), marks=(1, 2, 3), norm="post")
    assert type(filled.peak_lr) is type(filled.betas[0]) is float


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"warmpu": 3}, "x has no 'warmpu': did you mean warmup? It has peak_lr, warmup, compile"),
        ({"zzz": 3}, "x has no 'zzz': It has peak_lr, warmup"),
        ({"peak_lr": "1"}, "x: peak_lr must be a number: got '1'"),
        ({"peak_lr": True}, "x: peak_lr must be a number: got True"),
        ({"warmup": 3.0}, "x: warmup must be a whole number: got 3.0"),
        ({"warmup": True}, "x: warmup must be a whole number: got True"),
        ({"compile": 1}, "x: compile must be true or false: got 1"),
        ({"name": 1}, "x: name must be a text in quotes: got 1"),
        ({"norm": "both"}, "x: norm must be one of pre, post: got 'both'"),
        ({"norm": ["pre"]}, "x: norm must be one of pre, post: got ['pre']"),
        ({"betas": [0.5]}, "x: betas must be a list of 2: got [0.5]"),
        ({"betas": [0.5, "a"]}, "x: betas must be a number: got 'a'"),
        ({"marks": 1}, "x: marks must be a list: got 1"),
        ({"marks": [1.5]}, "x: marks must be a whole number: got 1.5"),
        ({"peak_lr": -1.0}, "x: peak_lr must be positive: got -1.0"),
    ],
)
def test_a_slip_of_the_pen(table: dict, message: str) -> None:
    with pytest.raises(TfmrError) as error:
        fill(Settings, table, "x")
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_a_hidden_field_is_none_of_the_tables_business() -> None:
    assert fill(Settings, {}, "x", {"warmup": 9}).warmup == 9
    with pytest.raises(TfmrError, match="x has no 'warmup': It has peak_lr, compile"):
        fill(Settings, {"warmup": 4}, "x", {"warmup": 9})


def test_toml_says_the_same_to_tomllib() -> None:
    values = dataclasses.asdict(Settings(peak_lr=1e-9, compile=True, name='ein "Wort", 낱말 \\ \t'))
    tables = {"about": "x", "marks": (1, 2), "settings": values, "empty": {"none": ()}}
    read = tomllib.loads(to_toml(tables))
    assert read["about"] == "x"
    assert read["marks"] == [1, 2]
    assert read["empty"] == {"none": []}
    assert tomllib.loads(to_toml({"clip": math.inf, "low": -math.inf})) == {
        "clip": math.inf,
        "low": -math.inf,
    }
    assert fill(Settings, read["settings"], "x") == Settings(**values)
