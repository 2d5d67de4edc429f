"""Figures of layers: activations, layer norm, residual connections, and the effect of depth."""

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import cycle
from statistics import mean, median
from typing import Any

import torch
import torch.nn.functional as F
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle
from matplotlib.ticker import MaxNLocator, NullLocator

from tfmr.errors import require
from tfmr.figures.diagram import box, line, operation
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
    label_ends,
    styled,
)

# A value per training step, of one run or of one run per seed.
Runs = Sequence[float] | Sequence[Sequence[float]]

DASHES: tuple[Any, ...] = ("-", (0, (4, 2)), (0, (1, 1.3)), (0, (5, 2, 1, 2)))
"""Line styles, so that a curve remains visible where another has the same values."""

MARKERS = ("o", "s", "^", "D", "v", "P")
"""Markers, which distinguish variants without their colour."""

POINTS = 50
"""The largest number of points of a training curve; more hide the curves behind their noise."""


def _styles() -> Iterator[tuple[str, Any, float]]:
    """Colour, dashes and width of each curve; a later curve leaves gaps and is thinner."""
    return zip(cycle(CYCLE), cycle(DASHES), cycle((3.0, 2.2, 2.0, 1.4)), strict=False)


@styled
def norms_by_depth(
    curves: Mapping[str, Sequence[float]], quantity: str, depth: str = "depth", first: int = 0
) -> Figure:
    """A norm at every depth of a stack, on a logarithmic axis, one curve per kind of stack.

    Args:
        curves: the norms, by kind of stack.
        quantity: the name of the norm.
        depth: what is counted along the stack.
        first: where counting starts: 0 if the first value belongs to the input of the stack, 1 if
            it belongs to the first layer.
    """
    fig, (axes,) = figure(height=2.8)
    ends = []
    for (label, values), (colour, dashes, width) in zip(curves.items(), _styles(), strict=False):
        places = range(first, first + len(values))
        axes.semilogy(places, values, color=colour, ls=dashes, lw=width)
        ends.append((label, values[-1], colour))
    axes.set(xlabel=depth, ylabel=quantity)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.margins(x=0)
    label_ends(axes, ends)
    listed = [
        f"{label} from {values[0]:.0e} at {depth} {first} to {values[-1]:.0e} at {depth}"
        f" {first + len(values) - 1}"
        for label, values in curves.items()
    ]
    fig.alt = f"The {quantity} along a stack: {'; '.join(listed)}."
    return fig


@styled
def activation_functions() -> Figure:
    """ReLU and GELU between -3 and 3."""
    fig, (axes,) = figure(height=2.6)
    x = torch.linspace(-3, 3, 241)
    axes.axhline(0, color=GRID, lw=1)
    axes.axvline(0, color=GRID, lw=1)
    axes.plot(x.tolist(), F.relu(x).tolist(), color=BLUE, label="ReLU")
    axes.plot(x.tolist(), F.gelu(x).tolist(), "--", color=ORANGE, label="GELU")
    axes.set(xlabel="$x$", ylabel="activation")
    axes.margins(x=0)
    fig.legend(loc="outside right center")
    lowest = int(F.gelu(x).argmin())
    fig.alt = (
        "ReLU is zero for negative x and equal to x otherwise. GELU is a smooth curve with a"
        f" minimum of {float(F.gelu(x)[lowest]):.2f} near x = {float(x[lowest]):.2f}; it approaches"
        " ReLU on both sides."
    )
    return fig


