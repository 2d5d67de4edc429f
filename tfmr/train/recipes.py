"""Recipes: for each corpus, a model and a way to train it that work on two CPU cores."""

from dataclasses import dataclass, field
from typing import Literal

from tfmr.data.corpus import Corpus
from tfmr.data.tokenizer import Tokenizer
from tfmr.layers import Norm
from tfmr.model import TransformerConfig
from tfmr.train.loop import TrainConfig


@dataclass(frozen=True)
class Recipe:
    """A vocabulary, a model, and a way to train it."""

    vocabulary: Literal["words", "bpe"] = "bpe"
    """Whole words, or byte-pair pieces shared by both languages."""
    vocab_size: int = 5000
    """Number of byte-pair tokens at most; words take what they need."""
    d_model: int = 128
    n_heads: int = 4
    d_ff: int = 512
    n_encoder: int = 3
    n_decoder: int = 3
    dropout: float = 0.15
    norm: Norm = "pre"
    max_length: int = 128
    """The longest sentence in tokens; longer pairs are left out of training."""
    tokens_per_batch: int = 2048
    """Padded tokens of the longer side in a batch, at most."""
    train: TrainConfig = field(default_factory=TrainConfig)

    def tokenizer(self, corpus: Corpus) -> Tokenizer:
        """One vocabulary for both languages, learnt from the training part."""
        texts = [text for pair in corpus.train for text in pair]
        if self.vocabulary == "words":
            return Tokenizer.words(texts)
        return Tokenizer.train_bpe(texts, self.vocab_size)

    def model(self, vocab: int) -> TransformerConfig:
        """The model's choices, for a vocabulary of ``vocab`` tokens."""
        return TransformerConfig(
            source_vocab=vocab,
            target_vocab=vocab,
            d_model=self.d_model,
            n_heads=self.n_heads,
            d_ff=self.d_ff,
            n_encoder=self.n_encoder,
            n_decoder=self.n_decoder,
            dropout=self.dropout,
            norm=self.norm,
            max_length=self.max_length,
        )


RECIPES = {
    "pocket": Recipe(
        vocabulary="words",
        d_model=64,
        d_ff=256,
        n_encoder=2,
        n_decoder=2,
        dropout=0.05,
        max_length=32,
        tokens_per_batch=1024,
        train=TrainConfig(peak=3e-3, warmup=200, average=0.99),
    ),
    "multi30k": Recipe(train=TrainConfig(peak=2.5e-3, warmup=400, average=0.998)),
    "tatoeba": Recipe(vocab_size=3000, dropout=0.3, train=TrainConfig(peak=2e-3, warmup=400)),
    "your files": Recipe(),
}
"""By the name of the corpus."""
