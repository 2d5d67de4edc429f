"""Decoding optimised for speed: in fp32, the logits of the readable decoder up to rounding.

:func:`prepare` makes an explicit snapshot of a trained model and sets the dtype of its products.
Everything that only speeds up decoding is here: prepacked weights (:mod:`~tfmr.fast.prepack`),
incremental decoding with the hypotheses of a beam as parallel queries (:mod:`~tfmr.fast.decoder`),
and the selection of the best candidates (:mod:`~tfmr.fast.topk`).
"""

from tfmr.fast.decoder import FastTransformer, prepare
from tfmr.fast.settings import cpu_matmul_settings

__all__ = ["FastTransformer", "cpu_matmul_settings", "prepare"]
