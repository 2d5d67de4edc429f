"""``python -m benchmarks.family EXPERIMENT``: the models of the family and their baselines.

``gpt`` and ``bert`` train the models on the English captions of Multi30k and compare them with
n-gram models. ``changes`` trains a decoder-only model of the pocket grammar with the block of 2017,
with each later change made separately, and with all of them. ``digits`` trains ViT on the digits of
scikit-learn and compares it with a linear classifier. ``tasks`` trains T5 on three tasks, with and
without prefixes.
"""

import math
import random
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
import tyro
from jaxtyping import Float, Int
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from torch import Tensor
from torch.nn import functional as F
from tqdm import tqdm

from benchmarks import record
from benchmarks.bootstrap import interval, ratio_of_sums, resample
from tfmr.data import corpora
from tfmr.data.tokenizer import Tokenizer
from tfmr.errors import TfmrError, require
from tfmr.family import GPT, Bert, BertConfig, GPTConfig, Llama, LlamaConfig
from tfmr.family.bert import mask_tokens
from tfmr.family.digits import CONFIG as VIT
from tfmr.family.digits import split_digits, train_vit
from tfmr.family.generate import generate
from tfmr.family.language_model import LanguageModel
from tfmr.family.ngram import NGram
from tfmr.family.tasks import CONFIG as T5
from tfmr.family.tasks import TASKS, accuracy, train_t5
from tfmr.family.training import train
from tfmr.special_tokens import BOS, EOS, PAD, SPECIAL

Rows = Iterator[dict[str, Any]]

MASK = len(SPECIAL)
"""The id of BERT's mask token; the ids of the tokenizer above it are shifted by one."""
VOCAB = 2000
BATCH = 32
ORDERS = (1, 2, 3, 4)
PROMPTS = ("a man in", "two dogs", "a little girl is")
MODEL: dict[str, Any] = {"d_model": 128, "n_heads": 4, "d_ff": 512, "n_layers": 2, "dropout": 0.0}
PEAK_LR = 3e-3

ORIGINAL = LlamaConfig(
    vocab=VOCAB, d_model=32, n_layers=2, n_heads=4, d_ff=128, max_length=80, n_kv_heads=4
).original()
"""The decoder block of 2017 without cross-attention, with learned positions."""
CHANGES: dict[str, dict[str, Any]] = {
    "pre-norm": {"norm": "pre"},
    "RMSNorm": {"norm_kind": "rms"},
    "GELU": {"inner": "gelu"},
    "SwiGLU": {"inner": "swiglu", "d_ff": 85},
    "rotary positions": {"position": "rotary"},
    "grouped-query attention": {"n_kv_heads": 2},
    "no biases": {"bias": False},
    "separate output matrix": {"tied": False},
}
"""Each change since 2017. SwiGLU has two thirds of the inner size, for as many weights."""
CURRENT = {key: value for change in CHANGES.values() for key, value in change.items()}


@dataclass(frozen=True)
class Family:
    """Train the models of the family and their baselines, and record the results."""

    experiment: tyro.conf.Positional[Literal["gpt", "bert", "changes", "digits", "tasks"]]
    """What to measure."""
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    """Seeds of weights and batches."""
    steps: int = 400
    """Training steps of each model."""
    threads: int = 1
    """CPU threads."""
    out: Path | None = None
    """The record; family-EXPERIMENT.json if not given."""

    def __call__(self) -> None:
        """Train and record."""
        require(self.steps >= 1, f"expected --steps of 1 or more, got {self.steps}")
        torch.set_num_threads(self.threads)
        metadata = record.collect_metadata()
        measure, settings = EXPERIMENTS[self.experiment]
        out = self.out or record.FOLDER / f"family-{self.experiment}.json"
        settings = {"experiment": self.experiment, "seeds": list(self.seeds), **settings}
        record.write(out, "family", measure(self), settings=settings, metadata=metadata)
        print(f"wrote {out}; next: python -m benchmarks.tables")


