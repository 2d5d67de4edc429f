"""Positions: sinusoidal and rotary encodings, pair by pair, and the dot product by distance."""

import math

import torch
import traitlets
from jaxtyping import Float
from torch import Tensor

from tfmr.errors import require
from tfmr.position import RotaryPosition, sinusoidal
from tfmr.widgets.figure import LiveFigure

ENCODINGS = ("sinusoidal", "rotary")
SIZES = (4, 8, 16)
BASES = (10, 100, 1000, 10000)


class PositionsFigure(LiveFigure):
    r"""Two positions as vectors, each pair of dimensions as a point on a circle.

    With ``encoding="sinusoidal"`` the vectors are two rows of the table. With ``"rotary"`` they are
    a query at position ``m`` and a key at position ``n``, rotated. Before the rotation every pair
    of the query is :math:`(1, 0)` and every pair of the key is ``angle`` degrees ahead of it.
    Vaswani et al. (2017), section 3.5; Su et al. (2021), section 3.2.

    Args:
        length: number of positions.
        encoding: ``"sinusoidal"`` or ``"rotary"``.
        size: size of the vectors, one of ``SIZES``.
        base: base of the geometric progression of wavelengths, one of ``BASES``.
        m: the first position, that of the query.
        n: the second position, that of the key.
        angle: from query to key before the rotation, in degrees, -180 to 180.
        pair: index of the pair whose arithmetic is shown.

    Raises:
        TfmrError: if an argument is out of range.
    """

    length = traitlets.Int().tag(sync=True)
    encoding = traitlets.Enum(ENCODINGS).tag(sync=True)
    size = traitlets.Enum(SIZES).tag(sync=True)
    base = traitlets.Enum(BASES).tag(sync=True)
    m = traitlets.Int().tag(sync=True)
    n = traitlets.Int().tag(sync=True)
    angle = traitlets.Int().tag(sync=True)
    pair = traitlets.Int().tag(sync=True)

    def __init__(
        self,
        length: int = 50,
        *,
        encoding: str = "sinusoidal",
        size: int = 8,
        base: int = 10000,
        m: int = 3,
        n: int = 8,
        angle: int = 0,
        pair: int = 1,
    ) -> None:
        require(2 <= length <= 100, f"the figure takes 2 to 100 positions: got {length}")
        for name, value, allowed in (
            ("encoding", encoding, ENCODINGS), ("size", size, SIZES), ("base", base, BASES),
        ):  # fmt: skip
            names = ", ".join(map(str, allowed))
            require(value in allowed, f"{name} must be one of {names}: got {value}")
        for name, number, low, high in (
            ("m", m, 0, length - 1),
            ("n", n, 0, length - 1),
            ("angle", angle, -180, 180),
            ("pair", pair, 0, size // 2 - 1),
        ):
            require(
                low <= number <= high,
                f"{name} must be a whole number from {low} to {high}: got {number}",
            )
        super().__init__(
            length=length, encoding=encoding, size=size, base=base, m=m, n=n, angle=angle, pair=pair
        )

    def vectors(self) -> tuple[Float[Tensor, "length size"], Float[Tensor, "length size"]]:
        """The vectors compared at every position: rows of the table, or rotated query and key."""
        if self.encoding == "sinusoidal":
            table = sinusoidal(self.length, self.size, float(self.base))
            return table, table
        rotary = RotaryPosition(self.size, self.length, float(self.base))
        angle = math.radians(self.angle)
        query, key = (
            torch.tensor(pair).repeat(self.length, self.size // 2)
            for pair in ((1.0, 0.0), (math.cos(angle), math.sin(angle)))
        )
        return rotary(query), rotary(key)

    def products(self) -> Float[Tensor, "m n"]:
        """The dot product of the vectors at every two positions."""
        first, second = self.vectors()
        return first @ second.T

    def contributions(self) -> Float[Tensor, "pairs"]:
        """What each pair adds to the dot product at the current positions."""
        first, second = self.vectors()
        products = first[self.m] * second[self.n]
        parts: Tensor = products.unflatten(-1, (-1, 2)).sum(dim=-1)
        return parts

    def summary(self) -> str:
        """The sentence that it shows."""
        product = float(self.products()[self.m, self.n])
        return (
            f"{self.encoding} positions {self.m} and {self.n} of {self.length}, vectors of size "
            f"{self.size}, base {self.base}; the dot product is {product:.2f}."
        )
