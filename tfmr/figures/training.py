"""Figures of training: learning rate, label smoothing, training curves, alignment, scores."""

import math
from collections.abc import Mapping, Sequence
from statistics import mean

from jaxtyping import Float
from torch import Tensor

from tfmr.errors import require
from tfmr.figures.narrow import NARROW
from tfmr.figures.style import (
    BLUE,
    GREEN,
    ORANGE,
    Figure,
    also_narrow,
    figure,
    heatmap,
    styled,
)
from tfmr.train.schedule import learning_rate
from tfmr.train.trainer import StepRecord


def smooth(values: Sequence[float], decay: float = 0.95) -> list[float]:
    """An exponential moving average, corrected for its start at zero."""
    means: list[float] = []
    weight = total = 0.0
    for value in values:
        weight = decay * weight + (1 - decay)
        total = decay * total + (1 - decay) * value
        means.append(total / weight)
    return means


@styled
def learning_rate_schedule(settings: Mapping[str, tuple[float, int]], steps: int) -> Figure:
    """The learning rate over ``steps`` steps, one line per named ``(peak_lr, warmup)``."""
    fig, (axes,) = figure(height=2.5)
    for name, (peak_lr, warmup) in settings.items():
        axes.plot(
            range(1, steps + 1),
            [1000 * learning_rate(t, peak_lr, warmup) for t in range(1, steps + 1)],
            label=name,
        )
    axes.set(xlabel="step", ylabel="learning rate × 1000", xlim=(0, steps))
    axes.set_ylim(bottom=0)
    axes.legend()
    peaks = "; ".join(
        f"{name}: peak learning rate {peak_lr:.5f} at step {warmup}"
        for name, (peak_lr, warmup) in settings.items()
    )
    fig.alt = (
        f"Learning rate against step: a linear rise, then a decay with the inverse square root of "
        f"the step number. {peaks}."
    )
    return fig


@styled
def training_curve(
    steps: Sequence[StepRecord], *, floor: float | None = None, run: str = "the run"
) -> Figure:
    """Loss, gradient norm and weight norm of a run against the step, in one panel each.

    ``floor`` marks the minimum of the loss under label smoothing. The alternative text has no
    values, because their last digits depend on the machine.
    """
    fig, (loss, gradient, weight) = figure(1, 3, height=2.3)
    at = [step.step for step in steps]
    for axes, name, values in (
        (loss, "loss (nats per token)", [step.loss for step in steps]),
        (gradient, "gradient norm", [step.grad_norm for step in steps]),
    ):
        axes.plot(at, values, color=BLUE, alpha=0.25, linewidth=0.6)
        axes.plot(at, smooth(values), color=BLUE)
        axes.set_title(name)
    weight.plot(at, [step.weight_norm for step in steps], color=GREEN)
    weight.set_title("weight norm")
    if floor is not None:
        loss.axhline(floor, color=ORANGE, linewidth=1, linestyle="--", label="minimum")
        loss.legend(loc="upper right", borderaxespad=0)
    for axes in (loss, gradient, weight):
        axes.set_ylim(bottom=0)
        axes.set_xlabel("step")
    fig.alt = (
        f"Three curves of {run} over {len(steps):,} steps: the loss, which decreases, first fast, "
        "then slowly; the gradient norm; and the weight norm, which increases."
    )
    return fig


@styled
def smoothed_target(
    words: Sequence[str], target: Sequence[float], predicted: Sequence[float]
) -> Figure:
    """Smoothed target distribution and predicted distribution over the same words."""
    fig, (axes,) = figure(height=2.2)
    places = range(len(words))
    for offset, values, name, colour in (
        (-0.2, target, "target distribution", ORANGE),
        (0.2, predicted, "prediction", BLUE),
    ):
        axes.bar([place + offset for place in places], values, width=0.38, color=colour, label=name)
        for place, value in zip(places, values, strict=True):
            axes.text(place + offset, value + 0.015, f"{value:.3f}", ha="center", fontsize=9)
    axes.set_xticks(list(places), list(words))
    axes.set(ylabel="probability", ylim=(0, 1.05))
    axes.legend()
    pairs = ", ".join(
        f"{word} {q:.3f} and {p:.3f}" for word, q, p in zip(words, target, predicted, strict=True)
    )
    fig.alt = f"Bars of the target distribution and the prediction for each token: {pairs}."
    return fig


@styled
@also_narrow
def alignment(
    source: Sequence[str],
    target: Sequence[str],
    weights: Float[Tensor, "target source"],
    *,
    stated: Sequence[str] = (),
    narrow: bool = False,
) -> Figure:
    """Cross-attention weights of a trained model, with one row for each target word.

    The alternative text has no weights, because they depend on the machine.

    Args:
        source: the source words.
        target: the target words.
        weights: the attention weights.
        stated: the target words for which the alternative text states the source word with the
            largest weight. It must be the same on every machine.
        narrow: whether to draw the layout for phones, with the scale below the weights.

    Raises:
        TfmrError: if ``target`` does not contain a word of ``stated``.
    """
    missing = [word for word in stated if word not in target]
    require(not missing, f"expected words of the target in stated: got {', '.join(missing)}")
    if narrow:
        side = min(0.3, 2.0 / len(source))
        fig, (axes,) = figure(height=1.9 + side * len(target), width=NARROW)
    else:
        fig, (axes,) = figure(height=1.0 + 0.32 * len(target))
    heatmap(
        axes, weights, row_labels=list(target), column_labels=list(source), numbers=False, limit=1.0
    )
    axes.tick_params(axis="x", labelrotation=60)
    axes.set(xlabel="source", ylabel="target")
    bar = fig.colorbar(
        axes.images[0], ax=axes, ticks=[0, 0.5, 1], pad=0.02, aspect=20,
        location="bottom" if narrow else "right",
    )  # fmt: skip
    bar.set_label("attention weight")
    fig.alt = (
        f"Attention weights of each word of “{' '.join(target)}” over the words of "
        f"“{' '.join(source)}”; a stronger colour means a larger weight."
    )
    largest = [
        f"{source[int(row.argmax())].rstrip('.')} for {word.rstrip('.')}"
        for word, row in zip(target, weights, strict=True)
        if word in stated
    ]
    if largest:
        fig.alt += f" Source words with the largest weights: {', '.join(largest)}."
    return fig


@styled
def loss_gallery(runs: Mapping[str, Sequence[Sequence[tuple[int, float, float]]]]) -> Figure:
    """Training and validation loss against the step, one panel per kind of run.

    Args:
        runs: for each kind of run, its runs, each with ``(step, training loss, validation loss)``.
    """
    rows = math.ceil(len(runs) / 2)
    fig, panels = figure(rows, 2, height=2.1 * rows, sharey=True)
    summaries = []
    for axes, (name, kind) in zip(panels, runs.items(), strict=False):
        for run in kind:
            steps, train, valid = zip(*run, strict=True)
            lines = axes.plot(steps, train, color=BLUE, linewidth=1)
            lines += axes.plot(steps, valid, color=ORANGE, linewidth=1)
        axes.set(title=name, xlabel="step", ylabel="loss (nats)")
        axes.set_ylim(bottom=0)
        ends = [mean(run[-1][part] for run in kind) for part in (1, 2)]
        summaries.append(f"{name}: {ends[0]:.2f} and {ends[1]:.2f}")
    panels[0].legend(lines, ["training", "validation"])
    fig.alt = (
        f"Training and validation loss against the step, for {len(runs)} kinds of run; the means "
        f"at the end: {'; '.join(summaries)}."
    )
    return fig
