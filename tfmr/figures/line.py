"""Figures of the measured line: several systems on one ruler, each trained with several seeds.

A system has the same colour in all of them when they are given in the same order.
"""

from collections.abc import Mapping, Sequence
from itertools import cycle
from statistics import mean

from matplotlib.axes import Axes

from tfmr.errors import require
from tfmr.figures.style import CYCLE, Figure, figure, styled

Numbers = Sequence[int | float]
Seeds = Sequence[Numbers]
"""A row of values for each seed."""


def _check(systems: Mapping[str, Seeds], places: int, what: str) -> None:
    for name, seeds in systems.items():
        counts = sorted({len(values) for values in seeds})
        require(
            counts == [places],
            f"every seed of {name!r} needs a value for each of the {places} {what}: got {counts}",
        )


def _band(values: Seeds) -> tuple[Numbers, Numbers, Numbers]:
    """Mean, lowest and highest of the seeds, place by place."""
    columns = list(zip(*values, strict=True))
    return (
        [mean(column) for column in columns],
        [min(column) for column in columns],
        [max(column) for column in columns],
    )


def _lines(systems: Mapping[str, tuple[Numbers, Seeds]], unit: str) -> tuple[Figure, Axes]:
    """A line for each system through the means of its seeds, in a band that spans them."""
    fig, (axes,) = figure(height=3.2)
    looks = zip(cycle(CYCLE), cycle("os^Dv*P"), strict=False)
    for (name, (places, seeds)), (colour, marker) in zip(systems.items(), looks, strict=False):
        middle, low, high = _band(seeds)
        axes.plot(
            places, middle, marker=marker, markersize=5, markevery=max(1, len(middle) // 8),
            color=colour, label=name,
        )  # fmt: skip
        axes.fill_between(list(places), list(low), high, color=colour, alpha=0.2, linewidth=0)
    axes.set_ylabel(unit)
    axes.set_ylim(bottom=0)
    axes.grid(axis="y")
    fig.legend(loc="outside lower center", ncols=3)
    return fig, axes


@styled
def by_length(lengths: Sequence[str], systems: Mapping[str, Seeds], unit: str = "BLEU") -> Figure:
    """The score of sentences of like length, a line per system; the band spans its seeds.

    Args:
        lengths: the classes of sentences by their number of words, the shortest first, as "1–8".
        systems: by name, a score for each class from each seed.
        unit: of the scores.

    Raises:
        TfmrError: if a seed has not one score for each class.
    """
    _check(systems, len(lengths), "classes of length")
    places = list(range(len(lengths)))
    fig, axes = _lines({name: (places, seeds) for name, seeds in systems.items()}, unit)
    axes.set_xticks(places, list(lengths))
    axes.set_xlabel("words of the source sentence")
    told = [
        f"{name} {', '.join(f'{score:.1f}' for score in _band(seeds)[0])}"
        for name, seeds in systems.items()
    ]
    fig.alt = (
        f"{unit} against the length of the source sentence, mean of the seeds, for the classes "
        f"{', '.join(lengths)}: {'; '.join(told)}."
    )
    return fig
