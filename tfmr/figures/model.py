"""Figures of the whole Transformer: its tensor shapes and its parameter counts."""

from collections.abc import Mapping, Sequence
from itertools import cycle

from matplotlib.patches import FancyBboxPatch

from tfmr.figures.narrow import NARROW
from tfmr.figures.palette import DECODER, ENCODER, ROLES
from tfmr.figures.style import (
    CYCLE,
    INK,
    MUTED,
    ORANGE,
    WIDTH,
    Figure,
    also_narrow,
    figure,
    styled,
    text_colour,
)

Stages = Sequence[tuple[str, Sequence[int]]]
"""The stages of one side of the model, with the shape of the output of each."""

MASKS = {"encoder": "padding mask", "decoder": "causal mask, source padding mask"}
"""The masks of the attention in each stack."""


@styled
@also_narrow
def transformer_shapes(source: Stages, target: Stages, *, narrow: bool = False) -> Figure:
    """Both sides of the model from the ids upwards; every stage with the shape of its output.

    An arrow leads from the stage ``"encoder"`` to the stage ``"decoder"``. A dotted line connects
    the stages that use the tied matrix: the first of each side whose name contains ``"embedding"``,
    and the last of the target side.
    """
    tallest = max(len(source), len(target))
    if narrow:
        fig, (axes,) = figure(height=1.05 * tallest, width=NARROW)
        left, right, half, gap, sizes = 2.1, 6.7, 2.05, 0.18, (9.0, 9.0, 8.5)
    else:
        fig, (axes,) = figure(height=0.85 * tallest)
        left, right, half, gap, sizes = 2.05, 7.25, 2.0, 0.22, (10.0, 9.0, 9.0)
    axes.set_axis_off()
    axes.set(xlim=(0, 10), ylim=(-0.35, tallest - 0.6))
    for x, stages, colour in ((left, source, ENCODER), (right, target, DECODER)):
        top = 0.0
        for y, (name, shape) in enumerate(stages):
            texts = [
                (f"N × {name} block" if name in MASKS else name, sizes[0], INK),
                (" × ".join(map(str, shape)), sizes[1], MUTED),
            ]
            if name in MASKS:
                rows = MASKS[name].replace(", ", ",|" if narrow else ", ").split("|")
                texts += [(row, sizes[2], ORANGE) for row in rows]
            height = 0.1 + gap * len(texts)
            axes.add_patch(
                FancyBboxPatch(
                    (x - half, y - height / 2), 2 * half, height,
                    boxstyle="round,pad=0.02,rounding_size=0.12",
                    facecolor=colour + "22", edgecolor=colour,
                )
            )  # fmt: skip
            for row, (text, size, ink) in enumerate(texts):
                place = y + gap * ((len(texts) - 1) / 2 - row)
                axes.text(x, place, text, ha="center", va="center", fontsize=size, color=ink)
            if y:
                arrow = {"arrowstyle": "-|>", "color": MUTED, "shrinkA": 0, "shrinkB": 0}
                axes.annotate("", (x, y - height / 2 - 0.01), (x, top), arrowprops=arrow)
            top = y + height / 2 + 0.01
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
    # Where the gap is narrow, the word stands above the block of the encoder.
    middle = ((left + right) / 2, (decoder + encoder) / 2 + 0.12)
    at = (right - half - 0.1, encoder + 0.45) if narrow else middle
    name, align = ("encoder output", "right") if narrow else ("encoder\noutput", "center")
    axes.text(*at, name, ha=align, color=ENCODER)

    embeddings = [
        next(y for y, (name, _) in enumerate(stages) if "embedding" in name)
        for stages in (source, target)
    ]
    edge, output = right + half, len(target) - 1
    upwards = ((edge, edge + 0.3, edge + 0.3, edge), (embeddings[1],) * 2 + (output,) * 2)
    for points in (((left + half, right - half), embeddings), upwards):
        axes.plot(*points, color=INK, lw=1.5, ls=":")
    axes.text(
        edge + (0.75 if narrow else 0.55),
        (embeddings[1] + output) / 2,
        "same matrix",
        rotation=90,
        ha="center",
        va="center",
        fontsize=sizes[0],
    )

    def describe(stages: Stages) -> str:
        return "; ".join(f"{name} {' × '.join(map(str, shape))}" for name, shape in stages)

    fig.alt = (
        f"The Transformer from bottom to top. Source side: {describe(source)}. Target side:"
        f" {describe(target)}. The encoder output is an input of the decoder. Encoder and decoder"
        f" consist of N blocks each. The encoder has a {MASKS['encoder']}, the decoder a"
        f" {MASKS['decoder'].replace(', ', ' and a ')}. Both embeddings and the last stage of the"
        f" target side ({target[-1][0]}) use the same matrix."
    )
    return fig


@styled
@also_narrow
def parameter_counts(models: Mapping[str, Mapping[str, int]], *, narrow: bool = False) -> Figure:
    """One bar per model, divided into the parameter counts of its parts, in millions.

    A part that is named after a role, such as the encoder, has the hue of the role. In the
    ``narrow`` layout, the numbers are above the bars.
    """
    fig, (axes,) = figure(height=0.75 * len(models) + 1.1, width=NARROW if narrow else WIDTH)
    total = max(sum(counts.values()) for counts in models.values()) / 1e6
    parts = list(next(iter(models.values())))
    for row, counts in enumerate(models.values()):
        left = 0.0
        for k, (part, hue) in enumerate(zip(parts, cycle(CYCLE), strict=False)):
            width, colour = counts[part] / 1e6, ROLES.get(part, hue)
            label = part if row == 0 else None
            axes.barh(row, width, left=left, color=colour, height=0.55, label=label)
            if narrow:
                axes.text(
                    (0.01 + 0.17 * k) * total, row - 0.33, f"{width:.1f}",
                    va="bottom", color=colour, fontsize=9,
                )  # fmt: skip
            elif width > 0.06 * total:
                axes.text(
                    left + width / 2, row, f"{width:.1f}",
                    ha="center", va="center", color=text_colour(colour), fontsize=9,
                )  # fmt: skip
            left += width
    axes.set_yticks(range(len(models)), list(models))
    axes.set_ylim(len(models) - 0.6, -0.65)
    axes.set_xlabel("million parameters")
    fig.legend(loc="outside upper center", ncols=len(parts), handlelength=1.0, columnspacing=1.0)
    listed = "; ".join(
        f"{name}: " + ", ".join(f"{part} {counts[part] / 1e6:.1f}" for part in parts)
        for name, counts in models.items()
    )
    fig.alt = f"Bar chart of the number of parameters of each part, in millions. {listed}."
    return fig
