"""The roofline of a device: what bounds the rate of a computation, arithmetic or memory."""

from dataclasses import asdict, dataclass
from functools import cache

import torch
import traitlets

from tfmr.complexity import attention_flops
from tfmr.errors import require
from tfmr.family.llama import Llama, LlamaConfig
from tfmr.widgets.costs import LENGTHS
from tfmr.widgets.figure import LiveFigure

DEVICES = {"A100": (312e12, 1.5e12, 40e9), "H100": (989e12, 3.35e12, 80e9)}
"""The peak in FLOP/s for 16-bit numbers, the bandwidth in bytes per second, the memory in bytes.

Sources: for the H100 NVIDIA (2023); for the A100 Dao (2023), section 3.1, and Dao et al. (2022),
figure 1.
"""
SIZES = (1, 2, 3, *LENGTHS)
"""The sizes of the slider: from 4, four per doubling."""


@dataclass(frozen=True)
class Computation:
    """A computation whose costs are polynomials of its size, the number of ``unit``.

    ``flops``, ``moved`` and ``held`` have the coefficients of 1, the size and its square. ``moved``
    counts the bytes that are read from memory or written to it, ``held`` those of the data, which
    must be in memory.
    """

    name: str
    unit: str
    flops: tuple[int, int, int]
    moved: tuple[int, int, int]
    held: tuple[int, int, int]

    def costs(self, size: int) -> tuple[int, int]:
        """The FLOPs and the bytes."""
        flops, moved = (a + b * size + c * size**2 for a, b, c in (self.flops, self.moved))
        return flops, moved


@cache
def computations() -> tuple[Computation, ...]:
    """The computations of the figure, with 16-bit numbers and the sizes of Llama 3 8B.

    A decoding step reads the weights and the cache of every text once, as in chapter 16. Prefill
    attention is one layer without a mask, with as many key heads as query heads. Its scores are
    written to memory and read again, and so are its attention weights, or all of them remain in
    fast memory, in tiles.
    """
    c = LlamaConfig()
    with torch.device("meta"):
        weights = sum(weight.numel() for weight in Llama(c).parameters())
    weights -= c.vocab * c.d_model  # of the input embedding, only single rows are read

    def product(d: int) -> Computation:
        name = f"matrix product, d = {d:,}"
        data = (2 * d * d, 4 * d, 0)
        return Computation(name, "tokens", (0, 2 * d * d, 0), data, data)

    def attention(place: str, per_weight: int) -> Computation:
        square = attention_flops(1, c.d_model)
        moved = (0, 8 * c.d_model, per_weight * c.n_heads)
        # Scores and attention weights are each moved twice.
        held = (0, 8 * c.d_model, per_weight // 2 * c.n_heads)
        return Computation(f"prefill attention, {place}", "tokens", (0, 0, square), moved, held)

    def decoding(cached: int) -> Computation:
        keys = 2 * cached + 1  # twice the mean number of keys of a query, as in the chapter
        flops = 2 * weights + 2 * c.d_model * c.n_layers * keys
        text = 4 * c.n_layers * c.n_kv_heads * (c.d_model // c.n_heads) * (cached + 1)
        name = f"decoding, cache of {cached:,}"
        data = (2 * weights, text, 0)
        return Computation(name, "texts", (0, flops, 0), data, data)

    sums = (0, 6 * c.d_model, 0)
    return (
        product(c.d_model),
        product(512),
        attention("stored", 8),
        attention("tiled", 0),
        decoding(128),
        decoding(c.max_length),
        Computation("addition of two tensors", "tokens", (0, c.d_model, 0), sums, sums),
    )


def find_computation(name: str) -> Computation:
    """The computation of a name.

    Raises:
        TfmrError: if there is none.
    """
    found = {each.name: each for each in computations()}
    require(name in found, f"computation must be one of {'; '.join(found)}: got {name}")
    return found[name]


class RooflineFigure(LiveFigure):
    """The largest rate of a computation on a device, by its operations per byte.

    Args:
        computation: the name of one of the :func:`computations`.
        device: ``"A100"`` or ``"H100"``.
        size: how many tokens or texts the computation processes, one of :data:`SIZES`.

    Raises:
        TfmrError: if an argument is none of these.
    """

    computations = traitlets.List(traitlets.Dict()).tag(sync=True)
    devices = traitlets.Dict().tag(sync=True)
    sizes = traitlets.List(traitlets.Int()).tag(sync=True)
    computation = traitlets.Unicode().tag(sync=True)
    device = traitlets.Enum(tuple(DEVICES)).tag(sync=True)
    size = traitlets.Enum(SIZES).tag(sync=True)

    def __init__(
        self,
        *,
        computation: str = "decoding, cache of 128",
        device: str = "H100",
        size: int = 1,
    ) -> None:
        find_computation(computation)
        require(device in DEVICES, f"device must be one of {', '.join(DEVICES)}: got {device}")
        require(
            size in SIZES,
            f"size must be one of 1, 2, … 8, 10, 12, 14, 16, 20, … 16384: got {size}",
        )
        super().__init__(
            computations=[asdict(each) for each in computations()],
            devices=dict(DEVICES),
            sizes=list(SIZES),
            computation=computation,
            device=device,
            size=size,
        )

    @traitlets.validate("computation")
    def _check_computation(self, proposal: traitlets.Bunch) -> str:
        return find_computation(proposal["value"]).name

    def bound(self) -> tuple[float, float, int | None]:
        """FLOPs per byte, the largest rate in FLOP/s, and the least size that arithmetic limits.

        The size is ``None`` if memory limits the computation at every size up to the largest.
        """
        selected = find_computation(self.computation)
        peak, bandwidth, _ = DEVICES[self.device]

        def rate(size: int) -> tuple[float, float]:
            flops, moved = selected.costs(size)
            return flops / moved, min(peak, bandwidth * flops / moved)

        least = (size for size in range(1, SIZES[-1] + 1) if rate(size)[1] == peak)
        return *rate(self.size), next(least, None)

    def summary(self) -> str:
        """The bound of the selected computation."""
        intensity, rate, least = self.bound()
        limit = "memory" if least is None or self.size < least else "arithmetic"
        return (
            f"the roofline of an {self.device} and a computation ({self.computation}, size"
            f" {self.size}): at {intensity:.4g} FLOPs per byte, {limit} limits the rate to"
            f" {rate / 1e12:.3g} TFLOP/s."
        )
