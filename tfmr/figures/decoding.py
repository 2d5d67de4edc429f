"""Figures of decoding: beam search, the length penalty, and distributions to sample from."""

from collections.abc import Mapping, Sequence
from itertools import cycle
from typing import NamedTuple

from tfmr.errors import require
from tfmr.figures.narrow import NARROW
from tfmr.figures.style import (
    BLUE,
    CYCLE,
    GRID,
    INK,
    MUTED,
    ORANGE,
    WIDTH,
    Figure,
    also_narrow,
    figure,
    styled,
)


class Candidate(NamedTuple):
    """A candidate of one step of a beam search: a hypothesis extended by one token."""

    parent: int
    """Index among the candidates of the previous step; 0 in the first step."""
    token: str
    score: float
    """Sum of the log-probabilities."""
    kept: bool
    """Whether it is among the best of its step and remains in the beam."""


def _signed(number: float) -> str:
    return f"{number:.2f}".replace("-", "−")


def _path(steps: Sequence[Sequence[Candidate]], end: tuple[int, int]) -> list[tuple[int, int]]:
    """Step and index of the candidate ``end`` and all its ancestors, from the first step on."""
    path = [end]
    while path[0][0] > 0:
        step, index = path[0]
        path.insert(0, (step - 1, steps[step][index].parent))
    return path


def _text(steps: Sequence[Sequence[Candidate]], end: tuple[int, int]) -> str:
    """The tokens of the hypothesis that ends with the candidate ``end``."""
    return " ".join(steps[number][index].token for number, index in _path(steps, end))


@styled
@also_narrow
def beam_tree(
    steps: Sequence[Sequence[Candidate]],
    best: tuple[int, int],
    start: str = "<bos>",
    title: str = "Beam search: log-probability of each candidate",
    *,
    narrow: bool = False,
) -> Figure:
    """The candidates of a beam search, kept and pruned, step by step from left to right.

    Args:
        steps: the candidates of each step.
        best: step and index of the last candidate of the translation, whose path is highlighted.
        start: the first token of all hypotheses.
        title: what the tree shows; in the narrow layout, it begins a new line after its colon.
        narrow: whether to draw the layout for phones.

    Raises:
        TfmrError: if the parent of a candidate does not exist or was pruned.
    """
    for number, candidates in enumerate(steps):
        for candidate in candidates:
            before = steps[number - 1] if number else [Candidate(0, start, 0.0, True)]
            require(
                0 <= candidate.parent < len(before) and before[candidate.parent].kept,
                "the parent of a candidate must be a kept candidate of the previous step: "
                f"{candidate.token!r} of step {number + 1} has parent {candidate.parent} of "
                f"{len(before)}",
            )
    places: list[list[float]] = []
    for number, candidates in enumerate(steps):
        above = places[-1] if number else [0.0]
        order = sorted(range(len(candidates)), key=lambda i: (-above[candidates[i].parent], i))
        heights = [0.0] * len(candidates)
        for row, index in enumerate(order):
            heights[index] = (len(candidates) - 1) / 2 - row
        places.append(heights)
    rows = max(len(candidates) for candidates in steps)
    margin = 0.42 if narrow else 0.45
    fig, (axes,) = figure(height=0.8 + 0.46 * rows, width=NARROW if narrow else WIDTH)
    axes.set(xlim=(-margin, len(steps) + margin), ylim=(-rows / 2, rows / 2 + 0.45))
    axes.axis("off")
    axes.set_title(title.replace(": ", ":\n") if narrow else title, loc="left")
    for x in range(1, len(steps) + 1):
        axes.text(x, rows / 2 + 0.2, f"step {x}", ha="center", va="center", color=MUTED, fontsize=9)
    chosen = _path(steps, best)

    def node(x: int, y: float, text: str, colour: str, ink: str, width: float) -> None:
        style = {"boxstyle": "round,pad=0.25", "fc": "white", "ec": colour, "lw": width}
        axes.text(
            x,
            y,
            text,
            ha="center",
            va="center",
            fontsize=9,
            color=ink,
            bbox=style,
            linespacing=1.1,
            zorder=4,
        )

    node(0, 0.0, start, ORANGE, INK, 1.6)
    for number, candidates in enumerate(steps):
        for index, candidate in enumerate(candidates):
            x, y = number + 1, places[number][index]
            from_y = places[number - 1][candidate.parent] if number else 0.0
            marked = (number, index) in chosen
            colour = ORANGE if marked else BLUE if candidate.kept else GRID
            width = 2.2 if marked else 1.3
            axes.plot([x - 1, x], [from_y, y], color=colour, linewidth=width, zorder=2 + marked)
            text = f"{candidate.token}\n{_signed(candidate.score)}"
            node(x, y, text, colour, INK if candidate.kept else MUTED, 1.6)
    listed = []
    pruned = not all(candidate.kept for candidates in steps for candidate in candidates)
    for number, candidates in enumerate(steps):
        groups = []
        for kept, word in ((True, "kept"), (False, "pruned")):
            group = [
                f"“{_text(steps, (number, i))}” {_signed(candidate.score)}"
                for i, candidate in enumerate(candidates)
                if candidate.kept is kept
            ]
            if group:
                groups.append(f"{word} {', '.join(group)}" if pruned else ", ".join(group))
        listed.append(f"Step {number + 1}: {'; '.join(groups)}.")
    fig.alt = (
        f"{title}, as a tree. {' '.join(listed)} The highlighted path is “{_text(steps, best)}”."
    )
    return fig


