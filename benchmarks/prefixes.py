"""T5 on two tasks with the same inputs: a prefix selects the language of the translation.

Every input is an English caption of Multi30k in lower case; the output is its German or its French
translation. The prefixes are texts, as in Raffel et al. (2020, section 2.4), and the baseline is
the same model without prefixes, which can only guess the language.

The optimiser is Adafactor, as in the paper (section 3.1.2). Its steps are proportional to the size
of the weights, and those of T5's embedding, with unit variance, are larger than all others.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import count
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from tqdm import tqdm

from tfmr.data import corpora
from tfmr.data.batches import Batch, Batches, IdPair, pad
from tfmr.data.corpus import SentencePair
from tfmr.data.tokenizer import Tokenizer
from tfmr.family.generate import answer
from tfmr.family.t5 import T5, T5Config
from tfmr.family.training import train
from tfmr.metrics import bleu
from tfmr.special_tokens import BOS, EOS, PAD

PREFIXES = {
    "german": "translate english to german: ",
    "french": "translate english to french: ",
}
VOCAB = 4000
CONFIG = T5Config(
    vocab=VOCAB,
    d_model=128,
    d_k=32,
    d_ff=256,
    n_encoder=2,
    n_decoder=2,
    n_heads=4,
    dropout=0.0,
)
TOKENS_PER_BATCH, PEAK_LR = 2000, 1e-2
MAX_LENGTH = 80
"""Maximum number of tokens of an input or an output, in training and in the test."""
EXAMPLE = "two dogs are running through the snow."
"""An input whose translations are recorded."""


def settings() -> dict[str, Any]:
    """The settings of the record."""
    return {
        "prefixes": PREFIXES,
        "tokens_per_batch": TOKENS_PER_BATCH,
        "optimiser": "Adafactor",
        "peak_lr": PEAK_LR,
        "max_length": MAX_LENGTH,
        **asdict(CONFIG),
    }


def rows(seeds: Sequence[int], steps: int) -> Iterator[dict[str, Any]]:
    """BLEU by language: of the inputs themselves, and of T5 with and without prefixes."""
    training, test = load()
    tokenizer = train_tokenizer(training)
    yield {
        "model": "inputs without translation",
        **{
            language: bleu([source for source, _ in pairs], [out for _, out in pairs]).score
            for language, pairs in test.items()
        },
    }
    for prefix in (True, False):
        prefixes = PREFIXES if prefix else dict.fromkeys(PREFIXES, "")
        examples = encode(tokenizer, training, prefixes)
        for seed in tqdm(seeds, desc="T5"):
            model = train_t5(examples, steps, seed)
            scores, outputs = {}, {}
            for language, pairs in test.items():
                sources = [prefixes[language] + source for source in (EXAMPLE, *dict(pairs))]
                found = dict(zip(sources, translate(model, tokenizer, sources), strict=True))
                outputs[f"{language}_output"] = found[prefixes[language] + EXAMPLE]
                scores[language] = bleu(
                    [found[prefixes[language] + source] for source, _ in pairs],
                    [expected for _, expected in pairs],
                ).score
            yield {
                "model": "T5 with prefixes" if prefix else "T5 without prefixes",
                "seed": seed,
                "steps": steps,
                "parameters": sum(parameter.numel() for parameter in model.parameters()),
                **scores,
                "input": EXAMPLE,
                **outputs,
            }


Pairs = dict[str, list[SentencePair]]
"""Sentence pairs by the language of their outputs."""


def load() -> tuple[Pairs, Pairs]:
    """The training and the test pairs of Multi30k in lower case."""
    data = {
        language: corpora.load("multi30k", f"en-{code}")
        for language, code in (("german", "de"), ("french", "fr"))
    }
    return (
        {language: lower(list(corpus.train)) for language, corpus in data.items()},
        {language: lower(corpus.test) for language, corpus in data.items()},
    )


def lower(pairs: Sequence[SentencePair]) -> list[SentencePair]:
    """The pairs in lower case."""
    return [(source.lower(), target.lower()) for source, target in pairs]


def train_tokenizer(training: Pairs) -> Tokenizer:
    """A byte-pair encoding of all texts and prefixes."""
    texts = [text for pairs in training.values() for pair in pairs for text in pair]
    return Tokenizer.train_bpe([*PREFIXES.values(), *texts], VOCAB)


def encode(tokenizer: Tokenizer, training: Pairs, prefixes: dict[str, str]) -> list[IdPair]:
    """The examples of both languages as ids."""
    sources = [prefixes[name] + source for name, pairs in training.items() for source, _ in pairs]
    targets = [target for pairs in training.values() for _, target in pairs]
    return list(zip(tokenizer.encode_batch(sources), tokenizer.encode_batch(targets), strict=True))


def train_t5(examples: Sequence[IdPair], steps: int, seed: int) -> T5:
    """Train a T5 with :data:`CONFIG` on all examples, in random order."""
    planner = Batches(examples, TOKENS_PER_BATCH, seed, MAX_LENGTH)
    batches = (batch for epoch in count() for batch in planner.epoch(epoch))
    with torch.random.fork_rng([]):
        torch.manual_seed(seed)
        model = T5(CONFIG)
        train(
            model,
            lambda: loss(model, next(batches)),
            steps,
            PEAK_LR,
            make_optimizer=torch.optim.Adafactor,
        )
    return model


def loss(model: T5, batch: Batch) -> Tensor:
    """The cross-entropy per token of the outputs."""
    logits = model(batch.source, batch.target_in, batch.source != PAD)
    return F.cross_entropy(logits.flatten(0, 1), batch.target_out.flatten(), ignore_index=PAD)


def translate(model: T5, tokenizer: Tokenizer, texts: Sequence[str]) -> list[str]:
    """The greedy outputs of ``model``."""
    outputs: list[str] = []
    for start in range(0, len(texts), 100):
        source = pad(tokenizer.encode_batch(texts[start : start + 100]))
        ids = answer(model, source, MAX_LENGTH, start=BOS, eos=EOS)
        outputs += map(tokenizer.decode, ids)
    return outputs
