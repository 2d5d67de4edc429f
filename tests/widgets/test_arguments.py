"""An invalid argument of a live figure is an error that states its valid and its given value."""

import json
import math
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
import torch
from torch import nn
from traitlets import TraitError

from tfmr.checkpoint import load_translator
from tfmr.config import TransformerConfig
from tfmr.errors import TfmrError
from tfmr.records import record_path
from tfmr.recurrent import GRUCell, LSTMCell, RNNCell
from tfmr.widgets import (
    AlignmentFigure,
    ArchitectureFigure,
    AttentionFigure,
    BeamFigure,
    ContextsFigure,
    CostsFigure,
    DependenceFigure,
    GatesFigure,
    GradientFigure,
    HeadsFigure,
    MasksFigure,
    MergesFigure,
    PositionsFigure,
    ReplayFigure,
    RooflineFigure,
    SamplingFigure,
    StreamFigure,
    TranslatorFigure,
    TwoHeadsFigure,
)

translator = cache(lambda: load_translator(record_path("multi30k-de-en")))
ALIGNMENT = json.loads(record_path("alignment.json").read_text("utf-8"))
REPLAY = json.loads(record_path("replay.json").read_text("utf-8"))
STREAM = json.loads(record_path("depth-stream.json").read_text("utf-8"))
Q = [[1.0, 0.0], [0.5, -1.0], [2.0, 1.5]]
STEPS = torch.zeros(60, 2)


def vocabulary(size: int, **changes: Any) -> TransformerConfig:
    return TransformerConfig(source_vocab=size, target_vocab=size, **changes)


def classified(cell: nn.Module, d_in: int = 3, classes: int = 3) -> tuple[nn.Module, nn.Linear]:
    return cell, nn.Linear(d_in, classes)


def rnn(x: torch.Tensor) -> dict[str, Any]:
    return {"networks": {"RNN": [(RNNCell(2, 2), x)]}}


def words(*found: str, count: int = 1) -> dict[str, Any]:
    return {"words": dict.fromkeys(found, count)}


