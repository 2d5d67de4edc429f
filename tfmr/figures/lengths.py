"""The lengths of the sentences of a corpus."""

import math

from tfmr.data.report import SIDES, DataReport
from tfmr.figures.style import Figure, figure, styled

BINS = 30
"""Maximum number of bins."""


@styled
def length_histograms(report: DataReport) -> Figure:
    """The distribution of the lengths of each set, one panel per side of the pairs."""
    longest = max(length for sets in report.histograms.values() for side in sets.values()
                  for length in side)  # fmt: skip
    width = -(-longest // BINS)
    bins = -(-longest // width)
    edges = [0.5 + width * n for n in range(bins + 1)]
    smallest = min(100 / sum(sets["source"].values()) for sets in report.histograms.values())
    fig, panels = figure(columns=2, height=2.6, sharey=True)
    for axes, side in zip(panels, SIDES, strict=True):
        for name, sets in report.histograms.items():
            shares = [0.0] * bins
            for length, count in sets[side].items():
                shares[(length - 1) // width] += 100 * count / sum(sets[side].values())
            drawn = [share or math.nan for share in shares]
            axes.stairs(drawn, edges, baseline=smallest / 2, label=name, linewidth=1.5)
        # On a logarithmic axis, one long sentence among many is visible.
        axes.set(xlabel=f"{side} tokens", xlim=(0, edges[-1]), yscale="log")
        axes.set_ylim(smallest / 2, 100)
    panels[0].set(ylabel=f"% of sentences per {width} tokens" if width > 1 else "% of sentences")
    panels[1].legend()
    medians = "; ".join(
        f"{name}: {report.lengths[name]['source']['median']} and "
        f"{report.lengths[name]['target']['median']}"
        for name in report.histograms
    )
    fig.alt = (
        "Distributions of the lengths of source sentences (first panel) and target sentences "
        f"(second panel). Median of each set, source and target: {medians}."
    )
    return fig
