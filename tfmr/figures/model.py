"""Figures of the whole Transformer: its tensor shapes and its parameter counts."""

from collections.abc import Mapping, Sequence
from itertools import cycle

from matplotlib.patches import FancyBboxPatch

from tfmr.figures.palette import DECODER, ENCODER
from tfmr.figures.style import CYCLE, INK, MUTED, ORANGE, Figure, figure, styled

Stages = Sequence[tuple[str, Sequence[int]]]
"""The stages of one side of the model, with the shape of the output of each."""

MASKS = {"encoder": "padding mask", "decoder": "causal mask, source padding mask"}
"""The masks of the attention in each stack."""


@styled
def transformer_shapes(source: Stages, target: Stages) -> Figure:
    """Both sides of the model from the ids upwards; every stage with the shape of its output.

    An arrow leads from the stage ``"encoder"`` to the stage ``"decoder"``. A dotted line connects
    the stages that use the tied matrix: the first of each side whose name contains ``"embedding"``,
    and the last of the target side.
    """
    tallest = max(len(source), len(target))
    fig, (axes,) = figure(height=0.85 * tallest)
    axes.set_axis_off()
    axes.set(xlim=(0, 10), ylim=(-0.35, tallest - 0.6))
    left, right, half = 2.05, 7.25, 2.0
    for x, stages, colour in ((left, source, ENCODER), (right, target, DECODER)):
        for y, (name, shape) in enumerate(stages):
            texts = [
                (f"N × {name} block" if name in MASKS else name, 10, INK),
                (" × ".join(map(str, shape)), 9, MUTED),
            ]
            if name in MASKS:
                texts.append((MASKS[name], 9, ORANGE))
            height = 0.1 + 0.22 * len(texts)
            axes.add_patch(
                FancyBboxPatch(
                    (x - half, y - height / 2), 2 * half, height,
                    boxstyle="round,pad=0.02,rounding_size=0.12",
                    facecolor=colour + "22", edgecolor=colour,
                )
            )  # fmt: skip
            for row, (text, size, ink) in enumerate(texts):
                place = y + 0.11 * (len(texts) - 1) - 0.22 * row
                axes.text(x, place, text, ha="center", va="center", fontsize=size, color=ink)
            if y:
                start = y - 1 + (0.39 if stages[y - 1][0] in MASKS else 0.28)
                arrow = {"arrowstyle": "-|>", "color": MUTED, "shrinkA": 0, "shrinkB": 0}
                axes.annotate("", (x, y - height / 2 - 0.01), (x, start), arrowprops=arrow)
    encoder, decoder = (
        next(y for y, (name, _) in enumerate(stages) if name == part)
        for part, stages in (("encoder", source), ("decoder", target))
    )
    axes.annotate(
        "",
        (right - half, decoder),
        (left + half, encoder),
        arrowprops={"arrowstyle": "-|>", "color": ENCODER, "lw": 1.8},
    )
    middle = (left + right) / 2
    axes.text(middle, (decoder + encoder) / 2 + 0.12, "memory", ha="center", color=ENCODER)

    embeddings = [
        next(y for y, (name, _) in enumerate(stages) if "embedding" in name)
        for stages in (source, target)
    ]
    edge, output = right + half, len(target) - 1
    upwards = ((edge, edge + 0.3, edge + 0.3, edge), (embeddings[1],) * 2 + (output,) * 2)
    for points in (((left + half, right - half), embeddings), upwards):
        axes.plot(*points, color=INK, lw=1.5, ls=":")
    axes.text(
        edge + 0.55,
        (embeddings[1] + output) / 2,
        "same matrix",
        rotation=90,
        ha="center",
        va="center",
        fontsize=10,
    )

    def describe(stages: Stages) -> str:
        return ", ".join(f"{name} {' × '.join(map(str, shape))}" for name, shape in stages)

    fig.alt = (
        f"The Transformer from bottom to top. "
        f"Source side: {describe(source)}. Target side: {describe(target)}. The last output of the "
        f"source side, the memory, is an input of the decoder. Encoder and decoder consist of N"
        f" blocks each. The encoder has a {MASKS['encoder']}, the decoder a"
        f" {MASKS['decoder'].replace(', ', ' and a ')}. Both embeddings and the last stage of the"
        f" target side ({target[-1][0]}) use the same matrix."
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
