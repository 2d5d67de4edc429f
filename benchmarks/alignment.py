"""``python -m benchmarks.alignment``: attention weights of a recurrent translator, and a control.

The model of chapter 3, with GRU cells and additive attention, is trained with several seeds on the
pocket grammar, from English to French. A weight states what enters the context vector, not what the
prediction depends on. Therefore each source word is also masked at a single decoder step, and the
probability of the word of the reference at this step is recorded.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F
from tqdm import tqdm

from benchmarks import record
from benchmarks.record import Record, Row
from benchmarks.tables import RANGE, Claims, count, grouped, markdown, select, spread
from tfmr.data import corpora
from tfmr.data.batches import Batches
from tfmr.data.corpus import Corpus
from tfmr.data.lexicon import ADJECTIVES, NOUNS
from tfmr.data.tokenizer import Tokenizer
from tfmr.decode import translate
from tfmr.errors import require
from tfmr.seq2seq import Seq2Seq, Seq2SeqConfig
from tfmr.special_tokens import BOS, EOS
from tfmr.train.config import TrainConfig
from tfmr.train.trainer import Trainer

DIRECTION = "en-fr"
D_MODEL, TOKENS, PEAK_LR, WARMUP, EMA_DECAY = 64, 768, 0.01, 50, 0.98
SENTENCES = (
    "the brave king does not choose these rings .",
    "that young man often buys three red cars .",
    "the quiet actress often sells three trees .",
    "my black hedgehog is not beautiful .",
    "every happy horse sees two bicycles at the station .",
    "the brave woman sells a black leaf today .",
)
"""Sentences of the test set whose weights are recorded.

