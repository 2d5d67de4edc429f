"""From seconds to statements: who was how many times slower than whom."""

from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import Any

from benchmarks.timing import ratio

OWN = "tfmr"
PEAK = "peak"
"""Stands among the systems for one large product of matrices: as fast as the machine can."""
Name = tuple[str, str]
"""A system and a precision of products."""


def best_precisions(seconds: Mapping[Name, Sequence[float]]) -> dict[str, str]:
    """The precision at which each system had the lower median."""
    best: dict[str, str] = {}
    for system, precision in sorted(seconds, key=lambda name: median(seconds[name])):
        best.setdefault(system, precision)
    return best


def compare(
    seconds: Mapping[Name, Sequence[float]],
    tokens: Sequence[int],
    flops: Sequence[float] = (),
    peak_flops: float = 0.0,
) -> list[dict[str, Any]]:
    """A row for each system at each precision.

    ``times`` is how many times as long as tfmr it took, median of the rounds, ``times_low`` and
    ``times_high`` the ends of its range; tfmr is taken at its best precision, and whoever quotes a
    peer should take the row that is its ``best`` as well.

    Args:
        seconds: of every round.
        tokens: what was done in each round.
        flops: the operations of each round; empty if they were not counted.
        peak_flops: the operations of :data:`PEAK` in every round.
    """
    best = best_precisions(seconds)
    own = seconds[OWN, best[OWN]]
    peak = peak_flops / median(seconds[PEAK, best[PEAK]]) if PEAK in best else None
    rows = []
    for (system, precision), times in seconds.items():
        row: dict[str, Any] = {
            "system": system,
            "precision": precision,
            "best": best[system] == precision,
            "seconds": [round(second, 5) for second in times],
        }
        if system == PEAK:
            row["gflops"] = round(peak_flops / median(times) / 1e9, 1)
        else:
            slower = ratio(times, own)
            row["tokens_per_second"] = round(_rate(tokens, times), 1)
            row["times"] = round(slower.middle, 3)
            row["times_low"], row["times_high"] = round(slower.low, 3), round(slower.high, 3)
            if peak is not None:
                row["share_of_peak"] = round(_rate(flops, times) / peak, 3)
        rows.append(row)
    return rows


def _rate(amounts: Iterable[int | float], seconds: Iterable[float]) -> float:
    """The median over the rounds of what was done in a second."""
    return median(amount / second for amount, second in zip(amounts, seconds, strict=True))