@dataclass(frozen=True)
class Texts:
    """A corpus as ids, without ``BOS`` and ``EOS``."""

    tokenizer: Tokenizer
    train: list[list[int]]
    valid: list[list[int]]
    test: list[list[int]]


def load_captions() -> Texts:
    """The English captions of Multi30k in lower case, with a tokenizer of :data:`VOCAB` tokens."""
    corpus = corpora.load("multi30k", "de-en")
    return encoded(corpus, lambda texts: Tokenizer.train_bpe(texts, VOCAB))


def load_pocket() -> Texts:
    """The English sentences of the pocket grammar; every word is a token."""
    return encoded(corpora.load("pocket", "en-fr"), Tokenizer.words)


def encoded(corpus: corpora.Corpus, make: Callable[[list[str]], Tokenizer]) -> Texts:
    """The English side of ``corpus`` in lower case."""
    english = 0 if corpus.source == "en" else 1
    texts = [
        [pair[english].lower() for pair in pairs]
        for pairs in (corpus.train, corpus.valid, corpus.test)
    ]
    tokenizer = make(texts[0])
    return Texts(tokenizer, *(tokenizer.encode_batch(split) for split in texts))


def pad(texts: Sequence[Sequence[int]]) -> Int[Tensor, "batch length"]:
    """A batch with ``BOS``, ``EOS`` and padding."""
    length = max(map(len, texts)) + 2
    rows = [[BOS, *text, EOS] + [PAD] * (length - len(text) - 2) for text in texts]
    return torch.tensor(rows)


def batches(
    texts: Sequence[list[int]], seed: int, size: int | None = None
) -> Iterator[Int[Tensor, "batch length"]]:
    """Random batches of texts of similar lengths, without end; ``None``: of :data:`BATCH` texts."""
    size = size or BATCH
    rng = random.Random(seed)
    while True:
        shuffled = sorted(texts, key=lambda text: (len(text), rng.random()))
        groups = [shuffled[i : i + size] for i in range(0, len(shuffled), size)]
        rng.shuffle(groups)
        yield from map(pad, groups)


def train_language_model(
    model: LanguageModel, texts: Sequence[list[int]], steps: int, seed: int
) -> None:
    """Train on the next token of every position."""
    source = batches(texts, seed)

    def loss() -> Tensor:
        ids = next(source)
        return next_token_nats(model, ids).sum() / (ids[:, 1:] != PAD).sum()

    train(model, loss, steps, PEAK_LR)


def next_token_nats(
    model: LanguageModel, ids: Int[Tensor, "batch length"]
) -> Float[Tensor, "batch"]:
    """The sum of the cross-entropies of all tokens of a text after the first, in nats."""
    logits = model(ids[:, :-1]).transpose(1, 2)
    nats = F.cross_entropy(logits, ids[:, 1:], ignore_index=PAD, reduction="none")
    return nats.sum(dim=1)


@torch.no_grad()
def evaluate(model: LanguageModel, texts: Sequence[list[int]]) -> list[float]:
    """The cross-entropy of each text and its ``EOS``."""
    order = sorted(range(len(texts)), key=lambda index: len(texts[index]))
    found = [0.0] * len(texts)
    for start in range(0, len(order), 100):
        rows = order[start : start + 100]
        nats = next_token_nats(model, pad([texts[row] for row in rows]))
        for row, value in zip(rows, nats.tolist(), strict=True):
            found[row] = value
    return found


