"""Training, from a corpus and a recipe to a directory with a model and its scores.

:mod:`~tfmr.train.config` defines recipes. :mod:`~tfmr.train.trainer` is the training step and the
loop over steps; its :class:`~tfmr.train.trainer.StepRecord` has the metrics of a step. It uses
:mod:`~tfmr.train.loss`, :mod:`~tfmr.train.schedule`, :mod:`~tfmr.train.interrupt` and
:mod:`~tfmr.train.distributed`. :mod:`~tfmr.train.run` is a whole run: it measures with how many
threads a step is fastest (:mod:`~tfmr.train.threads`), trains, validates and evaluates
(:mod:`~tfmr.train.evaluation`), averages checkpoints (:mod:`~tfmr.train.averaging`), and writes
checkpoints, the tables of the metrics (:mod:`~tfmr.train.run_dir`), the README and TensorBoard logs
(:mod:`~tfmr.train.report`), and the metadata with which the run can be repeated
(:mod:`~tfmr.train.metadata`).
"""
