"""Positions: the paper's table, rotations, and that only the distance of two tokens counts."""

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


def test_the_table_by_hand() -> None:
    table = sinusoidal(101, 4)  # frequencies 1 and 1/100
    assert_close(table[0], torch.tensor([0.0, 1.0, 0.0, 1.0]))
    assert_close(
        table[100],
        torch.tensor([math.sin(100), math.cos(100), math.sin(1), math.cos(1)]),
    )


def test_wavelengths_run_from_two_pi_to_ten_thousand_times_that() -> None:
    omega = frequencies(512)
    assert_close(omega[0].item(), 1.0)
    assert_close(omega[-1].item(), 10000 ** (-510 / 512))
    assert_close(omega[1:] / omega[:-1], torch.full((255,), 10000 ** (-2 / 512)).double())


@pytest.mark.parametrize("base", [10000.0, 100.0])
def test_the_table_equals_its_formulas(base: float) -> None:
    assert_close(sinusoidal(300, 32, base), sinusoidal_naive(300, 32, base), atol=1e-6, rtol=0)
    far = sinusoidal(100_000, 4, base)[-1]
    angle = 99_999 / base**0.5
    assert_close(far[2:], torch.tensor([math.sin(angle), math.cos(angle)]), atol=1e-6, rtol=0)


def test_a_shift_is_a_rotation_of_every_pair() -> None:
    # "for any fixed offset k, PE[pos + k] is a linear function of PE[pos]" (section 3.5)
    table, k = sinusoidal(50, 8).double(), 7
    turned = torch.empty(43, 8, dtype=torch.double)
    for i, omega in enumerate(frequencies(8).tolist()):
        sine, cosine = table[:43, 2 * i], table[:43, 2 * i + 1]
        turned[:, 2 * i] = sine * math.cos(k * omega) + cosine * math.sin(k * omega)
        turned[:, 2 * i + 1] = cosine * math.cos(k * omega) - sine * math.sin(k * omega)
    assert_close(table[k:], turned, atol=1e-6, rtol=0)


@pytest.mark.parametrize("module", [SinusoidalPosition(8, 20), LearnedPosition(8, 20)])
def test_positions_are_added_from_the_start_given(module: torch.nn.Module) -> None:
    x = torch.randn(2, 6, 8)
    whole = module(x)
    assert_close(whole, x + module.table[:6])
    assert_close(torch.cat([module(x[:, :4]), module(x[:, 4:], start=4)], dim=1), whole)


def test_only_learned_positions_are_parameters_and_none_is_saved_as_buffer() -> None:
    assert list(SinusoidalPosition(8, 20).state_dict()) == []
    assert list(RotaryPosition(8, 20).state_dict()) == []
    assert list(LearnedPosition(8, 20).state_dict()) == ["table"]
    assert LearnedPosition(8, 20).table.requires_grad


@pytest.mark.parametrize("start", [0, 5])
def test_rotary_equals_one_matrix_per_position_and_pair(start: int) -> None:
    torch.manual_seed(0)
    x = torch.randn(2, 3, 7, 8, dtype=torch.double)
    rotate = RotaryPosition(8, 20).double()
    assert_close(rotate(x, start), rotate_naive(x, start), atol=1e-6, rtol=0)


def test_a_rotation_by_hand() -> None:
    x = torch.tensor([[[1.0, 0.0, 0.0, 1.0]]]).expand(1, 3, 4)
    turned = RotaryPosition(4, 3)(x)[0, 2]
    wanted = [math.cos(2), math.sin(2), -math.sin(0.02), math.cos(0.02)]
    assert_close(turned, torch.tensor(wanted))


def test_rotary_keeps_lengths_and_leaves_position_zero_alone() -> None:
    x = torch.randn(2, 7, 8)
    turned = RotaryPosition(8, 20)(x)
    assert_close(turned.norm(dim=-1), x.norm(dim=-1))
    assert_close(turned[:, 0], x[:, 0])


def test_rotary_scores_depend_on_the_distance_alone() -> None:
    torch.manual_seed(0)
    rotate = RotaryPosition(8, 200).double()
    q, k = torch.randn(2, 1, 8, dtype=torch.double)

    def score(m: int, n: int) -> float:
        return float((rotate(q, m) * rotate(k, n)).sum())

    for m, n in [(0, 0), (5, 2), (2, 5), (40, 1)]:
        for shift in (1, 17, 150):
            assert score(m + shift, n + shift) == pytest.approx(score(m, n), abs=1e-5)
    assert abs(score(5, 2) - score(2, 5)) > 0.01
    assert abs(score(5, 2) - score(6, 2)) > 0.01


@pytest.mark.parametrize(
    "module", [SinusoidalPosition(8, 5), LearnedPosition(8, 5), RotaryPosition(8, 5)]
)
def test_beyond_the_last_position(module: torch.nn.Module) -> None:
    module(torch.zeros(1, 5, 8))
    message = r"positions for 5 tokens and was given 6: shorten the sentence"
    for length, start in ((6, 0), (1, 5)):
        with pytest.raises(TfmrError, match=message):
            module(torch.zeros(1, length, 8), start=start)


@pytest.mark.parametrize("d", [7, 0])
def test_an_odd_size(d: int) -> None:
    with pytest.raises(TfmrError, match=f"must be even: got d={d}"):
        sinusoidal_naive(3, d)
    with pytest.raises(TfmrError, match=f"must be even: got d={d}"):
        sinusoidal(3, d)
