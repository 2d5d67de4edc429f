"""The work that every system does: model sizes, sentences, and the FLOPs that they take."""

import functools
import random
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import torch
from jaxtyping import Int
from torch import Tensor

from tfmr.config import TransformerConfig
from tfmr.data import corpora
from tfmr.data.batches import Batch, Batches, IdPair, collate, pad
from tfmr.data.tokenizer import Tokenizer
from tfmr.errors import TfmrError
from tfmr.special_tokens import PAD, UNK

VOCAB = 8000
LENGTHS = Path(__file__).with_name("multi30k-lengths.tsv")
"""The number of sentence pairs of Multi30k (German, English) with each pair of lengths, in tokens
of the joint vocabulary. Used when the corpus itself is not available."""


@dataclass(frozen=True)
class Setting:
    """Model sizes and batch size of a training task."""

    d_model: int
    n_heads: int
    d_ff: int
    n_blocks: int
    """Blocks of the encoder, and as many of the decoder."""
    tokens: int | None
    """Tokens per batch of Multi30k, padding included; ``None`` for 32 sentences of 32 tokens."""

    def config(self, max_length: int = 128) -> TransformerConfig:
        """The paper's model in these sizes, without dropout."""
        return TransformerConfig(
            source_vocab=VOCAB,
            target_vocab=VOCAB,
            d_model=self.d_model,
            n_heads=self.n_heads,
            d_ff=self.d_ff,
            n_encoder=self.n_blocks,
            n_decoder=self.n_blocks,
            dropout=0.0,
            max_length=max_length,
        )


SETTINGS = {
    "A": Setting(d_model=256, n_heads=4, d_ff=1024, n_blocks=3, tokens=4096),
    "B": Setting(d_model=512, n_heads=8, d_ff=2048, n_blocks=6, tokens=None),
}
"""A: a small model on Multi30k. B: the paper's base model on sentences of 32 tokens."""


def token_pairs() -> tuple[list[IdPair], str]:
    """Multi30k, German to English, as ids, and a description of their origin.

    Without the corpus and without a network, random ids replace it, with the same number of
    sentences and the same lengths (:data:`LENGTHS`): the amount of work depends on nothing else.
    """
    try:
        corpus = corpora.load("multi30k", "de-en")
    except TfmrError:
        return generated_pairs(), "generated, with the sentence lengths of multi30k de-en"
    tokenizer = Tokenizer.train_bpe([text for pair in corpus.train for text in pair], VOCAB)
    sides = [tokenizer.encode_batch([pair[side] for pair in corpus.train]) for side in (0, 1)]
    return list(zip(*sides, strict=True)), "multi30k de-en"


@functools.cache
def generated_pairs() -> list[IdPair]:
    """Random ids in sentences with the lengths of Multi30k."""
    rng = random.Random(0)
    pairs: list[IdPair] = []
    for line in LENGTHS.read_text("utf-8").splitlines()[1:]:
        source, target, count = map(int, line.split("\t"))
        for _ in range(count):
            ids = [rng.randrange(UNK + 1, VOCAB) for _ in range(source + target)]
            pairs.append((ids[:source], ids[source:]))
    rng.shuffle(pairs)
    return pairs


def count_lengths(pairs: list[IdPair]) -> str:
    """The content of :data:`LENGTHS` for ``pairs``."""
    counts = Counter((len(source), len(target)) for source, target in pairs)
    rows = (f"{source}\t{target}\t{count}" for (source, target), count in sorted(counts.items()))
    return "source\ttarget\tcount\n" + "\n".join(rows) + "\n"


def training_batches(setting: Setting, pairs: list[IdPair], count: int, seed: int) -> list[Batch]:
    """The first ``count`` training batches of a setting."""
    if setting.tokens is None:
        generator = torch.Generator().manual_seed(seed)
        drawn = torch.randint(UNK + 1, VOCAB, (count, 2, 32, 32), generator=generator).tolist()
        # BOS or EOS makes a target of 31 ids as long as the source of 32.
        return [
            collate([(source, target[:31]) for source, target in zip(*sides, strict=True)])
            for sides in drawn
        ]
    batches: list[Batch] = []
    stream = Batches(pairs, setting.tokens, seed, max_length=128)
    epoch = 0
    while len(batches) < count:
        batches.extend(list(stream.epoch(epoch))[: count - len(batches)])
        epoch += 1
    return batches


def source_batches(
    pairs: list[IdPair], sentences: int, max_length: int, count: int, seed: int
) -> list[Int[Tensor, "_ _"]]:
    """``count`` batches of ``sentences`` sources each, of at most ``max_length`` tokens."""
    fitting = [source for source, _ in pairs if len(source) <= max_length]
    chosen = random.Random(seed).sample(fitting, count * sentences)
    return [pad(chosen[first : first + sentences]) for first in range(0, len(chosen), sentences)]


def training_flops(config: TransformerConfig, batch: Batch) -> float:
    """Floating-point operations of a training step: those of its matrix multiplications.

    The product of (a, b) and (b, c) takes 2abc operations. A training step takes three times as
    many as its forward pass: one more product for the gradient of each factor. Embeddings, layer
    norms, softmax and Adam are not counted. The count is the same for every system: all positions
    of the batch, padding included, but vocabulary scores for real tokens only.
    """
    d, ff = config.d_model, config.d_ff
    rows, n = batch.source.shape
    m = batch.target_in.shape[1]
    encoder = 4 * d * d * n + 2 * d * n * n + 2 * d * ff * n
    own = 4 * d * d * m + 2 * d * m * m
    cross = 2 * d * d * (m + n) + 2 * d * m * n
    decoder = own + cross + 2 * d * ff * m
    real = int((batch.target_out != PAD).sum())
    stacks = rows * (config.n_encoder * encoder + config.n_decoder * decoder)
    return 3 * 2 * float(stacks + real * d * config.target_vocab)


def decoding_flops(
    config: TransformerConfig, source: Int[Tensor, "batch source"], steps: int, beam: int = 1
) -> float:
    """Floating-point operations of incremental decoding, ``steps`` tokens per hypothesis.

    The source is encoded once, and projected once to keys and values in every decoder block. Then
    each token passes through the decoder alone and attends to the prefix and to the source.
    """
    d, ff = config.d_model, config.d_ff
    rows, n = source.shape
    encoder = 4 * d * d * n + 2 * d * n * n + 2 * d * ff * n
    generated = steps * (6 * d * d + 2 * d * ff + 2 * d * n) + d * steps * (steps + 1)
    sentence = config.n_encoder * encoder + config.n_decoder * (2 * d * d * n + beam * generated)
    return 2 * float(rows * (sentence + beam * steps * d * config.target_vocab))
