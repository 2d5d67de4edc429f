"""Pictures of chapter 3: what a recurrent translator keeps of its source, and how far that goes."""

from collections.abc import Mapping, Sequence
from itertools import cycle

from matplotlib.axes import Axes

from tfmr.figures.diagram import box, line, sheet
from tfmr.figures.style import BLUE, CYCLE, GREEN, INK, ORANGE, Figure, figure, styled

STEP = 1.7
SIZE = (1.3, 0.8)


def _row(axes: Axes, words: Sequence[str], left: float, height: float, colour: str) -> list[float]:
    """A box for each of ``words``, each after the one before; their centres."""
    centres = [left + STEP * i for i in range(len(words))]
    for i, (x, word) in enumerate(zip(centres, words, strict=True)):
        box(axes, (x, height), word, colour, SIZE)
        if i > 0:
            line(axes, (x - STEP + SIZE[0] / 2, height), (x - SIZE[0] / 2, height))
    return centres


@styled
def two_memories(
    source: Sequence[str], target: Sequence[str], reader: int, shares: Sequence[float]
) -> Figure:
    """A translator with one vector between its halves, and below it one that looks back.

    Args:
        source: the words that are read.
        target: the words that are said.
        reader: which of them is shown looking back.
        shares: what it takes from each source word.
    """
    n, half = len(source), SIZE[0] / 2
    apart = STEP * (n + 1)
    made, axes = sheet(STEP * (n + 1 + len(target)) - 0.2, 5.2)
    top, bottom = 4.7, 0.8
    heard = _row(axes, source, 0.75, top, BLUE)
    said = _row(axes, target, 0.75 + apart, top, GREEN)
    middle = 0.75 + STEP * n
    box(axes, (middle, top), r"$\mathbf{z}$", ORANGE, (0.8, 0.8))
    line(axes, (heard[-1] + half, top), (middle - 0.4, top))
    line(axes, (middle + 0.4, top), (said[0] - half, top), colour=ORANGE)
    for x in said:
        path = ((middle, top - 0.4), (middle, top - 0.95), (x, top - 0.95), (x, top - 0.4))
        line(axes, *path, colour=ORANGE)
    heard = _row(axes, source, 0.75, bottom, BLUE)
    said = _row(axes, target, 0.75 + apart, bottom, GREEN)
    line(axes, (heard[-1] + half, bottom), (said[0] - half, bottom))
    for x, share in zip(heard, shares, strict=True):
        bow = {"arrowstyle": "-", "connectionstyle": "arc3,rad=-0.32", "color": ORANGE}
        axes.annotate(
            "", (said[reader], bottom + 0.4), (x, bottom + 0.4),
            arrowprops={**bow, "lw": 0.8 + 6 * share, "shrinkA": 0, "shrinkB": 0}, zorder=1,
        )  # fmt: skip
        axes.text(x, bottom - 0.5, f"{share:.2f}", ha="center", va="top", fontsize=10, color=INK)
    read = ", ".join(f"{word} {share:.2f}" for word, share in zip(source, shares, strict=True))
    made.alt = (
        f"Two translators from “{' '.join(source)}” to “{' '.join(target)}”. Above, one vector z"
        " stands between the words read and the words said, and goes to each of the latter. Below,"
        f" it is not there: lines lead from each source word to “{target[reader]}”, as thick as"
        f" its share: {read}."
    )
    return made


@styled
def right_by_length(shares: Mapping[str, Mapping[int, float]], what: str, alt: str) -> Figure:
    """Shares of right answers of trained translators, against the length of what they heard.

    ``what`` names the lengths. ``alt`` is the caller's, because what a trained network reaches
    differs a little from machine to machine: it should say only what holds on all of them.
    """
    made, (axes,) = figure(height=2.7)
    for (name, share), colour, marker in zip(
        shares.items(), cycle(CYCLE), cycle("osD^v*"), strict=False
    ):
        axes.plot(
            list(share), list(share.values()), marker=marker, markersize=5, color=colour,
            label=name, clip_on=False,
        )  # fmt: skip
    axes.set(xlabel=what, ylabel="share of right answers", ylim=(0, 1.02))
    axes.grid(axis="y")
    made.legend(loc="outside lower center", ncols=3)
    made.alt = alt
    return made
