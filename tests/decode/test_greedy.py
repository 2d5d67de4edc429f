"""Greedy decoding: incremental equals naive, batched equals one by one."""

import pytest
import torch

from tests.decode.models import MAX_LENGTH, MODELS, SENTENCES, add_bias, count_rows
from tfmr.data.batches import pad
from tfmr.decode import greedy_search, greedy_search_naive
from tfmr.special_tokens import EOS


@pytest.mark.parametrize("kind", MODELS)
def test_incremental_equals_naive_and_batched_equals_one_by_one(kind: str) -> None:
    model = MODELS[kind]()
    outputs = greedy_search(model, pad(SENTENCES))
    assert outputs == [greedy_search(model, torch.tensor([ids]))[0] for ids in SENTENCES]
    assert outputs == [greedy_search_naive(model, torch.tensor([ids])) for ids in SENTENCES]
    assert len({tuple(output) for output in outputs}) > 1, "translations must depend on the source"


def test_the_models_of_these_tests_stop_at_different_lengths() -> None:
    models = [build() for build in MODELS.values()]
    lengths = {len(output) for model in models for output in greedy_search(model, pad(SENTENCES))}
    assert len(lengths) > 3
    assert max(lengths) == MAX_LENGTH


@pytest.mark.parametrize("kind", ["pre sinusoidal", "gru"])
def test_finished_sentences_leave_the_batch(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    model = MODELS[kind]()
    add_bias(model, {EOS: 0.5})
    rows, finished = count_rows(monkeypatch, model), []
    outputs = greedy_search(model, pad(SENTENCES), finished.append)
    n_steps = [min(len(output) + 1, MAX_LENGTH) for output in outputs]
    assert rows == [sum(n > step for n in n_steps) for step in range(max(n_steps))]
    assert len(set(rows)) > 2
    assert sum(finished) == len(SENTENCES)