@styled
def normalisation_axes(tokens: int, d_model: int) -> Figure:
    """The entries that share one mean and variance: a row in layer norm, a column in batch norm."""
    fig, panels = figure(1, 2, height=2.5)
    for axes, title, row, colour in zip(
        panels, ("layer norm", "batch norm"), (True, False), (BLUE, ORANGE), strict=True
    ):
        for i in range(tokens):
            for j in range(d_model):
                chosen = i == 1 if row else j == 2
                face = colour if chosen else "#f3f4f6"
                axes.add_patch(Rectangle((j, i), 0.88, 0.82, facecolor=face, lw=0))
        axes.set(xlim=(0, d_model), ylim=(tokens, 0), xticks=[], yticks=[], title=title)
        axes.set(xlabel="d_model", ylabel="tokens of the batch")
        for spine in axes.spines.values():
            spine.set_visible(False)
    fig.alt = (
        f"Two tables of {tokens} tokens by {d_model} dimensions. Layer norm averages over one row,"
        f" the {d_model} components of one token; batch norm over one column, the same component of"
        f" the {tokens} tokens of the batch."
    )
    return fig


@styled
@also_narrow
def norm_placement(*, narrow: bool = False) -> Figure:
    """A sublayer with post-norm and with pre-norm; the thick line is the residual stream."""
    fig, panels = figure(2, 1, height=2.6 if narrow else 3.3, width=NARROW if narrow else WIDTH)
    size, high, fontsize = ((3.0, 1.1), 1.7, 9.5) if narrow else ((2.2, 0.8), 1.4, 11.0)
    plus = 0.42 if narrow else 0.32
    for axes, title in zip(panels, ("post-norm", "pre-norm"), strict=True):
        axes.set(xlim=(0, 12.4), ylim=(-0.6, high + 0.8), aspect="equal")
        axes.set_title(title, loc="left")
        axes.axis("off")
        axes.plot((0.6, 11.55), (0, 0), color=INK, lw=3.2, solid_capstyle="butt")
        line(axes, (11.0, 0.0), (11.8, 0.0), colour=INK)
        axes.text(0.3, 0, "$x$", ha="center", va="center", fontsize=12)
    post, pre = panels
    line(post, (1.5, 0.0), (1.5, high), (6.5, high), (6.5, plus))
    box(post, (4.0, high), "sublayer", INK, size, fontsize)
    operation(post, (6.5, 0.0), "+")
    box(post, (9.2, 0.0), "layer norm", MUTED, size, fontsize)
    norm, sublayer, end = (3.6, 7.1, 9.5) if narrow else (3.7, 6.7, 9.2)
    line(pre, (1.5, 0.0), (1.5, high), (end, high), (end, plus))
    box(pre, (norm, high), "layer norm", MUTED, size, fontsize)
    box(pre, (sublayer, high), "sublayer", INK, size, fontsize)
    operation(pre, (end, 0.0), "+")
    fig.alt = (
        "Two diagrams of one sublayer and the residual stream. With post-norm, the output of the"
        " sublayer is added to the stream, and the layer norm is part of the stream. With pre-norm,"
        " the layer norm is on the branch, before the sublayer, and the stream contains only the"
        " addition."
    )
    return fig


def _seeds(label: str, runs: Runs) -> list[list[float]]:
    """The runs of a curve, one row per seed."""
    single = [run for run in runs if isinstance(run, float | int)]
    seeds = [single] if single else [list(run) for run in runs if not isinstance(run, float | int)]
    lengths = sorted({len(seed) for seed in seeds})
    require(len(lengths) == 1, f"all runs of {label!r} need equally many steps: got {lengths}")
    return seeds


def _plot_runs(axes: Axes, curves: Mapping[str, Runs]) -> list[tuple[str, float, str]]:
    """Plot the median over the seeds and the band from minimum to maximum; returns the ends.

    A point is the mean of several successive steps if a curve would have more than ``POINTS``.
    """
    ends = []
    all_seeds = {label: _seeds(label, runs) for label, runs in curves.items()}
    longest = max(len(seeds[0]) for seeds in all_seeds.values())
    window = math.ceil(longest / POINTS)
    for (label, seeds), (colour, dashes, width) in zip(all_seeds.items(), _styles(), strict=False):
        starts = range(0, len(seeds[0]), window)
        by_point = [[mean(seed[at : at + window]) for seed in seeds] for at in starts]
        steps, medians = (
            [min(at + window, len(seeds[0])) for at in starts],
            list(map(median, by_point)),
        )
        if len(seeds) > 1:
            lowest, highest = list(map(min, by_point)), list(map(max, by_point))
            axes.fill_between(steps, lowest, highest, color=colour, alpha=0.18, lw=0)
        axes.plot(steps, medians, color=colour, ls=dashes, lw=width)
        ends.append((label, medians[-1], colour))
    axes.set_xlabel("step" if window == 1 else f"step (each point: mean of {window} steps)")
    axes.margins(x=0)
    return ends


