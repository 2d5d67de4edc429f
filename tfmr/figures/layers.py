"""Figures of layers: activations, layer norm, residual connections, and the effect of depth."""

from collections.abc import Mapping, Sequence
from itertools import cycle

import torch
import torch.nn.functional as F
from matplotlib.patches import Rectangle

from tfmr.figures.diagram import box, line, operation
from tfmr.figures.style import BLUE, GREEN, GRID, INK, MUTED, ORANGE, Figure, figure, styled

COLOURS = (ORANGE, BLUE, GREEN)


@styled
def norms_by_depth(
    curves: Mapping[str, Sequence[float]], quantity: str, depth: str = "layer"
) -> Figure:
    """A norm at every depth of a stack, on a logarithmic axis, one curve per kind of stack."""
    fig, (axes,) = figure(height=2.8)
    axes.axhline(1, color=GRID, lw=1)
    for (label, values), colour in zip(curves.items(), cycle(COLOURS), strict=False):
        axes.semilogy(range(len(values)), values, label=label, color=colour)
    axes.set(xlabel=depth, ylabel=quantity)
    axes.margins(x=0)
    fig.legend(loc="outside right center")
    ends = [
        f"{label} from {values[0]:.0e} at depth 0 to {values[-1]:.0e} at depth {len(values) - 1}"
        for label, values in curves.items()
    ]
    fig.alt = f"The {quantity} at every depth of a stack: {'; '.join(ends)}."
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
def norm_placement() -> Figure:
    """A sublayer with post-norm and with pre-norm; the thick line is the residual stream."""
    fig, panels = figure(2, 1, height=3.3)
    for axes, title in zip(panels, ("post-norm", "pre-norm"), strict=True):
        axes.set(xlim=(0, 12.4), ylim=(-0.6, 2.2), aspect="equal")
        axes.set_title(title, loc="left")
        axes.axis("off")
        axes.plot((0.6, 11.55), (0, 0), color=BLUE, lw=3.2, solid_capstyle="butt")
        line(axes, (11.0, 0.0), (11.8, 0.0), colour=BLUE)
        axes.text(0.3, 0, "$x$", ha="center", va="center", fontsize=12)
    post, pre = panels
    size = (1.8, 0.8)
    line(post, (1.5, 0.0), (1.5, 1.4), (6.5, 1.4), (6.5, 0.32))
    box(post, (4.0, 1.4), "sublayer", INK, size)
    operation(post, (6.5, 0.0), "+")
    box(post, (9.2, 0.0), "norm", ORANGE, size)
    line(pre, (1.5, 0.0), (1.5, 1.4), (9.2, 1.4), (9.2, 0.32))
    box(pre, (3.7, 1.4), "norm", ORANGE, size)
    box(pre, (6.7, 1.4), "sublayer", INK, size)
    operation(pre, (9.2, 0.0), "+")
    fig.alt = (
        "Two diagrams of one sublayer and the residual stream. With post-norm, the output of the"
        " sublayer is added to the stream, and the layer norm is part of the stream. With pre-norm,"
        " the layer norm is on the branch, before the sublayer, and the stream contains only the"
        " addition."
    )
    return fig


@styled
def loss_curves(curves: Mapping[str, Sequence[float]], chance_loss: float, alt: str) -> Figure:
    """Training losses against the step; a dashed line marks the loss at chance level.

    The caller provides ``alt`` because losses depend on the machine: it should state only what
    holds on all of them.
    """
    fig, (axes,) = figure(height=2.7)
    axes.axhline(chance_loss, color=MUTED, lw=1.2, ls="--", label="chance")
    for (label, values), colour in zip(curves.items(), cycle(COLOURS), strict=False):
        axes.plot(values, label=label, color=colour, lw=1.5)
    axes.set(xlabel="step", ylabel="loss", ylim=(0, None))
    axes.margins(x=0)
    fig.legend(loc="outside right center")
    fig.alt = alt
    return fig
