"""Timing side by side, on a clock that moves only when somebody works."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks import timing
from benchmarks.compare import OWN, PEAK, best_precisions, compare
from benchmarks.timing import Spread, apart, ratio, take_turns
from tfmr.errors import TfmrError, require


class Clock:
    """A clock, and systems whose cost on it is known."""

    def __init__(self) -> None:
        self.now = 100.0
        self.turns: list[tuple[str, int]] = []

    def __call__(self) -> float:
        return self.now

    def system(self, name: str, *seconds: float) -> Callable[[int], None]:
        """Takes ``seconds[k]`` in round ``k``, the last of them ever after."""

        def work(k: int) -> None:
            self.turns.append((name, k))
            self.now += seconds[min(k, len(seconds) - 1)]

        return work


def test_each_rounds_seconds_are_those_of_whoever_worked() -> None:
    clock = Clock()
    contenders = {"a": clock.system("a", 9, 1, 2, 4), "b": clock.system("b", 9, 3)}
    seconds = take_turns(contenders, rounds=3, clock=clock)
    assert seconds == {"a": [1, 2, 4], "b": [3, 3, 3]}


def test_the_first_turn_moves_on_and_everybody_works_once_a_round() -> None:
    clock = Clock()
    names = "abc"
    seen: list[str] = []
    take_turns(
        {name: clock.system(name, 1) for name in names},
        rounds=3,
        warmup=1,
        clock=clock,
        on_turn=seen.append,
    )
    order = "".join(name for name, _ in clock.turns)
    assert [order[k : k + 3] for k in range(0, 12, 3)] == ["abc", "bca", "cab", "abc"]
    assert [k for _, k in clock.turns] == [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3]
    assert "".join(seen) == order


def test_a_ratio_is_taken_round_by_round() -> None:
    # The machine is three times slower in the second round, for both.
    assert ratio([2.0, 6.0, 2.5], [1.0, 3.0, 1.0]) == Spread(middle=2.0, low=2.0, high=2.5)


def test_nothing_has_no_median() -> None:
    with pytest.raises(TfmrError, match="measure at least one round"):
        Spread.of([])


def test_apart_is_a_new_process_each_time() -> None:
    assert len({os.getpid(), apart(os.getpid), apart(os.getpid)}) == 3
    with pytest.raises(TfmrError, match="no memory of it"):
        apart(require, False, "no memory of it")


WORK = """
import os, sys, time
from benchmarks.timing import apart

def work() -> None:
    print("at work", flush=True)
    time.sleep(60)

if __name__ == "__main__":
    apart(work)
"""


def test_nothing_is_left_of_a_measurement_that_is_killed(tmp_path: Path) -> None:
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
    # The other end of the pipe is closed when the last of its processes is gone.
    assert measuring.communicate(timeout=20)[0] == ""


SECONDS = {
    (OWN, "highest"): [2.0, 2.0, 8.0],
    (OWN, "medium"): [1.0, 1.0, 4.0],
    ("peer", "highest"): [3.0, 2.0, 12.0],
    ("peer", "medium"): [5.0, 5.0, 20.0],
    (PEAK, "highest"): [0.2, 0.2, 0.8],
    (PEAK, "medium"): [0.1, 0.1, 0.4],
}


def test_everybody_is_taken_at_the_precision_that_suits_it() -> None:
    assert best_precisions(SECONDS) == {OWN: "medium", "peer": "highest", PEAK: "medium"}


def test_the_statements_follow_from_the_seconds() -> None:
    rows = compare(SECONDS, tokens=[100, 100, 100], flops=[4e9, 4e9, 4e9], peak_flops=1e9)
    table = {(row["system"], row["precision"]): row for row in rows}
    peer = table["peer", "highest"]
    assert peer["best"]
    assert not table["peer", "medium"]["best"]
    # Round by round 3/1, 2/1, 12/4: the slow round is slow for both.
    assert (peer["times"], peer["times_low"], peer["times_high"]) == (3.0, 2.0, 3.0)
    assert peer["tokens_per_second"] == pytest.approx(100 / 3, abs=0.05)
    own = table[OWN, "medium"]
    assert (own["times"], own["tokens_per_second"]) == (1.0, 100.0)
    # The peak is 1e9 operations in 0.1 s; tfmr does 4e9 in 1 s.
    assert table[PEAK, "medium"]["gflops"] == 10.0
    assert own["share_of_peak"] == 0.4
    assert "times" not in table[PEAK, "medium"]


def test_without_a_peak_there_is_no_share_of_it() -> None:
    seconds = {name: times for name, times in SECONDS.items() if name[0] != PEAK}
    assert all("share_of_peak" not in row for row in compare(seconds, [1, 1, 1]))