Rows = list[tuple[dict[str, Any], str]]
FIGURES: dict[Callable[..., Any], tuple[Callable[[], dict[str, Any]], Rows]] = {
    AlignmentFigure: (
        lambda: {"record": ALIGNMENT},
        [
            ({"record": {**ALIGNMENT, "kind": "replay"}}, "'alignment'.*got 'replay'"),
            ({"seed": 5}, "seed.*from 0 to 4.*got 5"),
            ({"sentence": 6}, "sentence.*from 0 to 5.*got 6"),
            ({"word": 11}, "word.*from 0 to 10.*got 11"),
            ({"quantity": "scores"}, "quantity.*weights, effects.*got scores"),
        ],
    ),
    ArchitectureFigure: (
        lambda: {"models": {"small": vocabulary(50), "base": vocabulary(9)}, "model": "small"},
        [
            ({"model": "big"}, "model.*small, base.*got big"),
            ({"source_length": 129}, "source_length.*1 to 128.*got 129"),
            ({"target_length": 0}, "target_length.*1 to 128.*got 0"),
            ({"part": 23}, "part.*0 to 22.*got 23"),
            ({"models": {"small": vocabulary(5, norm="pre")}}, "got sinusoidal, pre.*small"),
        ],
    ),
    AttentionFigure: (
        lambda: {"tokens": ["the", "dog", "ran"], "q": Q, "k": Q, "v": Q},
        [
            ({"tokens": []}, "1 to 12.*got 0"),
            ({"selected": 3}, "0 to 2.*got 3"),
            ({"q": Q[:2]}, r"q.*row.*3.*\(2, 2\)"),
            ({"k": [[1.0], [2.0], [3.0]]}, "d_k.*got 2.*1"),
            ({"v": [[math.nan], [0.0], [0.0]]}, "v.*finite"),
            ({"v": [[1.0], [0.0, 2.0], [0.0]]}, "v.*row"),
        ],
    ),
    BeamFigure: (
        lambda: dict(zip(("model", "tokenizer"), translator(), strict=True)) | {"sentences": ["A"]},
        [
            ({"sentences": []}, "1 to 4 sentences: got 0"),
            ({"sentences": ["Hund"] * 5}, "1 to 4 sentences: got 5"),
            ({"beam": 3}, "beam.*1, 2, 4.*got 3"),
            ({"alpha": 2.5}, "alpha.*0.*2.0.*got 2.5"),
            ({"step": -1}, "step.*0.*got -1"),
            ({"sentences": [""]}, "empty|at least"),
        ],
    ),
    ContextsFigure: (
        dict,
        [
            ({"word": "Bank"}, "word must be one of Schläger, Platz, trägt: got Bank"),
            ({"first": 6}, "first must be from 0 to 5: got 6"),
            ({"second": -1}, "second must be from 0 to 5: got -1"),
            ({"place": 5}, "place must be from 0 to 4: got 5"),
        ],
    ),
    CostsFigure: (
        dict,
        [
            ({"n": 9}, "n must be one of 4, 5, 6, … 16384.*got 9"),
            ({"d": 16}, "d must be one of 32, 40, 48, … 2048.*got 16"),
            (
                {"quantity": "time"},
                "quantity.*operations, steps, memory: got time",
            ),
        ],
    ),
    DependenceFigure: (
        dict,
        [
            ({"family": "GPT"}, "family.*encoder only, decoder only.*got GPT"),
            ({"position": 6}, "position.*from 0 to 5.*got 6"),
            ({"position": -1}, "position.*from 0 to 5.*got -1"),
        ],
    ),
    GatesFigure: (
        lambda: {
            **{"lstm": classified(LSTMCell(5, 3)), "gru": classified(GRUCell(5, 3))},
            **{"vocabulary": list("ABCxy"), "sequence": list("AxyBxCyx")},
        },
        [
            ({"lstm": classified(GRUCell(5, 3))}, "LSTMCell.*GRUCell"),
            ({"gru": classified(GRUCell(5, 3, reset_after=False))}, "cell.*reset_after=True"),
            ({"gru": classified(GRUCell(4, 3))}, "d_in=5.*vocabulary.*got d_in=4"),
            ({"lstm": classified(LSTMCell(5, 5), 5)}, "4 components.*d_hidden=5"),
            ({"lstm": classified(LSTMCell(5, 3), 2)}, "classifier.*d_in=3.*5.*got 2.*3"),
            ({"gru": classified(GRUCell(5, 3), 3, 6)}, "classifier.*d_in=3.*5.*got 3.*6"),
            ({"vocabulary": list("AABxy")}, "2 to 8.*got"),
            ({"vocabulary": ["A"], "sequence": ["A", "A"]}, "2 to 8.*got"),
            ({"vocabulary": list("ABCDEFGHx"), "sequence": ["A", "x"]}, "2 to 8.*got"),
            ({"sequence": ["A"]}, "2 to 12.*vocabulary"),
            ({"sequence": ["A"] * 13}, "2 to 12.*vocabulary"),
            ({"sequence": ["A", "Q"]}, "2 to 12.*vocabulary.*got .'A', 'Q'"),
            ({"cell": "RNN"}, "cell.*LSTM, GRU.*got RNN"),
            ({"step": 0}, "step.*from 1 to 8.*got 0"),
            ({"step": 9}, "step.*from 1 to 8.*got 9"),
            ({"unit": 0}, "unit.*from 1 to 3.*got 0"),
            ({"unit": 4}, "unit.*from 1 to 3.*got 4"),
        ],
    ),
    GradientFigure: (
        dict,
        [
            ({"radius": 2.0}, "radius.*0.7, 0.8, … 1.8.*got 2.0"),
            ({"slope": 0.4}, "slope.*from 0.5 to 1.*got 0.4"),
            ({"length": 61}, "length.*from 2 to 60.*got 61"),
            ({"length": 0}, "length.*from 2 to 60.*got 0"),
            ({"networks": {name: [] for name in "abcdef"}}, "5 networks.*got 6"),
            ({"networks": {"RNN": []}}, "'RNN'.*pair"),
            (rnn(STEPS[1:]), "input.*'RNN'.*60 time steps.*got 59"),
            (rnn(STEPS + 1e4), "finite.*0.*torch.float32"),
        ],
    ),
    HeadsFigure: (
        dict,
        [
            ({"sentences": ()}, "sentence.*got none"),
            ({"sentences": (" ",)}, "token.*got none"),
            ({"kind": "decoder"}, "kind.*encoder, self, cross.*got 'decoder'"),
            ({"measure": "norm"}, "measure.*previous, own.*got 'norm'"),
            ({"block": 3}, "block.*from 0 to 2.*got 3"),
            ({"head": -1}, "head.*from 0 to 3.*got -1"),
        ],
    ),
    MasksFigure: (
        lambda: {"tokens": ["<bos>", "the", "cat", "eats", "<pad>", "<pad>"]},
        [
            ({"tokens": ["a", "b"]}, "3 to 8.*got 2"),
            ({"tokens": ["a", "<pad>", "b"]}, "got a <pad> b"),
            ({"tokens": ["<pad>"] * 3}, "<pad> <pad> <pad>"),
            ({"replaced": 6}, "0 to 5.*got 6"),
            ({"stack": "both"}, "stack.*encoder, decoder.*got both"),
            ({"causal": "x"}, "causal.*none, causal"),
            ({"padding": "x"}, "padding.*none, padding"),
        ],
    ),
    MergesFigure: (
        lambda: words("sing", "singing", "ring", "ringing", count=5),
        [
            (words(), "1 to 20 words"),
            (words("a b"), "white space"),
            (words("ab", count=0), "1 to 9999"),
            (words("x" * 25), "24 characters"),
            (words(*(f"w{i}" for i in range(21))), "1 to 20 words"),
            ({"step": 7}, "0 to 6.*got 7"),
            ({"step": -1}, "0 to 6.*got -1"),
        ],
    ),
    PositionsFigure: (
        dict,
        [
            ({"length": 1}, "2 to 100.*got 1"),
            ({"encoding": "learned"}, "encoding.*sinusoidal, rotary.*got learned"),
            ({"size": 6}, "size.*4, 8, 16: got 6"),
            ({"base": 20}, "base.*10, 100, 1000, 10000.*got 20"),
            ({"m": 50}, "m.*from 0 to 49.*got 50"),
            ({"n": -1}, "n.*from 0 to 49.*got -1"),
            ({"angle": 181}, "angle.*from -180 to 180.*got 181"),
            ({"pair": 4}, "pair.*from 0 to 3.*got 4"),
        ],
    ),
    ReplayFigure: (
        lambda: {"record": REPLAY},
        [
            ({"record": {**REPLAY, "kind": "depth"}}, "'replay'.*got 'depth'"),
            ({"step": 1}, "step.*0, 10.*600.*got 1"),
        ],
    ),
    RooflineFigure: (
        dict,
        [
            ({"computation": "sort"}, "computation.*decoding.*got sort"),
            ({"device": "P100"}, "device.*A100, H100: got P100"),
            ({"size": 9}, "size.*8, 10.*got 9"),
        ],
    ),
    SamplingFigure: (
        lambda: {"scores": torch.zeros(1, 30), "names": ["a"] * 30, "prefixes": [("", "")]},
        [
            ({"scores": torch.zeros(2, 30)}, "got 2.*30.*1 prefixes.*30"),
            ({"names": ["a"] * 29}, "got 1.*30.*1 prefixes.*29"),
            ({"scores": torch.zeros(1, 9), "names": ["a"] * 9}, "10.*got 7"),
            ({"scores": torch.full((1, 30), -math.inf)}, "scores.*finite"),
            ({"selected": 1}, "0 to 0.*got 1"),
            ({"temperature": 0.0}, "temperature.*from 0.1 to 2.0.*got 0.0"),
            ({"top_k": 0}, "top_k.*1"),
            ({"top_p": 1.5}, "top_p"),
        ],
    ),
    StreamFigure: (
        lambda: {"record": STREAM},
        [
            ({"record": {**STREAM, "kind": "depth"}}, "'stream'.*got 'depth'"),
            ({"blocks": 7}, "blocks.*6, 12, 24.*got 7"),
            ({"step": 1}, "step.*0, 10, 30, 100, 200, 400.*got 1"),
            ({"quantity": "loss"}, "quantity.*stream, change, gradient.*got loss"),
            (
                {"record": {**STREAM, "rows": [STREAM["rows"][0] | {"loss": math.inf}]}},
                "finite.*got inf",
            ),
        ],
    ),
    TranslatorFigure: (
        dict,
        [
            ({"name": "none"}, "name.*got 'none'"),
            ({"models": ["none"]}, "got 'none'"),
            ({"beam": 2}, "beam.*1.*4.*got 2"),
            ({"name": "pocket-en-fr", "beam": 4, "brief": True}, "beam.*1.*brief.*got 4"),
        ],
    ),
    TwoHeadsFigure: (
        dict,
        [
            ({"played": "Schach"}, "played.*Tennis, Baseball, Fußball, Gitarre: got Schach"),
            ({"noun": "Tennis"}, "noun.*Schläger, Ball, Hund, Freund: got Tennis"),
            ({"query": 8}, "query.*from 0 to 7: got 8"),
            ({"query": -1}, "query.*from 0 to 7: got -1"),
        ],
    ),
}
"""The arguments of a valid figure, and the messages for arguments that are changed."""


