"""Positional encodings compared with the formulas of the papers."""

import math

import pytest
import torch
from torch.testing import assert_close

from tfmr.errors import TfmrError
from tfmr.position import (
    LearnedPosition,
    RotaryPosition,
    SinusoidalPosition,
    frequencies,
    rotate_naive,
    sinusoidal,
    sinusoidal_naive,
)


def test_sinusoidal_table_by_hand() -> None:
    table = sinusoidal(101, 4)  # frequencies 1 and 1/100
    assert_close(table[0], torch.tensor([0.0, 1.0, 0.0, 1.0]))
    expected = [math.sin(100), math.cos(100), math.sin(1), math.cos(1)]
    assert_close(table[100], torch.tensor(expected))
    assert sinusoidal(0, 4).shape == (0, 4)


def test_frequencies_are_a_geometric_progression() -> None:
    omega = frequencies(512)
    assert_close(omega[0].item(), 1.0)
    assert_close(omega[-1].item(), 10000 ** (-510 / 512))
    assert_close(omega[1:] / omega[:-1], torch.full((255,), 10000 ** (-2 / 512)).double())


@pytest.mark.parametrize("base", [10000.0, 100.0])
def test_sinusoidal_equals_the_naive_version(base: float) -> None:
    assert_close(sinusoidal(300, 32, base), sinusoidal_naive(300, 32, base), atol=1e-6, rtol=0)
    distant = sinusoidal(100_000, 4, base)[-1]
    angle = 99_999 / base**0.5
    expected = torch.tensor([math.sin(angle), math.cos(angle)])
    assert_close(distant[2:], expected, atol=1e-6, rtol=0)


def test_a_shift_rotates_every_pair() -> None:
    # "for any fixed offset k, PE[pos + k] is a linear function of PE[pos]" (section 3.5)
    table, k = sinusoidal(50, 8).double(), 7
    rotated = torch.empty(43, 8, dtype=torch.double)
    for i, omega in enumerate(frequencies(8).tolist()):
        sine, cosine = table[:43, 2 * i], table[:43, 2 * i + 1]
        rotated[:, 2 * i] = sine * math.cos(k * omega) + cosine * math.sin(k * omega)
        rotated[:, 2 * i + 1] = cosine * math.cos(k * omega) - sine * math.sin(k * omega)
    assert_close(table[k:], rotated, atol=1e-6, rtol=0)


@pytest.mark.parametrize("module", [SinusoidalPosition(8, 20), LearnedPosition(8, 20)])
def test_encodings_are_added_from_start_on(module: torch.nn.Module) -> None:
    x = torch.randn(3, 6, 8)
    whole = module(x)
    assert_close(whole, x + module.table[:6])
    for start in (4, torch.tensor(4)):
        assert_close(torch.cat([module(x[:, :4]), module(x[:, 4:], start=start)], dim=1), whole)


def test_only_learned_positions_are_saved() -> None:
    assert list(SinusoidalPosition(8, 20).state_dict()) == []
    assert list(RotaryPosition(8, 20).state_dict()) == []
    assert list(LearnedPosition(8, 20).state_dict()) == ["table"]
    assert LearnedPosition(8, 20).table.requires_grad


@pytest.mark.parametrize("start", [0, 5])
def test_rotary_equals_the_naive_version(start: int) -> None:
    torch.manual_seed(0)
    x = torch.randn(2, 3, 7, 8, dtype=torch.double)
    rotary = RotaryPosition(8, 20).double()
    assert_close(rotary(x, start), rotate_naive(x, start), atol=1e-6, rtol=0)


def test_rotation_by_hand() -> None:
    x = torch.tensor([[[1.0, 0.0, 0.0, 1.0]]]).expand(1, 3, 4)
    expected = [math.cos(2), math.sin(2), -math.sin(0.02), math.cos(0.02)]
    assert_close(RotaryPosition(4, 3)(x)[0, 2], torch.tensor(expected))


def test_rotary_preserves_vector_norms_and_position_zero() -> None:
    x = torch.randn(2, 7, 8)
    rotated = RotaryPosition(8, 20)(x)
    assert_close(rotated.norm(dim=-1), x.norm(dim=-1))
    assert_close(rotated[:, 0], x[:, 0])


def test_rotary_dot_products_depend_on_the_distance_only() -> None:
    torch.manual_seed(0)
    rotary = RotaryPosition(8, 200).double()
    q, k = torch.randn(2, 1, 8, dtype=torch.double)

    def score(m: int, n: int) -> float:
        return float((rotary(q, m) * rotary(k, n)).sum())

    for m, n in [(0, 0), (5, 2), (2, 5), (40, 1)]:
        for shift in (1, 17, 150):
            assert score(m + shift, n + shift) == pytest.approx(score(m, n), abs=1e-5)
    assert abs(score(5, 2) - score(2, 5)) > 0.01
    assert abs(score(5, 2) - score(6, 2)) > 0.01


@pytest.mark.parametrize(
    "module", [SinusoidalPosition(8, 5), LearnedPosition(8, 5), RotaryPosition(8, 5)]
)
def test_positions_out_of_range_and_wrong_shapes_raise_tfmr_error(
    unchecked, module: torch.nn.Module
) -> None:
    module(torch.zeros(1, 5, 8))
    for length, start in ((6, 0), (1, 5), (1, -1)):
        with pytest.raises(TfmrError, match=f"positions 0 to 4: got {start} to"):
            module(torch.zeros(1, length, 8), start=start)
    for shape in ((8,), (1, 2, 1), (1, 2, 6)):
        with pytest.raises(TfmrError, match=r"\(\.\.\., length, 8\)"):
            module(torch.zeros(shape))


@pytest.mark.parametrize(
    "module", [SinusoidalPosition(8, 5), LearnedPosition(8, 5), RotaryPosition(8, 5)]
)
def test_inputs_of_the_wrong_type_raise_tfmr_error(unchecked, module: torch.nn.Module) -> None:
    with pytest.raises(TfmrError, match=r"x.*got list.*torch\.tensor"):
        module([[[0.0] * 8]])
    for dtype in (torch.long, torch.double):
        with pytest.raises(TfmrError, match=rf"must be torch\.float32, .*: got {dtype}"):
            module(torch.zeros(1, 5, 8, dtype=dtype))


@pytest.mark.parametrize("table", [sinusoidal, sinusoidal_naive])
def test_invalid_table_sizes_raise_tfmr_error(table) -> None:
    for d in (7, 0):
        with pytest.raises(TfmrError, match=f"must be positive and even: got d={d}"):
            table(3, d)
    with pytest.raises(TfmrError, match=r"negative.*got -1"):
        table(-1, 4)
    with pytest.raises(TfmrError, match=r"d_model.*positive.*got 0"):
        LearnedPosition(0, 3)


def test_the_sizes_are_printed() -> None:
    assert repr(SinusoidalPosition(8, 5)) == "SinusoidalPosition(d_model=8, max_length=5)"
    assert repr(LearnedPosition(8, 5)) == "LearnedPosition(d_model=8, max_length=5)"
    assert repr(RotaryPosition(8, 5)) == "RotaryPosition(d_k=8, max_length=5)"
