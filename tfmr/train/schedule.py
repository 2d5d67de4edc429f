"""The learning rate: up in a straight line, then down with the square root of the step."""

import math

from tfmr.errors import require


def learning_rate(step: int, peak_lr: float, warmup: int) -> float:
    r"""The rate at ``step``, from 1: linear up to ``peak_lr`` at ``warmup``, inverse root after.

    .. math:: \eta(t) = \eta_{peak} \min\!\left(\frac{t}{w}, \sqrt{\frac{w}{t}}\right)

    With :func:`paper_peak` this is Vaswani et al. (2017), section 5.3, equation 3.

    Raises:
        TfmrError: if ``step`` or ``warmup`` is less than one: at step 0 the inverse root would
            divide by zero.
    """
    require(
        step >= 1 and warmup >= 1, f"steps are counted from 1: got step={step}, warmup={warmup}"
    )
    return peak_lr * min(step / warmup, math.sqrt(warmup / step))


def paper_peak(d_model: int, warmup: int = 4000) -> float:
    r"""The paper's highest rate, :math:`(d_{model} \cdot w)^{-1/2}`, reached at step :math:`w`."""
    return 1 / math.sqrt(d_model * warmup)
