"""The learning rate against equation 3 of the paper, and its shape."""

import pytest

from tfmr.errors import TfmrError
from tfmr.train.schedule import learning_rate, paper_peak_lr


@pytest.mark.parametrize(("d_model", "warmup"), [(512, 4000), (1024, 4000), (128, 10)])
@pytest.mark.parametrize("step", [1, 7, 10, 3999, 4000, 4001, 100_000])
def test_equals_the_equation_of_the_paper(step: int, d_model: int, warmup: int) -> None:
    rate = learning_rate(step, paper_peak_lr(d_model, warmup), warmup)
    assert rate == pytest.approx(d_model**-0.5 * min(step**-0.5, step * warmup**-1.5), rel=1e-12)


def test_linear_warmup_then_inverse_square_root_decay() -> None:
    assert learning_rate(100, 2.0, 400) == pytest.approx(0.5)
    assert learning_rate(400, 2.0, 400) == 2.0
    assert learning_rate(1600, 2.0, 400) == pytest.approx(1.0)
    assert paper_peak_lr(512) == pytest.approx(6.99e-4, rel=1e-3)


@pytest.mark.parametrize(("step", "warmup"), [(0, 4000), (1, 0)])
def test_step_and_warmup_start_at_one(step: int, warmup: int) -> None:
    with pytest.raises(TfmrError, match=f"at least 1: got step={step}, warmup={warmup}"):
        learning_rate(step, 1.0, warmup)
