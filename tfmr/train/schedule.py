"""The learning rate schedule: linear warm-up, then inverse square root decay."""

import math

from tfmr.errors import TfmrError


def learning_rate(step: int, peak_lr: float, warmup: int) -> float:
    r"""The learning rate at ``step``, counted from 1.

    It rises linearly to ``peak_lr`` at step ``warmup``, then falls with the inverse square root:

    .. math:: \eta(t) = \eta_{peak} \min\!\left(\frac{t}{w}, \sqrt{\frac{w}{t}}\right)

    With :func:`paper_peak_lr` this is Vaswani et al. (2017), section 5.3, equation 3.

    Raises:
        TfmrError: if ``step`` or ``warmup`` is less than 1.
    """
    if step < 1 or warmup < 1:
        raise TfmrError(f"step and warmup must be at least 1: got step={step}, warmup={warmup}")
    return peak_lr * min(step / warmup, math.sqrt(warmup / step))


def paper_peak_lr(d_model: int, warmup: int = 4000) -> float:
    r"""The paper's peak learning rate, :math:`(d_{model} \cdot w)^{-1/2}`, at step :math:`w`."""
    return 1 / math.sqrt(d_model * warmup)
