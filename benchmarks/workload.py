"""What every system is given to do: sizes, sentences, and the arithmetic that they cost."""

import random
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import torch
from jaxtyping import Int
from torch import Tensor

from tfmr.data import corpora
from tfmr.data.batches import Batch, Batches, IdPair, collate, pad
from tfmr.data.tokenizer import Tokenizer
from tfmr.errors import TfmrError
from tfmr.model import TransformerConfig
from tfmr.special_tokens import PAD, UNK

VOCAB = 8000
LENGTHS = Path(__file__).with_name("multi30k-lengths.tsv")
"""How often each pair of lengths occurs in Multi30k, German and English, in pieces of the joint
vocabulary: for those who have no copy of it."""


@dataclass(frozen=True)
class Setting:
    """The sizes of a model, and of the batches that it is trained on."""

    d_model: int
    n_heads: int
    d_ff: int
    n_blocks: int
    """Blocks of the encoder, and of the decoder."""
    tokens: int | None
    """Padded target tokens in a batch of Multi30k; ``None`` for 32 sentences of 32 tokens."""

    def config(self, max_length: int = 128) -> TransformerConfig:
        """The model of the paper in these sizes, without dropout."""
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
"""A small model on the captions of Multi30k, and the paper's base model on sentences of 32."""


def tokenised() -> tuple[list[IdPair], str]:
    """Multi30k, German to English, as ids, and a word on where they come from.

    Without the corpus and without a network, ids drawn by chance stand in for it, as many and in
    sentences as long as its own (:data:`LENGTHS`): a model's work depends on nothing else.
    """
    try:
        corpus = corpora.load("multi30k", "de-en")
    except TfmrError:
        return generated(), "generated, in sentences as long as those of multi30k de-en"
    tokenizer = Tokenizer.train_bpe([text for pair in corpus.train for text in pair], VOCAB)
    sides = [tokenizer.encode_batch([pair[side] for pair in corpus.train]) for side in (0, 1)]
    return list(zip(*sides, strict=True)), "multi30k de-en"


def generated() -> list[IdPair]:
    """Sentences by chance, in the lengths of Multi30k."""
    chance = random.Random(0)
    pairs: list[IdPair] = []
    for line in LENGTHS.read_text("utf-8").splitlines()[1:]:
        source, target, count = map(int, line.split("\t"))
        for _ in range(count):
            ids = [chance.randrange(UNK + 1, VOCAB) for _ in range(source + target)]
            pairs.append((ids[:source], ids[source:]))
    chance.shuffle(pairs)
    return pairs


def lengths(pairs: list[IdPair]) -> str:
    """The text of :data:`LENGTHS`, for the sentences of ``pairs``."""
    counts = Counter((len(source), len(target)) for source, target in pairs)
    rows = (f"{source}\t{target}\t{count}" for (source, target), count in sorted(counts.items()))
    return "source\ttarget\tcount\n" + "\n".join(rows) + "\n"


def training_batches(setting: Setting, pairs: list[IdPair], count: int, seed: int) -> list[Batch]:
    """The first ``count`` batches that a system of this setting is trained on."""
    if setting.tokens is None:
        chance = torch.Generator().manual_seed(seed)
        drawn = torch.randint(UNK + 1, VOCAB, (count, 2, 32, 32), generator=chance).tolist()
        # With BOS or EOS a target of 31 has 32 tokens, as many as the source.
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


def sources(
    pairs: list[IdPair], sentences: int, longest: int, count: int, seed: int
) -> list[Int[Tensor, "_ _"]]:
    """``count`` batches of ``sentences`` sources each, of at most ``longest`` tokens."""
    fitting = [source for source, _ in pairs if len(source) <= longest]
    chosen = random.Random(seed).sample(fitting, count * sentences)
    return [pad(chosen[first : first + sentences]) for first in range(0, len(chosen), sentences)]


def training_flops(config: TransformerConfig, batch: Batch) -> float:
    """Floating-point operations that a training step cannot do without: its matrix products.

    A product of (a, b) and (b, c) takes 2abc, and a training step three times its forward pass: one
    more product for the gradient of each factor. Embeddings, norms, softmax and Adam are left out.
    Every system is given the same count: positions of the batch with its padding, but scores over
    the vocabulary for real tokens only.
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
    """The same of a translation with a cache, ``steps`` tokens of each hypothesis.

    The source is encoded once, and so are its keys and values in every block of the decoder; then
    each token goes through the decoder alone and reads what was said before it and the source.
    """
    d, ff = config.d_model, config.d_ff
    rows, n = source.shape
    encoder = 4 * d * d * n + 2 * d * n * n + 2 * d * ff * n
    said = steps * (6 * d * d + 2 * d * ff + 2 * d * n) + d * steps * (steps + 1)
    sentence = config.n_encoder * encoder + config.n_decoder * (2 * d * d * n + beam * said)
    return 2 * float(rows * (sentence + beam * steps * d * config.target_vocab))
