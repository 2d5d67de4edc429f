"""Corpora, tokenizers and batches.

From the bottom up: :mod:`~tfmr.data.text` (the form of a text); :mod:`~tfmr.data.bpe` (byte-pair
encoding in plain Python) and :mod:`~tfmr.data.tokenizer`; the pocket grammar, with its vocabulary
in :mod:`~tfmr.data.lexicon`, one module per language (:mod:`~tfmr.data.english`,
:mod:`~tfmr.data.french`, :mod:`~tfmr.data.korean`) and the sampling of sentences in
:mod:`~tfmr.data.pocket`; :mod:`~tfmr.data.corpus` (the type) and :mod:`~tfmr.data.corpora` (every
corpus by name); :mod:`~tfmr.data.tokenfile` (token ids on disk) and :mod:`~tfmr.data.batches`.
"""
