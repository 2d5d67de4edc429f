"""``python -m benchmarks.family EXPERIMENT``: the models of the family and their baselines.

``gpt-…``, ``llama-…`` and ``bert-…`` train the models on the sentences of the pocket grammar or on
the English captions of Multi30k, and compare them with n-gram models. ``changes`` trains a
decoder-only model of the pocket grammar with the block of 2017, with each later change made
separately, and with all of them; the peak learning rate of each variant is the one of
:data:`PEAK_LRS` with the smallest validation loss. ``digits`` trains ViT on the digits of
scikit-learn, with and without shifted images, and compares it with a linear classifier, the nearest
neighbour, a multi-layer perceptron and a convolutional network. ``tasks`` trains T5
on three tasks on letters and ``t5-multi30k`` on the translation of English captions into German and
French, both with and without prefixes.
"""

import math
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
import tyro
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F
from tqdm import tqdm

from benchmarks import digits, prefixes, record
from benchmarks.record import Record, Row
from benchmarks.tables import NOTHING, RANGE, Claims, count, grouped, markdown, select, spread
from tfmr.data import corpora
from tfmr.data.tokenizer import Tokenizer
from tfmr.decode import Sampling
from tfmr.errors import require
from tfmr.family import GPT, Bert, BertConfig, GPTConfig, Llama, LlamaConfig
from tfmr.family.bert import mask_tokens
from tfmr.family.generate import generate
from tfmr.family.language_model import LanguageModel
from tfmr.family.ngram import NGram
from tfmr.family.tasks import CONFIG as T5
from tfmr.family.tasks import TASKS, accuracy, train_t5
from tfmr.family.training import initialise_small, train
from tfmr.special_tokens import BOS, EOS, PAD, SPECIAL, UNK
from tfmr.train.intervals import interval, paired_difference, ratio_of_sums, resample

Rows = Iterator[dict[str, Any]]
Experiment = Literal[
    "gpt-pocket",
    "gpt-multi30k",
    "llama-multi30k",
    "bert-pocket",
    "bert-multi30k",
    "changes",
    "digits",
    "tasks",
    "t5-multi30k",
]

MASK = len(SPECIAL)
"""The id of BERT's mask token; the ids of the tokenizer above it are shifted by one."""
VOCAB = 2000
ORDERS = (1, 2, 3, 4)

NEIGHBOURS = {"left": (2, -2, 1, -1), "right": (-2, 2, -1, 1)}
"""The two tokens on each side of a gap, in the order in which they are dropped from the context."""

CHANGES_BATCH = 32
PEAK_LRS = (1e-3, 2e-3, 4e-3)
"""The peak learning rates from which that of each variant is selected."""
SELECTION_SEED = 99
"""The seed of the selection, which no recorded model has."""
T_NINE = 5.437
"""Quantile of Student's t, four degrees of freedom: nine intervals that hold jointly at 95 %."""