@styled
def length_penalty(
    lengths: Sequence[int], penalties: Mapping[str, Sequence[int | float]]
) -> Figure:
    """The divisor of the score of a hypothesis against its length, one line per setting."""
    fig, (axes,) = figure(height=2.5)
    for (name, values), colour in zip(penalties.items(), cycle(CYCLE), strict=False):
        axes.plot(lengths, values, color=colour)
        axes.annotate(
            name, (lengths[-1], values[-1]), xytext=(5, 0), textcoords="offset points",
            va="center", color=colour, annotation_clip=False,
        )  # fmt: skip
    axes.set(xlabel="length of the hypothesis", ylabel="divisor of the log-probability")
    axes.set_xlim(lengths[0], lengths[-1])
    axes.set_ylim(bottom=0)
    ends = ", ".join(f"{values[-1]:.2f} for {name}" for name, values in penalties.items())
    fig.alt = (
        f"The length penalty from {lengths[0]} to {lengths[-1]} tokens. At {lengths[-1]} tokens it "
        f"is {ends}."
    )
    return fig


@styled
def effects_of_the_beam(
    settings: Sequence[str], panels: Mapping[str, Sequence[Sequence[float]]]
) -> Figure:
    """Measures of a beam search under several settings, one panel each, one line per run.

    Args:
        settings: the names of the settings.
        panels: the values of each run, one per setting, by the name of the measure.

    Raises:
        TfmrError: if a run does not have one value per setting.
    """
    for name, runs in panels.items():
        for values in runs:
            require(
                len(values) == len(settings),
                f"each run needs one value for each of the {len(settings)} settings: one of "
                f"{name!r} has {len(values)}",
            )
    fig, all_axes = figure(1, len(panels), height=2.5)
    for axes, (name, runs) in zip(all_axes, panels.items(), strict=True):
        for values, colour in zip(runs, cycle(CYCLE), strict=False):
            axes.plot(range(len(settings)), values, marker="o", color=colour)
        axes.set_title(name)
        axes.set_xticks(range(len(settings)), [name.replace(", ", "\n") for name in settings])
        axes.margins(x=0.12, y=0.12)
    fig.supxlabel("beam size", fontsize="medium")
    measured = "; ".join(
        f"{name}: {' / '.join(', '.join(f'{x:.2f}' for x in run) for run in runs)}"
        for name, runs in panels.items()
    )
    fig.alt = f"{len(panels)} panels over these beam sizes: {'; '.join(settings)}. {measured}."
    return fig


@styled
def next_token_distributions(
    words: Sequence[str], panels: Mapping[str, Sequence[int | float]]
) -> Figure:
    """The probabilities of the same tokens under several sampling settings, as bars.

    A token with probability 0 has no bar and a grey 0.

    Args:
        words: the tokens, most probable first.
        panels: the probabilities of ``words``, by the name of the setting.

    Raises:
        TfmrError: if a panel does not have one probability per token.
    """
    for name, values in panels.items():
        require(
            len(values) == len(words) and all(0 <= value <= 1 for value in values),
            f"each panel needs one probability for each of the {len(words)} words: {name!r} has "
            f"{list(values)}",
        )
    fig, all_axes = figure(1, len(panels), height=0.8 + 0.26 * len(words), sharey=True)
    longest = max(max(values) for values in panels.values())
    for axes, (name, values) in zip(all_axes, panels.items(), strict=True):
        axes.barh(range(len(words)), list(values), color=BLUE, height=0.7)
        for place, value in enumerate(values):
            axes.text(
                value + 0.03 * longest, place, f"{value:.2f}" if value else "0",
                va="center", fontsize=9, color=INK if value else MUTED,
            )  # fmt: skip
        axes.set_title(name)
        axes.set_xlim(0, longest * 1.45)
        axes.set_xticks([])
        axes.spines["bottom"].set_visible(False)
        axes.tick_params(axis="y", length=0)
    all_axes[0].set_yticks(range(len(words)), list(words))
    all_axes[0].invert_yaxis()
    listed = "; ".join(
        f"{name}: "
        + ", ".join(
            f"{word} {value:.2f}" for word, value in zip(words, values, strict=True) if value
        )
        for name, values in panels.items()
    )
    fig.alt = f"Bar charts of the next-token probabilities. {listed[0].upper()}{listed[1:]}."
    return fig
