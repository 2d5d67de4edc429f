"""Corpora, tokenizers and batches.

From the bottom up: :mod:`~tfmr.data.text` (the form of a text); :mod:`~tfmr.data.bpe` (byte-pair
encoding in plain Python) and :mod:`~tfmr.data.tokenizer`; the pocket grammar, with its vocabulary
in :mod:`~tfmr.data.lexicon`, one module per language (:mod:`~tfmr.data.english`,
:mod:`~tfmr.data.french`, :mod:`~tfmr.data.korean`) and the sampling of sentences in
:mod:`~tfmr.data.pocket`; :mod:`~tfmr.data.corpus` (the type), :mod:`~tfmr.data.lines` (text files)
and :mod:`~tfmr.data.corpora` (every corpus by name); a user's own files, in
:mod:`~tfmr.data.tables` (reading them), :mod:`~tfmr.data.script` (Latin or Cyrillic) and
:mod:`~tfmr.data.own_files` (filtering and splitting); :mod:`~tfmr.data.fitting` (what a model can
process); :mod:`~tfmr.data.tokenfile` (token ids on disk) and :mod:`~tfmr.data.batches`;
:mod:`~tfmr.data.report` (what a user should know of a corpus).
"""
