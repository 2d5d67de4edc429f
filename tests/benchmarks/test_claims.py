"""What benchmarks/README.md says of its records, beside the tables, is what the records say."""

from typing import Any

import pytest

from benchmarks.compare import OWN, PEAK
from benchmarks.record import FOLDER, read

SPEED, BF16, OTHER_CPU, PROFILE = (
    read(FOLDER / f"{name}.json")["rows"]
    for name in ("speed", "speed-bf16", "speed-other-cpu", "profile")
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
    assert 2 / 3 < share_of_products(task) < 0.8
    while_they_last = best(SPEED, task, OWN, "paper")["share_of_peak"] / share_of_products(task)
    assert while_they_last > 0.85


def test_products_in_bf16_take_half_as_long() -> None:
    fp32, bf16 = (best(rows, "train A", PEAK, "paper")["gflops"] for rows in (SPEED, BF16))
    assert bf16 / fp32 == pytest.approx(2, rel=0.1)


def test_the_systems_differ_more_where_products_are_small_or_fast() -> None:
    fast, slow = (best(rows, "train B", PEAK, "paper")["gflops"] for rows in (SPEED, OTHER_CPU))
    assert fast / slow == pytest.approx(2, rel=0.2)
    assert lead(SPEED, "train A", "paper") > lead(SPEED, "train B", "paper")
    assert lead(SPEED, "train B", "paper") == pytest.approx(1 + 1 / 3, abs=0.06)
    assert lead(OTHER_CPU, "train B", "paper") == pytest.approx(1 + 1 / 12, abs=0.01)


@pytest.mark.parametrize("task", TOGETHER)
def test_in_fp32_a_search_is_well_ahead_and_not_twice_as_fast(task: str) -> None:
    rates = {
        (row["system"], row["precision"]): row["tokens_per_second"]
        for row in SPEED
        if row["task"] == task and row["system"] != PEAK
    }
    others = max(rate for (system, _), rate in rates.items() if system != OWN)
    assert 1.25 < rates[OWN, "highest"] / others < 2


@pytest.mark.parametrize("task", TOGETHER)
def test_in_bf16_a_search_is_twice_as_fast(task: str) -> None:
    settings = read(FOLDER / "speed.json")["settings"]
    assert settings["decoder"] == {"highest": "float32", "medium": "bfloat16"}
    assert settings["product_error"]["medium"] < 1e-6  # PyTorch's own products stay in fp32
    assert best(SPEED, task, OWN)["precision"] == "medium"
    assert lead(SPEED, task) > 2


@pytest.mark.parametrize("task", TOGETHER)
def test_products_take_the_largest_part_of_a_search(task: str) -> None:
    kinds = {row["kind"]: row["share"] for row in PROFILE if row["task"] == task}
    assert max(kinds, key=lambda kind: kinds[kind]) == "products of matrices"


def test_what_is_left_of_greedy_search_is_small_steps_and_moving() -> None:
    kinds = {row["kind"]: row["share"] for row in PROFILE if row["task"] == "greedy"}
    _, *besides = sorted(kinds, key=lambda kind: -kinds[kind])
    assert besides[:2] == ["between operations", "moving numbers"]


def test_tfmr_takes_more_steps_in_the_same_minutes_and_ends_higher() -> None:
    record = read(FOLDER / "quality.json")
    assert record["settings"]["peaks"] == {}  # everybody learns at the recipe's rate
    for minutes in record["settings"]["minutes"]:
        own, *others = (row for row in record["rows"] if row["minutes"] == minutes)
        assert own["system"] == OWN
        for other in others:
            assert own["steps"] > 1.5 * other["steps"]
            assert own["test_bleu_beam4"] > other["test_bleu_beam4"] + 2


def test_one_by_one_is_twice_as_fast_and_bound_by_python_as_well() -> None:
    assert lead(SPEED, "single") > 2
    assert best(SPEED, "single", OWN)["precision"] == "medium"
    kinds = {row["kind"]: row["share"] for row in PROFILE if row["task"] == "single"}
    assert kinds["between operations"] == pytest.approx(kinds["products of matrices"], rel=0.2)


@pytest.mark.parametrize(
    ("task", "dropout", "least"),
    [
        ("train A", "paper", 1.25),
        ("train B", "paper", 1.1),
        ("train A", "own", 1.6),
        ("train B", "own", 1.2),
    ],
)
def test_training_is_as_far_ahead_as_was_wanted(task: str, dropout: str, least: float) -> None:
    assert lead(SPEED, task, dropout) > least
