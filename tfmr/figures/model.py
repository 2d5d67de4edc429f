"""Figures of the whole Transformer: its tensor shapes and its parameter counts."""

from collections.abc import Mapping, Sequence
from itertools import cycle

from matplotlib.patches import FancyBboxPatch

from tfmr.figures.style import BLUE, CYCLE, GREEN, INK, MUTED, ORANGE, Figure, figure, styled

Stages = Sequence[tuple[str, Sequence[int]]]
"""The stages of one side of the model, with the shape of the output of each."""


@styled
def transformer_shapes(source: Stages, target: Stages) -> Figure:
    """Both sides of the model from the ids upwards; every stage with the shape of its output.

    An arrow leads from the last source stage to the target stage named ``"decoder"``.
    """
    fig, (axes,) = figure(height=0.85 * max(len(source), len(target)) + 0.3)
    axes.set_axis_off()
    axes.set(xlim=(0, 10), ylim=(-0.5, max(len(source), len(target)) - 0.3))
    for x, stages, colour in ((2.4, source, BLUE), (7.6, target, GREEN)):
        for y, (name, shape) in enumerate(stages):
            axes.add_patch(
                FancyBboxPatch(
                    (x - 1.9, y - 0.27), 3.8, 0.54, boxstyle="round,pad=0.02,rounding_size=0.12",
                    facecolor=colour + "22", edgecolor=colour,
                )
            )  # fmt: skip
            axes.text(x, y + 0.09, name, ha="center", va="center", fontsize=10, color=INK)
            axes.text(
                x,
                y - 0.13,
                " × ".join(map(str, shape)),
                ha="center",
                va="center",
                fontsize=9,
                color=MUTED,
            )
            if y:
                axes.annotate(
                    "",
                    (x, y - 0.28),
                    (x, y - 0.72),
                    arrowprops={"arrowstyle": "-|>", "color": MUTED},
                )
    decoder = next(y for y, (name, _) in enumerate(target) if name == "decoder")
    axes.annotate(
        "",
        (5.68, decoder),
        (4.32, len(source) - 1),
        arrowprops={"arrowstyle": "-|>", "color": ORANGE, "lw": 1.8},
    )
    axes.text(5.0, (decoder + len(source) - 1) / 2 + 0.22, "memory", ha="center", color=ORANGE)

    def describe(stages: Stages) -> str:
        return ", ".join(f"{name} {' × '.join(map(str, shape))}" for name, shape in stages)

    fig.alt = (
        f"The Transformer from bottom to top. "
        f"Source side: {describe(source)}. Target side: {describe(target)}. The last output of the "
        f"source side, the memory, is an input of the decoder."
    )
    return fig


@styled
def parameter_counts(models: Mapping[str, Mapping[str, int]]) -> Figure:
    """One bar per model, divided into the parameter counts of its parts, in millions."""
    fig, (axes,) = figure(height=0.75 * len(models) + 1.1)
    parts = list(next(iter(models.values())))
    for row, counts in enumerate(models.values()):
        left = 0.0
        for part, colour in zip(parts, cycle(CYCLE), strict=False):
            width = counts[part] / 1e6
            axes.barh(
                row, width, left=left, color=colour, height=0.55, label=part if row == 0 else None
            )
            if width > 0.06 * max(sum(c.values()) for c in models.values()) / 1e6:
                axes.text(
                    left + width / 2,
                    row,
                    f"{width:.1f}",
                    ha="center",
                    va="center",
                    color="white",
                    fontsize=9,
                )
            left += width
    axes.set_yticks(range(len(models)), list(models))
    axes.invert_yaxis()
    axes.set_xlabel("million parameters")
    axes.legend(
        ncols=len(parts),
        loc="lower center",
        bbox_to_anchor=(0.5, 1.0),
        handlelength=1.0,
        columnspacing=1.0,
    )
    listed = "; ".join(
        f"{name}: " + ", ".join(f"{part} {counts[part] / 1e6:.1f}" for part in parts)
        for name, counts in models.items()
    )
    fig.alt = f"Bars of the number of parameters by part, in millions. {listed}."
    return fig
