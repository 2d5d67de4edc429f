"""The training curves of several runs in one figure."""

from collections.abc import Mapping, Sequence

from tfmr.figures.style import Figure, figure, styled
from tfmr.figures.training import smooth
from tfmr.train.trainer import StepRecord


@styled
def loss_curves(runs: Mapping[str, Sequence[StepRecord]]) -> Figure:
    """The smoothed training loss of each run against the step."""
    fig, (axes,) = figure(height=2.8)
    for name, records in runs.items():
        axes.plot(
            [record.step for record in records],
            smooth([record.loss for record in records]),
            label=name,
        )
    axes.set(xlabel="step", ylabel="loss (nats per token)")
    axes.legend()
    lengths = ", ".join(f"{name}, {len(records):,} steps" for name, records in runs.items())
    fig.alt = f"Training loss against step of {len(runs)} runs: {lengths}."
    return fig
