"""Time and memory of attention as a function of the number of positions."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from benchmarks.record import Record, Row
from benchmarks.scaling import exponent, fits_follow, fitted, peak_bytes, points, seconds_of
from benchmarks.scaling import table as table
from benchmarks.tables import Claims
from tfmr.attention import fused_attention, scaled_dot_product_attention
from tfmr.local_attention import local_attention

HEADS, D_K = 4, 32
RADIUS = 64

KINDS: dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = {
    "naive": lambda q, k, v: scaled_dot_product_attention(q, k, v)[0],
    "fused": fused_attention,
    "local": lambda q, k, v: local_attention(q, k, v, RADIUS),
}
MODES = ("forward", "training")
"""Training includes the backward pass."""

LENGTHS = (64, 128, 256, 512, 1024, 1536, 2048, 3072, 4096, 6144, 8192)
MAX_LENGTHS = {"naive": 4096, "fused": 8192, "local": 8192}
"""Naive attention with its backward pass takes 3 GiB at 8192 positions."""
FITTED_FROM = 1024
"""From this length on, the cost of an operation exceeds its fixed overhead."""

SETTINGS = {"batch": 1, "heads": HEADS, "d_k": D_K, "radius": RADIUS, "precision": "fp32"}


def attend(kind: str, mode: str, length: int) -> Callable[[], None]:
    """A call of self-attention over ``length`` positions."""
    generator = torch.Generator().manual_seed(length)
    q, k, v, grad = (torch.randn(1, HEADS, length, D_K, generator=generator) for _ in range(4))
    inputs = [x.requires_grad_(mode == "training") for x in (q, k, v)]

    def work() -> None:
        out = KINDS[kind](*inputs)
        if mode == "training":
            torch.autograd.grad(out, inputs, grad)

    return work


def measure(
    *, lengths: Sequence[int] = LENGTHS, fitted_from: int = FITTED_FROM, rounds: int = 5
) -> list[Row]:
    """A row for each kind, mode and length, and the power laws of ``seconds`` and ``bytes``."""
    names = [
        (kind, mode, length)
        for length in lengths
        for kind in KINDS
        for mode in MODES
        if length <= MAX_LENGTHS[kind]
    ]
    works = [attend(*name) for name in names]
    peaks = [peak_bytes(work) for work in works]
    seconds = seconds_of(works, rounds=rounds)
    rows: list[Row] = [
        {"what": "point", "kind": kind, "mode": mode, "size": length, **times, "bytes": memory}
        for (kind, mode, length), times, memory in zip(names, seconds, peaks, strict=True)
    ]
    return rows + [
        fitted(rows, quantity, fitted_from, kind=kind, mode=mode)
        for quantity in ("seconds", "bytes")
        for mode in MODES
        for kind in KINDS
    ]


def claims(rows: list[Row], settings: Row, records: dict[str, Record]) -> Claims:
    """Naive attention is quadratic, fused attention in time only, local attention in neither."""
    yield from fits_follow(rows)
    ranges = {
        ("bytes", "naive"): (1.95, 2.05),
        ("bytes", "fused"): (0.7, 1.15),
        ("bytes", "local"): (0.9, 1.1),
        ("seconds", "naive"): (1.7, 3),
        ("seconds", "fused"): (1.6, 2.3),
        ("seconds", "local"): (0.75, 1.3),
    }
    for mode in MODES:
        for (quantity, kind), (low, high) in ranges.items():
            found = exponent(rows, quantity, kind=kind, mode=mode)
            claim = f"{quantity} of {kind}, {mode}: exponent {found} in {low}..{high}"
            yield claim, low < found < high
        naive, fused, local = (
            dict(points(rows, "seconds", kind=kind, mode=mode))[4096] for kind in KINDS
        )
        faster = naive > 2 * fused > 4 * local
        yield f"at 4096, {mode}, fused and local each at least halve", faster
