"""A small untrained Transformer, its tokenizer and its corpus: a tenth of the pocket corpus."""

from pathlib import Path

import torch

from tfmr import checkpoint
from tfmr.checkpoint import Checkpoint, named_weights
from tfmr.config import TransformerConfig
from tfmr.data import pocket
from tfmr.data.tokenizer import Tokenizer
from tfmr.model import Transformer
from tfmr.seq2seq import Seq2Seq

CORPUS = pocket.split("en-fr", 800, 20, 20)
WORDS = Tokenizer.words(text for pair in CORPUS.train for text in pair)


def small_model() -> Transformer:
    """Two encoder blocks and a decoder block, with the same weights in each call."""
    torch.manual_seed(0)
    config = TransformerConfig(
        source_vocab=WORDS.vocab_size, target_vocab=WORDS.vocab_size, d_model=16, n_heads=2,
        d_ff=16, n_encoder=2, n_decoder=1, norm="pre", max_length=32,
    )  # fmt: skip
    return Transformer(config).eval()


def saved(model: Transformer | Seq2Seq, folder: Path) -> Path:
    """A checkpoint of ``model`` in ``folder``."""
    path = folder / "model.safetensors"
    checkpoint.save(path, Checkpoint(model.config, WORDS, named_weights(model)))
    return path
