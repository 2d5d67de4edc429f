"""``python -m benchmarks.replay``: the training of chapter 11, recorded while it proceeds.

The recipe *pocket* is trained from English to French, as in the chapter. Before training and after
some of the steps, a row records the losses without label smoothing and dropout, the translation of
one sentence of the test set, and the cross-attention of the first decoder block for its reference.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm

from benchmarks import record
from benchmarks.record import Row
from benchmarks.tables import markdown
from tfmr.analysis import entropy, record_attention
from tfmr.config import TransformerConfig
from tfmr.data import corpora
from tfmr.data.batches import Batch, Batches, collate
from tfmr.data.corpus import SentencePair
from tfmr.data.tokenizer import Tokenizer
from tfmr.decode import translate
from tfmr.errors import require
from tfmr.model import Transformer
from tfmr.train.config import find_recipe
from tfmr.train.loss import cross_entropy
from tfmr.train.schedule import learning_rate
from tfmr.train.trainer import Trainer

RECIPE, DIRECTION = "pocket", "en-fr"
SENTENCES = 500
"""Sentence pairs of the training set, and of the validation set, whose loss is recorded."""
STEPS = (0, 10, 20, 30, 40, 60, 80, 100, 120, 140, 160, 180, 200, 240, 280, 320, 400, 500, 600)
"""The steps after which a row is recorded."""
SEED = 0
BLOCK = 0
"""The decoder block whose cross-attention is recorded."""


@dataclass(frozen=True)
class Replay:
    """Record the losses, a translation and an attention map during a training.

    It takes about a minute. The results do not depend on the speed of the machine.
    """

    steps: tuple[int, ...] = STEPS
    """Steps after which a row is recorded, in ascending order."""
    out: Path = record.FOLDER / "replay.json"
    """The record."""

    def __call__(self) -> None:
        """Train and record."""
        require(
            list(self.steps) == sorted(set(self.steps)) and self.steps[0] >= 0,
            f"steps must be in ascending order, from 0: got {self.steps}",
        )
        torch.set_num_threads(1)
        # Collected first: writing a record would mark the checkout as changed.
        metadata = record.collect_metadata()
        run = Run()
        rows = run.rows(self.steps)
        record.write(self.out, "replay", rows, settings=run.settings(), metadata=metadata)


class Run:
    """The training of chapter 11, before its first step."""

    def __init__(self) -> None:
        corpus = corpora.load(RECIPE, DIRECTION)
        train, valid, test = (list(part) for part in (corpus.train, corpus.valid, corpus.test))
        self.recipe = find_recipe(RECIPE)
        self.tokenizer = Tokenizer.words(text for pair in train for text in pair)
        torch.manual_seed(SEED)
        config = self.recipe.model_config(self.tokenizer.vocab_size)
        assert isinstance(config, TransformerConfig)
        self.model = Transformer(config)
        batches = Batches(self._encoded(train), 1024, seed=SEED, max_length=32)
        self.trainer = Trainer(self.model, batches, self.recipe.train)
        self.example = max(test[:100], key=lambda pair: len(pair[0].split()))
        self.train = collate(self._encoded(train[:SENTENCES]))
        self.valid = collate(self._encoded(valid[:SENTENCES]))

    def settings(self) -> dict[str, Any]:
        """What the rows have in common: the run, the sentence, its reference."""
        source, reference = self.example
        return {
            "recipe": RECIPE,
            "direction": DIRECTION,
            "seed": SEED,
            "sentences": SENTENCES,
            "peak_lr": self.recipe.train.peak_lr,
            "warmup": self.recipe.train.warmup,
            "vocabulary": self.tokenizer.vocab_size,
            "block": BLOCK,
            "source": source,
            "reference": reference,
        }

    def rows(self, steps: Sequence[int]) -> Iterator[dict[str, Any]]:
        """Train; yield the state after each of ``steps``."""
        for step in tqdm(steps, unit=" rows"):
            self.trainer.run(steps=step)
            yield {"step": step, **self.state()}

    @torch.inference_mode()
    def state(self) -> dict[str, Any]:
        """The current state of the model.

        Returns:
            ``learning_rate`` of the next step; ``train_loss`` and ``valid_loss`` in nats per token,
            without label smoothing and dropout; ``output``, the greedy translation of the sentence;
            ``weights`` (target, source), the cross-attention for the reference, averaged over the
            heads; ``entropy``, the mean over its rows in nats.
        """
        self.model.eval()
        train = self.recipe.train
        [output] = translate(self.model, self.tokenizer, [self.example[0]], detokenise=False)
        pair = collate(self._encoded([self.example]))
        with record_attention(self.model) as maps:
            self.model(pair.source, pair.target_in)
        [recorded] = maps[f"decoder.blocks.{BLOCK}.cross_attention"]
        weights = recorded[0].mean(dim=0)
        return {
            "learning_rate": learning_rate(
                self.trainer.steps_done + 1, train.peak_lr, train.warmup
            ),
            "train_loss": self._loss(self.train),
            "valid_loss": self._loss(self.valid),
            "output": output,
            "entropy": round(float(entropy(weights).mean()), 3),
            "weights": [[round(float(each), 3) for each in row] for row in weights],
        }

    def _encoded(self, pairs: Sequence[SentencePair]) -> list[tuple[list[int], list[int]]]:
        return [(self.tokenizer.encode(a), self.tokenizer.encode(b)) for a, b in pairs]

    def _loss(self, batch: Batch) -> float:
        logits = self.model(batch.source, batch.target_in)
        return round(float(cross_entropy(logits, batch.target_out)), 4)


def table(rows: list[Row], settings: Row) -> list[str]:
    """Losses, sharpness of the cross-attention and a translation, step by step."""
    columns = ("train_loss", "valid_loss", "entropy")
    lines = [
        [f"{row['step']:,}", *(f"{row[name]:.3f}" for name in columns), row["output"]]
        for row in rows
    ]
    return [
        f"The recipe `{settings['recipe']}`, {settings['direction']}, one seed. Losses in nats per "
        f"token on {settings['sentences']} sentence pairs of the training set and as many of the "
        "validation set, without label smoothing or dropout. "
        "*Entropy*: the mean, over the target positions, of the entropy of the cross-attention "
        f"weights of decoder block {settings['block'] + 1}, averaged over the heads, in nats, for "
        f"the sentence “{settings['source']}” and its reference “{settings['reference']}”.",
        markdown(["step", "training loss", "validation loss", "entropy", "translation"], lines),
    ]


if __name__ == "__main__":
    record.run(Replay)
