"""CUDA graphs: what happens if one cannot be recorded, on a pretended GPU."""

import gc
from contextlib import nullcontext

import pytest
import torch

from tfmr.cuda_graph import GraphRecorder


class Stream:
    def __init__(self, *_: object) -> None:
        pass

    def wait_stream(self, other: object) -> None:
        pass


class Graph:
    """Runs out of memory as often as ``failures`` states."""

    failures = 0

    def capture_begin(self, **_: object) -> None:
        assert not gc.isenabled()

    def capture_end(self) -> None:
        if Graph.failures:
            Graph.failures -= 1
            raise torch.cuda.OutOfMemoryError

    def replay(self) -> None:
        pass


@pytest.mark.parametrize(("failures", "recorded"), [(0, True), (1, True), (2, False)])
def test_without_memory_for_a_graph_the_work_is_launched(
    monkeypatch: pytest.MonkeyPatch, failures: int, recorded: bool
) -> None:
    emptied = []
    for name, value in {
        "Stream": Stream,
        "CUDAGraph": Graph,
        "graph_pool_handle": lambda: (0, 0),
        "current_stream": Stream,
        "stream": lambda _: nullcontext(),
        "empty_cache": lambda: emptied.append(1),
    }.items():
        monkeypatch.setattr(torch.cuda, name, value)
    Graph.failures = failures
    calls = []
    work = GraphRecorder(torch.device("cuda")).record(lambda: calls.append(1))
    assert gc.isenabled()
    assert len(emptied) == min(failures, 1)
    assert len(calls) == 1 + min(failures, 1)
    work()
    assert len(calls) == (2 if not recorded else 1) + min(failures, 1)
