"""Several training curves in one figure."""

from tfmr.figures.curves import loss_curves
from tfmr.figures.training import smooth
from tfmr.train.trainer import StepRecord


def test_each_run_has_a_line() -> None:
    runs = {
        name: [StepRecord(n, factor / n, 1.0, 1.0, 1.0, 9, 1.0) for n in range(1, steps + 1)]
        for name, factor, steps in (("a", 5.0, 40), ("b", 7.0, 20))
    }
    fig = loss_curves(runs)
    [axes] = fig.axes
    lines = {line.get_label(): line for line in axes.get_lines()}
    assert list(lines["a"].get_ydata()) == smooth([5.0 / n for n in range(1, 41)])
    assert list(lines["b"].get_xdata()) == list(range(1, 21))
    assert "a, 40 steps, b, 20 steps" in fig.alt
