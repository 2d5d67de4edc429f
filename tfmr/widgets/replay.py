"""A training replayed: losses, learning rate, a translation and an attention map, step by step."""

from collections.abc import Mapping
from typing import Any

import traitlets

from tfmr.errors import require
from tfmr.widgets.figure import LiveFigure


class ReplayFigure(LiveFigure):
    """The training of chapter 11, replayed from its record.

    Args:
        record: the content of the record ``replay.json``, which ``python -m benchmarks.replay``
            writes.
        step: the training step that is shown first.

    Raises:
        TfmrError: if the record is another one, or has no such step.
    """

    rows = traitlets.List(traitlets.Dict()).tag(sync=True)
    source = traitlets.List(traitlets.Unicode()).tag(sync=True)
    target = traitlets.List(traitlets.Unicode()).tag(sync=True)
    """The tokens that the decoder predicts: the reference and ``<eos>``."""
    step = traitlets.Int().tag(sync=True)
    word = traitlets.Int().tag(sync=True)
    """The index of the target token whose attention weights are read off."""

    def __init__(self, record: Mapping[str, Any], *, step: int = 0) -> None:
        kind = record.get("kind")
        require(kind == "replay", f"expected a record of the kind 'replay': got {kind!r}")
        known = [row["step"] for row in record["rows"]]
        require(step in known, f"step must be one of {', '.join(map(str, known))}: got {step}")
        settings = record["settings"]
        super().__init__(
            rows=record["rows"],
            source=settings["source"].split(),
            target=[*settings["reference"].split(), "<eos>"],
            step=step,
            word=0,
        )

    def values(self) -> dict[str, Any]:
        """The row of the current step."""
        [row] = [row for row in self.rows if row["step"] == self.step]
        return row

    def summary(self) -> str:
        """The losses and the translation at both ends of the training."""
        first, last = self.rows[0], self.rows[-1]
        return (
            f"a training run of {last['step']} steps, replayed. The validation loss decreases from "
            f"{first['valid_loss']:.2f} to {last['valid_loss']:.2f} nats per token, and "
            f"“{' '.join(self.source)}” is translated at the end as “{last['output']}”."
        )
