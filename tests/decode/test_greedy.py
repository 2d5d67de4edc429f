"""Greedy decoding: fast equals naive, batch equals one by one, and it ends where it must."""

import pytest
import torch

from tests.decode.models import LIMIT, MODELS, SENTENCES, count_rows, favour, transformer
from tfmr.data.batches import pad
from tfmr.decode import EXTRA_LENGTH, greedy_search, greedy_search_naive
from tfmr.errors import TfmrError
from tfmr.special_tokens import BOS, EOS, PAD


@pytest.mark.parametrize("kind", MODELS)
def test_cached_equals_uncached_and_batch_equals_one_by_one(kind: str) -> None:
    model = MODELS[kind]()
    together = greedy_search(model, pad(SENTENCES))
    assert together == [greedy_search(model, torch.tensor([ids]))[0] for ids in SENTENCES]
    assert together == [greedy_search_naive(model, torch.tensor([ids])) for ids in SENTENCES]
    assert len({tuple(output) for output in together}) > 1, "they must differ in what they say"


def test_these_models_end_at_different_times_and_some_never() -> None:
    models = [build() for build in MODELS.values()]
    lengths = {len(output) for model in models for output in greedy_search(model, pad(SENTENCES))}
    assert len(lengths) > 3
    assert max(lengths) == LIMIT


@pytest.mark.parametrize("max_length", [8, 20, 200])
def test_a_sentence_without_end_stops_at_the_limit(max_length: int) -> None:
    model = transformer(max_length=max_length)
    favour(model, {EOS: -1e9})
    outputs = greedy_search(model, pad(SENTENCES))
    wanted = [min(len(ids) + EXTRA_LENGTH, max_length) for ids in SENTENCES]
    assert [len(output) for output in outputs] == wanted
    assert len(greedy_search_naive(model, torch.tensor([SENTENCES[1]]))) == wanted[1]


def test_padding_and_a_second_beginning_are_never_said() -> None:
    model = transformer()
    favour(model, {PAD: 1e9, BOS: 1e9})
    for output in (
        *greedy_search(model, pad(SENTENCES)),
        greedy_search_naive(model, torch.tensor([[4, 5]])),
    ):
        assert output
        assert not {PAD, BOS, EOS} & set(output)


def test_an_end_at_once_is_an_empty_translation() -> None:
    model = transformer()
    favour(model, {EOS: 1e9})
    assert greedy_search(model, pad(SENTENCES)) == [[]] * len(SENTENCES)
    assert greedy_search_naive(model, torch.tensor([[4, 5]])) == []


@pytest.mark.parametrize("kind", ["pre sinusoidal", "gru"])
def test_a_finished_sentence_costs_nothing(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    model = MODELS[kind]()
    favour(model, {EOS: 0.5})
    seen, finished = count_rows(monkeypatch, model), []
    outputs = greedy_search(model, pad(SENTENCES), finished.append)
    steps = [min(len(output) + 1, LIMIT) for output in outputs]
    assert seen == [sum(n > step for n in steps) for step in range(max(steps))]
    assert len(set(seen)) > 2
    assert sum(finished) == len(SENTENCES)


def test_a_model_in_training_mode_is_refused() -> None:
    with pytest.raises(TfmrError, match=r"call model.eval\(\) first"):
        greedy_search(transformer().train(), pad(SENTENCES))
