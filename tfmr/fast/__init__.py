"""Decoding optimised for speed.

:func:`prepare` makes an explicit snapshot of a trained model, which the searches of
:mod:`tfmr.decode` accept like the model itself. The commands ``translate`` and ``evaluate`` use it;
``translate()`` uses whichever it is given. In fp32 its logits equal those of the model up to
rounding. The parts are prepacked weights (:mod:`~tfmr.fast.prepack`), incremental decoding with the
hypotheses of a beam as parallel queries (:mod:`~tfmr.fast.decoder`), and the settings of a whole
call (:mod:`~tfmr.fast.settings`).
"""

from tfmr.fast.decoder import FastTransformer, prepare
from tfmr.fast.settings import cpu_matmul_settings

__all__ = ["FastTransformer", "cpu_matmul_settings", "prepare"]
