"""The four special token ids, the same in every vocabulary."""

PAD = 0
"""Pads the short sentences of a batch. Masked in attention and ignored by the loss."""
BOS = 1
"""Beginning of sentence: the first input of the decoder."""
EOS = 2
"""End of sentence: the last token that the decoder generates."""
UNK = 3
"""A word that is not in the vocabulary."""

SPECIAL = ("<pad>", "<bos>", "<eos>", "<unk>")
"""The strings of the special tokens, in the order of their ids."""