@pytest.mark.parametrize(
    ("figure", "change", "message"),
    [(figure, *row) for figure, (_, rows) in FIGURES.items() for row in rows],
)
def test_an_invalid_argument_raises(
    figure: Callable[..., Any], change: dict[str, Any], message: str
) -> None:
    valid, _ = FIGURES[figure]
    with pytest.raises(TfmrError, match=message):
        figure(**valid() | change)


@pytest.mark.parametrize(
    ("figure", "name", "value"),
    [
        (CostsFigure, "n", 9),
        (CostsFigure, "d", 16),
        (DependenceFigure, "family", "GPT"),
        (DependenceFigure, "position", 6),
        (RooflineFigure, "computation", "sort"),
        (RooflineFigure, "device", "P100"),
        (RooflineFigure, "size", 9),
        (TwoHeadsFigure, "played", "Schach"),
        (TwoHeadsFigure, "noun", "Tennis"),
        (TwoHeadsFigure, "query", 8),
    ],
)
def test_an_invalid_value_of_a_trait_raises(
    figure: Callable[..., Any], name: str, value: object
) -> None:
    made = figure()
    before = getattr(made, name)
    with pytest.raises((TfmrError, TraitError)):
        setattr(made, name, value)
    assert getattr(made, name) == before


@pytest.mark.parametrize("figure", FIGURES)
def test_a_notebook_stores_the_text_of_a_figure(figure: Callable[..., Any]) -> None:
    made = figure(**FIGURES[figure][0]())
    data, _ = made._repr_mimebundle_()
    assert data["text/plain"] == repr(made)
    assert repr(made).startswith("Live figure: ")