@styled
def loss_curves(curves: Mapping[str, Runs], chance_loss: float, alt: str) -> Figure:
    """Training losses against the step; a thin line marks the loss at chance level.

    Args:
        curves: the losses, by name: of one run, or a row per seed, of which the median and the
            range are drawn. More than 50 steps are averaged in groups, which the axis states.
        chance_loss: the loss of a uniform prediction.
        alt: the alternative text. It comes from the caller because losses depend on the machine; it
            should state only what holds on all of them.

    Raises:
        TfmrError: if the runs of a curve have different lengths.
    """
    fig, (axes,) = figure(height=2.6)
    axes.axhline(chance_loss, color=MUTED, lw=1)
    ends = [*_plot_runs(axes, curves), ("chance", chance_loss, MUTED)]
    axes.set(ylabel="loss", ylim=(0, None))
    label_ends(axes, ends)
    fig.alt = alt
    return fig


@styled
def steps_to_learn(
    steps: Mapping[str, Mapping[float, Sequence[int | None]]], budget: int
) -> Figure:
    """Steps until a task is learned against the learning rate, on logarithmic axes.

    A marker shows the median of the runs that have learned; it is hollow if some have not.

    Args:
        steps: the steps of all runs, by stack and by learning rate; ``None`` for a run that has not
            learned the task.
        budget: the largest number of steps of a run.
    """
    fig, (axes,) = figure(height=3.2)
    axes.axhline(budget, color=GRID, lw=1)
    listed = []
    for k, (stack, by_rate) in enumerate(steps.items()):
        learned = {rate: [n for n in runs if n is not None] for rate, runs in by_rate.items()}
        medians = {rate: median(runs) for rate, runs in learned.items() if runs}
        style: Any = {"color": CYCLE[k], "marker": MARKERS[k], "ms": 6}
        axes.plot([*medians], [*medians.values()], lw=1.5, ls=DASHES[k % len(DASHES)], **style)
        axes.lines[-1].set_label(stack)
        partly = [rate for rate in medians if len(learned[rate]) < len(by_rate[rate])]
        axes.plot(partly, [medians[rate] for rate in partly], ls="", mfc="white", **style)
        counts = (
            f"{len(learned[rate])} of {len(runs)} at {rate:g}"
            + (f" (median {medians[rate]:g})" if rate in medians else "")
            for rate, runs in by_rate.items()
        )
        listed.append(f"“{stack}”, {', '.join(counts)}")
    axes.set(xscale="log", yscale="log", xlabel="learning rate", ylabel="steps")
    axes.set_xticks([*next(iter(steps.values()))])
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_yticks([n for n in (10, 20, 50, 100, 200, 500, 1000) if n <= budget])
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_locator(NullLocator())
    fig.legend(loc="outside lower center", ncols=3)
    fig.alt = (
        f"Runs that learn their task within {budget} steps, by learning rate: {'; '.join(listed)}."
    )
    return fig


@styled
def gradient_norm_curves(curves: Mapping[str, Runs], alt: str) -> Figure:
    """Gradient norms against the training step, on a logarithmic axis; as :func:`loss_curves`."""
    fig, (axes,) = figure(height=2.6)
    ends = _plot_runs(axes, curves)
    axes.set(ylabel="gradient norm", yscale="log")
    label_ends(axes, ends)
    fig.alt = alt
    return fig
