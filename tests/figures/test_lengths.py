"""The distributions of the lengths of a corpus."""

import numpy as np
import pytest

from tfmr.data.report import DataReport
from tfmr.figures.lengths import BINS, length_histograms


def report(longest: int) -> DataReport:
    """A report on two sets, of which the first has the longest source sentence."""
    histograms = {
        "train": {"source": {1: 3, longest: 1}, "target": {2: 4}},
        "test": {"source": {2: 1}, "target": {2: 1}},
    }
    lengths = {
        name: {side: {"median": min(counts)} for side, counts in sides.items()}
        for name, sides in histograms.items()
    }
    return DataReport({}, {}, lengths, ("", ""), {}, (), histograms)


def stairs(longest: int) -> list[list[float]]:
    """The heights of the lines of the source panel, in percent."""
    fig = length_histograms(report(longest))
    source, target = fig.axes
    assert (source.get_xlabel(), target.get_xlabel()) == ("source tokens", "target tokens")
    assert "train: 1 and 2; test: 2 and 2" in fig.alt
    low, high = source.get_ylim()
    assert (low, high) == (12.5, 100), "one sentence of four has a line above the axis"
    return [np.nan_to_num(patch.get_data().values).tolist() for patch in source.patches]


def test_every_length_has_its_own_bin_if_there_are_few() -> None:
    assert stairs(4) == [[75, 0, 0, 25], [0, 100, 0, 0]]


@pytest.mark.parametrize("longest", [BINS, BINS + 1, 7 * BINS])
def test_no_sentence_is_lost_in_wide_bins(longest: int) -> None:
    train, test = stairs(longest)
    assert (train[0], train[-1], sum(train)) == (75, 25, 100)
    assert sum(test) == 100
    assert len(train) <= BINS
