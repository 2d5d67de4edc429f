"""What benchmarks/README.md says of its records, beside the tables, is what the records say."""

from typing import Any

import pytest

from benchmarks.compare import OWN, PEAK
from benchmarks.record import FOLDER, read

SPEED, BF16, PROFILE = (
    read(FOLDER / f"{name}.json")["rows"] for name in ("speed", "speed-bf16", "profile")
)
TRAINING, TOGETHER = ("train A", "train B"), ("greedy", "beam")


def best(
    rows: list[dict[str, Any]], task: str, system: str, dropout: str | None = None
) -> dict[str, Any]:
    """The row of a system at the precision that suits it."""
    [row] = [
        row
        for row in rows
        if (row["task"], row["system"], row.get("dropout")) == (task, system, dropout)
        and row["best"]
    ]
    return row


def share_of_products(task: str) -> float:
    """Of tfmr's time."""
    [row] = [
        row for row in PROFILE if row["task"] == task and row["kind"] == "products of matrices"
    ]
    return float(row["share"])


def lead(rows: list[dict[str, Any]], task: str, dropout: str | None = None) -> float:
    """How many times as long as tfmr the fastest of the others takes."""
    others = {row["system"] for row in rows if row["task"] == task} - {OWN, PEAK}
    return min(float(best(rows, task, system, dropout)["times"]) for system in others)


@pytest.mark.parametrize("task", TRAINING)
def test_training_is_bound_by_products(task: str) -> None:
    assert 0.7 < share_of_products(task) < 0.8
    while_they_last = best(SPEED, task, OWN, "paper")["share_of_peak"] / share_of_products(task)
    assert while_they_last > 0.85


def test_products_in_bf16_take_half_as_long() -> None:
    fp32, bf16 = (best(rows, "train A", PEAK, "paper")["gflops"] for rows in (SPEED, BF16))
    assert bf16 / fp32 == pytest.approx(2, rel=0.1)


def test_the_systems_differ_more_where_products_are_small() -> None:
    assert lead(SPEED, "train A", "paper") > lead(SPEED, "train B", "paper") > 1.05


@pytest.mark.parametrize("task", TOGETHER)
def test_products_take_most_of_a_search_and_twice_as_fast_is_not_reached(task: str) -> None:
    assert share_of_products(task) > 0.5
    assert 1.25 < lead(SPEED, task) < 2
    left = lead(SPEED, task) / 2  # of tfmr's time, to be twice as fast as the fastest of the others
    assert share_of_products(task) > left / 2


def test_one_by_one_is_twice_as_fast() -> None:
    assert lead(SPEED, "single") > 2


@pytest.mark.parametrize(("task", "least"), [("train A", 1.6), ("train B", 1.2)])
def test_at_their_own_defaults_tfmr_is_well_ahead(task: str, least: float) -> None:
    assert lead(SPEED, task, "own") > least
