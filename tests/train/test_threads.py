"""The number of threads is chosen by measured steps."""

import pytest
import torch

from tfmr.train.threads import ROUNDS, measure_threads


@pytest.mark.parametrize(("one", "two"), [(1.0, 0.5), (0.1, 0.5)])
def test_the_time_of_a_step_by_the_number_of_threads(one: float, two: float) -> None:
    now, before = 0.0, torch.get_num_threads()
    used: list[int] = []

    def step() -> None:
        nonlocal now
        used.append(torch.get_num_threads())
        first = used.count(used[-1]) == 1
        now += 10.0 if first else one if used[-1] == 1 else two

    seconds = measure_threads(step, [1, 2], clock=lambda: now)
    assert torch.get_num_threads() == before
    assert seconds == pytest.approx({1: one, 2: two})
    assert used == [1, 2] * 2, "more than enough time has passed in the steps that do not count"


def test_a_fast_step_is_measured_several_times() -> None:
    used: list[int] = []
    clock = iter(range(1000)).__next__
    measure_threads(lambda: used.append(0), [1, 2], clock=lambda: clock() / 100)
    assert len(used) == 2 * (1 + ROUNDS)


def test_the_number_of_threads_is_restored_after_an_error() -> None:
    before = torch.get_num_threads()

    def fail() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        measure_threads(fail, [before + 1])
    assert torch.get_num_threads() == before