ORIGINAL = LlamaConfig(
    vocab=VOCAB, d_model=64, n_layers=4, n_heads=4, d_ff=256, max_length=80, n_kv_heads=4
).original()
"""The decoder block of 2017 without cross-attention, with learned positions."""
CHANGES: dict[str, dict[str, Any]] = {
    "pre-norm": {"norm": "pre"},
    "RMSNorm": {"norm_kind": "rms"},
    "GELU": {"inner": "gelu"},
    "SwiGLU": {"inner": "swiglu", "d_ff": 171},
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

    experiment: tyro.conf.Positional[Experiment]
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


@dataclass(frozen=True)
class Source:
    """A corpus, and texts that show what a model has learned from it."""

    load: Callable[[], Texts]
    prompts: tuple[str, ...]
    """Beginnings of sentences, for decoder-only models."""
    gaps: tuple[str, ...]
    """Sentences in which ``_`` stands for one token, for BERT."""
    d_model: int
    gpt_batch: int
    """Texts per training step of a decoder-only model, which predicts every token."""
    bert_batch: int
    """Texts per training step of BERT, which predicts 15 % of the tokens."""
    peak_lr: float

    def sizes(self) -> dict[str, Any]:
        """The hyperparameters that the models of a corpus share."""
        d_model = self.d_model
        return {
            "d_model": d_model,
            "n_heads": 4,
            "d_ff": 2 * d_model,
            "n_layers": 2,
            "dropout": 0.0,
        }


POCKET = Source(
    load_pocket,
    ("the", "these small", "a brave king does not"),
    ("these brave _ are happy .", "this brave _ is happy .", "the king does not _ a tree ."),
    d_model=64,
    gpt_batch=64,
    bert_batch=64,
    peak_lr=5e-3,
)
CAPTIONS = Source(
    load_captions,
    ("a man in", "two dogs", "a little girl is"),
    ("a man is _ a guitar .", "two dogs are running in the _ .", "a _ is riding a horse ."),
    d_model=128,
    gpt_batch=32,
    bert_batch=128,
    peak_lr=3e-3,
)


def pad(texts: Sequence[Sequence[int]]) -> Int[Tensor, "batch length"]:
    """A batch with ``BOS``, ``EOS`` and padding."""
    length = max(map(len, texts)) + 2
    rows = [[BOS, *text, EOS] + [PAD] * (length - len(text) - 2) for text in texts]
    return torch.tensor(rows)


def batches(
    texts: Sequence[list[int]], batch: int, seed: int
) -> Iterator[Int[Tensor, "batch length"]]:
    """Random batches of texts of similar lengths, without end."""
    rng = random.Random(seed)
    while True:
        shuffled = sorted(texts, key=lambda text: (len(text), rng.random()))
        groups = [shuffled[i : i + batch] for i in range(0, len(shuffled), batch)]
        rng.shuffle(groups)
        yield from map(pad, groups)


def train_language_model(
    model: LanguageModel,
    texts: Sequence[list[int]],
    steps: int,
    seed: int,
    batch: int,
    peak_lr: float,
) -> None:
    """Train on the next token of every position."""
    source = batches(texts, batch, seed)

    def loss() -> Tensor:
        ids = next(source)
        return next_token_nats(model, ids).sum() / (ids[:, 1:] != PAD).sum()

    train(model, loss, steps, peak_lr)


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


def make_gpt(vocab: int, source: Source) -> GPT:
    """An untrained GPT."""
    return GPT(GPTConfig(vocab=vocab, max_length=80, **source.sizes()))


def make_llama(vocab: int, source: Source) -> Llama:
    """An untrained Llama."""
    return Llama(LlamaConfig(vocab=vocab, max_length=80, **llama_sizes(source)))


def llama_sizes(source: Source) -> dict[str, Any]:
    """The sizes of GPT, with two key heads and as many weights in the feed-forward networks."""
    sizes = source.sizes()
    return sizes | {"d_ff": round(2 * sizes["d_ff"] / 3), "n_kv_heads": 2}


def decoder_only_rows(
    source: Source, make: Callable[[int, Source], LanguageModel], family: Family
) -> Rows:
    """Perplexity of a decoder-only model and of n-gram models on the test sentences."""
    data = source.load()
    lengths = np.array([len(text) + 1.0 for text in data.test])
    counts = resample(len(lengths))
    baseline: dict[int, np.ndarray] = {}
    for order in ORDERS:
        gram = NGram(data.train, order, data.tokenizer.vocab_size)
        baseline[order] = np.array([gram.nats(text) for text in data.test])
        yield {
            "model": "frequencies" if order == 1 else f"{order}-gram",
            "perplexity": perplexity(baseline[order].sum() / lengths.sum()),
        }
    best = min(baseline, key=lambda order: float(baseline[order].sum()))
    for seed in tqdm(family.seeds, unit=" models"):
        torch.manual_seed(seed)
        model = make(data.tokenizer.vocab_size, source)
        initialise_small(model)
        train_language_model(
            model, data.train, family.steps, seed, source.gpt_batch, source.peak_lr
        )
        own = np.array(evaluate(model, data.test))
        ahead = interval(ratio_of_sums(baseline[best] - own, lengths, counts))
        yield {
            "model": type(model).__name__,
            "seed": seed,
            "steps": family.steps,
            "parameters": model.count_parameters(),
            "perplexity": perplexity(own.sum() / lengths.sum()),
            "ahead_of_best_n_gram_nats": ahead,
            "continuations": continue_prompts(model, data.tokenizer, source.prompts, seed),
        }


def perplexity(nats_per_token: float) -> float:
    """The exponential of the mean cross-entropy."""
    return round(math.exp(nats_per_token), 3)


def continue_prompts(
    model: LanguageModel, tokenizer: Tokenizer, prompts: Sequence[str], seed: int
) -> list[dict[str, str]]:
    """The greedy continuation of each prompt, and a sampled one."""
    ids = [[BOS, *tokenizer.encode(prompt)] for prompt in prompts]
    greedy = generate(model, ids, 30, eos=EOS)
    sampled = generate(model, ids, 30, eos=EOS, sampling=Sampling(), seed=seed)
    return [
        {"prompt": prompt, "greedy": tokenizer.decode(one), "sampled": tokenizer.decode(other)}
        for prompt, one, other in zip(prompts, greedy, sampled, strict=True)
    ]


def bert_rows(source: Source, family: Family) -> Rows:
    """Perplexity and accuracy at one random token of each test sentence, given all others."""
    data = source.load()
    vocab = data.tokenizer.vocab_size
    rng = random.Random(0)
    gaps = [(text, rng.randrange(len(text))) for text in data.test if text]
    counts, ones = resample(len(gaps)), np.ones(len(gaps))
    grams: dict[str, NGram] = {
        "frequencies" if order == 1 else f"{order}-gram on both sides": NGram(
            data.train, order, vocab
        )
        for order in ORDERS
    }
    grams |= {
        f"neighbours, {side} kept longest": Neighbours(data.train, offsets, vocab)
        for side, offsets in NEIGHBOURS.items()
    }
    fills: list[Fills] = []
    for name, gram in grams.items():
        filled = [gram.fill(text, at) for text, at in tqdm(gaps, desc=name)]
        fills.append(scores_of_fills(filled, gaps))
        yield {"model": name, **summary(fills[-1])}
    # BERT is compared with the baseline that is best by the same measure.
    best_nats = min((each.nats for each in fills), key=np.mean)
    best_correct = max((each.correct for each in fills), key=np.mean)
    shifted = [[shift(token) for token in text] for text in data.train]
    for seed in tqdm(family.seeds, desc="BERT"):
        torch.manual_seed(seed)
        bert = Bert(BertConfig(vocab=vocab + 1, max_length=80, **source.sizes()))
        initialise_small(bert)
        train_bert(bert, shifted, family.steps, seed, source.bert_batch, source.peak_lr)
        own = scores_of_fills([fill(bert, text, at) for text, at in gaps], gaps)
        nats = ratio_of_sums(best_nats - own.nats, ones, counts)
        accuracy = ratio_of_sums(own.correct - best_correct, ones, counts)
        yield {
            "model": "BERT",
            "seed": seed,
            "steps": family.steps,
            "parameters": sum(parameter.numel() for parameter in bert.parameters()),
            **summary(own),
            "ahead_of_n_gram_nats": interval(nats),
            "ahead_of_n_gram_accuracy": interval(accuracy),
            "fills": [fill_text(bert, data.tokenizer, text) for text in source.gaps],
        }


class Neighbours(NGram):
    """Predicts a token from the counts of it between its neighbours, smoothed as in n-grams.

    Args:
        texts: the training texts.
        offsets: the positions of the neighbours, relative to the token; the first is dropped first.
        vocab: number of tokens, special tokens included.
    """

    def __init__(self, texts: Sequence[Sequence[int]], offsets: Sequence[int], vocab: int) -> None:
        self.offsets = offsets
        super().__init__(texts, len(offsets) + 1, vocab)

    def fill(self, text: Sequence[int], position: int) -> Float[Tensor, "vocab"]:
        """The distribution of the token at ``position``, given its neighbours."""
        *context, _ = self._gram(text, position)
        return torch.tensor([self.prob(tuple(context), token) for token in range(self.vocab)])

    def _grams(self, text: Sequence[int]) -> Iterator[tuple[int, ...]]:
        return (self._gram(text, position) for position in range(len(text)))

    def _gram(self, text: Sequence[int], position: int) -> tuple[int, ...]:
        at = [position + offset for offset in (*self.offsets, 0)]
        return tuple(BOS if i < 0 else EOS if i >= len(text) else text[i] for i in at)


@dataclass(frozen=True)
class Fills:
    """The result of a model at each gap."""

    nats: Float[np.ndarray, "gaps"]
    """The cross-entropy of the hidden token."""
    correct: Float[np.ndarray, "gaps"]
    """1 if the hidden token is the most probable one, otherwise 0."""


def scores_of_fills(
    filled: Sequence[Float[Tensor, "vocab"]], gaps: Sequence[tuple[list[int], int]]
) -> Fills:
    """Compare the predicted distributions with the hidden tokens."""
    expected = [text[at] for text, at in gaps]
    pairs = list(zip(filled, expected, strict=True))
    nats = np.array([-math.log(probs[token]) for probs, token in pairs])
    return Fills(nats, np.array([float(probs.argmax() == token) for probs, token in pairs]))


def summary(fills: Fills) -> dict[str, float]:
    """Perplexity and accuracy."""
    return {
        "perplexity": perplexity(fills.nats.mean()),
        "accuracy": round(float(fills.correct.mean()), 4),
    }


def fill_text(bert: Bert, tokenizer: Tokenizer, text: str) -> dict[str, Any]:
    """The three most probable tokens for the gap of a text, written as ``_``."""
    # A space at the end of a part would become a token of its own.
    before, after = (tokenizer.encode(part.strip()) for part in text.split("_"))
    found = fill(bert, [*before, UNK, *after], len(before)).topk(3)
    return {
        "text": text,
        "tokens": [tokenizer.decode([token]) for token in found.indices.tolist()],
        "probabilities": [round(p, 3) for p in found.values.tolist()],
    }


def shift(token: int) -> int:
    """The id of a token of the tokenizer in BERT's vocabulary, which contains the mask token."""
    return token + (token >= MASK)


def train_bert(
    bert: Bert, texts: Sequence[list[int]], steps: int, seed: int, batch: int, peak_lr: float
) -> None:
    """Train on masked tokens."""
    generator = torch.Generator().manual_seed(seed)
    source = batches(texts, batch, seed)

    def loss() -> Tensor:
        ids = next(source)
        hidden, labels = mask_tokens(
            ids, mask_id=MASK, first_word=MASK + 1, vocab=bert.config.vocab, generator=generator
        )
        x = bert.hidden(hidden, ids != PAD)
        chosen = labels != -100
        return F.cross_entropy(bert.scores(x[chosen]), labels[chosen])

    train(bert, loss, steps, peak_lr)


@torch.no_grad()
def fill(bert: Bert, text: Sequence[int], position: int) -> Float[Tensor, "vocab"]:
    """The probabilities of the tokens at ``position`` of ``text``, given all others."""
    ids = pad([[shift(token) for token in text]])
    ids[0, position + 1] = MASK
    logits = bert(ids)[0, position + 1]
    return torch.cat([logits[:MASK], logits[MASK + 1 :]]).softmax(dim=0)


def changes(family: Family) -> Rows:
    """Test loss of the block of 2017, of each change, and of all changes."""
    data = load_pocket()
    original = replace(ORIGINAL, vocab=data.tokenizer.vocab_size)
    variants = {"2017": {}, **CHANGES, "all changes": CURRENT}
    for name, change in tqdm(variants.items(), unit=" variants"):
        config = replace(original, **change)

        def train_llama(seed: int, peak_lr: float, config: LlamaConfig = config) -> Llama:
            torch.manual_seed(seed)
            model = Llama(config)
            initialise_small(model)
            train_language_model(model, data.train, family.steps, seed, CHANGES_BATCH, peak_lr)
            return model

        selection = {
            peak_lr: mean_nats(train_llama(SELECTION_SEED, peak_lr), data.valid)
            for peak_lr in PEAK_LRS
        }
        best = min(selection, key=lambda peak_lr: selection[peak_lr])
        for seed in family.seeds:
            model = train_llama(seed, best)
            yield {
                "model": name,
                "seed": seed,
                "steps": family.steps,
                "peak_lr": best,
                "parameters": model.count_parameters(),
                "loss": round(mean_nats(model, data.test), 4),
            }


def mean_nats(model: LanguageModel, texts: Sequence[list[int]]) -> float:
    """The cross-entropy per token, ``EOS`` included."""
    return sum(evaluate(model, texts)) / sum(len(text) + 1 for text in texts)


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


def text_settings(source: Source, batch: int) -> dict[str, Any]:
    """The settings of the records of a corpus."""
    return {"batch": batch, "peak_lr": source.peak_lr, **source.sizes()}


EXPERIMENTS: dict[Experiment, tuple[Callable[[Family], Rows], dict[str, Any]]] = {
    "gpt-pocket": (
        partial(decoder_only_rows, POCKET, make_gpt),
        text_settings(POCKET, POCKET.gpt_batch),
    ),
    "gpt-multi30k": (
        partial(decoder_only_rows, CAPTIONS, make_gpt),
        text_settings(CAPTIONS, CAPTIONS.gpt_batch),
    ),
    "llama-multi30k": (
        partial(decoder_only_rows, CAPTIONS, make_llama),
        text_settings(CAPTIONS, CAPTIONS.gpt_batch) | llama_sizes(CAPTIONS),
    ),
    "bert-pocket": (partial(bert_rows, POCKET), text_settings(POCKET, POCKET.bert_batch)),
    "bert-multi30k": (partial(bert_rows, CAPTIONS), text_settings(CAPTIONS, CAPTIONS.bert_batch)),
    "changes": (
        changes,
        {
            "batch": CHANGES_BATCH,
            "peak_lrs": list(PEAK_LRS),
            # The vocabulary is that of the corpus.
            **{name: value for name, value in asdict(ORIGINAL).items() if name != "vocab"},
        },
    ),
    "digits": (lambda family: digits.rows(family.seeds, family.steps), digits.settings()),
    "tasks": (tasks, {"tasks": list(TASKS), **asdict(T5)}),
    "t5-multi30k": (
        lambda family: prefixes.rows(family.seeds, family.steps),
        prefixes.settings(),
    ),
}


def table(rows: list[Row], settings: Row) -> list[str]:
    """Each measured number by model, over the seeds."""
    plain = ("model", "seed", "steps", "parameters")
    columns = [
        name
        for name in dict.fromkeys(key for row in rows for key in row)
        if name not in plain and all(isinstance(r.get(name, 0.0), float) for r in rows)
    ]
    about, form, titles = "", ".4f", {"peak_lr": "peak learning rate"}
    if "tasks" in settings:
        about = (
            " The columns *copy*, *reverse* and *sort* give the fraction of outputs without an "
            "error."
        )
    if "prefixes" in settings:
        about = (
            " The columns *German* and *French* give the BLEU of the translations from English. "
            "The row *inputs without translation* scores the English sentences themselves."
        )
        form, titles = ".2f", {name: name.capitalize() for name in columns}
    if "loss" in columns:
        about += " The loss is the cross-entropy in nats per token."
    lines = []
    for model, own in grouped(rows, "model").items():
        sizes = [f"{own[0][name]:,}" if name in own[0] else NOTHING for name in plain[2:]]
        found = [[row[name] for row in own if name in row] for name in columns]
        lines.append([model, *sizes, *(spread(numbers, form) for numbers in found)])
    seeds = settings["seeds"]
    over = f", {count(len(seeds), 'seed')}: the mean, {RANGE}" if seeds else ""
    return [
        f"The experiment `{settings['experiment']}`, evaluated on the test data{over}.{about}",
        markdown(["", *plain[2:], *(titles.get(name, name) for name in columns)], lines),
    ]


def claims(rows: list[Row], settings: Row, records: dict[str, Record]) -> Claims:
    """Every model of the family is ahead of its baseline, seed by seed."""

    def values(model: str, column: str) -> list[Any]:
        return [row[column] for row in select(rows, model=model)]

    experiment = settings["experiment"]
    if experiment == "digits":
        vit, nearest = (values(m, "accuracy") for m in ("ViT, shifted images", "nearest neighbour"))
        pairs = [("ViT, shifted images", "logistic regression"), ("CNN", "ViT")]
        pairs += [("CNN, shifted images", "ViT, shifted images"), ("MLP, shifted images", "MLP")]
        for better, other in pairs:
            low = paired_difference(values(better, "accuracy"), values(other, "accuracy")).low
            yield f"{better} is ahead of {other}: {low}", low > 0
        pairs = [("ViT, shifted images", name) for name in ("MLP, shifted images", "ViT")]
        for own, other in [*pairs, ("CNN, shifted images", "CNN")]:
            found = paired_difference(values(own, "accuracy"), values(other, "accuracy"))
            yield f"{own} and {other}: undecided", found.low < 0 < found.high
        for seed, own, other in zip(settings["seeds"], vit, nearest, strict=True):
            yield f"seed {seed}: the nearest neighbour is ahead of ViT", other > own
    elif experiment == "changes":
        original = values("2017", "loss")
        changed = [name for name in grouped(rows, "model") if name != "2017"]
        for model in changed:
            differences = np.subtract(values(model, "loss"), original)
            t = differences.mean() / (differences.std(ddof=1) / len(differences) ** 0.5)
            claim = f"{model}: t = {t:.2f} with four degrees of freedom"
            yield claim, (abs(t) > T_NINE) == (model == "all changes")
        yield "nine comparisons", len(changed) == 9
    elif "tasks" in settings or "prefixes" in settings:
        for task in TASKS if "tasks" in settings else prefixes.PREFIXES:
            worst = min(values("T5 with prefixes", task))
            best = max(values("T5 without prefixes", task))
            yield f"the prefix improves {task}: {best} to {worst}", worst > best
    else:
        model = {"gpt": "GPT", "llama": "Llama", "bert": "BERT"}[experiment.partition("-")[0]]
        column = "ahead_of_n_gram_nats" if model == "BERT" else "ahead_of_best_n_gram_nats"
        for seed, (low, _) in zip(settings["seeds"], values(model, column), strict=True):
            yield f"{model} is ahead of the n-gram model, seed {seed}: {low}", low > 0
        if model == "BERT":
            # A record without seeds contains baselines only, at the same gaps.
            trained = records[f"family-{experiment}"]["rows"]
            worst = max(row["perplexity"] for row in select(trained, model="BERT"))
            least = min(row["perplexity"] for row in rows if row["model"] != "BERT")
            yield f"BERT is ahead of every baseline: {least}", worst < least


if __name__ == "__main__":
    record.run(Family)
