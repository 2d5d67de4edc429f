"""Decoding with fixed buffers: what is kept between calls, and what is checked."""

import gc
import weakref
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from tests.decode.models import SENTENCES, transformer
from tests.fast.graphs import prepare_as_on_a_gpu
from tfmr.decode import beam as beam_module
from tfmr.decode import beam_search, greedy_search
from tfmr.decode import generate as generate_module
from tfmr.errors import TfmrError
from tfmr.fast import graph_state
from tfmr.fast.graph_state import Shape
from tfmr.later import STEPS_AHEAD


def test_shapes_are_rounded_up() -> None:
    assert Shape.fitting(1, 4, 1, 1) == Shape(1, 4, 16, 32)
    assert Shape.fitting(5, 1, 16, 32) == Shape(8, 1, 16, 32)
    assert Shape.fitting(64, 1, 17, 33) == Shape(64, 1, 32, 64)


def test_buffers_are_used_again_by_later_calls_only() -> None:
    model = transformer()
    prepared = prepare_as_on_a_gpu(model)
    graphs = prepared._graphs
    assert graphs is not None
    sources = [torch.tensor([ids]) for ids in SENTENCES]
    expected = [greedy_search(model, source) for source in sources]
    assert [greedy_search(prepared, source) for source in sources] == expected
    gc.collect()
    assert len(graphs._free) == 1
    # Two states at the same time must not share their buffers.
    states = [prepared.start(source, 5) for source in sources[:2]]
    tokens = torch.tensor([4])
    first = [prepared.step(tokens, state).clone() for state in states]
    again = [prepared.step(tokens, prepared.start(source, 5)).clone() for source in sources[:2]]
    for one, other in zip(first, again, strict=True):
        assert torch.equal(one, other)
    del states
    for beam in range(1, 2 + graph_state.MAX_FREE):
        beam_search(prepared, sources[0], beam)
    gc.collect()
    assert len(graphs._free) == graph_state.MAX_FREE


def test_a_call_outside_inference_mode_can_use_the_buffers() -> None:
    prepared = prepare_as_on_a_gpu(transformer())
    source = torch.tensor(SENTENCES[:1])
    with torch.inference_mode():
        expected = prepared.step(torch.tensor([4]), prepared.start(source, 5)).clone()
    gc.collect()
    assert torch.equal(prepared.step(torch.tensor([4]), prepared.start(source, 5)), expected)


def test_too_many_steps_or_too_few_tokens() -> None:
    prepared = prepare_as_on_a_gpu(transformer())
    state = prepared.start(torch.tensor(SENTENCES[:1]), 1)
    with pytest.raises(TfmrError, match="got 2 tokens"):
        prepared.step(torch.tensor([4, 4]), state)
    prepared.step(torch.tensor([4]), state)
    with pytest.raises(TfmrError, match="at most 1 times"):
        prepared.step(torch.tensor([4]), state)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("beam", [1, 3])
def test_no_step_waits_for_a_gpu(
    monkeypatch: pytest.MonkeyPatch, beam: int, dtype: torch.dtype
) -> None:
    """On the device ``meta``, any code that would wait for a result raises an error."""
    n, steps, started, read = 6, 9, [], []

    def pretend_to_copy(x: Tensor) -> Callable[[], list[list[int]]]:
        number = len(started)
        started.append(number)
        return lambda: (
            read.append((number, len(started)))
            or ([[4] * n, [1] * n] if beam == 1 else [[0] * n] * 2)
        )

    for module in (generate_module, beam_module):
        monkeypatch.setattr(module, "read_later", pretend_to_copy)
        monkeypatch.setattr(module, "steps_ahead", lambda _: STEPS_AHEAD)
        monkeypatch.setattr(module, "max_output_lengths", lambda *_: [steps] * n)
    monkeypatch.setattr(beam_module._BeamState, "results", lambda _: [])
    prepared = prepare_as_on_a_gpu(transformer().to("meta", dtype))
    source = torch.ones(n, 5, dtype=torch.int64, device="meta")
    if beam == 1:
        greedy_search(prepared, source)
    else:
        beam_search(prepared, source, beam)
    assert len(started) == steps
    assert read[0] == (0, STEPS_AHEAD + 1)
    assert [number for number, _ in read] == started


def test_a_prepared_model_is_deleted_with_its_last_name() -> None:
    gc.disable()
    prepared = prepare_as_on_a_gpu(transformer())
    deleted = weakref.ref(prepared)
    del prepared
    gc.enable()
    assert deleted() is None
