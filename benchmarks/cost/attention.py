"""Time and memory of attention against the number of positions."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from benchmarks.growth import Row, fitted, peak_bytes, seconds_of
from tfmr.attention import fused_attention, scaled_dot_product_attention
from tfmr.local_attention import local_attention

HEADS, D_K = 4, 32
RADIUS = 64

KINDS: dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = {
    "naive": lambda q, k, v: scaled_dot_product_attention(q, k, v)[0],
    "fused": fused_attention,
    "window": lambda q, k, v: local_attention(q, k, v, RADIUS),
}
WAYS = ("forward", "training")
"""Training adds the backward pass."""

LENGTHS = (64, 128, 256, 512, 1024, 1536, 2048, 3072, 4096, 6144, 8192)
LONGEST = {"naive": 4096, "fused": 8192, "window": 8192}
"""Naive training on 8192 positions would hold 3 GiB."""
LONG = 1024
"""From this many positions on, what an operation costs outweighs what it costs to start one."""

SETTINGS = {"batch": 1, "heads": HEADS, "d_k": D_K, "radius": RADIUS, "precision": "fp32"}


def attend(kind: str, way: str, length: int) -> Callable[[], None]:
    """One attention from ``length`` positions to themselves, ready to be called."""
    generator = torch.Generator().manual_seed(length)
    q, k, v, pull = (torch.randn(1, HEADS, length, D_K, generator=generator) for _ in range(4))
    inputs = [x.requires_grad_(way == "training") for x in (q, k, v)]

    def work() -> None:
        out = KINDS[kind](*inputs)
        if way == "training":
            torch.autograd.grad(out, inputs, pull)

    return work


def measure(*, lengths: Sequence[int] = LENGTHS, since: int = LONG, rounds: int = 5) -> list[Row]:
    """A row for each kind, way and length, and the power laws of ``seconds`` and of ``bytes``."""
    names = [
        (kind, way, length)
        for length in lengths
        for kind in KINDS
        for way in WAYS
        if length <= LONGEST[kind]
    ]
    works = [attend(*name) for name in names]
    held = [peak_bytes(work) for work in works]
    seconds = seconds_of(works, rounds=rounds)
    rows: list[Row] = [
        {"what": "point", "kind": kind, "way": way, "size": length, **times, "bytes": memory}
        for (kind, way, length), times, memory in zip(names, seconds, held, strict=True)
    ]
    return rows + [
        fitted(rows, of, since, kind=kind, way=way)
        for of in ("seconds", "bytes")
        for way in WAYS
        for kind in KINDS
    ]
