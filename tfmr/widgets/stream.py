"""The residual stream of deep stacks, block by block, before, during and after training."""

import math
from collections.abc import Mapping
from typing import Any

import traitlets

from tfmr.errors import require
from tfmr.widgets.figure import LiveFigure
from tfmr.wording import joined

QUANTITIES = ("stream", "change", "gradient")
DIGITS = 3
"""Significant digits of the numbers in the state."""


class StreamFigure(LiveFigure):
    """Vector norms of the residual stream and gradients, with and without layer norms.

    Args:
        record: the content of the record ``depth-stream.json``, which
            ``python -m benchmarks.stream`` writes.
        blocks: the depth that is shown first.
        step: the training step that is shown first.
        quantity: ``"stream"`` (vector norm), ``"change"`` (relative change by each block) or
            ``"gradient"`` (gradient norm of each block).

    Raises:
        TfmrError: if the record is another one, or has no such depth or step.
    """

    rows = traitlets.List(traitlets.Dict()).tag(sync=True)
    uniform_loss = traitlets.Float().tag(sync=True)
    blocks = traitlets.Int().tag(sync=True)
    step = traitlets.Int().tag(sync=True)
    quantity = traitlets.Enum(QUANTITIES).tag(sync=True)
    block = traitlets.Int().tag(sync=True)
    """The block whose numbers are shown; 0 is the input of the first block."""
    unnormalised = traitlets.Bool().tag(sync=True)
    """Whether the stack ``residual`` is shown, too."""

    def __init__(
        self,
        record: Mapping[str, Any],
        *,
        blocks: int = 12,
        step: int = 0,
        quantity: str = "stream",
    ) -> None:
        kind = record.get("kind")
        require(kind == "stream", f"expected a record of the kind 'stream': got {kind!r}")
        rows = [{key: _rounded(value) for key, value in row.items()} for row in record["rows"]]
        for name, value in (("blocks", blocks), ("step", step)):
            known = sorted({row[name] for row in rows})
            require(
                value in known,
                f"{name} must be one of {', '.join(map(str, known))}: got {value}",
            )
        require(
            quantity in QUANTITIES,
            f"quantity must be one of {', '.join(QUANTITIES)}: got {quantity}",
        )
        super().__init__(
            rows=rows,
            uniform_loss=record["settings"]["uniform_loss"],
            blocks=blocks,
            step=step,
            quantity=quantity,
            block=blocks,
            unnormalised=False,
        )

    def values(self) -> dict[str, float]:
        """The current quantity of each stack at the selected block.

        Block 0 is the input of the first block; changes and gradients begin with block 1.
        """
        first = 0 if self.quantity == "stream" else 1
        return {
            row["stack"]: row[self.quantity][max(self.block, first) - first]
            for row in self.rows
            if (row["blocks"], row["step"]) == (self.blocks, self.step)
        }

    def summary(self) -> str:
        """The sentence that it shows."""
        depths = joined(sorted({row["blocks"] for row in self.rows}))
        last = max(row["step"] for row in self.rows)
        return (
            f"the residual stream of stacks of {depths} blocks, from initialisation to step {last}."
        )


def _rounded(value: Any) -> Any:
    """Floats and lists of floats with few digits; they must be finite."""
    if isinstance(value, list):
        return [_rounded(each) for each in value]
    if not isinstance(value, float):
        return value
    require(math.isfinite(value), f"the numbers of the record must be finite: got {value}")
    return float(f"{value:.{DIGITS}g}")
