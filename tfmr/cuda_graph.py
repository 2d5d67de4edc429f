"""CUDA graphs: repeat the work of a GPU by one launch instead of one for every kernel.

A step of a small model consists of hundreds of kernels, and launching them takes several times as
long as computing them. A graph records the kernels once, with the addresses of their inputs and
outputs; a replay repeats them with whatever these addresses hold then.
"""

import gc
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch

_LOCK = threading.RLock()
"""Only one recording at a time: recorders can share one of PyTorch's few streams."""


class GraphRecorder:
    """Records work as CUDA graphs that share their temporary memory.

    So only one of them may run at a time: replay all graphs of a recorder on the same stream.

    Args:
        device: where the work is done; without a GPU, it is repeated instead of replayed.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._pool = torch.cuda.graph_pool_handle() if device.type == "cuda" else None
        self._stream = torch.cuda.Stream(device) if device.type == "cuda" else None
        self._last: torch.cuda.CUDAGraph | None = None
        """Keeps the pool of memory, which PyTorch gives up with its last graph."""

    def warm_up(self, work: Callable[[], object]) -> None:
        """Do ``work`` once, so that libraries that it uses are loaded before they are recorded."""
        if self._stream is None:
            return
        current = torch.cuda.current_stream(self._device)
        with _LOCK:
            self._stream.wait_stream(current)
            with torch.cuda.stream(self._stream), torch.random.fork_rng([self._device]):
                work()
            current.wait_stream(self._stream)
        torch.cuda.empty_cache()

    def record(self, work: Callable[[], object]) -> Callable[[], object]:
        """A function that repeats ``work``, which is not done by this call.

        ``work`` must read and write the same tensors every time, and must not wait for the GPU. If
        there is too little memory to record it, ``work`` itself is returned.
        """
        if self._stream is None:
            return work
        with _LOCK, _no_garbage_collection():
            try:
                return self._capture(work)
            except torch.cuda.OutOfMemoryError:
                # A recording cannot use the memory that PyTorch caches for other work.
                torch.cuda.empty_cache()
            try:
                return self._capture(work)
            except torch.cuda.OutOfMemoryError:
                return work

    def _capture(self, work: Callable[[], object]) -> Callable[[], object]:
        assert self._stream is not None
        graph = torch.cuda.CUDAGraph()
        self._stream.wait_stream(torch.cuda.current_stream(self._device))
        with torch.cuda.stream(self._stream):
            graph.capture_begin(pool=self._pool, capture_error_mode="thread_local")
            try:
                work()
            finally:
                graph.capture_end()
        self._last = graph
        return graph.replay


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """A collection could delete another graph, which is not allowed during a recording."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
