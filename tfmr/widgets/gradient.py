"""The gradient through time: a power of one factor, and the measured norms of recurrent cells."""

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

import torch
import traitlets
from jaxtyping import Float
from torch import Tensor

from tfmr.errors import require
from tfmr.recurrent import Cell, RNNCell, state_jacobians
from tfmr.widgets.figure import LiveFigure

RADII = tuple(tenths / 10 for tenths in range(7, 19))
LONGEST = 60
DISTANCES = tuple(range(0, LONGEST + 1, 2))
SEEDS = 5
D_HIDDEN = 16
MOST = 5
"""The largest number of networks besides the RNN whose radius the reader sets."""

CellAndInput = tuple[Cell[Any], Tensor]


class GradientFigure(LiveFigure):
    """The norm of the gradient against the distance: a formula, and the norms of real cells.

    The formula is ``(radius · slope)^n``: every step multiplies by the spectral radius of ``W_h``
    and by the slope of the tanh. The measured norm is the spectral norm of the Jacobian of the
    state after n steps with respect to the initial state. It is shown for RNN cells of 16
    components whose ``W_h`` is an orthogonal matrix times the radius, with noise as the input and
    five seeds, and for the cells of ``networks``.

    Args:
        networks: by name, the cells to measure, each with its input of at least 60 time steps,
            ``(length, d_in)``; one pair per seed.
        radius: spectral radius that is shown first, one of 0.7, 0.8, … 1.8.
        slope: slope of the tanh in the formula, from 0.5 to 1.
        length: number of steps, an even number from 2 to 60.

    Raises:
        TfmrError: if an argument is out of range, an input too short, or a norm zero or not finite.
    """

    distances = traitlets.List(traitlets.Int()).tag(sync=True)
    radii = traitlets.List(traitlets.Float()).tag(sync=True)
    scaled = traitlets.List(traitlets.List(traitlets.List(traitlets.Float()))).tag(sync=True)
    """Logarithms (base 10) of the norms of the RNN: by radius, seed and distance."""
    networks = traitlets.List(traitlets.Dict()).tag(sync=True)
    """The other networks: ``name``, and ``curves``, logarithms by seed and distance."""
    radius = traitlets.Float().tag(sync=True)
    slope = traitlets.Float().tag(sync=True)
    length = traitlets.Int().tag(sync=True)

    def __init__(
        self,
        networks: Mapping[str, Sequence[CellAndInput]] | None = None,
        *,
        radius: float = 1.1,
        slope: float = 1.0,
        length: int = LONGEST,
    ) -> None:
        networks = networks or {}
        require(len(networks) <= MOST, f"at most {MOST} networks can be shown: got {len(networks)}")
        require(radius in RADII, f"radius must be one of 0.7, 0.8, … 1.8: got {radius}")
        require(0.5 <= slope <= 1, f"slope must be from 0.5 to 1: got {slope}")
        require(
            length in DISTANCES[1:],
            f"length must be an even number from 2 to {LONGEST}: got {length}",
        )
        super().__init__(
            distances=list(DISTANCES),
            radii=list(RADII),
            networks=[
                {"name": name, "curves": _curves(name, runs)} for name, runs in networks.items()
            ],
            scaled=[_curves(f"RNN, radius {each}", scaled_rnns(each)) for each in RADII],
            radius=radius,
            slope=slope,
            length=length,
        )

    def formula(self) -> float:
        """``(radius · slope)^length``."""
        return float((self.radius * self.slope) ** self.length)

    def measured(self) -> dict[str, list[float]]:
        """The norms of all networks after ``length`` steps, one per seed."""
        at = self.distances.index(self.length)
        shown = {f"RNN, radius {self.radius}": self.scaled[self.radii.index(self.radius)]}
        shown |= {network["name"]: network["curves"] for network in self.networks}
        return {name: [10 ** curve[at] for curve in curves] for name, curves in shown.items()}

    def summary(self) -> str:
        """The formula, the median of the RNN, and the names of the other networks."""
        rnn, *names = self.measured()
        also = f". Also measured: {'; '.join(names)}" if names else ""
        return (
            f"the gradient norm after {self.length} steps at spectral radius {self.radius}:"
            f" {self.formula():.0e} by the formula, {median(self.measured()[rnn]):.0e} measured"
            f" (median of {SEEDS} RNNs){also}."
        )


def scaled_rnns(radius: float) -> list[CellAndInput]:
    """An RNN cell per seed, whose ``W_h`` is orthogonal times ``radius``, and noise as its input.

    The global random generator is not changed.
    """
    runs: list[CellAndInput] = []
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        for seed in range(SEEDS):
            torch.manual_seed(seed)
            noise = torch.randn(LONGEST, D_HIDDEN, dtype=torch.double)
            cell = RNNCell(D_HIDDEN, D_HIDDEN).double()
            torch.nn.init.orthogonal_(cell.w_h.weight).mul_(radius)
            cell.w_x.bias.zero_()
            runs.append((cell, noise))
    return runs


def norms(cell: Cell[Any], x: Float[Tensor, "length d_in"]) -> Float[Tensor, "distances"]:
    """The spectral norm of the Jacobian of the state, for every distance that is shown."""
    jacobians = state_jacobians(cell, x[:LONGEST])
    measured = torch.linalg.matrix_norm(jacobians, ord=2)
    return torch.cat((measured.new_ones(1), measured))[list(DISTANCES)]


def _curves(name: str, runs: Sequence[CellAndInput]) -> list[list[float]]:
    """Logarithms of the norms with three decimals, by seed and distance."""
    require(len(runs) >= 1, f"{name!r} needs at least one pair (cell, input): got none")
    curves = []
    for cell, x in runs:
        require(
            len(x) >= LONGEST,
            f"the input of {name!r} must have at least {LONGEST} time steps: got {len(x)}",
        )
        logarithms = norms(cell, x).log10()
        require(
            bool(logarithms.isfinite().all()),
            f"every norm of {name!r} must be finite and above 0: the gradient of a cell left the"
            f" range of {x.dtype}; measure the cell in double precision",
        )
        curves.append([round(value, 3) for value in logarithms.tolist()])
    return curves
