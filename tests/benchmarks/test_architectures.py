"""The comparison of the book's architectures."""

import pytest

from benchmarks.architectures import LENGTHS, by_length, differences
from tfmr.metrics import bleu

REFERENCES = [f"a man number {n} is riding a red bicycle ." for n in range(60)]
GOOD = [r if n % 3 else r.replace("red", "blue") for n, r in enumerate(REFERENCES)]
POOR = [r.replace("riding", "near") if n % 2 else "a dog ." for n, r in enumerate(REFERENCES)]


def test_differences_are_those_of_bleu_with_paired_intervals() -> None:
    found = differences({"good": GOOD, "also": list(GOOD), "poor": POOR}, REFERENCES)
    lead = bleu(GOOD, REFERENCES).score - bleu(POOR, REFERENCES).score
    assert found["good"]["others"] == ["also", "poor"]
    assert found["good"]["lead"] == pytest.approx([0, lead], abs=0.011)
    same, (low, high) = found["good"]["lead_interval"]
    # Equal translations have equal scores in each resample. Unpaired resamples would differ.
    assert same == [0, 0]
    assert 0 < low < lead < high < 2 * lead
    assert found["poor"]["lead"][0] == -found["good"]["lead"][1]
    assert found["poor"]["lead_interval"][0] == [-high, -low]


def test_each_class_of_lengths_is_scored_alone() -> None:
    sources = [" ".join(["Wort"] * length) for length in (3, 8, 9, 11, 12, 20)]
    target = "a dog runs along the beach ."
    pairs = [(source, target) for source in sources]
    outputs = ["a cat sits here ?", *[target] * 5]
    found = by_length(outputs, pairs)
    assert found["sentences_by_length"] == [1, 2, 1, 1, 1]
    assert len(found["bleu_by_length"]) == len(LENGTHS)
    assert found["bleu_by_length"][0] < 10
    assert found["bleu_by_length"][1:] == pytest.approx([100] * 4)