The models of all five seeds translate them as in the reference.
"""
KINDS = {
    "noun": {word for noun in NOUNS for word in (noun.french, noun.french_plural)},
    "adjective": {word for each in ADJECTIVES for word in (*each.french, each.liaison)},
    "article": {"le", "la", "les", "l'"},
    "negation": {"ne", "n'", "pas"},
}
"""Kinds of target words of which the summary is recorded."""


@dataclass(frozen=True)
class Alignment:
    """Train a model with every seed; record its weights, and probabilities without a source word.

    It takes about a minute. The results do not depend on the speed of the machine.
    """

    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    """Seeds of the initial weights and of the order of the batches."""
    steps: int = 250
    """Training steps."""
    out: Path = record.FOLDER / "alignment.json"
    """The record."""

    def __call__(self) -> None:
        """Train and record."""
        require(self.steps >= 1, f"expected --steps of 1 or more, got {self.steps}")
        torch.set_num_threads(1)
        # Collected first: writing a record would mark the checkout as changed.
        metadata = record.collect_metadata()
        settings = {
            "direction": DIRECTION,
            "seeds": list(self.seeds),
            "steps": self.steps,
            "d_model": D_MODEL,
            "tokens_per_batch": TOKENS,
            "peak_lr": PEAK_LR,
            "warmup": WARMUP,
            "ema_decay": EMA_DECAY,
        }
        record.write(self.out, "alignment", self.measure(), settings=settings, metadata=metadata)

    def measure(self) -> Iterator[dict[str, Any]]:
        """The rows of each seed: one for each sentence, and one for each kind of target words."""
        corpus = corpora.load("pocket", DIRECTION)
        tokenizer = Tokenizer.words(text for pair in corpus.train for text in pair)
        reference = dict(corpus.test)
        for seed in tqdm(self.seeds, unit=" seeds"):
            model = train(corpus, tokenizer, seed, self.steps)
            for source in SENTENCES:
                yield {"seed": seed, **sentence(model, tokenizer, source, reference[source])}
            yield from summary(model, tokenizer, corpus, seed)


def train(corpus: Corpus, tokenizer: Tokenizer, seed: int, steps: int) -> Seq2Seq:
    """The model of chapter 3 after its training, with averaged weights."""
    pairs = [(tokenizer.encode(a), tokenizer.encode(b)) for a, b in corpus.train]
    batches = Batches(pairs, TOKENS, seed=seed, max_length=32)
    vocab = tokenizer.vocab_size
    torch.manual_seed(seed)
    config = Seq2SeqConfig(
        source_vocab=vocab, target_vocab=vocab, cell="gru", d_model=D_MODEL, dropout=0.0
    )
    schedule = TrainConfig(peak_lr=PEAK_LR, warmup=WARMUP, label_smoothing=0.0, ema_decay=EMA_DECAY)
    trainer = Trainer(Seq2Seq(config), batches, schedule)
    trainer.run(steps=steps)
    averaged = trainer.averaged_model()
    assert isinstance(averaged, Seq2Seq)
    return averaged


def sentence(model: Seq2Seq, tokenizer: Tokenizer, source: str, target: str) -> Row:
    """The weights of a sentence and its reference, and the probabilities of its target words.

    Returns:
        ``translation``, from greedy decoding; ``weights`` (target, source), with a row for each
        target word and the end-of-sentence token; ``probability`` (target,); ``without`` (target,
        source), the probability if this source word is masked at this step.
    """
    x, y = torch.tensor(tokenizer.encode(source)), torch.tensor([*tokenizer.encode(target), EOS])
    probability, without = probabilities(model, x, y)
    [translation] = translate(model, tokenizer, [source], detokenise=False)
    return {
        "source": source,
        "target": target,
        "translation": translation,
        "weights": _rounded(weights(model, x, y)),
        "probability": _rounded(probability),
        "without": _rounded(without),
    }


def weights(
    model: Seq2Seq, source: Int[Tensor, "source"], target: Int[Tensor, "target"]
) -> Float[Tensor, "target source"]:
    """The attention weights with which each token of ``target`` is predicted."""
    return model.alignment(source[None], F.pad(target[:-1], (1, 0), value=BOS)[None])[0]


@torch.no_grad()
def probabilities(
    model: Seq2Seq, source: Int[Tensor, "source"], target: Int[Tensor, "target"]
) -> tuple[Float[Tensor, "target"], Float[Tensor, "target source"]]:
    """The probability of each token of ``target``, and those without each source token.

    Without a source token: its score is masked at this step only, so the other weights of the step
    grow in proportion. The decoder state and the encoder outputs are unchanged.
    """
    n = len(source)
    state = model.start(source.expand(n + 1, n), len(target))
    # The first row has the whole source; row 1 + j is without token j.
    state.mask = F.pad(~torch.eye(n, dtype=torch.bool), (0, 0, 1, 0), value=True)
    found = []
    for previous, token in zip([BOS, *target[:-1].tolist()], target.tolist(), strict=True):
        scores = model.step(torch.full((n + 1,), previous), state)
        found.append(scores.softmax(dim=-1)[:, token])
        state.select_rows(torch.zeros(n + 1, dtype=torch.long))
    both = torch.stack(found)
    return both[:, 0], both[:, 1:]


def summary(
    model: Seq2Seq, tokenizer: Tokenizer, corpus: Corpus, seed: int
) -> Iterator[dict[str, Any]]:
    """For the French words of the test set, the effect of the source word with the largest weight.

    ``most`` is the fraction of words for which masking this source word lowers the probability
    more than masking any other; ``none`` is the fraction for which it does not lower it.
    """
    found: dict[str, list[tuple[bool, bool]]] = {kind: [] for kind in ("all", *KINDS)}
    for source, target in corpus.test:
        x = torch.tensor(tokenizer.encode(source))
        y = torch.tensor([*tokenizer.encode(target), EOS])
        probability, without = probabilities(model, x, y)
        largest = weights(model, x, y).argmax(dim=-1)
        most = largest == without.argmin(dim=-1)
        none = without.gather(1, largest[:, None])[:, 0] >= probability
        effects = list(zip(most.tolist(), none.tolist(), strict=True))
        # The last two are the full stop and the end-of-sentence token.
        for word, effect in zip(target.split()[:-1], effects[:-2], strict=True):
            for kind in ("all", *(kind for kind, words in KINDS.items() if word in words)):
                found[kind].append(effect)
    sources, references = zip(*corpus.test, strict=True)
    translations = translate(model, tokenizer, sources)
    correct = [a == b for a, b in zip(translations, references, strict=True)]
    identical = round(sum(correct) / len(correct), 4)
    for kind, own in found.items():
        most, none = (round(sum(each) / len(own), 4) for each in zip(*own, strict=True))
        row = {"seed": seed, "kind": kind, "words": len(own), "most": most, "none": none}
        yield row | {"identical": identical}


def _rounded(tensor: Tensor) -> Any:
    """The numbers as lists, with three decimal places."""
    if tensor.dim() > 1:
        return [_rounded(row) for row in tensor]
    return [round(number, 3) for number in tensor.tolist()]


def table(rows: list[Row], settings: Row) -> list[str]:
    """How often the largest weight has the largest effect, by kind of target word."""
    found = [row for row in rows if "kind" in row]
    lines = []
    for kind, own in grouped(found, "kind").items():
        effects = (spread([row[name] for row in own], ".3f") for name in ("most", "none"))
        lines.append([kind, f"{own[0]['words']:,}", *effects])
    identical = spread([row["identical"] for row in select(found, kind="all")], ".3f")
    return [
        f"Recurrent translators with attention, {settings['direction']}, after "
        f"{settings['steps']} training steps, {count(len(settings['seeds']), 'seed')}: the mean, "
        f"{RANGE}. Fractions of the French words of the test set for which masking the source word "
        "with the largest attention weight lowers the probability of the French word more than "
        "masking any other source word (*most*), or does not lower it (*none*). Translations "
        f"identical to the reference: {identical}.",
        markdown(["", "words", "most", "none"], lines),
    ]


def claims(rows: list[Row], settings: Row, records: dict[str, Record]) -> Claims:
    """The statements of chapter 3 and of its live figure."""
    sentences = [row for row in rows if "source" in row]
    seeds = settings["seeds"]
    yield "every seed has every sentence", len(sentences) == len(seeds) * len(SENTENCES)
    right = all(row["translation"] == row["target"] for row in sentences)
    yield "every model translates every sentence as in the reference", right
    for row in select(sentences, source=SENTENCES[0]):
        source, target = row["source"].split(), row["target"].split()
        largest = {w: source[_index(max, row["weights"][i])] for i, w in enumerate(target)}
        most = {w: source[_index(min, row["without"][i])] for i, w in enumerate(target)}
        aligned = [largest[word] for word in ("roi", "courageux", "le")]
        yield (
            "roi and courageux are aligned, le with the noun",
            aligned == ["king", "brave", "king"],
        )
        yield "ne depends most on not", most["ne"] == "not"
    yield (
        "le falls by 0.651 to 0.828 without king",
        _range(_falls(sentences, "le", "king")) == (0.651, 0.828),
    )
    # The first seed is the one whose largest weight for ne is on not.
    first, *others = _falls(sentences, "ne", "not")
    yield (
        "ne falls by 0.892 and by 0.056 to 0.319 without not",
        (first, *_range(others)) == (0.892, 0.056, 0.319),
    )
    means = [
        mean(row["most"] for row in select(rows, kind=kind))
        for kind in ("noun", "adjective", "negation")
    ]
    yield (
        "98.8 % of the nouns, 99.6 % of the adjectives, 66.5 % of the negations",
        [round(value, 3) for value in means] == [0.988, 0.996, 0.665],
    )
    total = select(rows, kind="all")
    yield (
        "85.2 % and 9.5 % of all words",
        [round(mean(row[name] for row in total), 3) for name in ("most", "none")] == [0.852, 0.095],
    )


def _falls(sentences: list[Row], target: str, source: str) -> list[float]:
    """For each seed, by how much masking a source word lowers the probability in the sentence."""
    found = []
    for row in select(sentences, source=SENTENCES[0]):
        i, j = row["target"].split().index(target), row["source"].split().index(source)
        found.append(round(row["probability"][i] - row["without"][i][j], 3))
    return found


def _range(numbers: list[float]) -> tuple[float, float]:
    return min(numbers), max(numbers)


def _index(choose: Callable[[list[float]], float], numbers: list[float]) -> int:
    return numbers.index(choose(numbers))


if __name__ == "__main__":
    record.run(Alignment)
