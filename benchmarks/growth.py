"""How something grows with a size: the exponent of its power law, and how sure of it we are.

In a record of growth, a row that says ``"what": "point"`` was measured, at its ``size``; one that
says ``"what": "fit"`` is the power law through the points from the size ``since`` on.
"""

import json
import math
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch.profiler import ProfilerActivity, profile

from benchmarks.timing import Spread, take_turns
from tfmr.errors import require

Row = dict[str, Any]

BRIEF = 0.03
"""Whatever takes less than this many seconds is timed several times in a row."""


@dataclass(frozen=True)
class PowerLaw:
    """``value = factor * size ** exponent``, fitted to what was measured."""

    exponent: float
    """1 is proportional, 2 quadratic."""
    error: float
    """Standard error of the exponent: how far it would scatter if the points were drawn again."""
    factor: float
    """The value at size 1, mostly far outside the range that was measured."""


def fit(sizes: Sequence[int], values: Sequence[int | float]) -> PowerLaw:
    """The straight line nearest to the points when both axes are logarithmic, by least squares.

    Raises:
        TfmrError: if there are fewer than three points (two fit any line), fewer than two sizes,
            or a number that is not positive.
    """
    require(
        len(sizes) == len(values) >= 3 and len(set(sizes)) > 1,
        f"a power law needs three points or more, at different sizes: got {len(sizes)} sizes and "
        f"{len(values)} values",
    )
    require(
        min(*sizes, *values) > 0,
        "a power law is fitted to logarithms, so sizes and values must be positive: got "
        f"{min(*sizes, *values)}",
    )
    x, y = ([math.log(number) for number in numbers] for numbers in (sizes, values))
    n = len(x)
    mean_x, mean_y = sum(x) / n, sum(y) / n
    spread = sum((a - mean_x) ** 2 for a in x)
    exponent = sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y, strict=True)) / spread
    start = mean_y - exponent * mean_x
    missed = sum((b - start - exponent * a) ** 2 for a, b in zip(x, y, strict=True))
    error = math.sqrt(missed / (n - 2) / spread)
    return PowerLaw(exponent, error, math.exp(start))


def peak_bytes(work: Callable[[], object]) -> int:
    """The most memory that tensors made by ``work`` held at one time while it ran, in bytes.

    Counted from torch's own record of every allocation and release, so it is the same in each run
    and knows nothing of what the interpreter, other programs or the system's allocator keep. On
    Linux the growth of the process's resident memory is the same to 1 % from 30 MB on.
    """
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as recorded:
        work()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        recorded.export_chrome_trace(str(path))
        events = json.loads(path.read_text("utf-8"))["traceEvents"]
    changes = [event for event in events if event["name"] == "[memory]"]
    held = peak = 0
    for event in sorted(changes, key=lambda event: event["ts"]):
        held += event["args"]["Bytes"]
        peak = max(peak, held)
    return peak


def seconds_of(works: Sequence[Callable[[], object]], *, rounds: int) -> list[Row]:
    """How long each of the ``works`` takes, in turns, as the three columns of a row.

    Returns:
        For each, the median ``seconds`` of all rounds, and the ``fastest`` and ``slowest``.
    """
    times: list[int] = []
    for work in works:
        work()
        began = time.perf_counter()
        work()
        times.append(max(1, round(BRIEF / (time.perf_counter() - began))))

    def repeated(index: int) -> Callable[[int], None]:
        def several(_: int) -> None:
            for _ in range(times[index]):
                works[index]()

        return several

    taken = take_turns(
        {index: repeated(index) for index in range(len(works))}, rounds=rounds, warmup=0
    )
    rows: list[Row] = []
    for index, seconds in taken.items():
        spread = Spread.of([second / times[index] for second in seconds])
        rows.append(
            {
                "seconds": round(spread.middle, 7),
                "fastest": round(spread.low, 7),
                "slowest": round(spread.high, 7),
            }
        )
    return rows


def points(rows: Iterable[Row], of: str, **chosen: object) -> list[tuple[int, int | float]]:
    """Size, and value in the column ``of``, of the points that have all that was ``chosen``."""
    return [
        (row["size"], row[of])
        for row in rows
        if row["what"] == "point" and all(row[name] == value for name, value in chosen.items())
    ]


def fitted(rows: Iterable[Row], of: str, since: int, **chosen: object) -> Row:
    """The row of the power law through :func:`points` from the size ``since`` on."""
    upper = [(size, value) for size, value in points(rows, of, **chosen) if size >= since]
    law = fit([size for size, _ in upper], [value for _, value in upper])
    return {
        "what": "fit",
        **chosen,
        "of": of,
        "since": since,
        "points": len(upper),
        "exponent": round(law.exponent, 3),
        "error": round(law.error, 3),
    }
