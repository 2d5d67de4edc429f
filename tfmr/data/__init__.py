"""Data for the book: a grammar that writes its own corpus, real corpora, tokenizers and batches.

From the bottom up: :mod:`~tfmr.data.bpe` (byte-pair encoding by hand) and
:mod:`~tfmr.data.tokenizer`; :mod:`~tfmr.data.lexicon`, the same sentences in
:mod:`~tfmr.data.english`, :mod:`~tfmr.data.french` and :mod:`~tfmr.data.korean`, and
:mod:`~tfmr.data.pocket`, which draws them; :mod:`~tfmr.data.corpus` and
:mod:`~tfmr.data.corpora` (every corpus by its name); :mod:`~tfmr.data.tokenfile` (a corpus as ids
on disk) and :mod:`~tfmr.data.batches`.
"""
