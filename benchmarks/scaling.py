"""How a quantity grows with a size: the exponent of its power law, with its standard error.

In a record of scaling, a row with ``"what": "point"`` is a measurement at its ``size``. A row with
``"what": "fit"`` is the power law through the points with sizes of at least ``fitted_from``.
"""

import json
import math
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from torch.profiler import ProfilerActivity, profile

from benchmarks.record import Row
from benchmarks.tables import NOTHING, Claims, markdown, only, select
from benchmarks.timing import Spread, time_interleaved
from tfmr.errors import require

MIN_SECONDS = 0.03
"""A function that takes less time than this is called repeatedly for each measurement."""


@dataclass(frozen=True)
class PowerLaw:
    """``value = factor * size ** exponent``, fitted to measurements."""

    exponent: float
    """1: proportional; 2: quadratic."""
    standard_error: float
    """Standard error of the exponent."""
    factor: float
    """The value at size 1, usually far outside the measured range."""


def fit(sizes: Sequence[int], values: Sequence[int | float]) -> PowerLaw:
    """Fit a power law by least squares on logarithmic axes.

    Raises:
        TfmrError: if there are fewer than three points, all sizes are equal, or a number is not
            positive.
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
    variance = sum((a - mean_x) ** 2 for a in x)
    exponent = sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y, strict=True)) / variance
    intercept = mean_y - exponent * mean_x
    residual = sum((b - intercept - exponent * a) ** 2 for a, b in zip(x, y, strict=True))
    standard_error = math.sqrt(residual / (n - 2) / variance)
    return PowerLaw(exponent, standard_error, math.exp(intercept))


def peak_bytes(work: Callable[[], object]) -> int:
    """The peak memory in bytes of the tensors that ``work`` allocates.

    It is computed from torch's log of every allocation and release, so it is the same in each run
    and excludes the memory of the interpreter and of the system's allocator. On Linux it agrees
    with the growth of the process's resident memory to 1 % from 30 MB on.
    """
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        work()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        profiler.export_chrome_trace(str(path))
        events = json.loads(path.read_text("utf-8"))["traceEvents"]
    changes = [event for event in events if event["name"] == "[memory]"]
    held = peak = 0
    for event in sorted(changes, key=lambda event: event["ts"]):
        held += event["args"]["Bytes"]
        peak = max(peak, held)
    return peak


def seconds_of(works: Sequence[Callable[[], object]], *, rounds: int) -> list[Row]:
    """The time of each of ``works``, measured in interleaved rounds.

    Returns:
        For each, the median ``seconds`` of all rounds, and the ``fastest`` and ``slowest`` round.
    """
    repeats: list[int] = []
    for work in works:
        work()
        start = time.perf_counter()
        work()
        repeats.append(max(1, round(MIN_SECONDS / (time.perf_counter() - start))))

    def repeated(index: int) -> Callable[[int], None]:
        def several(_: int) -> None:
            for _ in range(repeats[index]):
                works[index]()

        return several

    taken = time_interleaved(
        {index: repeated(index) for index in range(len(works))}, rounds=rounds, warmup=0
    )
    rows: list[Row] = []
    for index, seconds in taken.items():
        spread = Spread.of([second / repeats[index] for second in seconds])
        rows.append(
            {
                "seconds": round(spread.median, 7),
                "fastest": round(spread.min, 7),
                "slowest": round(spread.max, 7),
            }
        )
    return rows


def points(
    rows: Iterable[Row], quantity: str, **selection: object
) -> list[tuple[int, int | float]]:
    """Size and value of ``quantity`` for the points whose columns equal ``selection``."""
    return [
        (row["size"], row[quantity])
        for row in rows
        if row["what"] == "point" and all(row[name] == value for name, value in selection.items())
    ]


def fitted(rows: Iterable[Row], quantity: str, fitted_from: int, **selection: object) -> Row:
    """The row of the power law through :func:`points` with sizes of at least ``fitted_from``."""
    upper = [
        (size, value) for size, value in points(rows, quantity, **selection) if size >= fitted_from
    ]
    law = fit([size for size, _ in upper], [value for _, value in upper])
    return {
        "what": "fit",
        **selection,
        "quantity": quantity,
        "fitted_from": fitted_from,
        "points": len(upper),
        "exponent": round(law.exponent, 3),
        "standard_error": round(law.standard_error, 3),
    }


def exponent(rows: Iterable[Row], quantity: str, **selection: object) -> float:
    """The exponent of the only power law of ``quantity`` with these columns."""
    return float(only(rows, what="fit", quantity=quantity, **selection)["exponent"])


def fits_follow(rows: list[Row]) -> Claims:
    """The power laws follow from their points."""
    for row in select(rows, what="fit"):
        selection = {key: row[key] for key in ("kind", "mode") if key in row}
        again = fitted(rows, row["quantity"], row["fitted_from"], **selection)
        yield f"the fit {selection} follows from its points", row == again


def table(rows: list[Row], settings: Row) -> list[str]:
    """The fitted exponents."""
    fits = select(rows, what="fit")
    names = [name for name in dict.fromkeys(key for row in fits for key in row) if name != "what"]
    return [
        "Exponents of power laws that describe how a quantity grows with the size (in "
        "cost/training.json, the number of sentence pairs; otherwise, the length of the sequence), "
        "fitted to sizes of at least `fitted_from`, with standard errors.",
        markdown(names, [[str(row.get(name, NOTHING)) for name in names] for row in fits]),
    ]