def gpt_rows(family: Family) -> Rows:
    """Perplexity of GPT and of n-gram models."""
    data = load_captions()
    lengths = np.array([len(text) + 1.0 for text in data.test])
    counts = resample(len(lengths))
    grams = {order: NGram(data.train, order, data.tokenizer.vocab_size) for order in ORDERS}
    baseline: dict[int, np.ndarray] = {}
    for order, gram in grams.items():
        baseline[order] = np.array([gram.nats(text) for text in data.test])
        yield {
            "model": "frequencies" if order == 1 else f"{order}-gram",
            "perplexity": perplexity(baseline[order].sum() / lengths.sum()),
        }
    best = min(baseline, key=lambda order: float(baseline[order].sum()))
    for seed in tqdm(family.seeds, desc="GPT"):
        torch.manual_seed(seed)
        gpt = GPT(GPTConfig(vocab=data.tokenizer.vocab_size, max_length=80, **MODEL))
        train_language_model(gpt, data.train, family.steps, seed)
        own = np.array(evaluate(gpt, data.test))
        yield {
            "model": "GPT",
            "seed": seed,
            "steps": family.steps,
            "parameters": gpt.count_parameters(),
            "perplexity": perplexity(own.sum() / lengths.sum()),
            "ahead_of_n_gram_nats": interval(ratio_of_sums(baseline[best] - own, lengths, counts)),
            "continuations": continue_prompts(gpt, data.tokenizer),
        }


def perplexity(nats_per_token: float) -> float:
    """The exponential of the mean cross-entropy."""
    return round(math.exp(nats_per_token), 3)


def continue_prompts(gpt: GPT, tokenizer: Tokenizer) -> list[str]:
    """The greedy continuation of each of :data:`PROMPTS`."""
    prompts = [[BOS, *tokenizer.encode(prompt)] for prompt in PROMPTS]
    found = generate(gpt, prompts, 30, eos=EOS)
    return [tokenizer.decode([*p[1:], *f]) for p, f in zip(prompts, found, strict=True)]


def bert_rows(family: Family) -> Rows:
    """Accuracy at one random token of each test caption, given all others."""
    data = load_captions()
    trigram = NGram(data.train, 3, data.tokenizer.vocab_size)
    rng = random.Random(0)
    gaps = [(text, rng.randrange(len(text))) for text in data.test if text]
    expected = np.array([text[position] for text, position in gaps])
    counts, ones = resample(len(gaps)), np.ones(len(gaps))
    frequent = np.bincount([token for text in data.train for token in text]).argmax()
    yield {"model": "most frequent token", "accuracy": round((expected == frequent).mean(), 4)}
    found = [int(trigram.fill(text, position).argmax()) for text, position in tqdm(gaps)]
    baseline = (np.array(found) == expected).astype(float)
    yield {"model": "3-gram on both sides", "accuracy": round(baseline.mean(), 4)}
    texts = [[shift(token) for token in text] for text in data.train]
    vocab = data.tokenizer.vocab_size + 1
    for seed in tqdm(family.seeds, desc="BERT"):
        torch.manual_seed(seed)
        bert = Bert(BertConfig(vocab=vocab, max_length=80, **MODEL))
        train_bert(bert, texts, family.steps, seed)
        own = np.array([predict(bert, text, at) == text[at] for text, at in gaps]).astype(float)
        yield {
            "model": "BERT",
            "seed": seed,
            "steps": family.steps,
            "parameters": sum(parameter.numel() for parameter in bert.parameters()),
            "accuracy": round(own.mean(), 4),
            "ahead_of_n_gram": interval(ratio_of_sums(own - baseline, ones, counts)),
        }


def shift(token: int) -> int:
    """The id of a token of the tokenizer in BERT's vocabulary, which contains the mask token."""
    return token + (token >= MASK)


def train_bert(bert: Bert, texts: Sequence[list[int]], steps: int, seed: int) -> None:
    """Train on masked tokens."""
    generator = torch.Generator().manual_seed(seed)
    source = batches(texts, seed)

    def loss() -> Tensor:
        ids = next(source)
        hidden, labels = mask_tokens(
            ids, mask_id=MASK, first_word=MASK + 1, vocab=bert.config.vocab, generator=generator
        )
        x = bert.hidden(hidden, ids != PAD)
        chosen = labels != -100
        return F.cross_entropy(bert.scores(x[chosen]), labels[chosen])

    train(bert, loss, steps, PEAK_LR)


