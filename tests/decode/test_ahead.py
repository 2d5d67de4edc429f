"""Searches that read the results of a step some steps later, as on a GPU: the same translations."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from tests.decode.models import MODELS, SENTENCES, Table, TableConfig, transformer
from tests.fast.graphs import prepare_as_on_a_gpu
from tfmr.data.batches import pad
from tfmr.decode import beam as beam_module
from tfmr.decode import beam_search, greedy_search, sample
from tfmr.decode import generate as generate_module
from tfmr.errors import TfmrError
from tfmr.later import STEPS_AHEAD
from tfmr.model import Transformer
from tfmr.translator import Translator


def search(model: Translator, source: torch.Tensor) -> list[Any]:
    """The results of all searches."""
    seeds = range(len(source))
    return [
        greedy_search(model, source),
        sample(model, source, seeds=seeds),
        *(beam_search(model, source, beam, n_best=n) for beam, n in ((1, 1), (3, 1), (4, 3))),
    ]


def read_later(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (generate_module, beam_module):
        monkeypatch.setattr(module, "steps_ahead", lambda _: STEPS_AHEAD)


@pytest.mark.parametrize("kind", ["post sinusoidal", "pre rotary", "lstm with attention"])
def test_translations_are_the_same(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    model = MODELS[kind]()
    source = pad(SENTENCES)
    at_once = ids_of(search(model, source))
    assert len(set(map(len, at_once[1]))) > 1
    read_later(monkeypatch)
    assert ids_of(search(model, source)) == at_once
    if isinstance(model, Transformer):
        assert ids_of(search(prepare_as_on_a_gpu(model), source)) == at_once


def ids_of(results: list[Any]) -> list[Any]:
    return [
        [[getattr(item, "ids", item) for item in each] for each in result] for result in results
    ]


@pytest.mark.parametrize("eos", [-2.0, 0.0, 2.0])
def test_searches_that_end_early_and_late(monkeypatch: pytest.MonkeyPatch, eos: float) -> None:
    source = torch.tensor([[4, 5], [5, 4], [4, 4], [5, 5]])
    models = [Table(TableConfig(), seed, spread=1.0, eos=eos) for seed in range(6)]
    at_once = [search(model, source) for model in models]
    read_later(monkeypatch)
    assert [search(model, source) for model in models] == at_once


@pytest.mark.parametrize("search", ["greedy", "sample", "beam"])
def test_an_error_names_its_step(monkeypatch: pytest.MonkeyPatch, search: str) -> None:
    model = transformer()
    step: Callable[..., torch.Tensor] = model.step
    calls = []

    def broken(tokens: torch.Tensor, state: Any) -> torch.Tensor:
        calls.append(1)
        scores = step(tokens, state)
        return scores.masked_fill(torch.tensor(len(calls) == 3), torch.nan)

    monkeypatch.setattr(model, "step", broken)
    read_later(monkeypatch)
    source = pad(SENTENCES[:2])
    with pytest.raises(TfmrError, match="token 3 of sentence 0"):
        {
            "greedy": lambda: greedy_search(model, source),
            "sample": lambda: sample(model, source, seeds=[0, 1]),
            "beam": lambda: beam_search(model, source, 3),
        }[search]()
