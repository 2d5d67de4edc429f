"""Figures of chapter 11: the schedule, the smoothed target, the curve of a run, and its scores."""

from collections.abc import Mapping, Sequence

from jaxtyping import Float
from torch import Tensor

from tfmr.figures.style import BLUE, GREEN, MUTED, ORANGE, Figure, figure, heatmap, styled
from tfmr.train.schedule import learning_rate
from tfmr.train.trainer import StepRecord


def smooth(values: Sequence[float], decay: float = 0.95) -> list[float]:
    """A running mean that forgets at ``decay`` per step, and does not start from zero."""
    means: list[float] = []
    weight = total = 0.0
    for value in values:
        weight = decay * weight + (1 - decay)
        total = decay * total + (1 - decay) * value
        means.append(total / weight)
    return means


@styled
def schedule(settings: Mapping[str, tuple[float, int]], steps: int) -> Figure:
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
        f"{name} peaks at {peak_lr:.5f} in step {warmup}"
        for name, (peak_lr, warmup) in settings.items()
    )
    fig.alt = (
        f"Learning rate against step: a straight rise, then a fall with the inverse square root. "
        f"{peaks}."
    )
    return fig


@styled
def curve(
    steps: Sequence[StepRecord], *, floor: float | None = None, what: str = "the run"
) -> Figure:
    """Loss, gradient norm and weight norm of a run against its steps, each in its own panel.

    ``floor`` draws the lowest value that a smoothed loss can reach. The description gives no
    values, which differ in their last digits from machine to machine.
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
        loss.axhline(floor, color=ORANGE, linewidth=1, linestyle="--")
        loss.text(
            at[-1], floor, "lowest possible", color=ORANGE, fontsize=9, ha="right", va="bottom"
        )
    for axes in (loss, gradient, weight):
        axes.set_ylim(bottom=0)
        axes.set_xlabel("step")
    fig.alt = (
        f"Three curves of {what} over its {len(steps)} steps: "
        f"the loss falls, steeply and then slowly; the gradient "
        f"norm; the norm of the weights grows."
    )
    return fig


@styled
def smoothed_target(
    words: Sequence[str], wanted: Sequence[float], predicted: Sequence[float]
) -> Figure:
    """Two distributions over the same words, side by side: smoothed target and prediction."""
    fig, (axes,) = figure(height=2.2)
    places = range(len(words))
    for offset, values, name, colour in (
        (-0.2, wanted, "smoothed target", ORANGE),
        (0.2, predicted, "prediction", BLUE),
    ):
        axes.bar([place + offset for place in places], values, width=0.38, color=colour, label=name)
        for place, value in zip(places, values, strict=True):
            axes.text(place + offset, value + 0.015, f"{value:.3f}", ha="center", fontsize=9)
    axes.set_xticks(list(places), list(words))
    axes.set(ylabel="probability", ylim=(0, 1.05))
    axes.legend()
    pairs = ", ".join(
        f"{word} {target:.3f} and {guess:.3f}"
        for word, target, guess in zip(words, wanted, predicted, strict=True)
    )
    fig.alt = f"Bars of the smoothed target and of the prediction for each word: {pairs}."
    return fig


@styled
def alignment(
    source: Sequence[str], target: Sequence[str], weights: Float[Tensor, "target source"]
) -> Figure:
    """Cross-attention of a trained model: a row per target word, a column per source word.

    The description names the words and no weights, which differ from machine to machine.
    """
    fig, (axes,) = figure(height=1.0 + 0.32 * len(target))
    heatmap(
        axes, weights, row_labels=list(target), column_labels=list(source), numbers=False, limit=1.0
    )
    axes.tick_params(axis="x", labelrotation=60)
    axes.set(xlabel="source", ylabel="target")
    fig.alt = (
        f"Tiles for how much each word of “{' '.join(target)}” reads from each word of "
        f"“{' '.join(source)}”; the darker, the more."
    )
    return fig


@styled
def scores(
    minutes: Sequence[float], ours: Sequence[float], unit: str = "BLEU on the test part"
) -> Figure:
    """Scores against minutes of training."""
    fig, (axes,) = figure(height=2.3)
    axes.plot(minutes, ours, marker="o", color=BLUE)
    for minute, score in zip(minutes, ours, strict=True):
        axes.annotate(
            f"{score:.1f}", (minute, score), xytext=(0, 7), textcoords="offset points", ha="center"
        )
    axes.set(xlabel="minutes of training on two CPU cores", ylabel=unit)
    axes.set_xlim(0, max(minutes) * 1.08)
    axes.set_ylim(0, max(ours) * 1.18)
    axes.grid(axis="y")
    axes.spines["left"].set_color(MUTED)
    pairs = ", ".join(
        f"{score:.1f} after {minute:g}" for minute, score in zip(minutes, ours, strict=True)
    )
    fig.alt = f"{unit} against minutes of training: {pairs}."
    return fig