@torch.no_grad()
def predict(bert: Bert, text: Sequence[int], position: int) -> int:
    """The most probable token of the tokenizer at ``position`` of ``text``, given all others."""
    ids = pad([[shift(token) for token in text]])
    ids[0, position + 1] = MASK
    token = int(bert(ids)[0, position + 1].argmax())
    return token - (token > MASK)


def changes(family: Family) -> Rows:
    """Validation loss of the block of 2017, of each change, and of all changes."""
    data = load_pocket()
    original = replace(ORIGINAL, vocab=data.tokenizer.vocab_size)
    tokens = sum(len(text) + 1 for text in data.valid)
    variants = {"2017": {}, **CHANGES, "all changes": CURRENT}
    for name, change in tqdm(variants.items(), unit=" variants"):
        config = replace(original, **change)
        for seed in family.seeds:
            torch.manual_seed(seed)
            model = Llama(config)
            train_language_model(model, data.train, family.steps, seed)
            yield {
                "model": name,
                "seed": seed,
                "steps": family.steps,
                "parameters": model.count_parameters(),
                "loss": round(sum(evaluate(model, data.valid)) / tokens, 4),
            }


def digits(family: Family) -> Rows:
    """Accuracy of ViT, of logistic regression and of the most frequent class."""
    images, targets = load_digits(return_X_y=True)
    for seed in tqdm(family.seeds, desc="ViT"):
        data = split_digits(images, targets, seed)
        flat, labels = data.train_images.flatten(1).numpy(), data.train_labels.numpy()
        test, expected = data.test_images.flatten(1).numpy(), data.test_labels.numpy()
        majority = (expected == np.bincount(labels).argmax()).mean()
        yield {"model": "most frequent digit", "seed": seed, "accuracy": round(majority, 4)}
        linear = LogisticRegression(max_iter=1000).fit(flat, labels).score(test, expected)
        yield {"model": "logistic regression", "seed": seed, "accuracy": round(linear, 4)}
        vit = train_vit(data, family.steps, seed)
        with torch.no_grad():
            correct = (vit(data.test_images).argmax(dim=1) == data.test_labels).float().mean()
        yield {
            "model": "ViT",
            "seed": seed,
            "steps": family.steps,
            "parameters": sum(parameter.numel() for parameter in vit.parameters()),
            "accuracy": round(correct.item(), 4),
        }


def tasks(family: Family) -> Rows:
    """Accuracy of T5 by task, with the prefixes and with the same token for all tasks."""
    for prefix in (True, False):
        for seed in tqdm(family.seeds, desc="T5"):
            model = train_t5(family.steps, seed, prefix=prefix)
            by_task = accuracy(model, seed, prefix=prefix)
            yield {
                "model": "T5 with prefixes" if prefix else "T5 without prefixes",
                "seed": seed,
                "steps": family.steps,
                "parameters": sum(parameter.numel() for parameter in model.parameters()),
                **{task: round(by_task[task], 4) for task in TASKS},
            }


Experiment = tuple[Callable[[Family], Rows], dict[str, Any]]
EXPERIMENTS: dict[str, Experiment] = {
    "gpt": (gpt_rows, {"vocab": VOCAB, "batch": BATCH, "peak_lr": PEAK_LR, **MODEL}),
    "bert": (bert_rows, {"vocab": VOCAB, "batch": BATCH, "peak_lr": PEAK_LR, **MODEL}),
    "changes": (changes, {"batch": BATCH, "peak_lr": PEAK_LR, **asdict(ORIGINAL)}),
    "digits": (digits, asdict(VIT)),
    "tasks": (tasks, {"tasks": list(TASKS), **asdict(T5)}),
}


if __name__ == "__main__":
    try:
        tyro.cli(Family, prog="python -m benchmarks.family")()
    except TfmrError as error:
        sys.exit(f"benchmarks.family: {error}")
