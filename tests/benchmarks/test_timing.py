"""Interleaved timing, on a clock that advances only during calls."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks import timing
from benchmarks.speed import OWN, PEAK, Variant, results
from benchmarks.timing import Spread, ratio, run_in_new_process, time_interleaved
from tfmr.errors import TfmrError


class Clock:
    """A clock, and functions that advance it by known times."""

    def __init__(self) -> None:
        self.now = 100.0
        self.calls: list[tuple[str, int]] = []

    def __call__(self) -> float:
        return self.now

    def function(self, name: str, *seconds: float) -> Callable[[int], None]:
        """Takes ``seconds[k]`` in round ``k``; the last value applies to all later rounds."""

        def work(k: int) -> None:
            self.calls.append((name, k))
            self.now += seconds[min(k, len(seconds) - 1)]

        return work


def test_seconds_are_attributed_to_functions_and_rounds() -> None:
    clock = Clock()
    functions = {"a": clock.function("a", 9, 1, 2, 4), "b": clock.function("b", 9, 3)}
    seconds = time_interleaved(functions, rounds=3, clock=clock)
    assert seconds == {"a": [1, 2, 4], "b": [3, 3, 3]}


def test_the_order_rotates_and_each_function_runs_once_per_round() -> None:
    clock = Clock()
    names = "abc"
    seen: list[str] = []
    time_interleaved(
        {name: clock.function(name, 1) for name in names},
        rounds=3,
        warmup=1,
        clock=clock,
        on_call=seen.append,
    )
    order = "".join(name for name, _ in clock.calls)
    assert [order[k : k + 3] for k in range(0, 12, 3)] == ["abc", "bca", "cab", "abc"]
    assert [k for _, k in clock.calls] == [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3]
    assert "".join(seen) == order


def test_ratios_are_computed_round_by_round() -> None:
    # The machine is three times slower in the second round, for both.
    assert ratio([2.0, 6.0, 2.5], [1.0, 3.0, 1.0]) == Spread(median=2.0, min=2.0, max=2.5)


def test_no_rounds_raise() -> None:
    with pytest.raises(TfmrError, match="expected at least one round"):
        Spread.of([])


def fail_with_process_id() -> None:
    raise TfmrError(str(os.getpid()))


def test_each_call_has_a_new_process() -> None:
    one = run_in_new_process(os.getpid)
    with pytest.raises(TfmrError) as raised:
        run_in_new_process(fail_with_process_id)
    assert len({os.getpid(), one, int(str(raised.value))}) == 3


WORK = """
import os, sys, time
from benchmarks.timing import run_in_new_process

def work() -> None:
    print("at work", flush=True)
    time.sleep(60)

if __name__ == "__main__":
    run_in_new_process(work)
"""


def test_the_process_ends_when_its_parent_is_killed(tmp_path: Path) -> None:
    script = tmp_path / "measure.py"
    script.write_text(WORK, "utf-8")
    root = str(Path(timing.__file__).parent.parent)
    measuring = subprocess.Popen(
        [sys.executable, str(script)],
        env=os.environ | {"PYTHONPATH": root},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert measuring.stdout is not None
    assert measuring.stdout.readline() == "at work\n"
    measuring.kill()
    # The pipe is closed when the last process has ended.
    assert measuring.communicate(timeout=50)[0] == ""


SECONDS = {
    Variant(OWN, "fp32", "highest"): [2.0, 2.0, 8.0],
    Variant(OWN, "bf16", "medium"): [1.0, 1.0, 4.0],
    Variant(PEAK, "fp32", "highest"): [0.2, 0.2, 0.8],
    Variant(PEAK, "fp32", "medium"): [0.1, 0.1, 0.4],
    Variant(PEAK, "bf16", "medium"): [0.05, 0.05, 0.2],
}


def test_results_follow_from_the_seconds() -> None:
    rows = results(SECONDS, tokens=[100, 100, 100], flops=[4e9, 4e9, 4e9], peak_flops=1e9)
    fp32, bf16, slow_peak, fast_peak, bf16_peak = rows
    assert (fp32["system"], fp32["precision"]) == (OWN, "fp32")
    assert (fp32["tokens_per_second"], bf16["tokens_per_second"]) == (50.0, 100.0)
    assert [row["gflops"] for row in (slow_peak, fast_peak, bf16_peak)] == [5.0, 10.0, 20.0]
    # 4e9 operations in 2 s and in 1 s, relative to the faster peak of the same precision.
    assert (fp32["share_of_peak"], bf16["share_of_peak"]) == (0.2, 0.2)
    assert "share_of_peak" not in fast_peak


def test_without_a_peak_of_its_precision_there_is_no_share() -> None:
    seconds = {k: v for k, v in SECONDS.items() if k.precision != "bf16" or k.system != PEAK}
    fp32, bf16, *_ = results(seconds, [1, 1, 1], [1.0, 1.0, 1.0], 1e9)
    assert "share_of_peak" in fp32
    assert "share_of_peak" not in bf16
