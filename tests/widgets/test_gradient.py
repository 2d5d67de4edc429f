"""GradientFigure in Python: its norms are Jacobians of tfmr's cells, its formula, its errors."""

from functools import cache
from statistics import median
from typing import Any

import pytest
import torch

from tfmr.recurrent import GRUCell, LSTMCell, RNNCell, state_jacobians
from tfmr.widgets import GradientFigure
from tfmr.widgets.gradient import DISTANCES, RADII, CellAndInput, norms, scaled_rnns


def runs(kind: Any, seeds: int = 3) -> list[CellAndInput]:
    found = []
    for seed in range(seeds):
        torch.manual_seed(seed)
        noise = torch.randn(60, 4, dtype=torch.double)
        found.append((kind(4, 8).double(), noise))
    return found


NETWORKS = {
    "RNN, untrained": runs(RNNCell),
    "GRU, untrained": runs(GRUCell, 2),
    "LSTM, untrained": runs(LSTMCell, 1),
}


@cache
def measured_figure() -> GradientFigure:
    """The figure of all tests, whose cells are measured once."""
    return GradientFigure(NETWORKS)


@pytest.fixture
def figure() -> GradientFigure:
    """The figure in its first state."""
    figure = measured_figure()
    figure.set_state({"radius": 1.1, "slope": 1.0, "length": 60})
    return figure


def test_the_norms_are_those_of_autograd() -> None:
    for kind in (RNNCell, GRUCell, LSTMCell):
        [(cell, x)] = runs(kind, 1)
        state = [torch.zeros(1, 8, dtype=torch.double) for _ in range(cell.state_tensors)]

        def after_six_steps(flat: torch.Tensor, cell: Any = cell, x: Any = x) -> torch.Tensor:
            parts = flat.chunk(cell.state_tensors, dim=1)
            for row in x[:6]:
                result = cell(row[None], parts if len(parts) > 1 else parts[0])
                parts = result if isinstance(result, tuple) else (result,)
            return torch.cat(parts, dim=1)

        jacobian = torch.autograd.functional.jacobian(after_six_steps, torch.cat(state, dim=1))
        expected = torch.linalg.matrix_norm(jacobian[0, :, 0], ord=2)
        torch.testing.assert_close(norms(cell, x)[DISTANCES.index(6)], expected)


def test_the_state_holds_the_norms_of_every_network(figure: GradientFigure) -> None:
    for radius in (0.7, 1.8):
        figure.set_state({"radius": radius, "length": 20})
        measured = figure.measured()
        networks = {f"RNN, radius {radius}": scaled_rnns(radius), **NETWORKS}
        assert measured.keys() == networks.keys()
        for name, pairs in networks.items():
            for norm, (cell, x) in zip(measured[name], pairs, strict=True):
                jacobian = state_jacobians(cell, x)[19]
                assert norm == pytest.approx(
                    torch.linalg.matrix_norm(jacobian, ord=2).item(), rel=2e-3
                )


def test_the_formula_is_the_norm_with_zero_input(figure: GradientFigure) -> None:
    figure.radius = 0.9
    for cell, noise in scaled_rnns(0.9):
        assert norms(cell, torch.zeros_like(noise))[-1].item() == pytest.approx(figure.formula())
    figure.slope = 0.5
    assert figure.formula() == pytest.approx(0.45**60)


def test_what_the_figure_says_that_it_shows(figure: GradientFigure) -> None:
    at = {}
    for radius in RADII:
        figure.radius = radius
        at[radius] = median(figure.measured()[f"RNN, radius {radius}"])
        assert (at[radius] < 0.01) == (radius <= 1.3)
    assert 0.01 < at[1.6] < 100
    for cell, _ in scaled_rnns(1.1):
        assert cell.d_hidden == 16
        radius = torch.linalg.eigvals(cell.w_h.weight).abs()
        torch.testing.assert_close(radius, torch.full_like(radius, 1.1))


def test_the_summary_states_the_formula_and_the_median(figure: GradientFigure) -> None:
    for part in ("60 steps", "radius 1.1: 3e+02", "3e-06 measured (median of 5", *NETWORKS):
        assert part in figure.summary()


def test_it_keeps_the_global_random_generator() -> None:
    before = torch.get_rng_state()
    scaled_rnns(1.0)
    assert torch.equal(torch.get_rng_state(), before)
