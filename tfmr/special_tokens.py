"""The four token ids that mean something before any word does, the same in every vocabulary."""

PAD = 0
"""Fills the short sentences of a batch. Never read by attention, never scored by the loss."""
BOS = 1
"""Begin of sentence: what the decoder is given before it has said anything."""
EOS = 2
"""End of sentence: what the decoder says when it is done."""
UNK = 3
"""A word that the vocabulary does not hold."""

SPECIAL = ("<pad>", "<bos>", "<eos>", "<unk>")
"""Their spellings, in the order of their ids."""
