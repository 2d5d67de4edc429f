"""A doctor for the reader's own model: probes that find common faults and name them.

A :class:`~tfmr.doctor.subject.Subject` states how to call the model, and
:func:`~tfmr.doctor.examination.examine` reports the result of every probe::

    from tfmr import Transformer, TransformerConfig, doctor

    model = Transformer(TransformerConfig(source_vocab=100, target_vocab=100, d_model=64))
    subject = doctor.Subject(model=model, logits=model, vocab=100, source_vocab=100)
    print(doctor.examine(subject))

:func:`~tfmr.doctor.curve.diagnose` does the same for a training curve, which
:func:`~tfmr.doctor.curve.read_curve` reads from a CSV table and
:func:`~tfmr.doctor.curve.read_tensorboard` from TensorBoard's event files.

Every probe of a model is an experiment: it changes part of an input and measures what changes in
the result. A probe that cannot decide reports this. Design choices are not faults: pre-norm or
post-norm, biases, the kind of normalisation, of positions, of attention heads.
"""

from tfmr.doctor.curve import Curve, diagnose, read_curve, read_tensorboard
from tfmr.doctor.examination import examine
from tfmr.doctor.finding import Finding, Report
from tfmr.doctor.subject import Subject

__all__ = [
    "Curve",
    "Finding",
    "Report",
    "Subject",
    "diagnose",
    "examine",
    "read_curve",
    "read_tensorboard",
]
