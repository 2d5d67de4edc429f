"""What layers cost by the length of the sequence: operations, sequential steps and memory."""

import traitlets

from tfmr.complexity import attention_flops, convolution_flops, recurrent_flops, window_scores
from tfmr.errors import require
from tfmr.widgets.figure import LiveFigure

LENGTHS = (*(2**k * quarter // 4 for k in range(2, 14) for quarter in range(4, 8)), 2**14)
"""The values of n: from 4 to 16,384, four per doubling."""
WIDTHS = tuple(n for n in LENGTHS if 32 <= n <= 2048)
"""The values of d: from 32 to 2,048, four per doubling."""
KERNEL, RADIUS = 3, 16
QUANTITIES = ("operations", "steps", "memory")


def costs(
    n: int, d: int, kernel: int = KERNEL, radius: int = RADIUS
) -> dict[str, tuple[int, int, int]]:
    """By layer: FLOPs, sequential operations, and how many numbers the backward pass needs.

    The layers map ``n`` vectors of ``d`` components to as many vectors. ``kernel`` is the width of
    the convolution; local attention reaches ``radius`` positions to each side.

    As in Table 1, attention is without projections. The operations are those of the example by
    hand in chapter 14. Parameters are not counted. Every layer keeps its inputs; the recurrent
    layer also keeps its states, and attention its attention weights, those of one head.
    """
    window = window_scores(n, radius)
    return {
        "self-attention": (attention_flops(n, d), 4, n * d + n * n),
        "recurrent": (recurrent_flops(n, d), 3 * n, 2 * n * d),
        "convolution": (convolution_flops(n, d, kernel), 1, n * d),
        "local": (4 * d * window, 5, n * d + window),
    }


class CostsFigure(LiveFigure):
    """The costs of four layers that map n vectors of d components to n vectors, against n.

    Args:
        n: length of the sequence, one of :data:`LENGTHS`.
        d: number of components, one of :data:`WIDTHS`.
        quantity: what the chart shows, one of :data:`QUANTITIES`.

    Raises:
        TfmrError: if an argument is none of these.
    """

    lengths = traitlets.List(traitlets.Int()).tag(sync=True)
    widths = traitlets.List(traitlets.Int()).tag(sync=True)
    kernel = traitlets.Int().tag(sync=True)
    radius = traitlets.Int().tag(sync=True)
    n = traitlets.Enum(LENGTHS).tag(sync=True)
    d = traitlets.Enum(WIDTHS).tag(sync=True)
    quantity = traitlets.Enum(QUANTITIES).tag(sync=True)

    def __init__(self, *, n: int = 32, d: int = 512, quantity: str = "operations") -> None:
        for name, value, known in (("n", n, LENGTHS), ("d", d, WIDTHS)):
            require(
                value in known,
                f"{name} must be one of {known[0]}, {known[1]}, {known[2]}, … {known[-1]}, four per"
                f" doubling: got {value}",
            )
        require(
            quantity in QUANTITIES,
            f"quantity must be one of {', '.join(QUANTITIES)}: got {quantity}",
        )
        super().__init__(
            lengths=list(LENGTHS),
            widths=list(WIDTHS),
            kernel=KERNEL,
            radius=RADIUS,
            n=n,
            d=d,
            quantity=quantity,
        )

    def summary(self) -> str:
        """The quantity of every layer."""
        at = QUANTITIES.index(self.quantity)
        rows = costs(self.n, self.d).items()
        values = ", ".join(f"{name} {values[at]:,}" for name, values in rows)
        return f"{self.quantity} of layers at n = {self.n} and d = {self.d}: {values}."
