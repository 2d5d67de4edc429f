"""Figures of cost show the measurements and the fitted power laws."""

import math

import pytest
from matplotlib.axes import Axes

from tfmr.errors import TfmrError
from tfmr.figures.cost import Scaling, attention_cost, corpus_size, decoding_cost

SIZES = [64, 128, 256, 512, 1024, 2048, 4096, 8192]
QUADRATIC = Scaling(SIZES, [3e-9 * n**2 for n in SIZES], 2.0, 512)
LINEAR = Scaling(SIZES, [5e-7 * n for n in SIZES], 1.0, 512)


def lines(axes: Axes) -> dict[str, list[tuple[float, float]]]:
    """Points by label; a line without a label is the fit of the previous one."""
    found: dict[str, list[tuple[float, float]]] = {}
    name = ""
    for line in axes.lines:
        label = str(line.get_label())
        name = f"{name} fit" if label.startswith("_") else label
        found[name] = list(zip(*line.get_data(), strict=True))
    return found


def test_attention_cost() -> None:
    figure = attention_cost(
        {"naive": QUADRATIC, "window": LINEAR},
        {"naive": Scaling(SIZES, [16.0 * n**2 for n in SIZES], 2.0, 512)},
    )
    time, memory = figure.axes
    drawn = lines(time)
    assert drawn["naive, $n^{2.0}$"][0] == (64, 1.0)
    assert drawn["window, $n^{1.0}$"][-1][1] == pytest.approx(5e-7 * 8192 / (3e-9 * 64**2))
    start, end = drawn["naive, $n^{2.0}$ fit"]
    assert (start[0], end[0]) == (512, 8192)
    assert start[1] == pytest.approx((512 / 64) ** 2)
    assert end[1] == pytest.approx((8192 / 64) ** 2)
    assert dict(lines(memory)["naive, $n^{2.0}$"])[1024] == 16.0
    assert "From 512 positions on" in figure.alt
    assert "for time, naive 2.0, window 1.0; for memory" in figure.alt
    bent = Scaling(SIZES, [1.0] * 3 + [n / 512 for n in SIZES[3:]], 1.0, 512)
    (start, end) = lines(attention_cost({"bent": bent}, {"bent": bent}).axes[0])[
        "bent, $n^{1.0}$ fit"
    ]
    assert start[1] == pytest.approx(1.0)
    assert end[1] == pytest.approx(16.0)
    axes = attention_cost({"naive": QUADRATIC}, {"naive": QUADRATIC}).axes[0]
    assert [text.get_text() for text in axes.get_xticklabels()] == ["128", "512", "2048", "8192"]


def test_decoding_cost() -> None:
    lengths = [16, 64, 256]
    figure = decoding_cost(lengths, [0.02, 0.16, 1.6], [0.02, 0.08, 0.32])
    time, ratio = figure.axes
    naive, cached = lines(time)["no cache"], lines(time)["cache"]
    assert [length for length, _ in naive] == [length for length, _ in cached] == lengths
    assert [milliseconds for _, milliseconds in naive] == pytest.approx([20, 160, 1600])
    assert [milliseconds for _, milliseconds in cached] == pytest.approx([20, 80, 320])
    assert list(ratio.lines[0].get_ydata()) == pytest.approx([1, 2, 5])
    assert "20 and 20 at 16 (1.0), 160 and 80 at 64 (2.0), 1600 and 320 at 256 (5.0)" in figure.alt
    assert [text.get_text() for text in ratio.texts] == ["1.0", "2.0", "5.0"]
    with pytest.raises(TfmrError, match=r"got 3 lengths, 3 times.*2"):
        decoding_cost(lengths, [0.02, 0.16, 1.6], [0.02, 0.08])


def test_corpus_size() -> None:
    figure = corpus_size([1000, 4000, 16000], [2, 8, 32.2], [1, 2, 3], [5, 4, 3.5], [1, 4, 9])
    time, loss, bleu = figure.axes
    assert list(time.lines[0].get_ydata()) == pytest.approx([1, 4, 16.1])
    assert [list(line.get_ydata()) for line in loss.lines] == [[5, 4, 3.5], [1, 2, 3]]
    assert list(bleu.lines[0].get_data()[0]) == [1, 4, 16]
    assert "16000 pairs: relative time 16.1, training loss 3.00, validation" in figure.alt
    assert math.isclose(bleu.get_ylim()[0], 0)
